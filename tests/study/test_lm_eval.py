"""`fewer` in lm-evaluation-harness gives what its `hf` model gives, and with pruning what a masked model gives."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import lm_eval.__main__
import lm_eval.tasks
import pytest
import torch
import yaml
from lm_eval.models.huggingface import HFLM
from lm_eval_tiny import (
    END,
    START,
    TURN,
    ask,
    evaluate,
    make_tokenizer,
    read_answers,
    read_lines,
    read_task,
    save_model,
)
from transformers import AutoModelForCausalLM

from fewer.engine import Request
from fewer.model.store import resolve
from fewer.study.lm_eval_model import FewerLM, main
from fewer.types import Prompt, Sampling

EXACT = 1e-4  # nats, of a whole continuation
LONG = "The road runs along the river and turns north. " * 12  # more tokens than the tiny model has positions
PAIRS = [
    ("The ferry leaves at six.\nA:", " at nine"),
    ("The ferry leaves at six.\nA:", " never again"),
    ("", "Rain on the hills"),
    ("", f"{END} so"),
    ("two  ", "words"),
    (f"{START}begun", " already"),
    (f"{END}done", " and over"),
    ("a", "b" * 150),
    (LONG, " end"),
    (LONG, "!"),
]
PROMPTS = [
    "The ferry leaves at six.\nA:",
    "Rain",
    f"{START}begun",
    f"{END}begun",
    f"{TURN}user\nhello{END}",
    LONG,
    "Bees keep to the east side.",
]
GENERATIONS: list[dict[str, Any]] = [
    {"until": ["e", "q"], "max_gen_toks": 12, "do_sample": False, "temperature": 0.0},
    {"until": [TURN], "max_gen_toks": 24},
    {"until": "\n", "max_new_tokens": 8, "repetition_penalty": 1.7, "num_beams": 1},
    {"max_gen_toks": 16, "do_sample": False, "temperature": 0.7},
    {"until": [], "max_gen_toks": 6, "do_sample": True, "temperature": 0.8, "top_k": 1},
]


@pytest.fixture(scope="module", autouse=True)
def _offline() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("HF_DATASETS_OFFLINE", "1")
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model whose tokenizer puts a start token before every text."""
    return save_model(tmp_path_factory.mktemp("bos"), bos=True)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One without a start token, whose template has no system turn, and whose own configuration penalises repeats."""
    return save_model(tmp_path_factory.mktemp("plain"), bos=False, system=False, repetition_penalty=1.3)


def make_fewer(folder: Path, **arguments: Any) -> FewerLM:
    return FewerLM(str(folder), dtype="float32", device="cpu", **arguments)


def make_both(folder: Path, **arguments: Any) -> tuple[HFLM, FewerLM]:
    """The harness's model with one request at a time, and ours with three."""
    theirs = HFLM(str(folder), dtype="float32", device="cpu", batch_size=1, **arguments)
    return theirs, make_fewer(folder, batch_size=3, **arguments)


def assert_same_scores(theirs: list[tuple[float, bool]], ours: list[tuple[float, bool]]) -> None:
    assert [greedy for _, greedy in ours] == [greedy for _, greedy in theirs]
    assert [number for number, _ in ours] == pytest.approx([number for number, _ in theirs], abs=EXACT, rel=0)


@pytest.mark.parametrize(
    ("where", "arguments"),
    [
        ("folder", {}),
        ("folder", {"add_bos_token": False, "max_length": 160, "prefix_token_id": 5}),
        ("plain", {}),
        ("plain", {"add_bos_token": True}),
    ],
    ids=str,
)
def test_scores_and_generations_are_those_of_hf(
    where: str, arguments: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    theirs, ours = make_both(request.getfixturevalue(where), **arguments)
    assert_same_scores(
        theirs.loglikelihood(ask("loglikelihood", *PAIRS), disable_tqdm=True),
        ours.loglikelihood(ask("loglikelihood", *PAIRS), disable_tqdm=True),
    )
    texts = [(LONG,), ("Wind.",), (LONG[:80],)]
    totals = theirs.loglikelihood_rolling(ask("loglikelihood_rolling", *texts), disable_tqdm=True)
    assert ours.loglikelihood_rolling(ask("loglikelihood_rolling", *texts), disable_tqdm=True) == pytest.approx(
        totals,
        rel=1e-6,
        abs=EXACT,  # theirs are added up in float32
    )
    for settings in GENERATIONS:
        asked = [(prompt, dict(settings)) for prompt in PROMPTS]
        assert ours.generate_until(ask("generate_until", *asked), disable_tqdm=True) == theirs.generate_until(
            ask("generate_until", *asked), disable_tqdm=True
        )


def test_a_continuation_is_greedy_where_every_token_is_the_likeliest(folder: Path) -> None:
    theirs, ours = make_both(folder)
    context = ours.tok_encode("Bees keep to the")
    likeliest = list(ours.engine.generate([Request(Prompt.from_ids(context), Sampling(4, ignore_eos=True))])[0].ids)
    asked = [
        (("", ""), context, tokens) for tokens in (likeliest, [*likeliest[:3], 7], [7, *likeliest[1:]], likeliest[:2])
    ]
    found = ours._loglikelihood_tokens(asked, disable_tqdm=True)
    assert_same_scores(theirs._loglikelihood_tokens(asked, disable_tqdm=True), found)
    assert [greedy for _, greedy in found] == [True, False, False, True]


@pytest.mark.parametrize("kind", ["text", "number", "number as text"])
def test_what_is_thought_is_left_out_as_in_hf(folder: Path, kind: str) -> None:
    number = make_tokenizer(bos=True).convert_tokens_to_ids("A")
    mark = {"text": "A", "number": number, "number as text": str(number)}[kind]
    theirs, ours = make_both(folder, think_end_token=mark)
    asked = [(prompt, {"max_gen_toks": 16}) for prompt in PROMPTS]
    found = ours.generate_until(ask("generate_until", *asked), disable_tqdm=True)
    assert found == theirs.generate_until(ask("generate_until", *asked), disable_tqdm=True)
    assert found != make_fewer(folder).generate_until(ask("generate_until", *asked), disable_tqdm=True)


@pytest.mark.parametrize("where", ["folder", "plain"])
def test_conversations_are_written_as_in_hf(where: str, request: pytest.FixtureRequest) -> None:
    theirs, ours = make_both(request.getfixturevalue(where))
    turns = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    prefilled = [*turns, {"role": "assistant", "content": "Well,"}]
    assert ours.apply_chat_template(turns) == theirs.apply_chat_template(turns)
    assert ours.apply_chat_template(prefilled, add_generation_prompt=False) == theirs.apply_chat_template(
        prefilled, add_generation_prompt=False
    )
    assert ours.chat_template(True) == theirs.chat_template(True)
    assert ours.tokenizer_name == theirs.tokenizer_name


@pytest.mark.parametrize(
    "settings",
    [{}, {"num_fewshot": 1}, {"num_fewshot": 1, "apply_chat_template": True, "system_instruction": "Be brief."}],
    ids=["zero-shot", "one-shot", "chat"],
)
def test_tasks_give_what_they_give_with_hf(folder: Path, tmp_path: Path, settings: dict[str, Any]) -> None:
    tasks = [read_task(name, tmp_path) for name in ("choice", "write", "text")]
    theirs = evaluate("hf", folder, tasks, settings)
    ours = evaluate("fewer", folder, tasks, {**settings, "batch_size": 4})
    answers, found = read_answers(theirs), read_answers(ours)
    assert found["fewer_write"] == answers["fewer_write"]
    for given, said in zip(found["fewer_choice"], answers["fewer_choice"], strict=True):
        assert_same_scores(said, given)
    assert [number for (number,) in found["fewer_text"]] == pytest.approx(
        [number for (number,) in answers["fewer_text"]], rel=1e-6
    )
    for task, scores in theirs["results"].items():
        assert {name: value for name, value in ours["results"][task].items() if isinstance(value, float)} == (
            pytest.approx({name: value for name, value in scores.items() if isinstance(value, float)}, rel=1e-5)
        )


def read_pruned(folder: Path, context: list[int], continuation: list[int], kept: list[int]) -> float:
    """transformers' log-probability of a continuation where only some positions of the context were ever seen."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    positions = [*kept, *range(len(context), len(context) + len(continuation))]
    ids = torch.tensor([[*(context[position] for position in kept), *continuation]])
    with torch.no_grad():
        logits = model(ids, position_ids=torch.tensor([positions])).logits[0].log_softmax(-1)
    return sum(float(logits[len(kept) - 1 + step, token]) for step, token in enumerate(continuation))


def test_pruned_scores_are_those_of_a_model_that_never_saw_the_rest(folder: Path) -> None:
    ours = make_fewer(folder, prune="ends", keep=9, layer=0, sinks=2)
    context, pair = "The ferry leaves at six and at nine.", [" at six", " at nine, or later"]
    ids = ours.tok_encode(context)
    free = list(range(2, len(ids) - 1))
    kept = sorted([0, 1, len(ids) - 1, *free[:3], *free[-3:]])  # nine: two sinks, the last, three from either end
    asked = ask("loglikelihood", *((context, continuation) for continuation in pair))
    for continuation, (number, _) in zip(pair, ours.loglikelihood(asked, disable_tqdm=True), strict=True):
        tokens = ours.tok_encode(context + continuation)[len(ids) :]
        assert number == pytest.approx(read_pruned(folder, ids, tokens, kept), abs=EXACT)
        assert abs(number - read_pruned(folder, ids, tokens, list(range(len(ids))))) > 100 * EXACT


def test_random_pruning_depends_on_the_context_and_the_seed_alone(folder: Path) -> None:
    pairs = [(f"{place} is a town of mills and ferries.", " yes") for place in ("Ardrum", "Ostrand", "Kell")]
    pairs += [(pairs[0][0], " no")]
    asked, prune = ask("loglikelihood", *pairs), {"prune": "random", "keep": "50%"}
    found = make_fewer(folder, **prune).loglikelihood(asked, disable_tqdm=True)
    turned = make_fewer(folder, batch_size=4, **prune).loglikelihood(asked[::-1], disable_tqdm=True)
    other = make_fewer(folder, seed=1, **prune).loglikelihood(asked, disable_tqdm=True)
    assert [number for number, _ in turned[::-1]] == pytest.approx([number for number, _ in found], abs=EXACT)
    assert all(abs(a - b) > 100 * EXACT for (a, _), (b, _) in zip(found, other, strict=True))


def test_repeated_samples_differ_and_come_again_with_the_same_seed(folder: Path) -> None:
    asked = [(PROMPTS[0], {"max_gen_toks": 12, "do_sample": True, "temperature": 1.0})] * 3
    first = make_fewer(folder).generate_until(ask("generate_until", *asked), disable_tqdm=True)
    again = make_fewer(folder, batch_size=3).generate_until(ask("generate_until", *asked), disable_tqdm=True)
    assert len(set(first)) == 3
    assert again == first


def test_every_request_leaves_a_receipt(folder: Path, tmp_path: Path) -> None:
    tasks = [read_task(name, tmp_path) for name in ("choice", "write", "text")]
    path = tmp_path / "receipts.jsonl"
    results = evaluate("fewer", folder, tasks, receipts=str(path), prune="static", keep=40, layer=2, max_length=100)
    lines = read_lines(path)
    assert [(line["task"], line["doc_id"], line["idx"]) for line in lines if line["request"] == "loglikelihood"] == [
        ("fewer_choice", doc, choice) for doc, size in enumerate((4, 3, 2, 3)) for choice in range(size)
    ]
    assert [line["doc_id"] for line in lines if line["task"] == "fewer_write"] == [0, 1, 2, 3]
    assert {line["doc_id"]: line["window"] for line in lines if line["task"] == "fewer_text"} == {0: 0, 1: 0, 2: 1}
    for line in lines:
        prompt, rows = line["receipt"]["prompt"], line["receipt"]["computed"]["prefill_rows_per_layer"]
        size = prompt["num_tokens"]
        assert rows == ([size, size, 40, 40] if size > 40 else [size] * 4)
    counted = results["config"]["fewer"]
    assert counted["requests"] == len(lines)
    assert counted["requests_truncated"] == sum(line["receipt"]["prompt"]["truncated_tokens"] > 0 for line in lines) > 0
    assert counted["tokens_truncated"] == sum(line["receipt"]["prompt"]["truncated_tokens"] for line in lines)
    assert counted["requests_with_nothing_to_prune"] == sum(
        line["receipt"]["prompt"]["num_tokens"] <= 40 for line in lines
    )
    assert counted["prune"] == {"name": "static", "keep": "40 tokens", "layer": 2, "grain": "token"}


def test_the_command_knows_the_model(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    task = tmp_path / "choice.yaml"
    task.write_text(yaml.safe_dump(read_task("choice", tmp_path)), "utf-8")
    monkeypatch.setattr(lm_eval.__main__, "setup_logging", lambda: None)  # it would outlive this test
    monkeypatch.setattr(lm_eval.tasks, "TaskManager", partial(lm_eval.tasks.TaskManager, include_defaults=False))
    said = f"pretrained={folder},dtype=float32,prune=static,keep=0.5,layer=2"
    words = ["lm_eval", "--model", "fewer", "--device", "cpu", "--tasks", str(task), "--model_args"]
    monkeypatch.setattr(sys, "argv", [*words, said])
    main()
    assert "fewer_choice" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", [*words, f"{said},evict=snapkv"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert "evict is 'snapkv'; it must be none" in capsys.readouterr().err


@pytest.mark.real
def test_the_embedded_model_gives_what_it_gives_with_hf(tmp_path: Path) -> None:
    place = resolve().path
    tasks = [read_task(name, tmp_path) for name in ("choice", "write", "text")]
    settings = {"apply_chat_template": True, "num_fewshot": 0, "limit": 3}
    theirs = read_answers(evaluate("hf", place, tasks, settings))
    ours = read_answers(evaluate("fewer", place, tasks, {**settings, "batch_size": 4}))
    assert ours["fewer_write"] == theirs["fewer_write"]
    for given, said in zip(ours["fewer_choice"], theirs["fewer_choice"], strict=True):
        assert_same_scores(said, given)
    sizes = [23, 2, 30]  # tokens; the harness's own sums in float32 are off by 1e-5 nats a token, against float64
    for size, (given,), (said,) in zip(sizes, ours["fewer_text"], theirs["fewer_text"], strict=True):
        assert given == pytest.approx(said, abs=2e-5 * size)
