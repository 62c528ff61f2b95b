"""What a receipt says of LazyLLM: it adds up, and it is what was counted while the layers ran."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from tinytext import NUM_LAYERS, random_ids, request

from fewer import Answer, Chunk, Engine, LazyLLM, Prompt, Receipt, Request, Sampling
from fewer.engine.batch import Batch
from fewer.engine.sequence import Sequence
from fewer.model.segment import Segment

PAPER = {"revive_limit": None, "revive_floor": 0}
SWITCHES: dict[str, dict[str, Any]] = {
    "keep": PAPER,
    "recompute": {"aux": "recompute", **PAPER},
    "off": {"revive": False},
    "limited": {"revive_limit": 1, "revive_floor": 0.3},
    "by the prefill": {"selection": "prefill", "revive_limit": 2},
    "by the prefill, recompute": {"selection": "prefill", "revive_limit": None, "aux": "recompute"},
    "by the prefill, off": {"selection": "prefill", "revive": False},
}
STEPS = 9


def lazy(schedule: object = "1:60%, 3:35%", **switches: Any) -> LazyLLM:
    return LazyLLM(schedule, **{"shortest": 0, "profile": None, **switches})


def chunked(seed: int = 3, sizes: tuple[int, ...] = (13, 6, 17)) -> Prompt:
    """Two sinks, chunks with one protected token between, three tokens at the end."""
    chunks, at = [], 2
    for number, size in enumerate(sizes):
        chunks.append(Chunk(f"chunk {number}", at, at + size))
        at += size + 1
    total = at + 3
    protected = torch.ones(total, dtype=torch.bool)
    for chunk in chunks:
        protected[chunk.start : chunk.stop] = False
    return Prompt(torch.tensor(random_ids(seed, total)), protected, tuple(chunks), (total - 3, total))


class Watched:
    """A layer that counts which positions it stored, by when."""

    def __init__(self, layer: Any, number: int, seen: Counter[tuple[int, int, bool]]) -> None:
        self.layer, self.number, self.seen = layer, number, seen

    def __call__(self, hidden: torch.Tensor, angles: Any, segments: list[Segment]) -> torch.Tensor:
        for segment in segments:
            later = segment.planner is None
            for pos in segment.pos.tolist():
                self.seen[pos, self.number, later] += 1 if segment.stores else 1000
        return self.layer(hidden, angles, segments)


def run(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, planner: LazyLLM
) -> tuple[Sequence, Receipt, Counter[tuple[int, int, bool]]]:
    seen: Counter[tuple[int, int, bool]] = Counter()
    layers = [Watched(layer, number, seen) for number, layer in enumerate(engine.adapter.layers, 1)]
    batch = Batch(engine.adapter, engine.tokenizer, engine.end_tokens)
    sequence = batch.add(Request(chunked(), Sampling(max_tokens=STEPS + 1, ignore_eos=True), planner))
    with monkeypatch.context() as patch:
        patch.setattr(engine.adapter, "layers", layers)
        while not batch.idle:
            batch.step()
    return sequence, engine._answer(sequence).receipt, seen


@pytest.mark.parametrize("name", SWITCHES)
def test_it_says_what_the_layers_did(engine: Engine, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    planner, prompt = lazy(**SWITCHES[name]), chunked()
    _, receipt, seen = run(engine, monkeypatch, planner)
    computed, size = receipt.computed, len(prompt)
    stored = {key: count % 1000 for key, count in seen.items()}
    repeated = sum(count // 1000 for count in seen.values())
    assert max(stored.values()) == 1
    assert computed.token_layers_full == (size + STEPS) * NUM_LAYERS
    assert computed.token_layers_repeated == repeated
    assert computed.token_layers_computed == sum(stored.values()) + repeated
    assert computed.token_layers_skipped == computed.token_layers_full - sum(stored.values()) >= 0
    rows = [sum(stored.get((pos, layer, False), 0) for pos in range(size)) for layer in range(1, NUM_LAYERS + 1)]
    assert computed.prefill_rows_per_layer == tuple(rows)
    assert rows == [size, round(0.6 * size), round(0.6 * size), round(0.35 * size)]
    free = ~prompt.protected
    for chunk in receipt.prompt.chunks:
        places = [pos for pos in range(chunk.start, chunk.stop) if free[pos]]
        for counted, later in ((chunk.kept_per_layer, False), (chunk.revived_per_layer, True)):
            assert counted == tuple(
                sum(stored.get((pos, layer, later), 0) for pos in places) for layer in range(1, NUM_LAYERS + 1)
            )
    revival = receipt.revival
    back = sum(sum(chunk.revived_per_layer) for chunk in receipt.prompt.chunks)
    assert revival.token_layers_revived == back + repeated
    assert computed.token_layers_computed == sum(rows) + STEPS * NUM_LAYERS + revival.token_layers_revived
    came = {pos for pos, _, later in stored if later and pos < size}
    assert revival.num_revived == len(came)
    assert len(revival.revived_per_step) == len(revival.active_per_step) == computed.decode_steps == STEPS
    assert (sum(revival.revived_per_step) > 0) == (planner.aux != "off")
    assert revival.aux == planner.aux
    if name == "by the prefill, off":
        assert revival.active_per_step == (tuple(plan.num_kept for plan in receipt.plans),) * STEPS
    assert (repeated > 0) == (planner.aux == "recompute")
    most = prompt.num_protected, round(0.6 * size), round(0.35 * size)
    for first, second in revival.active_per_step:
        assert most[0] <= second <= first <= size
        assert planner.selection == "prefill" or (first <= most[1] and second <= most[2])
    assert Receipt.model_validate_json(receipt.to_json()) == receipt


@pytest.mark.parametrize("name", SWITCHES)
def test_bytes_are_those_of_the_storages(engine: Engine, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    sequence, receipt, _ = run(engine, monkeypatch, lazy(**SWITCHES[name]))
    held = [layer.k.untyped_storage() for layer in sequence.state.layers]
    assert receipt.memory.kv_bytes_per_layer == tuple(storage.nbytes() for storage in held)
    aux, adapter = sequence.state.aux, engine.adapter
    row = 2 * adapter.num_kv_heads * adapter.head_dim * 4
    assert receipt.memory.kv_used_bytes_per_layer == tuple(row * layer.k.shape[1] for layer in sequence.state.layers)
    states = aux.states if aux else None
    left = len(chunked()) - receipt.computed.prefill_rows_per_layer[-1]
    assert (states is None) == (receipt.revival.aux != "keep")
    assert receipt.revival.aux_bytes == (0 if states is None else states.untyped_storage().nbytes())
    assert receipt.revival.aux_bytes == (0 if states is None else left * engine.adapter.hidden_size * 4)


def test_a_limit_holds_at_every_step(engine: Engine) -> None:
    for limit in (1, 2, 5):
        planner = lazy("3:30%", revive_floor=0, revive_limit=limit)
        (answer,) = engine.generate([request(random_ids(1, 50), planner, ignore_eos=True)])
        counts = answer.receipt.revival.revived_per_step
        assert max(counts) == limit
        assert answer.receipt.revival.num_revived <= sum(counts)


def test_everything_comes_back_when_the_prefill_selects(engine: Engine) -> None:
    planner = lazy("1:60%, 3:35%", selection="prefill", revive_limit=None)
    (answer,) = engine.generate([Request(chunked(), Sampling(max_tokens=4, ignore_eos=True), planner)])
    receipt = answer.receipt
    left = len(chunked()) - receipt.computed.prefill_rows_per_layer[-1]
    assert receipt.revival.revived_per_step == (left, 0, 0)
    assert receipt.revival.active_per_step == ((len(chunked()),) * 2,) * 3
    assert receipt.computed.token_layers_skipped == 0


def answer_of(engine: Engine, planner: LazyLLM, **sampling: Any) -> Answer:
    return engine.generate(
        [Request(chunked(), Sampling(**{"max_tokens": 5, "ignore_eos": True, **sampling}), planner)]
    )[0]


def test_a_short_prompt_is_run_as_without_pruning(engine: Engine) -> None:
    declined, full = answer_of(engine, LazyLLM("1:30%", profile=None)), answer_of(engine, None)
    assert declined.ids == full.ids
    assert declined.receipt.bypass == ("the prompt has 44 tokens; below 256 choosing costs more than it saves",)
    assert (declined.receipt.plans, declined.receipt.revival) == ((), None)
    assert declined.receipt.computed == full.receipt.computed
    assert declined.receipt.settings.prune["shortest"] == 256


def test_a_prompt_that_is_all_protected_says_so(engine: Engine) -> None:
    for ids in ([7], random_ids(1, 3)):
        (answer,) = engine.generate([request(ids, lazy({1: 1}))])
        assert answer.receipt.bypass == ("every token is protected",)
        assert answer.ids == engine.generate([request(ids)])[0].ids


def test_keeping_all_says_so_and_is_the_full_run(engine: Engine) -> None:
    all_kept, full = answer_of(engine, lazy("1:100%, 3:100%")), answer_of(engine, None)
    assert all_kept.ids == full.ids
    assert all_kept.receipt.bypass == ("the budget covers every token that may be left out",)
    assert all_kept.receipt.computed == full.receipt.computed
    assert (all_kept.receipt.revival.num_revived, all_kept.receipt.revival.aux_bytes) == (0, 0)


def test_one_answer_token_takes_no_later_step(engine: Engine) -> None:
    receipt = answer_of(engine, lazy(), max_tokens=1).receipt
    assert receipt.computed.decode_steps == 0
    assert (receipt.revival.revived_per_step, receipt.revival.active_per_step) == ((), ())
    assert receipt.revival.aux_bytes > 0


def test_what_was_asked_for_is_on_it(engine: Engine) -> None:
    assert answer_of(engine, lazy()).receipt.settings.prune == {
        "name": "lazyllm",
        "preset": None,
        "schedule": "1:60%, 3:35%",
        "aux": "keep",
        "selection": "per_step",
        "revive_limit": 16,
        "revive_floor": 1.0,
        "shortest": 0,
        "profile": "none",
    }
    preset = answer_of(engine, LazyLLM("balanced", shortest=0)).receipt
    shown = [preset.settings.prune[name] for name in ("preset", "schedule", "profile")]
    assert shown == ["balanced", "2:30%, 3:10%", "none"]
    assert [plan.layer for plan in preset.plans] == [2, 3]


def test_plans_say_what_they_kept(engine: Engine) -> None:
    first, second = answer_of(engine, lazy()).receipt.plans
    assert (first.layer, first.num_kept, first.num_dropped, first.released_bytes) == (1, 26, 18, 0)
    assert (second.layer, second.num_kept, second.num_dropped, second.released_bytes) == (3, 15, 11, 0)
    assert first.reason == "best of 44 active tokens: 26 go on, asked for 26"
    assert second.reason == "best of 26 active tokens: 15 go on, asked for 15"


def test_budgets_beyond_the_prompt_are_refused_before_anything_runs(engine: Engine) -> None:
    with pytest.raises(ValueError, match="what stays after 1 is 45; it must be at most 44, the prompt's tokens"):
        answer_of(engine, lazy({1: 45}))
    with pytest.raises(ValueError, match="a layer of the schedule is 4; it must be a whole number from 1 to 3"):
        answer_of(engine, lazy({4: 9}))
    assert answer_of(engine, lazy({1: 44})).receipt.bypass == ("the budget covers every token that may be left out",)


def test_a_prefill_that_is_kept_to_says_so_only_where_it_chose(engine: Engine) -> None:
    kept_to = {"selection": "prefill", "revive": False}
    assert answer_of(engine, lazy(**kept_to, shortest=99)).receipt.revival is None
    once = answer_of(engine, lazy(**kept_to), max_tokens=1).receipt.revival
    assert (once.aux, once.revived_per_step, once.active_per_step) == ("off", (), ())
    same = answer_of(engine, lazy({3: 15}, **kept_to)).receipt
    anew = answer_of(engine, lazy({3: 15}, revive=False)).receipt
    assert same.revival.active_per_step == ((15,),) * 4
    assert all(step[0] <= 15 for step in anew.revival.active_per_step)  # its own choice, of what is there
