"""The full model beside a pruned run, against dense attention written out in float64."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest
import torch
from tinytext import NUM_LAYERS, TOKENIZER, make_engine
from torch import Tensor

from fewer import BadInput, Engine, EntroPrefill, PromptTooLong, RandomPrune, Request, Sampling, StaticPrune
from fewer.engine.batch import Batch
from fewer.engine.diagnosis import Diagnosis
from fewer.engine.reference import _excess, diagnose
from fewer.kv import State
from fewer.model import looking
from fewer.model.adapter import Adapter
from fewer.model.forward import forward
from fewer.model.segment import Segment
from fewer.types import Chunk, Look, Observation, Planner, Prompt
from reference import bias_of, sight, widen
from tiny import TINY
from tolerances import FP64

CHUNKS = ((2, 9), (10, 15), (16, 25), (26, 30))
SIZE, QUERY = 38, (31, 37)
ENTRO = {"shortest": 0, "preset": "paper", "monitor": {2: "all"}, "tolerance": 0.95, "audit_tolerance": 0.95}
FAMILIES = ["llama-r2", "mistral", "qwen3-sliding"]


@cache
def wide(name: str) -> Adapter:
    """A tiny model that computes in float64 throughout."""
    return Adapter(widen(TINY[name].model))


def prompt_of(seed: int = 3, vocab: int = 131) -> Prompt:
    ids = torch.randint(0, vocab, (SIZE,), generator=torch.Generator().manual_seed(seed))
    protected = torch.ones(SIZE, dtype=torch.bool)
    for start, stop in CHUNKS:
        protected[start:stop] = False
    return Prompt(ids, protected, tuple(Chunk(f"c{i}", *span) for i, span in enumerate(CHUNKS)), QUERY)


def diagnosed(name: str, planner: Planner | None, prompt: Prompt) -> Diagnosis:
    """On the float64 copy of a tiny model."""
    batch = Batch(wide(name), TOKENIZER, frozenset())
    return diagnose(batch, Request(prompt, Sampling(seed=1), planner), 3)


def dense(name: str, prompt: Prompt) -> tuple[Tensor, list[Tensor]]:
    """Logits and attention maps of the whole prompt, all of it held."""
    tiny = TINY[name]
    return tiny.dense.run(prompt.ids, bias_of(sight(SIZE, tiny.windows)))


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize(
    "planner",
    [RandomPrune("60%", layer=1), StaticPrune("50%", layer=2, grain="chunk"), RandomPrune("70%", layer=0)],
    ids=["random", "static", "embedding"],
)
def test_the_loss_of_every_layer_against_the_whole_map(name, planner, block):
    prompt = prompt_of()
    found = diagnosed(name, planner, prompt)
    logits, maps = dense(name, prompt)
    gone = torch.ones(SIZE, dtype=torch.bool)
    gone[kept_by(name, planner, prompt)] = False
    rows = (~gone).nonzero().flatten()
    assert found.num_removed == int(gone.sum()) > 0
    assert [each.layer for each in found.layers] == list(range(planner.layer + 1, NUM_LAYERS + 1))
    for each in found.layers:
        lost = maps[each.layer - 1][:, rows][:, :, gone].sum(-1).numpy()  # [heads, rows]
        asking = lost[:, [row.item() in range(*QUERY) for row in rows]]
        wanted = {
            "eta": lost.max(1),
            "mean": lost.mean(1),
            "last": lost[:, -1],
            "query_max": asking.max(1),
            "query_mean": asking.mean(1),
        }
        for key, value in wanted.items():
            assert np.abs(getattr(each, key) - value).max() < FP64, key
        at = [int((rows == position).nonzero()) for position in each.eta_position]
        assert np.abs(lost[np.arange(len(lost)), at] - lost.max(1)).max() < FP64
        assert (each.num_rows, each.num_removed) == (len(rows), int(gone.sum()))
        assert each.gamma is each.excess is None
    top = logits[-1].topk(2).values
    assert abs(found.full.first_margin - float(top[0] - top[1])) < FP64
    assert found.probe_mass is None
    assert found.outcomes == ()


@pytest.fixture(params=[128, 5])
def block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows at a time: more than there are, and a number that divides nothing."""
    monkeypatch.setattr(looking, "_BLOCK", request.param)


def kept_by(name: str, planner: Planner, prompt: Prompt) -> Tensor:
    segment = Segment(State.new(NUM_LAYERS), prompt.ids, planner, prompt, 1)
    forward(wide(name), [segment])
    return segment.plans[-1].keep


def test_entroprefill_and_the_bridge_to_deeper_layers():
    prompt = prompt_of()
    planner = EntroPrefill(**ENTRO, keep="80%")
    found = diagnosed("llama-r2", planner, prompt)
    fitted = planner.fitted(wide("llama-r2").facts)
    logits, maps = dense("llama-r2", prompt)
    observers = list(range(*QUERY))
    pooled = maps[1][:, observers].mean(1)  # checked below against the weights that EntroPrefill itself gives
    engine = Engine(wide("llama-r2"), TOKENIZER, None)
    told = engine.explain(Request(prompt, Sampling(max_tokens=3), planner))
    weights = torch.tensor([head.weight for head in told.shown.heads], dtype=torch.float64)
    mu = (weights / 2) @ pooled
    removed = [chunk.chunk for chunk in told.shown.chunks if chunk.fate == "removed"]
    gone = torch.zeros(SIZE, dtype=torch.bool)
    for number in removed:
        gone[slice(*CHUNKS[number])] = True
    assert fitted.heads == {2: (0, 1, 2, 3)}
    assert found.removed_chunks == tuple(removed) != ()
    assert found.num_removed == int(gone.sum())
    assert found.outcomes == ((2, "accepted"),)
    assert abs(found.probe_mass - float(mu[gone].sum())) < FP64
    documents = torch.cat([torch.arange(*span) for span in CHUNKS])
    for each in found.layers:
        rows = maps[each.layer - 1][:, observers][:, :, documents]
        assert np.allclose(each.gamma, (rows / mu[documents]).amax((1, 2)).numpy(), rtol=1e-9, atol=0)
        for gamma, sigma in each.excess.items():
            wanted = (rows - gamma * mu[documents]).clamp(min=0).sum(-1).amax(1).numpy()
            assert np.abs(sigma - wanted).max() < FP64
            assert (each.query_max <= gamma * found.probe_mass + sigma + FP64).all()  # (27), for the query's rows
        assert (each.query_max <= each.gamma * found.probe_mass + FP64).all()
    pruned = sight(SIZE, (None,) * NUM_LAYERS, None, [(2, (~gone).nonzero().flatten().tolist())])
    shift = (TINY["llama-r2"].dense.logits(prompt.ids, pruned)[-1] - logits[-1]).abs().max()
    assert abs(found.logit_shift - float(shift)) < FP64


def test_a_measure_that_misses_a_token_has_no_factor():
    prompt = prompt_of()
    mu = torch.full((SIZE,), 1 / SIZE, dtype=torch.float64)
    mu[3] = 0.0
    rows = torch.full((1, 2, SIZE), 1 / SIZE)
    rows[0, 1, 3] = 0.0
    ratio = _excess(mu, prompt)(rows, torch.tensor([36, 37]))[..., 0]
    assert ratio[0, 0] == torch.inf
    assert float(ratio[0, 1]) == pytest.approx(1.0, rel=1e-6)


def test_a_bypass_loses_nothing():
    found = diagnosed("llama-r2", EntroPrefill(**{**ENTRO, "tolerance": 1e-6}, keep="80%"), prompt_of())
    assert found.layers == ()
    assert (found.num_removed, found.removed_chunks, found.logit_shift) == (0, (), 0.0)
    assert found.outcomes[0][1] in ("target infeasible", "target not met")
    assert found.full == found.pruned
    assert found.same_text
    assert found.same_first_token


def test_both_answers_are_those_of_generate(device):
    engine = make_engine(device)
    prompt = prompt_of(vocab=engine.adapter.vocab_size)
    prune = RandomPrune("60%", layer=2)
    sampling = Sampling(max_tokens=6, seed=4)
    found = engine.diagnose(Request(prompt, Sampling(seed=4, temperature=0.7, max_tokens=99), prune), max_tokens=6)
    for ran, planner in ((found.full, None), (found.pruned, prune)):
        answer = engine.generate([Request(prompt, sampling, planner)])[0]
        assert (ran.text, ran.ids, ran.finish_reason) == (answer.text, answer.ids, answer.finish_reason)
        assert ran.first_margin == answer.receipt.output.first_token_margin
        assert ran.smallest_margin == answer.receipt.output.min_margin <= ran.first_margin
    assert found.same_first_token == (found.full.ids[0] == found.pruned.ids[0])
    told = json.loads(json.dumps(found.to_object(), allow_nan=False))
    assert told["full"]["ids"] == list(found.full.ids)
    assert told["layers"][0]["eta"] == found.layers[0].eta.tolist()
    assert set(told) >= set(Diagnosis.__dataclass_fields__)


def test_bad_requests(device):
    engine = make_engine(device)
    prompt = prompt_of(vocab=engine.adapter.vocab_size)
    with pytest.raises(BadInput, match="prune is None; it must be a planner"):
        engine.diagnose(Request(prompt))
    with pytest.raises(PromptTooLong):
        engine.diagnose(Request(prompt, Sampling(), RandomPrune("60%")), max_tokens=100)
    with pytest.raises(BadInput, match="max_tokens is 0"):
        engine.diagnose(Request(prompt, Sampling(max_tokens=4), RandomPrune("60%")), max_tokens=0)
    with pytest.raises(BadInput, match="prune is 'random'; it must be EntroPrefill"):
        engine.explain(Request(prompt, Sampling(max_tokens=4), RandomPrune("60%")))
    with pytest.raises(BadInput, match="layer is 3; it must be a monitored one"):
        engine.explain(Request(prompt, Sampling(max_tokens=4), EntroPrefill(**ENTRO)), layer=3)


class Looker:
    """A planner that looks at rows and keeps what it saw."""

    name, needs = "looker", "looks"

    def __init__(self, *looks: Look, **attributes: object) -> None:
        self.wanted, self.seen = looks, {}
        vars(self).update(attributes)

    def layers(self, num_layers: int) -> tuple[int, ...]:
        return (num_layers,)

    def looks(self, prompt: Prompt, num_layers: int) -> tuple[Look, ...]:
        return self.wanted

    def check(self, prompt: Prompt) -> None:
        pass

    def after(self, observation: Observation) -> None:
        self.seen = dict(observation.looked)

    def describe(self) -> dict[str, str]:
        return {}


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("rows", [tuple(range(SIZE)), (0, 7, 20), (5,), None], ids=["all", "some", "one", "newest"])
def test_reduced_looks_see_the_same_rows(name, rows, block):
    prompt = prompt_of()
    calls = []

    def reduce(seen: Tensor, pos: Tensor) -> Tensor:
        calls.append(pos.tolist())
        return seen[..., :3] * (pos[:, None] + 1)

    looker = Looker(*(Look(layer, heads, rows, reduce) for layer in (2, 3) for heads in (None, (3, 1))))
    forward(wide(name), [Segment(State.new(NUM_LAYERS), prompt.ids, looker, prompt)])
    _, maps = dense(name, prompt)
    wanted = list(rows or (SIZE - 1,))
    scale = (torch.tensor(wanted) + 1)[:, None]
    for look, looked in looker.seen.items():
        heads = list(look.heads or range(4))
        whole = maps[look.layer - 1][heads][:, wanted, :3] * scale
        assert looked.rows.shape == whole.shape
        assert (looked.rows - whole).abs().max() < FP64 * SIZE
    assert [position for call in calls for position in call] == wanted * 4


@pytest.mark.parametrize("name", FAMILIES)
def test_one_row_that_is_not_the_newest_sees_nothing_behind_it(name):
    prompt = prompt_of()
    looker = Looker(Look(2, None, (5,)))
    forward(wide(name), [Segment(State.new(NUM_LAYERS), prompt.ids, looker, prompt)])
    (looked,) = looker.seen.values()
    assert (looked.rows[:, 0] - dense(name, prompt)[1][1][:, 5]).abs().max() < FP64
    assert (looked.rows[..., 6:] == 0).all()


def test_planners_that_are_asked_again_cannot_reduce():
    prompt = prompt_of()
    looker = Looker(Look(2, None, (5,), lambda rows, pos: rows), aux="keep", selection="per_step")
    with pytest.raises(BadInput, match="reduce of a look of looker"):
        forward(wide("llama-r2"), [Segment(State.new(NUM_LAYERS), prompt.ids, looker, prompt)])
