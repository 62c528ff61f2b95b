"""`fewer ask` on a tiny model: what goes to which stream, and that every option does what it says."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from fewer import Receipt
from fewer.cli import options
from fewer.cli.app import app
from fewer.engine.sampling import Sampler


def answer(result) -> dict:
    """The one JSON object on standard output."""
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout_bytes)


def test_the_text_goes_to_stdout_and_the_receipt_to_stderr(ask, docs):
    result = ask("Who lit the lamp?", "docs")
    assert result.exit_code == 0
    told = answer(ask("Who lit the lamp?", "docs", "--json"))
    assert result.stdout_bytes.decode() == told["text"] + "\n"
    assert told["finish_reason"] == "length"
    for words in ("tokens", "The lamp", "b.txt", "certificate", "first token", "4 layers"):
        assert words in result.stderr
    assert "Left out, for their suffix: 1 file (docs/c.dat)." in result.stderr
    assert "\x1b" not in result.output
    assert "Loading" not in result.stderr


def test_json_is_exactly_one_object(ask, docs):
    result = ask("Who?", "docs", "--json")
    told = answer(result)
    assert list(told) == ["text", "finish_reason", "receipt"]
    assert result.stdout.count("\n") == 1
    jsonschema.validate(told["receipt"], Receipt.model_json_schema())
    receipt = Receipt.model_validate(told["receipt"])
    assert receipt.output.num_tokens == 8
    assert [chunk.title for chunk in receipt.prompt.chunks] == ["The lamp", "b.txt"]
    assert "certificate" not in result.stderr


@pytest.mark.parametrize("shape", [[], ["--json"]])
def test_quiet_says_nothing_else(ask, docs, shape):
    loud, quiet = ask("Who?", "docs", *shape), ask("Who?", "docs", "--quiet", *shape)
    assert quiet.stderr == ""
    if not shape:
        assert quiet.stdout_bytes == loud.stdout_bytes


def test_without_documents_and_from_standard_input(ask):
    alone = Receipt.model_validate(answer(ask("Who?", "--json"))["receipt"])
    assert alone.prompt.chunks == ()
    piped = Receipt.model_validate(answer(ask("Who?", "-", "--json", input="Two keepers lit it."))["receipt"])
    assert [chunk.title for chunk in piped.prompt.chunks] == ["standard input"]


@pytest.mark.parametrize("method", ["random", "static", "ends"])
@pytest.mark.parametrize("grain", ["token", "chunk"])
def test_pruning_leaves_tokens_out(ask, docs, method, grain):
    told = answer(ask("Who?", "docs", "--json", "--prune", method, "--keep", "60%", "--layer", "2", "--grain", grain))
    receipt = Receipt.model_validate(told["receipt"])
    assert receipt.settings.prune == {"name": method, "keep": "60%", "layer": 2, "grain": grain}
    rows = receipt.computed.prefill_rows_per_layer
    assert rows[:2] == (receipt.prompt.num_tokens,) * 2
    assert rows[2] == rows[3] < rows[1]
    assert receipt.prompt.protected_per_layer == (receipt.prompt.num_protected,) * 4


def test_keep_all_is_the_full_run(ask, docs):
    full = answer(ask("Who?", "docs", "--json"))
    kept = answer(ask("Who?", "docs", "--json", "--prune", "static", "--keep", "100%"))
    assert kept["text"] == full["text"]
    assert kept["receipt"]["computed"] == full["receipt"]["computed"]
    assert kept["receipt"]["bypass"]


def test_every_setting_reaches_the_receipt(ask, docs):
    words = (
        "--temperature 0.8 --top-k 7 --top-p 0.9 --min-p 0.01 --repetition-penalty 1.2 --stop XYZ --stop ABC --seed 5"
    )
    told = answer(ask("Who?", "docs", "--json", *words.split()))
    wanted = {"temperature": 0.8, "top_k": 7, "top_p": 0.9, "min_p": 0.01, "repetition_penalty": 1.2, "seed": 5}
    sampling = told["receipt"]["settings"]["sampling"]
    assert {name: sampling[name] for name in wanted} == wanted
    assert sampling["stop"] == ["XYZ", "ABC"]
    assert sampling["max_tokens"] == 8


def test_the_seed_decides(ask):
    def draw(seed: int) -> str:
        return answer(ask("Who?", "--json", "--temperature", "2", "--seed", str(seed)))["text"]

    assert draw(1) == draw(1)
    assert len({draw(seed) for seed in range(4)}) > 1


def test_a_stop_text_ends_the_answer(ask):
    whole = answer(ask("Who?", "--json"))["text"]
    stop = whole[3:5]
    told = answer(ask("Who?", "--json", "--stop", stop))
    assert told["finish_reason"] == "stop_string"
    assert told["text"] == whole[: whole.index(stop)]


def test_system_and_split_change_the_layout(ask, docs):
    def prompt(*words: str) -> dict:
        return answer(ask("Who?", "docs", "--json", *words))["receipt"]["prompt"]

    plain, system, split = prompt(), prompt("--system", "Be brief."), prompt("--split", "10")
    assert system["num_protected"] > plain["num_protected"]
    assert max(chunk["num_tokens"] for chunk in split["chunks"]) == 10
    assert sum(chunk["num_tokens"] for chunk in split["chunks"]) == plain["num_tokens"] - plain["num_protected"]
    assert len(prompt("--split", "paragraph")["chunks"]) == 3


def test_truncate_cuts_and_says_so(ask):
    Path("long.txt").write_text("word " * 200)
    told = answer(ask("Who?", "long.txt", "--json", "--truncate"))
    assert told["receipt"]["prompt"]["truncated_tokens"] > 400
    assert told["receipt"]["prompt"]["num_tokens"] + 8 == 512


def test_logprobs_come_with_the_object(ask):
    told = answer(ask("Who?", "--json", "--logprobs", "2"))
    assert list(told) == ["text", "finish_reason", "receipt", "logprobs"]
    assert len(told["logprobs"]) == 8
    for each in told["logprobs"]:
        assert each["logprob"] <= 0
        assert each["top"][0] == {name: each[name] for name in ("token", "text", "logprob")}  # greedy
        assert len(each["top"]) == 2


def test_the_receipt_is_written_to_files(ask):
    result = ask("Who?", "--json", "--html", "page.html", "--receipt", "receipt.json")
    assert Receipt.model_validate_json(Path("receipt.json").read_text()) == Receipt.model_validate(
        answer(result)["receipt"]
    )
    assert Path("page.html").read_text().startswith("<!doctype html>")
    assert result.stderr == "The receipt is in page.html.\nThe receipt is in receipt.json.\n"


def test_int8_weights_are_named(ask):
    told = answer(ask("Who?", "--json", "--weights", "int8"))
    assert told["receipt"]["run"]["weights"] == "int8"


class Interrupt:
    """Ctrl-C at the third token."""

    def __init__(self) -> None:
        self.calls, self.real = 0, Sampler.choose

    def __call__(self, sampler, logits):
        self.calls += 1
        if self.calls == 3:
            raise KeyboardInterrupt
        return self.real(sampler, logits)


@pytest.fixture
def interrupt(monkeypatch) -> None:
    hook = Interrupt()
    monkeypatch.setattr(Sampler, "choose", lambda sampler, logits: hook(sampler, logits))


def test_ctrl_c_keeps_what_was_written(ask, interrupt):
    result = ask("Who?", "--receipt", "receipt.json")
    assert result.exit_code == 130
    assert result.stderr.endswith("error: interrupted\n")
    assert "cancelled" in result.stderr
    assert "Traceback" not in result.stderr
    receipt = Receipt.model_validate_json(Path("receipt.json").read_text())
    assert receipt.output.finish_reason == "cancelled"
    assert receipt.output.num_tokens == 2


def test_ctrl_c_still_gives_one_object(ask, interrupt):
    result = ask("Who?", "--json")
    assert result.exit_code == 130
    told = json.loads(result.stdout_bytes)
    assert told["finish_reason"] == "cancelled"
    assert told["receipt"]["output"]["num_tokens"] == 2


@pytest.mark.parametrize(
    "place", ["fewer.engine.Engine.load", "fewer.engine.Engine.stream", "fewer.engine.batch.forward"]
)
def test_ctrl_c_before_the_first_token(ask, monkeypatch, place):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(place, stop)
    result = ask("Who?")
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "error: interrupted\n")


def test_every_option_says_its_default_and_is_in_the_help(run):
    text = "".join(run(f"{command} --help", env={"COLUMNS": "200"}).stdout for command in ("ask", "chat", "why"))
    for name, info in vars(options).items():
        if not name.startswith("_") and getattr(info, "__metadata__", None):
            assert info.__metadata__[0].help[:40] in text, name
    for default in ("256", "(the embedded model)", "document", "0.0", "1.0", "auto", "none"):
        assert f"[default: {default}]" in text
    assert app.info.name == "fewer"
