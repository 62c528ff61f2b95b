"""EntroPrefill inside the model: what it removes is what the oracle's attention says, and the rest is computed as if
the removed had never been there, in the prefill above the accepted layer and in every step after it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from cases import CASES, NUM_LAYERS, Case, gap
from test_lazy_faults import broken
from torch import Tensor

from fewer import BadInput, Chunk, EntroPrefill, Prompt
from fewer.kv import State
from fewer.model.forward import forward
from fewer.model.segment import Segment
from fewer.model.shared import forward_shared
from fewer.prune.entroprefill.procedure import decide
from fewer.prune.entroprefill.situation import Situation
from fewer.types import Look, Looked, Observation, Plan
from reference import bias_of, sight
from tiny import VOCAB
from tolerances import FP64

TOKENS = (7, 99, 5, 88)
ALL_FULL = [name for name, case in CASES.items() if any(window is None for window in case.tiny.windows[:-1])]
EASY = {
    "keep": "50%",
    "keep_at_most": "85%",
    "tolerance": 0.6,
    "audit_tolerance": 0.6,
    "mass": "document",
    "document_min": 1e-9,
    "residual_min": 1e-6,
    "observers": 2,
    "profile": None,
    "shortest": 0,
}


def make_prompt(seed: int, sizes: tuple[int, ...] = (7, 4, 9, 5, 6, 3), query: int = 5) -> Prompt:
    chunks, at = [], 2
    for size in sizes:
        chunks.append(Chunk("", at, at + size))
        at += size + 1
    total = at + query + 2  # two tokens behind the query
    protected = torch.ones(total, dtype=torch.bool)
    for chunk in chunks:
        protected[chunk.start : chunk.stop] = False
    ids = torch.randint(0, VOCAB, (total,), generator=torch.Generator().manual_seed(seed))
    return Prompt(ids, protected, tuple(chunks), (at, at + query))


def planner_of(case: Case, **changes: Any) -> EntroPrefill:
    given = {"monitor": "1-3:all", **EASY, **changes}
    if given.get("audit") == "off":
        del given["audit_tolerance"]
    return EntroPrefill(**given).fitted(case.wide.facts)


def prefill(case: Case, prompt: Prompt, planner: object, state: State | None = None) -> tuple[Segment, Tensor]:
    segment = Segment(state or State.new(NUM_LAYERS), prompt.ids, planner, prompt)
    return segment, forward(case.wide, [segment])[0][0]


def steps(case: Case, state: State) -> Tensor:
    return torch.stack([forward(case.wide, [Segment(state, torch.tensor([token]))])[0][0] for token in TOKENS])


def oracle_rows(case: Case, prompt: Prompt) -> list[Tensor]:
    """The dense model's attention of the whole prompt, by layer: [heads, T, T]."""
    return case.tiny.dense.run(prompt.ids, bias_of(sight(len(prompt), case.tiny.windows)))[1]


@pytest.mark.parametrize("name", ALL_FULL)
def test_what_stays_is_computed_as_if_the_rest_had_never_been_there(name: str) -> None:
    case = CASES[name]
    accepted = 0
    for seed in range(3):
        prompt, planner = make_prompt(seed), planner_of(case)
        segment, logits = prefill(case, prompt, planner)
        weights = oracle_rows(case, prompt)
        situation = Situation.of(planner.settings, planner.heads, prompt)
        decided = {decision.layer: decision for decision in segment.decisions}
        monitored = planner.layers(NUM_LAYERS)
        assert list(decided) == list(monitored[: len(decided)])
        for layer, decision in decided.items():
            rows = weights[layer - 1][:, list(situation.positions)]
            verdict = decide(situation, layer, rows, case.wide.num_kv_heads)
            assert verdict.outcome == decision.outcome
            for number, value in verdict.numbers.items():
                assert number.endswith("seconds") or decision.numbers[number] == pytest.approx(value, abs=1e-6)
        drops = []
        if segment.plans:
            accepted += 1
            (plan,) = segment.plans
            assert list(decided.values())[-1] is plan.decision
            drops = [(plan.layer, plan.keep.tolist())]
            removed = verdict.proposal.removal.removed
            gone = [j for i in removed.nonzero()[0] for j in range(prompt.chunks[i].start, prompt.chunks[i].stop)]
            assert sorted({*range(len(prompt))} - {*gone}) == plan.keep.tolist()
        check_kept(segment, prompt, drops, case)
        ids = torch.cat([prompt.ids, torch.tensor(TOKENS)])
        visible = sight(len(ids), case.tiny.windows, len(prompt), drops, release=True)
        dense = case.tiny.dense.logits(ids, visible)
        assert gap(logits, dense[len(prompt) - 1]) < FP64
        assert gap(steps(case, segment.state), dense[len(prompt) :]) < FP64
    assert accepted >= 1


def check_kept(segment: Segment, prompt: Prompt, drops: list[tuple[int, list[int]]], case: Case) -> None:
    """Every layer holds what was kept, at its own position, in no more bytes than that takes."""
    kept = drops[0][1] if drops else list(range(len(prompt)))
    rows = [len(prompt) if not drops or layer <= drops[0][0] else len(kept) for layer in range(1, NUM_LAYERS + 1)]
    assert segment.rows_per_layer == rows
    assert segment.state.num_seen == len(prompt)
    row_bytes = 2 * case.wide.num_kv_heads * case.wide.head_dim * 8
    for layer in segment.state.layers:
        assert layer.pos[0].tolist() == kept
        assert layer.nbytes == len(kept) * row_bytes
        assert layer.k.untyped_storage().nbytes() == layer.nbytes
    if drops:
        assert segment.released_bytes == [drops[0][0] * (len(prompt) - len(kept)) * row_bytes]
        assert segment.released_bytes[0] > 0


@pytest.mark.parametrize("name", [name for name in CASES if name not in ALL_FULL])
def test_models_whose_layers_all_have_windows_are_refused(name: str) -> None:
    with pytest.raises(BadInput, match="a span with a layer that sees the whole prompt"):
        planner_of(CASES[name], monitor="1-3:all")
    with pytest.raises(BadInput, match="a layer of monitor is 2; it must be a layer without a sliding window"):
        planner_of(CASES[name], monitor="2:all")


@pytest.mark.parametrize(("name", "layers"), [("qwen3-sliding", (2,)), ("smollm3-sliding", (1, 3)), ("gemma3", (2,))])
def test_layers_with_windows_are_not_watched(name: str, layers: tuple[int, ...]) -> None:
    assert planner_of(CASES[name]).layers(NUM_LAYERS) == layers
    assert EntroPrefill(preset="paper").fitted(CASES[name].wide.facts).layers(NUM_LAYERS) == layers
    for layer in {1, 2, 3} - set(layers):
        with pytest.raises(BadInput, match=f"a layer of monitor is {layer}"):
            planner_of(CASES[name], monitor=f"{layer}:all")
    with pytest.raises(BadInput, match="monitor is '4'; it must be layers from 1 to 3"):
        planner_of(CASES[name], monitor="4:all")
    heads = CASES[name].wide.num_heads
    with pytest.raises(BadInput, match=f"a head of monitor is {heads}; it must be from 0 to {heads - 1}"):
        planner_of(CASES[name], monitor=f"{layers[0]}:{heads}")


def mixed(case: Case) -> list[tuple[Prompt, EntroPrefill | None]]:
    """Eight requests: accepted after layers 1, 2 and 3, refused everywhere, declined, and one without a planner."""
    found: dict[int, list[tuple[Prompt, EntroPrefill | None]]] = {1: [], 2: [], 3: [], 0: []}
    strict = planner_of(case, tolerance=0.35, audit_tolerance=0.35)
    for seed in range(200):
        prompt = make_prompt(seed, (7, 4 + seed % 5, 9, 5, 6, 3))
        segment, _ = prefill(case, prompt, strict)
        found[segment.plans[0].layer if segment.plans else 0].append((prompt, strict))
        if all(len(some) >= 2 for some in found.values()):
            break
    chosen = [*found[1][:2], *found[2][:2], *found[3][:1], *found[0][:1]]
    return [*chosen, (make_prompt(1), planner_of(case, shortest=99)), (make_prompt(2), None)]


def test_eight_together_at_their_own_layers_are_each_as_alone(plain: Case) -> None:
    requests = mixed(plain)
    assert len(requests) == 8
    alone = []
    for prompt, planner in requests:
        segment, logits = prefill(plain, prompt, planner)
        kept = [layer.pos[0].tolist() for layer in segment.state.layers]
        alone.append((segment, logits, kept, steps(plain, segment.state)))
    assert [[plan.layer for plan in segment.plans] for segment, *_ in alone] == [[1], [1], [2], [2], [3], [], [], []]
    for order in (range(8), range(7, -1, -1)):
        segments = [Segment(State.new(NUM_LAYERS), requests[i][0].ids, requests[i][1], requests[i][0]) for i in order]
        together = forward(plain.wide, segments)
        for i, segment, logits in zip(order, segments, together, strict=True):
            one, expected, kept, _ = alone[i]
            assert gap(logits[0], expected) < FP64
            assert segment.rows_per_layer == one.rows_per_layer
            assert [d.outcome for d in segment.decisions] == [d.outcome for d in one.decisions]
            assert segment.released_bytes == one.released_bytes
            assert [layer.pos[0].tolist() for layer in segment.state.layers] == kept
        width = sum(len(prompt) for prompt, _ in requests)
        assert sum(segment.rows_per_layer[0] for segment in segments) == width  # no padding
        for step, token in enumerate(TOKENS):
            passes = [Segment(segment.state, torch.tensor([token])) for segment in segments]
            for i, logits in zip(order, forward(plain.wide, passes), strict=True):
                assert gap(logits[0], alone[i][3][step]) < FP64


def test_a_shared_prefill_gives_each_what_it_gets_alone(plain: Case) -> None:
    prompt = make_prompt(1)
    planners = [
        *(None, planner_of(plain), planner_of(plain, monitor="2:all"), planner_of(plain, monitor="3:1")),
        *(planner_of(plain, monitor="2-3:all", tolerance=0.01), planner_of(plain, keep="70%", audit="off")),
        planner_of(plain, streak=1, monitor="1-3:all"),
    ]
    branches = [Segment(State.new(NUM_LAYERS), prompt.ids, planner, prompt) for planner in planners]
    acted = 0
    found = dict(forward_shared(plain.wide, branches))
    for place, planner in enumerate(planners):
        branch = found[place]
        segment, logits = prefill(plain, prompt, planner)
        assert branch.error is None
        assert branch.shared
        assert torch.equal(branch.logits[0], logits)
        assert branch.segment.rows_per_layer == segment.rows_per_layer
        assert [d.outcome for d in branch.segment.decisions] == [d.outcome for d in segment.decisions]
        assert [plan.keep.tolist() for plan in branch.segment.plans] == [plan.keep.tolist() for plan in segment.plans]
        assert torch.equal(steps(plain, branch.segment.state), steps(plain, segment.state))
        acted += len(segment.plans)
    assert acted >= 4


def test_a_fork_goes_its_own_way(plain: Case) -> None:
    segment, _ = prefill(plain, make_prompt(0), planner_of(plain))
    assert segment.plans
    other = segment.state.fork()
    assert segment.state.aux is None
    (first,) = forward(plain.wide, [Segment(other, torch.tensor([1]))])
    ours, theirs = steps(plain, segment.state), steps(plain, other)
    assert not torch.equal(ours[0], first[0])
    assert gap(ours, theirs) > FP64
    again, _ = prefill(plain, make_prompt(0), planner_of(plain))
    assert torch.equal(steps(plain, again.state), ours)


class Failing:
    """EntroPrefill that raises after a layer."""

    def __init__(self, planner: EntroPrefill, layer: int) -> None:
        self.planner, self.layer = planner, layer

    def __getattr__(self, name: str) -> Any:
        return getattr(self.planner, name)

    def after(self, seen: Observation) -> object:
        if seen.layer == self.layer:
            raise RuntimeError("broke")
        return self.planner.after(seen)


@pytest.mark.parametrize("place", ["embed", "1", "2", "3", "4", "head", "planner"])
def test_a_pass_that_raises_changes_nothing(plain: Case, place: str) -> None:
    prompt, planner, state = make_prompt(1), planner_of(plain, monitor="2:all"), State.new(NUM_LAYERS)
    expected, logits = prefill(plain, prompt, planner)
    assert expected.plans
    if place == "planner":
        with pytest.raises(RuntimeError, match="broke"):
            prefill(plain, prompt, Failing(planner, 2), state)
    else:
        with broken(plain.wide, place), pytest.raises(RuntimeError, match="broke"):
            prefill(plain, prompt, planner, state)
    assert (state.num_seen, state.aux, [layer.num_rows for layer in state.layers]) == (0, None, [0] * NUM_LAYERS)
    segment, again = prefill(plain, prompt, planner, state)
    assert torch.equal(again, logits)
    assert segment.rows_per_layer == expected.rows_per_layer
    before = [layer.pos.tolist() for layer in state.layers]
    with broken(plain.wide, "3"), pytest.raises(RuntimeError, match="broke"):
        steps(plain, state)
    assert [layer.pos.tolist() for layer in state.layers] == before
    assert torch.equal(steps(plain, state), steps(plain, expected.state))


class Sampling:
    """Sees the rows of sampled observers, and keeps all."""

    name, needs = "sampling", "looks"

    def __init__(self, planner: EntroPrefill) -> None:
        self.planner = planner
        self.seen: dict[Look, Looked] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.planner, name)

    def after(self, seen: Observation) -> Plan | None:
        self.seen = dict(seen.looked)
        return None


@pytest.mark.parametrize("name", ["llama-r2", "llama-r8", "qwen2-sliding", "gemma3", "olmo2-r2", "granite"])
def test_sampled_rows_are_the_oracles(name: str) -> None:
    case, prompt = CASES[name], make_prompt(3, query=9)
    planner = planner_of(case, choose_observers="sample", audit="off", observers=4)
    watching = Sampling(planner)
    prefill(case, prompt, watching)
    weights = oracle_rows(case, prompt)
    positions = Situation.of(planner.settings, planner.heads, prompt).positions
    assert len(positions) == 4
    assert [look.layer for look in watching.seen] == list(planner.layers(NUM_LAYERS))
    for look, looked in watching.seen.items():
        assert look.rows == positions
        assert gap(looked.rows, weights[look.layer - 1][:, list(positions)]) < FP64
