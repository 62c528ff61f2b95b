"""`fewer chat`: piped questions are a session's answers, commands do what they say, bad options are refused early."""

from __future__ import annotations

import builtins
import json
import shutil
from pathlib import Path

import pytest
from odds_file import write_odds
from transformers import AutoTokenizer

from fewer import Engine, Receipt
from fewer.cli import chat as chat_file
from fewer.cli.chat_commands import COMMANDS
from fewer.cli.chat_rules import parse_recompute
from fewer.decide import SIGNALS, Gate, calibrate, tables
from fewer.engine.batch import Batch
from fewer.errors import BadInput
from fewer.evict import make_policy
from fewer.prompt import read_paths
from fewer.session import Session
from fewer.types import ModelFacts

CHAT = (
    "{% for turn in messages %}<|turn|>{{ turn['role'] }}\n{{ turn['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|turn|>assistant\n{% endif %}"
)
SAMPLED = ("--evict", "systematic:snapkv", "--budget", "64")


@pytest.fixture
def long(docs: Path) -> Path:
    (docs / "d.txt").write_text("The keepers rowed to the island every third day. " * 3)
    return docs


@pytest.fixture(scope="session")
def talker(model, tmp_path_factory) -> Path:
    """The tiny model with a template that can be continued."""
    path = tmp_path_factory.mktemp("talker") / "tiny"
    shutil.copytree(model, path)
    tokenizer = AutoTokenizer.from_pretrained(path)
    tokenizer.chat_template = CHAT
    tokenizer.save_pretrained(path)
    return path


@pytest.fixture
def chat(run, talker):
    """`fewer chat` on the tiny model: the options, then the lines that are piped in."""

    def invoke(*options: str, lines: str = "", model: Path = talker):
        words = ["chat", "--model", str(model), "--dtype", "float32", "--max-tokens", "8", *options]
        return run(words, input=lines)

    return invoke


@pytest.fixture(scope="session")
def engine(talker) -> Engine:
    return Engine.load(talker, dtype="float32")


def read_session(engine: Engine, folder: Path) -> Session:
    """What the command makes of the documents."""
    session = Session(engine, make_policy("systematic:snapkv", budget="64"))
    for each in read_paths([folder]).documents:
        session.append(f"{each.title}\n{each.text}" if each.title else each.text)
    session.compress()
    return session


def marks_of(result) -> list[str]:
    return [line for line in result.stderr.splitlines() if line.startswith(("clipped certificate ", "whole cache"))]


def test_piped_questions_are_a_sessions_answers(chat, engine, long):
    session = read_session(engine, long)
    answers = [session.ask(text, max_tokens=8, logprobs=0) for text in ("Who?", "/When?")]
    result = chat(str(long), *SAMPLED, lines="Who?\n\n  //When?  \n/quit\nNever asked\n")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == "".join(f"{answer.text}\n" for answer in answers)
    assert marks_of(result) == [f"clipped certificate {each.receipt.certificate.clipped:.3g}" for each in answers]
    said = " ".join(result.stderr.split())
    assert f"Read 3 documents: {session.evictions[0].num_seen} tokens in " in said
    rows = int(session.evictions[0].rows_before.sum())
    assert f": 512 of {rows:,} rows stay" in said  # 64 of each of 8 heads


def test_without_a_policy_nothing_leaves(chat, engine, long):
    result = chat(str(long / "a.md"), "--system", "Be brief.", lines="Who?\n/why\n/recompute\n/compress")
    session = Session(engine)
    session.append([{"role": "system", "content": "Be brief."}])
    (only,) = read_paths([long / "a.md"]).documents
    session.append(f"{only.title}\n{only.text}")
    assert result.stdout == session.ask("Who?", max_tokens=8).text + "\n"
    said = " ".join(result.stderr.split())
    assert marks_of(result)[0] == "whole cache"
    assert "Nothing had left the cache, so it did not cause this; the mean log-probability is" in said
    assert "error: /recompute is 'an answer over the whole cache'; it must be after an answer over" in said
    assert "error: policy is None; it must be a Policy where a session is compressed" in said
    assert result.exit_code == 2


def test_a_template_that_cannot_be_continued_is_left_out_with_plain(chat, model, long):
    engine = Engine.load(model, dtype="float32")
    session = Session(engine, chat=False)
    (only,) = read_paths([long / "a.md"]).documents
    session.append(f"{only.title}\n{only.text}")
    answers = [session.ask(text, max_tokens=8) for text in ("Who?", "When?")]
    refused = chat(str(long / "a.md"), lines="Who?\nWhen?\n", model=model)
    assert refused.exit_code == 2
    assert "writes earlier turns anew once others follow." in " ".join(refused.stderr.split())
    plain = chat(str(long / "a.md"), "--plain", lines="Who?\nWhen?\n", model=model)
    assert plain.stdout == "".join(f"{answer.text}\n" for answer in answers)
    assert plain.exit_code == 0


def test_undo_and_recompute(chat, engine, long):
    session = read_session(engine, long)
    first = session.ask("Who?", max_tokens=8, logprobs=0)
    session.rollback()
    again = session.ask("Who?", max_tokens=8, logprobs=0, recompute="always")
    after = session.ask("And?", max_tokens=8, logprobs=0)
    assert again.first.ids == first.ids != again.ids
    lines = "Who?\n/undo\nWho?\n/recompute\n/receipt one.json\n/why\n/recompute\nAnd?\n"
    result = chat(str(long), *SAMPLED, lines=lines)
    assert result.stdout == "".join(f"{each.text}\n" for each in (first, first, again, after))
    said = " ".join(result.stderr.split())
    assert "The last question and its answer are gone from the chat." in said
    assert f"clipped certificate {first.receipt.certificate.clipped:.3g}; computed again with the full cache" in said
    assert "About the first run, over the compressed cache" in said
    assert " head " in said.split("most of it")[1]
    assert "error: /recompute is 'an answer that was computed again'" in said
    receipt = Receipt.model_validate_json(Path("one.json").read_text())
    assert (receipt.gate.rule, receipt.output.num_tokens) == ("always", len(again.ids))
    assert result.exit_code == 2


def test_compressions_in_between(chat, engine, long):
    session = read_session(engine, long)
    session.ask("Who?", max_tokens=8)
    seen = session.num_seen
    result = chat(
        str(long), *SAMPLED, lines="/compress\nWho?\n/budget\n/compress\n/budget\n/recompute\n/why\n/undo\n/undo"
    )
    said = " ".join(result.stderr.split())
    assert "Nothing was read since the last compression." in said
    held = 64 + seen - session.evictions[0].num_seen
    assert f"{seen} tokens seen, {held}.0 rows a head and layer on average" in said
    assert f"{seen} tokens seen, 64.0 rows a head and layer on average" in said
    full = 2 * 2 * engine.adapter.head_dim * 4 * 4 * seen
    assert f"(uncompressed {full / 1024:.1f} KiB, computed); systematic:snapkv, budget 64 tokens." in said
    assert "error: /recompute is 'an answer before a compression'" in said
    assert "gone from the chat, and the compression since is undone." in said
    assert "error: /undo is 'no answer'; it must be after an answer; one step is held. Ask something first." in said


def test_a_saved_session_goes_on(chat, engine, long):
    session = read_session(engine, long)
    answers = [session.ask(text, max_tokens=8) for text in ("Who?", "When?")]
    first = chat(str(long), *SAMPLED, lines="Who?\n/save kept\n")
    second = chat(lines="/load kept\n/why\nWhen?\n")
    assert first.stdout + second.stdout == "".join(f"{answer.text}\n" for answer in answers)
    assert "The session is in kept." in first.stderr
    assert "systematic:snapkv." in second.stderr
    assert "error: /why is 'no answer'; it must be after an answer." in second.stderr
    refused = chat(str(long), *SAMPLED, lines="/load nowhere\nWho?\n")
    assert refused.exit_code == 2
    assert refused.stdout == f"{answers[0].text}\n"


def test_a_gate_computes_again_and_only_the_final_answer_is_shown(chat, engine, long):
    session = read_session(engine, long)
    again = session.ask("Who?", max_tokens=8, logprobs=0, recompute="always")
    rule = ("--recompute", "signal=certificate_clipped,threshold=0.0001")
    result = chat(str(long), *SAMPLED, *rule, lines="Who?\n")
    assert result.stdout == f"{again.text}\n"
    assert "; computed again with the full cache: certificate_clipped " in " ".join(result.stderr.split())
    larger = chat(str(long), *SAMPLED, *rule, "--escalate", "128", lines="Who?\n")
    assert "; computed again with a budget of 128 tokens: certificate_clipped " in " ".join(larger.stderr.split())
    calm = chat(str(long), *SAMPLED, "--recompute", "signal=certificate_clipped,threshold=1.5", lines="Who?\n")
    assert calm.stdout == f"{again.first.text}\n"
    assert "computed again" not in calm.stderr


def test_measured_odds_give_the_mark_a_level(chat, engine, long):
    answer = read_session(engine, long).ask("Who?", max_tokens=8, logprobs=0)
    clipped = answer.receipt.certificate.clipped
    write_odds(Path("odds.json"), answer.receipt, clipped - 2.0)
    result = chat(str(long), *SAMPLED, "--odds", "odds.json", lines="Who?\n/why\n")
    assert f"\u25cf clipped certificate {clipped:.3g}, high" in result.stderr
    assert "The cache may have caused this: the clipped certificate is high" in " ".join(result.stderr.split())
    write_odds(Path("mass.json"), answer.receipt, 0.5, signal="evicted_mass")
    mass = chat(str(long), *SAMPLED, "--odds", "mass.json", lines="Who?\n")
    assert " signal evicted_mass 0." in mass.stderr
    other = chat(str(long), "--evict", "systematic:snapkv", "--budget", "70", "--odds", "odds.json", lines="Who?\n")
    assert (other.exit_code, other.stdout) == (2, "")
    assert "budget.keep (64 tokens in the table, 70 tokens here)" in " ".join(other.stderr.split())


def test_why_finds_a_table_that_comes_along(chat, engine, long, monkeypatch, tmp_path):
    answer = read_session(engine, long).ask("Who?", max_tokens=8, logprobs=0)
    monkeypatch.setattr(tables, "SHIPPED", tmp_path)
    write_odds(tmp_path / "made.json", answer.receipt, answer.receipt.certificate.clipped - 2.0)
    said = " ".join(chat(str(long), *SAMPLED, lines="Who?\n/why\n").stderr.split())
    assert "The cache may have caused this: the clipped certificate is high" in said
    (tmp_path / "made.json").write_text("{}")
    said = " ".join(chat(str(long), *SAMPLED, lines="Who?\n/why\n").stderr.split())
    assert "one that comes along is broken" in said
    assert "No measured odds for this model and policy" in said


def interrupt_after(monkeypatch, steps: int) -> None:
    """Ctrl-C in the model's pass number `steps` that belongs to an answer; the ones after it run."""
    whole, count = Batch.step, iter(range(10_000))

    def step(self):
        if next(count) == steps:
            raise KeyboardInterrupt
        return whole(self)

    monkeypatch.setattr(Batch, "step", step)


def test_an_answer_for_which_the_odds_do_not_hold_has_its_number_alone(chat, engine, long):
    answer = read_session(engine, long).ask("Who?", max_tokens=8, logprobs=0)
    write_odds(Path("odds.json"), answer.receipt, 0.0)
    session = Session(engine, make_policy("systematic:snapkv", budget="64", every=4))
    question = "Who? " * 16
    late = session.ask(question.strip(), max_tokens=8, logprobs=0)  # compressed while it was written
    plain = json.loads(Path("odds.json").read_text())
    plain["policy"]["every"] = 4
    Path("odds.json").write_text(json.dumps(plain))
    options = (*SAMPLED, "--set", "every=4", "--odds", "odds.json")
    result = chat(*options, lines=f"{question}\n/receipt one.json\n/why\n")
    assert result.stdout == f"{late.text}\n"
    said = " ".join(result.stderr.split())
    assert f"clipped certificate {late.receipt.certificate.clipped:.3g}; the odds are not for this answer" in said
    assert Receipt.model_validate_json(Path("one.json").read_text()).output.num_tokens == len(late.ids)
    assert "the condition (stream in the table, aware here)" in said


def test_odds_over_the_questions_radii(chat, engine, long):
    answer = read_session(engine, long).ask("Who?", max_tokens=8, logprobs=0, evidence=True)
    value = SIGNALS["certificate_question"](answer.evidence)
    write_odds(Path("odds.json"), answer.receipt, value - 2.0, signal="certificate_question")
    result = chat(str(long), *SAMPLED, "--odds", "odds.json", lines="Who?\n/why\n")
    assert result.exit_code == 0, result.stderr
    assert f"signal certificate_question {value:.3g}, high" in result.stderr


def test_lines_that_are_no_text(chat, engine, long):
    answer = read_session(engine, long).ask("Who?", max_tokens=8)
    result = chat(str(long), *SAMPLED, lines=b"Who?\n" + b"\xff\n")
    assert "error: standard input is b'\\xff'; it must be UTF-8" in " ".join(result.stderr.split())
    assert result.exit_code == 2
    assert result.stdout in (f"{answer.text}\n", "")  # lines are decoded some at a time


def test_ctrl_c_stops_the_answer_and_not_the_chat(chat, engine, long, monkeypatch):
    session = read_session(engine, long)
    answers = [session.ask(text, max_tokens=8) for text in ("Who?", "When?")]
    typed = iter(["Who?", "Where?", KeyboardInterrupt, "When?"])

    def type_next(prompt: str) -> str:
        line = next(typed, EOFError)
        if isinstance(line, str):
            return line
        raise line

    monkeypatch.setattr(builtins, "input", type_next)
    monkeypatch.setattr(chat_file, "_on_terminal", lambda: True)
    interrupt_after(monkeypatch, 12)
    result = chat(str(long), *SAMPLED)
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.split("\n")
    assert result.stdout.startswith(answers[0].text + "\n")
    assert result.stdout.endswith("\n" + answers[1].text + "\n")
    assert len(lines) >= 3
    assert "Stopped; the question and what was written are not in the chat." in result.stderr
    assert "Ctrl-D or /quit ends the chat." in result.stderr


def test_ctrl_c_ends_a_chat_that_is_piped_in(chat, long, monkeypatch):
    interrupt_after(monkeypatch, 2)
    result = chat(str(long), *SAMPLED, lines="Who?\nWhen?\n")
    assert result.exit_code == 130
    assert "Stopped; the question and what was written are not in the chat." in result.stderr


def test_commands_that_there_are_not_and_their_help(chat):
    result = chat(lines="/foo\n/save\n/undo now\n/help\n")
    said = " ".join(result.stderr.split())
    assert "error: the command is '/foo'; it must be one of /compress, /why, /recompute, /undo" in said
    assert "error: the command is '/save'; it must be /save with DIR. Write /help for all of them." in said
    assert "error: the command is '/undo now'; it must be /undo without anything behind it." in said
    for name, command in COMMANDS.items():
        assert f"/{name} {command.argument}".strip() in said
        assert command.says in said
    assert (result.exit_code, result.stdout) == (2, "")


def test_too_long_a_question_leaves_the_chat_as_it_was(chat, engine, long):
    answer = read_session(engine, long).ask("Who?", max_tokens=8)
    result = chat(str(long), *SAMPLED, lines="why " * 100 + "\nWho?\n")
    assert result.stdout == f"{answer.text}\n"
    assert result.exit_code == 2
    assert "the model has 512 positions" in " ".join(result.stderr.split())


def test_quiet_says_answers_and_errors(chat, engine, long):
    answer = read_session(engine, long).ask("Who?", max_tokens=8)
    result = chat(str(long), *SAMPLED, "-q", lines="Who?\n/foo\n")
    assert result.stdout == f"{answer.text}\n"
    assert result.stderr.splitlines()[0].startswith("error: the command is '/foo'")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("-", "DOCS is '-'; it must be files or folders, since questions come from standard input"),
        ("--evict snapkv", "--evict is 'snapkv', but --budget is missing."),
        ("--budget 64", "--budget is '64', but nothing is evicted."),
        ("--set window=3", "nothing is evicted."),
        ("--evict snapkv --budget 64 --set moment=context", "--set moment is 'context'; it must be left out in a chat"),
        ("--evict snapkv --budget 64 --set window=0", "window is 0; it must be"),
        ("--top-k 5", "--top-k is 5, but --temperature is 0"),
        ("--max-tokens 0", "--max-tokens is 0; it must be"),
        ("--system ' '", "--system is ' '; it must be a text that is not blank"),
        ("--system Hi --plain", "--system is 'Hi'; it must be left out with --plain"),
        ("--recompute always", "--recompute is given, but nothing is evicted."),
        ("--odds odds.json", "--odds is given, but nothing is evicted."),
        ("--evict snapkv --budget 64 --odds no.json", "odds is 'no.json'; it must be a readable JSON file"),
        ("--evict snapkv --budget 64 --escalate full", "--escalate is 'full', but nothing is recomputed."),
        ("--evict snapkv --budget 64 --recompute always --escalate x", "--escalate is 'x'; it must be"),
        ("--evict snapkv --budget 64 --recompute sometimes", "--recompute is 'sometimes'; it must be never, always"),
        ("nowhere.txt", "nowhere.txt"),
    ],
)
def test_bad_options_are_refused_before_the_model_is_loaded(run, options, message):
    result = run("chat --model nowhere " + options)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert result.stdout == ""


def test_rules_of_recomputing(tmp_path):
    assert (parse_recompute("never"), parse_recompute("always")) == ("never", "always")
    gate = parse_recompute("signal=logprob, rate=0.25, window=9, slack=2, seed=3, missing=accept")
    assert isinstance(gate, Gate)
    assert (gate.signal.name, gate.rate, gate.window, gate.slack, gate.seed, gate.missing) == (
        "logprob", 0.25, 9, 2, 3, "accept"
    )  # fmt: skip
    assert parse_recompute("signal=certificate,threshold=0.5").threshold == 0.5
    facts = ModelFacts("tiny", "f" * 32, 4, 4, 2, (None,) * 4)
    made = calibrate("certificate", [0.1] * 20, [0.0] * 20, 0.1, data="made", loss="made", facts=facts, policy={})
    made.save(tmp_path / "gate.json")
    assert parse_recompute(f"file={tmp_path / 'gate.json'}") == made


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("signal=certificate", "--recompute is 'signal=certificate'; it must be never, always, file=PATH"),
        ("rate=0.5", "--recompute is 'rate=0.5'; it must be"),
        ("signal=certificate,rate=0.5,threshold=1", "--recompute is"),
        ("signal=certificate,rate", "--recompute is"),
        ("signal=certificate,rate=a", "--recompute rate is 'a'; it must be a number"),
        ("signal=certificate,rate=0.5,window=1.5", "--recompute window is '1.5'; it must be a whole number"),
        ("signal=certificate,rate=2", "--recompute rate is 2.0; it must be a number above 0 and at most 1"),
        ("signal=mood,rate=0.5", "--recompute signal is 'mood'; it must be one of certificate, "),
        ("signal=certificate,rate=0.5,mood=1", "--recompute mood is '1'; it must be one of signal, threshold"),
        ("file=nowhere.json", "nowhere.json"),
    ],
)
def test_rules_that_are_none_are_refused(text, message):
    with pytest.raises(BadInput) as caught:
        parse_recompute(text)
    assert message in str(caught.value)
