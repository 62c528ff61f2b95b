"""Plans: what is counted, what is shared, what the range is made of, and how work is spread over machines."""

from __future__ import annotations

from io import StringIO
from itertools import product

import pytest
from rich.console import Console

from fewer.errors import BadInput
from fewer.study.cost import cost_item
from fewer.study.fit import Fit
from fewer.study.item import Item
from fewer.study.plan import NOT_COVERED, Plan, pack_longest_first, plan
from fewer.study.rates import Rates
from fewer.study.spec import Study
from fewer.types import Document

A, B = 1e-3, 1e-6  # seconds a token, and a token squared
FIXED, ROW, KEY = 0.05, 0.01, 1e-5  # seconds a step, a token chosen, a key read


def fit(terms: tuple[str, ...], coefficients: tuple[float, ...], low: float, high: float, longest: float) -> Fit:
    point = ((longest, *(1.0,) * (len(terms) - 1)), 1.0)
    return Fit(terms=terms, coefficients=coefficients, points=(point,), low=low, high=high)


def rates(**changes: object) -> Rates:
    base = {
        "source": "made up",
        "model": "m",
        "device": "cpu",
        "dtype": "float32",
        "weights": "float32",
        "num_threads": 1,
        "num_layers": 12,
        "max_positions": 4096,
        "prefill": fit(("tokens", "tokens squared"), (A, B), 0.9, 1.2, 1000),
        "step": fit(("steps", "tokens chosen", "keys read"), (FIXED, ROW, KEY), 0.8, 1.5, 1),
        "kv_bytes_per_token": 100.0,
        "weights_bytes": 1_000_000,
        "overhead_bytes": 500_000,
        "row_bytes": 2000.0,
        "chunk_bytes": 10.0,
    }
    return Rates.model_validate(base | changes)


def study(*arms: dict, **changes: object) -> Study:
    base = {"name": "s", "tasks": [{"name": "a"}], "arms": [{"name": "full"}, *arms], "signals": []}
    return Study.model_validate(base | {"sampling": {"max_tokens": 1}} | changes)


def item(number: int = 0, task: str = "a", text: str = "x" * 890, **changes: object) -> Item:
    """Its letters come to 1,000: a chunk of 890 with a title of 10, and 100 around it."""
    question = "q" * (100 - len("\n\n{question}"))
    chunk = Document(text, "t" * 10)
    base = {"max_tokens": 8, "answers": ("y" * 20,)}
    return Item(f"{task}{number}", task, "qa", "c", (chunk,), question, metric="f1", **base | changes)


def prefill(tokens: float) -> float:
    return A * tokens + B * tokens**2


def likely(made: Study, tokens: int = 1000, one: Item | None = None, **changes: object) -> float:
    return cost_item(made, one or item(), tokens, rates(**changes)).seconds[1]


def test_the_full_run_is_one_prefill() -> None:
    cost = cost_item(study(), item(), 1000, rates())
    assert cost.seconds == pytest.approx((0.9 * prefill(1000), prefill(1000), 1.2 * prefill(1000)))
    assert (cost.answers, cost.refused, cost.prefills, cost.branches) == (1, 0, 1, 0)
    assert cost.token_layers == cost.token_layers_alone == 12_000


def test_a_pruned_arm_pays_for_its_kept_tokens_above_its_layer() -> None:
    static = {"prune": "static", "keep": "25%", "layer": 4}
    assert likely(study(static)) == pytest.approx(prefill(1000) + 8 / 12 * prefill(250))
    assert likely(study(static | {"layer": None})) == likely(study(static))  # a third of the depth
    assert likely(study(static | {"keep": 100})) == pytest.approx(prefill(1000) + 8 / 12 * prefill(100))
    assert likely(study(static | {"keep": 5000})) == pytest.approx(prefill(1000) * (1 + 8 / 12))
    cost = cost_item(study(static), item(), 1000, rates())
    assert (cost.prefills, cost.branches, cost.token_layers) == (1, 1, 12_000 + 8 * 250)
    assert cost.token_layers_alone == 24_000


def test_arms_that_draw_run_once_for_each_seed() -> None:
    made = study({"prune": "random", "keep": "50%"}, {"prune": "ends", "keep": "50%"}, seeds=[0, 1, 2])
    cost = cost_item(made, item(), 1000, rates())
    assert (cost.answers, cost.branches) == (5, 4)
    assert cost.seconds[1] == pytest.approx(prefill(1000) + 4 * prefill(500))


def test_alone_every_arm_pays_for_its_own_trunk() -> None:
    static = {"prune": "static", "keep": "25%", "layer": 4}
    alone = study(static, {"prune": "random", "keep": "50%"}, share=False)
    parts = prefill(1000) + 4 / 12 * prefill(1000) + 8 / 12 * prefill(250) + prefill(500)
    assert likely(alone) == pytest.approx(parts)
    cost = cost_item(alone, item(), 1000, rates())
    assert (cost.prefills, cost.branches) == (2, 0)
    assert cost.token_layers == 12_000 + 4_000 + 8 * 250 + 12 * 500


def test_without_context_the_prompt_is_as_much_shorter_as_its_text() -> None:
    assert likely(study({"condition": "no_context"})) == pytest.approx(prefill(1000) + prefill(100))
    assert cost_item(study({"condition": "no_context"}), item(), 1000, rates()).prefills == 2


def test_arms_decode_together_and_alone_one_by_one() -> None:
    static = {"prune": "static", "keep": "25%", "layer": 4}
    before = prefill(1000) + 8 / 12 * prefill(250)
    keys = sum(kept + new for new in range(1, 8) for kept in (1000, 250))
    together = study(static, sampling={})  # the item's eight tokens: seven steps
    assert likely(together) == pytest.approx(before + 7 * FIXED + 14 * ROW + KEY * keys)
    alone = study(static, sampling={}, share=False)
    own = before + 4 / 12 * prefill(1000)
    assert likely(alone) == pytest.approx(own + 14 * FIXED + 14 * ROW + KEY * keys)


def test_the_reference_is_read_in_one_more_pass_for_each_arm() -> None:
    made = study({"prune": "ends", "keep": "50%"}, signals=["nll"])
    assert item().answers == ("y" * 20,)  # at one token a letter: 20 tokens
    passes = sum(FIXED + A * 20 + B * ((size + 20) ** 2 - size**2) for size in (1000, 500))
    assert likely(made) == pytest.approx(prefill(1000) + prefill(500) + passes)


def test_the_range_is_that_of_the_rates_and_of_the_answers_lengths() -> None:
    made = study(sampling={"max_tokens": 101})
    decode = 100 * (FIXED + ROW) + KEY * (100 * 1000 + 5050)
    low, middle, high = cost_item(made, item(), 1000, rates()).seconds
    assert low == pytest.approx(0.9 * prefill(1000))  # answers of one token
    assert middle == pytest.approx(prefill(1000) + decode)
    assert high == pytest.approx(1.2 * prefill(1000) + 1.5 * decode)
    low, middle, _ = cost_item(made, item(), 1000, rates(new_tokens={"a": 11.0})).seconds
    seen = 10 * (FIXED + ROW) + KEY * (10 * 1000 + 55)
    assert (low, middle) == pytest.approx((0.9 * prefill(1000) + 0.8 * seen, prefill(1000) + seen))


def test_what_does_not_fit_is_refused_and_costs_nothing() -> None:
    made = study({"condition": "no_context"})
    cost = cost_item(made, item(), 4089, rates())
    assert (cost.refused, cost.prefills) == (1, 1)
    assert cost.seconds[1] == pytest.approx(prefill(409))
    assert cost_item(made, item(), 4088, rates()).refused == 0
    assert cost_item(made, item(), 4089, rates(max_positions=None)).refused == 0
    cut = cost_item(study(truncate=True), item(), 9000, rates())
    assert (cut.refused, cut.seconds[1]) == (0, pytest.approx(prefill(4088)))


def test_a_layer_that_the_model_has_not_is_refused_before_the_run() -> None:
    with pytest.raises(BadInput, match="the model has 12 layers"):
        cost_item(study({"prune": "ends", "keep": "50%", "layer": 12}), item(), 1000, rates())


def make(tokens: list[int], made: Study | None = None, **settings: object) -> Plan:
    found = rates()
    return plan(made or study(), [(item(i), n) for i, n in enumerate(tokens)], found, **settings)


def test_a_plan_adds_up_its_items() -> None:
    found = make([100, 200, 300])
    assert (found.whole.num_items, found.whole.num_answers, found.num_refused) == (3, 3, 0)
    assert found.whole.seconds.likely == pytest.approx(prefill(100) + prefill(200) + prefill(300))
    for span in (found.whole.makespan, found.whole.makespan_in_turn):
        assert span.model_dump() == pytest.approx(found.whole.seconds.model_dump())
    assert found.whole.disk_bytes == 3 * (2000 + 10 + 10)  # a row, its chunk, the chunk's title
    assert found.prefill_share == 1
    assert (found.scaled, found.num_extrapolated) == (None, 0)
    assert Plan.model_validate(found.model_dump(mode="json")) == found


def test_tasks_have_their_own_part() -> None:
    found = plan(study(), [(item(0), 100), (item(0, "b"), 5000), (item(1), 300)], rates())
    a, b = found.tasks
    assert (a.name, a.num_items, a.num_refused, a.num_tokens) == ("a", 2, 0, 400)
    assert (b.name, b.num_items, b.num_refused, b.num_tokens) == ("b", 1, 1, 5000)
    assert a.seconds.likely == pytest.approx(prefill(100) + prefill(300))
    assert b.seconds.likely == 0
    assert any("1 answers will be refused" in note for note in found.notes)
    assert any("1 items are longer than the longest measured, 1,000 tokens" in note for note in found.notes)


def test_memory_is_that_of_the_item_that_needs_most() -> None:
    made = study({"prune": "ends", "keep": "50%"})
    held = 1000 + 500 + 2 * 1 + 1000  # both arms' caches, a token each, and the trunk's
    assert make([1000, 200], made).peak_bytes == 1_500_000 + 100 * held


def test_scaling_repeats_the_items_in_even_proportion() -> None:
    found = make([100, 200, 300], answers=98_000)
    assert (found.scaled.num_items, found.scaled.num_answers) == (98_000, 98_000)
    ratio = found.scaled.seconds.likely / found.whole.seconds.likely
    assert ratio == pytest.approx(98_000 / 3, rel=1e-4)
    assert found.scaled.disk_bytes == 98_000 * 2020
    two = make([100, 200], study({"prune": "ends", "keep": "50%"}), answers=3)
    assert (two.scaled.num_items, two.scaled.num_answers) == (2, 4)  # whole items only


def test_one_long_item_keeps_the_last_machine_busy() -> None:
    found = make([1000, *[10] * 20], machines=8)
    assert found.whole.makespan.likely == pytest.approx(prefill(1000))
    assert found.whole.seconds.likely / 8 < prefill(1000) / 4
    assert found.whole.makespan_in_turn.likely == pytest.approx(prefill(1000) + 2 * prefill(10))
    assert found.whole.makespan.low < found.whole.makespan.likely < found.whole.makespan.high


def test_longest_first_is_within_a_third_of_the_best() -> None:
    jobs = [7.0, 7.0, 6.0, 6.0, 5.0, 4.0, 4.0]
    best = min(
        max(sum(job for job, where in zip(jobs, places, strict=True) if where == machine) for machine in range(3))
        for places in product(range(3), repeat=len(jobs))
    )
    found = pack_longest_first(jobs, 3)
    assert best <= found <= (4 / 3 - 1 / 9) * best
    assert pack_longest_first(jobs, 1) == sum(jobs)
    assert pack_longest_first(jobs, 50) == max(jobs)
    assert pack_longest_first([4.0, 1.0, 1.0, 1.0, 1.0], 2) == 4.0


@pytest.mark.parametrize("settings", [{"machines": 0}, {"answers": 0}])
def test_a_plan_for_nothing_is_refused(settings: dict) -> None:
    with pytest.raises(BadInput, match="at least 1"):
        make([100], **settings)
    with pytest.raises(BadInput, match="at least one"):
        make([])


def test_the_table_shows_the_range_and_what_is_not_in_it() -> None:
    console = Console(width=200, file=StringIO())
    console.print(make([100, 200], machines=2, answers=1_000_000).to_table())
    text = " ".join(console.file.getvalue().split())
    for line in ("items", "1,000,000", "time on one machine", "time on 2 machines", "the same, items in turn"):
        assert line in text
    assert f"{prefill(100) + prefill(200):.3g} s ({0.9 * (prefill(100) + prefill(200)):.3g} to" in text
    assert " days (" in text
    for sentence in NOT_COVERED:
        assert sentence in text
    assert "How long answers are is not known" in text


def test_rates_without_decoding_say_so() -> None:
    found = plan(study(sampling={"max_tokens": 50}, signals=["nll"]), [(item(), 1000)], rates(step=None))
    assert found.whole.seconds.likely == pytest.approx(prefill(1020))  # the reference goes on where the prompt ended
    assert any(note.startswith("Decoding was not measured") for note in found.notes)
