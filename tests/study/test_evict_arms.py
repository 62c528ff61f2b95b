"""Arms that evict: what may be written, what their rows say, and that they answer as the engine alone does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from madeup import answer as make_log
from madeup import look
from test_plan import item as plan_item
from test_plan import plan, prefill, rates
from test_plan import study as plain

from fewer import Engine, Request, Sampling
from fewer.errors import BadInput
from fewer.evict import make_policy
from fewer.receipt import Receipt
from fewer.study.answering import Answering
from fewer.study.arms import expand_arms
from fewer.study.cells import list_cells
from fewer.study.changes import compare_studies
from fewer.study.cost import cost_item
from fewer.study.item import Item, lay_out_item
from fewer.study.prepare import Unit
from fewer.study.spec import Study, load_study
from fewer.types import Document, Wording
from tolerances import FP32

FULL = {"name": "full"}
SNAP = {"evict": "snapkv", "budget": "50%"}
DRAWN = {"evict": "systematic:question", "budget": "50%"}
STUDIES = Path(__file__).parents[2] / "docs" / "studies" / "eviction"


def test_lists_are_arms_and_settings_reach_the_policy() -> None:
    written = {"evict": ["question", " Systematic:Question"], "budget": ["25%", "12.5%"], "behind": 9}
    arms = expand_arms([FULL, written, SNAP | {"every": 64, "heads": "adaptive", "moment": "context"}])
    assert [arm.name for arm in arms[1:5]] == [
        f"{name} budget={budget} behind=9"
        for name in ("question", "systematic:question")
        for budget in ("25%", "12.5%")
    ]
    assert arms[4].policy == make_policy("systematic:question", "12.5%", behind=9)
    assert [arm.draws for arm in arms[1:]] == [False, False, True, True, False]
    assert arms[5].policy == make_policy("snapkv", "50%", every=64, heads="adaptive", moment="context")
    assert [arm.condition for arm in arms] == ["aware"] * 5 + ["stream"]
    assert (arms[5].planner, arms[5].budgets, arms[5].is_full) == (None, ("50%",), False)


def test_an_arm_may_prune_and_evict() -> None:
    both = {"prune": "static", "keep": "75%", "layer": 1, "evict": "snapkv", "budget": "50%", "window": 8}
    sure = {"prune": "entroprefill", "prune.delta": 0.2, "seed": 3, **SNAP}
    _, arm, other = expand_arms([FULL, both, sure])
    assert (arm.name, arm.budgets) == ("static + snapkv keep=75% layer=1 budget=50% window=8", ("75%", "50%"))
    assert arm.planner.describe()["layer"] == 1
    assert arm.policy == make_policy("snapkv", "50%", window=8)
    assert (other.planner.delta, other.planner.seed, other.seed, other.draws) == (0.2, 3, None, False)
    assert other.policy == make_policy("snapkv", "50%")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"evict": "topk", "budget": "25%"}, "The arm 'topk budget=25%' cannot be: .* topk is a design: add a score"),
        ({"evict": "snapkw", "budget": "25%"}, "score is 'snapkw'.* Did you mean snapkv"),
        ({"evict": "snapkv"}, "budget is None"),
        ({"evict": "snapkv", "budget": "125%"}, "budget is '125%'"),
        ({"evict": "snapkv", "budget": 8}, "at least 36 rows per head"),
        ({"evict": "poisson:snapkv", "budget": 36}, "at least 37 rows per head"),
        ({"evict": "snapkv", "keep": "25%"}, "keep of an arm is '25%'.* Write budget"),
        (SNAP | {"poolin": 3}, "the setting poolin of snapkv is 3.* Did you mean pooling"),
        (SNAP | {"every": 0}, "every is 0"),
        (SNAP | {"estimator": "hajek"}, "'plug-in' for a design without known probabilities"),
        (SNAP | {"window": {"a": 1}}, "Write it as one text"),
        (SNAP | {"seed": 1}, "seed is 1; it must be left out, since snapkv draws nothing"),
        ({"prune": "static", "keep": 0.5, "seed": 1}, "seed is 1; it must be left out, since static draws nothing"),
        (DRAWN | {"seed": -1}, "seed is -1; it must be a whole number"),
        (DRAWN | {"seed": True}, "seed is True; it must be a whole number"),
        (SNAP | {"evict.budget": 64}, "the setting budget of evict is 64; it must be given once"),
        (SNAP | {"prune.keep": 64}, "'prune.keep'; it must be without prune"),
        (SNAP | {"prune": "static", "keep": 0.5, "moment": "context"}, "moment is 'context'; it must be left out with"),
        (SNAP | {"prune": "static", "keep": 0.5, "block": 64}, "block is 64; it must be left out with prune"),
        (SNAP | {"prune": "static", "keep": 0.5, "colour": 1}, "'colour'; it must be one of .*budget.*keep"),
        (SNAP | {"prune": "lazyllm"}, "left out where pruned tokens can come back"),
        (SNAP | {"prune": "entroprefill", "delta": 0.1}, "prune.delta or evict.delta, since entroprefill and snapkv"),
        (DRAWN | {"prune": "entroprefill", "seed": 1}, "prune.seed or evict.seed"),
        (SNAP | {"condition": "no_context"}, "without evict, since there is no context"),
        (SNAP | {"condition": "stream"}, "condition is 'stream'"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_when_the_study_is_read(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        expand_arms([FULL, settings])


def test_seeds_are_the_studys_or_the_arms_own() -> None:
    chunks = {"name": "chunks", "prune": "random", "keep": "50%", "grain": "chunk", "seed": 9}
    text = {"name": "text", "condition": "removed_text", "like": "chunks"}
    made = plain(SNAP, DRAWN, DRAWN | {"seed": [3, 4]}, chunks, text, seeds=[0, 1])
    seeds: dict[str, list[int]] = {}
    for cell in list_cells(made):
        seeds.setdefault(cell.arm.name, []).append(cell.seed)
    name = "systematic:question budget=50%"
    assert seeds == {
        "full": [0],
        "snapkv budget=50%": [0],
        name: [0, 1],
        f"{name} seed=3": [3],
        f"{name} seed=4": [4],
        "chunks": [9],
        "text": [9],
    }


def test_a_registration_names_what_changed_in_an_arm() -> None:
    one, other = (plain(DRAWN | {"name": "it", "floor": floor}) for floor in (0.1, 0.2))
    differences, notes = compare_studies(one, other, same_items={}, same_weights=True)
    assert (differences, notes) == (["Arm it: floor changed, 0.1 -> 0.2."], [])
    assert Study.model_validate(one.model_dump(mode="json")).sha256 == one.sha256


ARMS: list[dict[str, Any]] = [
    SNAP,
    {"evict": "h2o", "budget": 60, "every": 2},
    DRAWN | {"budget": ["50%", "100%"]},
    {"evict": "poisson:snapkv", "budget": "50%", "moment": "context"},
    {"evict": "snapkv", "budget": "40%", "heads": "adaptive", "block": 50},
    {"prune": "static", "keep": "75%", "layer": 1, "evict": "snapkv", "budget": "50%"},
    {"prune": "static", "keep": "75%", "layer": 1, "evict": "snapkv", "budget": "100%"},
    {"name": "silent", **DRAWN, "certify": False},
]


@pytest.fixture(scope="module")
def answered(model_folder: Path) -> tuple[Engine, Item, Study, list[dict[str, Any]]]:
    """An engine, an item of 300 tokens, a study, and the item's rows."""
    engine = Engine.load(str(model_folder), dtype="float32")
    chunks = tuple(Document(chr(97 + number) * 60) for number in range(4))
    wording = Wording("Read:\n", "\n", "\n{question}")
    asked = "Which one of them is it?"
    item = Item("i", "a", "qa", "c", chunks, asked, ("red",), "qa_f1", wording, max_tokens=9, supporting=(1, 3))
    content = {"name": "s", "tasks": [{"name": "a"}], "arms": [FULL, *ARMS], "seeds": [5, 6]}
    study = Study.model_validate(content)
    return engine, item, study, Answering(study, engine, list_cells(study), {}).answer(Unit(0, item, 300))


def test_rows_say_what_the_engine_alone_says(answered: tuple[Engine, Item, Study, list[dict]]) -> None:
    engine, item, study, rows = answered
    assert [row["reason"] for row in rows if row["status"] == "failed"] == []
    prompt = lay_out_item(engine.tokenizer, item, 512)
    for cell, row in zip(list_cells(study), rows, strict=True):
        sampling = Sampling(max_tokens=9, logprobs=0, seed=cell.draw_seed(item))
        request = Request(prompt, sampling, cell.arm.planner, evict=cell.arm.policy)
        (alone,) = engine.generate([request])
        assert tuple(row["ids"]) == alone.ids
        assert row["kv_bytes"] == alone.receipt.memory.kv_total_bytes
        certificate = alone.receipt.certificate
        for name, value in (
            ("certificate", certificate.radius),
            ("certificate_mean", certificate.mean),
            ("certificate_largest", certificate.largest),
        ):
            assert row[name] == (None if value is None else pytest.approx(value, abs=FP32, rel=FP32))


def test_rows_count_what_stayed(answered: tuple[Engine, Item, Study, list[dict]]) -> None:
    engine, item, _, rows = answered
    prompt = lay_out_item(engine.tokenizer, item, 512)
    size, ends = len(prompt), prompt.chunks[-1].stop
    kept = {(row["arm"], row["seed"]): row["kv_kept_fraction"] for row in rows}
    half, question = -(-size // 2), "systematic:question"
    tokens = {
        ("full", 5): None,
        ("snapkv budget=50%", 5): half,
        ("h2o budget=60 every=2", 5): 60,
        (f"{question} budget=50%", 5): half,
        (f"{question} budget=50%", 6): half,
        (f"{question} budget=100%", 5): size,
        (f"{question} budget=100%", 6): size,
        ("snapkv budget=40% heads=adaptive block=50", 5): -(-size * 2 // 5),
        ("static + snapkv keep=75% layer=1 budget=50%", 5): half,
        ("silent", 5): half,
        ("silent", 6): half,
    }
    for cell, count in tokens.items():
        share = None if count is None else pytest.approx(count / size, abs=1 / size)
        assert kept[cell] == share, cell
    stream = kept["poisson:snapkv budget=50% moment=context", 5]
    assert stream * size == pytest.approx(half + size - ends, abs=5 * half**0.5)  # five standard deviations at most
    whole = kept["static + snapkv keep=75% layer=1 budget=100%", 5]
    assert whole == pytest.approx(0.75, abs=0.02)  # nothing was evicted of what pruning left


def test_rows_of_the_evidence_are_those_that_the_cache_holds(answered: tuple[Engine, Item, Study, list[dict]]) -> None:
    for row in answered[3]:
        receipt = Receipt.model_validate_json(row["receipt"])
        if row["evict"] == "none":
            assert (row["supporting_rows"], row["supporting_kept"]) == (None, 1)
            continue
        held = sum(sum(receipt.eviction.rows_per_chunk[place]) for place in (1, 3))
        tokens = sum(receipt.prompt.chunks[place].stop - receipt.prompt.chunks[place].start for place in (1, 3))
        assert row["supporting_rows"] == held / (tokens * receipt.model.num_layers * receipt.model.num_kv_heads)
        assert 0 < row["supporting_rows"] < 1 or row["arm"] == "systematic:question budget=100%"
    by_arm = {row["arm"]: row["supporting_rows"] for row in answered[3]}
    assert by_arm["systematic:question budget=100%"] == 1


def test_rows_say_what_was_done_and_what_cannot_be_certified(answered: tuple[Engine, Item, Study, list[dict]]) -> None:
    by_arm = {row["arm"]: row for row in answered[3] if row["seed"] == 5}
    statuses = {name: row["status"] for name, row in by_arm.items()}
    assert {name for name, status in statuses.items() if status == "bypassed"} == {"systematic:question budget=100%"}
    assert by_arm["systematic:question budget=100%"]["ids"] == by_arm["full"]["ids"]
    assert "covers every row" in by_arm["systematic:question budget=100%"]["reason"]
    assert by_arm["static + snapkv keep=75% layer=1 budget=100%"]["reason"] is None
    certified = {name for name, row in by_arm.items() if row["certificate"] is not None}
    assert certified == {"systematic:question budget=50%", "poisson:snapkv budget=50% moment=context"}
    for name in certified:
        row = by_arm[name]
        assert 0 < row["certificate_mean"] <= row["certificate_largest"]
        assert row["certificate"] <= row["certificate_largest"]
    for name, row in by_arm.items():
        assert (row["evict_s"] is None) == (name == "full")
        receipt = Receipt.model_validate_json(row["receipt"])
        compressions = receipt.eviction.compressions if receipt.eviction else ()
        if compressions:
            assert row["kv_most_bytes"] == max(one.bytes_before for one in compressions)
        assert row["kv_used_bytes"] == sum(receipt.memory.kv_used_bytes_per_layer) <= row["kv_bytes"]
    assert by_arm["poisson:snapkv budget=50% moment=context"]["condition"] == "stream"
    assert by_arm["static + snapkv keep=75% layer=1 budget=50%"]["keep"] == "75%, 50%"
    assert by_arm["snapkv budget=50%"]["computed_fraction"] == by_arm["snapkv budget=50%"]["kept_fraction"] == 1


def test_seeds_draw_differently_and_nothing_else_does(answered: tuple[Engine, Item, Study, list[dict]]) -> None:
    drawn = [row for row in answered[3] if row["arm"] == "systematic:question budget=50%"]
    assert [row["seed"] for row in drawn] == [5, 6]
    assert drawn[0]["certificate"] != drawn[1]["certificate"]
    counts = [Receipt.model_validate_json(row["receipt"]).eviction.compressions[0].rows_after for row in drawn]
    assert counts[0] == counts[1]  # a fixed size


def ranked(task: str, number: int, arm: str, seed: int) -> dict[str, Any]:
    """The full run is right on three of four; the arm loses a third of those, where its certificate is large."""
    bad = number % 3 == 0 and number % 4 != 0
    certificate = None if arm in ("full", "no_context") else 1.0 + bad
    right = number % 4 != 0 and not (bad and certificate) and arm != "no_context"
    return {"score": float(right), "certificate": certificate}


def test_a_large_certificate_is_taken_as_likelier_lost() -> None:
    claim = {"id": "c", "statement": "It ranks.", "kind": "auc", "signal": "certificate", "at_least": 0.6}
    claim |= {"arm": "it", "kill_below": 0.6}
    base = {"tasks": [{"name": "a"}], "outcomes": [{"name": "lost", "below": 0.5, "full_at_least": 0.5}]}
    made = plain({"condition": "no_context"}, DRAWN | {"name": "it"}, **base, claims=[claim | {"outcome": "lost"}])
    (found,) = look(made, make_log(made, [("a", number) for number in range(80)], ranked))
    assert found.interval.estimate == 1
    assert "the AUC of certificate (higher taken as likelier lost)" in found.sentence


@pytest.mark.parametrize("change", [{"evict": "question"}, {"estimator": "plug-in"}, {"certify": False}], ids=str)
def test_claims_on_certificates_that_nobody_has_are_refused(change: dict[str, Any]) -> None:
    claim = {"id": "c", "statement": "It ranks.", "kind": "auc", "signal": "certificate_mean", "outcome": "correct"}
    claim |= {"arm": "it", "at_least": 0.7, "kill_below": 0.6}
    base = {"outcomes": [{"name": "correct", "at_least": 0.5}], "claims": [claim]}
    assert plain(DRAWN | {"name": "it"}, **base).claims[0].signal == "certificate_mean"
    with pytest.raises(ValueError, match=r"the signal of claim c is 'certificate_mean'.* it has no certificate"):
        plain(DRAWN | change | {"name": "it"}, **base)


def test_a_plan_shares_what_the_run_shares() -> None:
    shared = cost_item(plain(SNAP, DRAWN), plan_item(), 1000, rates())
    assert shared.seconds[1] == pytest.approx(prefill(1000))
    assert (shared.prefills, shared.branches, shared.kv_tokens) == (1, 0, 3 * 1000 + 3 + 1000)
    apart = cost_item(plain(SNAP | {"moment": "context"}, SNAP | {"block": 100}), plan_item(), 1000, rates())
    assert apart.seconds[1] == pytest.approx(3 * prefill(1000))
    assert (apart.prefills, apart.branches) == (3, 0)
    both = {"prune": "static", "keep": "50%", "layer": 4, "evict": "snapkv", "budget": "25%"}
    assert cost_item(plain(both), plan_item(), 1000, rates()).seconds[1] == pytest.approx(
        prefill(1000) + 8 / 12 * prefill(500)
    )
    steps = cost_item(plain(SNAP, sampling={"max_tokens": 2}), plan_item(), 1000, rates(new_tokens={"a": 2.0}))
    keys = 1000 + 500 + 2 * 1
    assert steps.seconds[1] == pytest.approx(prefill(1000) + 0.05 + 2 * 0.01 + 1e-5 * keys)
    assert any("certificates are not in it" in note for note in plan(plain(SNAP), [(plan_item(), 1000)], rates()).notes)


@pytest.mark.parametrize("name", ["needles.yaml", "stream.yaml"])
def test_the_studies_here_can_be_read(name: str) -> None:
    study = load_study(STUDIES / name)
    conditions = {arm.condition for arm in study.expanded if arm.evict != "none"}
    assert conditions == {"aware" if name == "needles.yaml" else "stream"}
    assert {task.lengths for task in study.tasks} == {(2048,)}
