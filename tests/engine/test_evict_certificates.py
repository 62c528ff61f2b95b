"""The certificates that a running sequence collects: the two forms against sums from the attention that was seen."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import pytest
import torch
from tinytext import NUM_LAYERS, make_engine, random_ids, request

from fewer import BadInput, Engine, Policy, Prompt, Request
from fewer.certify import Certifier, StepCertificate
from fewer.engine import keeper
from fewer.engine.batch import Batch
from fewer.engine.eviction_record import write_certificate
from fewer.engine.sequence import Sequence
from fewer.evict import make_policy

SIZE, MAX_TOKENS = 60, 9


@pytest.fixture(scope="module")
def engine(device: torch.device) -> Engine:
    return make_engine(device)


def policy(name: str = "pivotal:question", budget: int | str = 20, **settings: object) -> Policy:
    made = make_policy(name, budget, sinks=2, recent=4)
    assert made is not None
    return replace(made, **settings)


def run(engine: Engine, evict: Policy, which: int = 1) -> Sequence:
    made: Request = request(random_ids(which, SIZE), ignore_eos=True, max_tokens=MAX_TOKENS)
    protected = made.prompt.protected.clone()
    protected[SIZE - 8 :] = True
    chunks = (replace(made.prompt.chunks[0], start=2, stop=SIZE - 8),)
    wanted = replace(made, prompt=Prompt(made.prompt.ids, protected, chunks, (SIZE - 8, SIZE)), evict=evict)
    batch = Batch(engine.adapter, engine.tokenizer, engine.end_tokens)
    sequence = batch.add(wanted)
    while not batch.idle:
        batch.step()
    if sequence.error is not None:
        raise sequence.error
    return sequence


class Recorder(Certifier):
    """A certifier that remembers what it was made of, and the attention that it was shown."""

    made: list[Recorder]

    def __init__(self, known, values, delta, **settings) -> None:
        super().__init__(known, values, delta, **settings)
        self.known, self.settings, self.shown = known, settings, []
        self.made.append(self)

    def see(self, index, weights, out, values) -> None:
        super().see(index, weights, out, values)
        parts = (weights, out, values)
        self.shown.append((index, *(part.detach().clone().double().cpu() for part in parts)))


@pytest.fixture
def recorders(monkeypatch: pytest.MonkeyPatch) -> list[Recorder]:
    Recorder.made = []
    monkeypatch.setattr(keeper, "Certifier", Recorder)
    return Recorder.made


def certify_slowly(recorder: Recorder, place: int) -> torch.Tensor:
    """The radii of one layer in one step, [heads] float64, from the definition."""
    index, weights, out, values = recorder.shown[place]
    pi = recorder.known[index].pi.double().cpu()
    pi = torch.nn.functional.pad(pi, (0, values.shape[1] - pi.shape[1]), value=1.0)
    form, group = recorder.settings["form"], weights.shape[0] // values.shape[0]
    found = []
    for head in range(weights.shape[0]):
        w, v, y, p = weights[head, 0], values[head // group], out[0, head], pi[head // group]
        distance = (v - y).norm(dim=1)
        if form == "audited":  # in float64, since 1 - w of a float32 w near 1 has few digits: from what the others have
            w = w / w.sum()
            distance = (v - w @ v).norm(dim=1) / (1 - w).clamp(min=1e-3)
        terms = (1 - p) * (w * distance) ** 2
        vhat, largest, level = float(terms.sum()), math.sqrt(float(terms.max())), math.log(10)
        count = int((p < 1).sum())
        if form == "paper":
            size = math.sqrt(2 * vhat * count / (count - 1) * level) + largest * level
        else:
            size = 1.5 * math.sqrt(2 * vhat * level) + 0.5 * largest * level
            kappa = recorder.settings["kappa"]
            size *= 1.0 if kappa[index] is None else float(kappa[index][head])
        found.append(size / (float(y.norm()) + 1e-9))
    return torch.tensor(found, dtype=torch.float64)


@pytest.mark.parametrize("form", ["paper", "audited"])
def test_every_step_layer_and_head_is_as_the_formula_says(engine: Engine, recorders, form, fp32) -> None:
    sequence = run(engine, policy(radius=form))
    (recorder,) = recorders
    steps: list[StepCertificate] = sequence.keeper.certificates
    assert len(steps) == MAX_TOKENS - 1
    assert len(recorder.shown) == NUM_LAYERS * len(steps)
    for place, (index, *_) in enumerate(recorder.shown):
        expected = certify_slowly(recorder, place)
        found = steps[place // NUM_LAYERS].radius[index, :, 0].cpu()
        assert ((found - expected) / expected.clamp(min=1)).abs().max() < fp32
    assert all((step.form, step.audited) == (form, form == "audited") for step in steps)


def test_the_forms_differ_by_what_they_say_and_by_nothing_that_runs(engine: Engine) -> None:
    audited, paper = run(engine, policy()), run(engine, policy(radius="paper"))
    assert audited.ids == paper.ids
    said = [write_certificate(each, MAX_TOKENS - 1).assumptions for each in (audited, paper)]
    assert said[0][:-2] == said[1][:-1]
    assert said[0][-1].startswith("audited: ")
    assert "published equation (4)" in said[1][-1]


@pytest.mark.parametrize("name", ["pivotal:keynorm", "poisson:uniform"])
def test_without_observed_queries_there_is_no_audit(engine: Engine, recorders, name) -> None:
    sequence = run(engine, policy(name))
    assert recorders[0].settings["kappa"] == [None] * NUM_LAYERS
    assert not any(step.audited for step in sequence.keeper.certificates)
    assert write_certificate(sequence, MAX_TOKENS - 1).assumptions[-1].startswith("not audited: ")


def test_every_compression_has_its_own_audit(engine: Engine, recorders, monkeypatch) -> None:
    factors: list[torch.Tensor] = []
    real = keeper.audit

    def watch(view, sample, delta):
        factors.append(real(view, sample, delta))
        assert delta == 0.1
        assert bool((view.q_pos < view.next_pos).all())
        return factors[-1]

    monkeypatch.setattr(keeper, "audit", watch)
    sequence = run(engine, policy("pivotal:snapkv", every=4))
    assert len(recorders) == len(sequence.keeper.evictions) == 3
    assert len(factors) == 3 * NUM_LAYERS
    for turn, recorder in enumerate(recorders):
        expected = factors[turn * NUM_LAYERS : (turn + 1) * NUM_LAYERS]
        assert all(a is b for a, b in zip(recorder.settings["kappa"], expected, strict=True))
        assert all(one.variance == "fixed_size" for one in recorder.known)
    assert all(bool((kappa >= 1).all()) for kappa in factors)
    first, last = (min(float(one.pi.min()) for one in recorders[turn].known) for turn in (0, -1))
    assert last < first  # the product of three draws


def test_a_larger_factor_is_a_larger_radius(engine: Engine, monkeypatch) -> None:
    monkeypatch.setattr(keeper, "audit", lambda view, sample, delta: torch.ones(view.q.shape[0]))
    plain = run(engine, policy()).keeper.certificates
    monkeypatch.setattr(keeper, "audit", lambda view, sample, delta: torch.full((view.q.shape[0],), float(view.layer)))
    scaled = run(engine, policy()).keeper.certificates
    by_layer = torch.arange(1.0, NUM_LAYERS + 1)[:, None, None]
    for one, other in zip(plain, scaled, strict=True):
        assert torch.equal(other.radius.cpu(), one.radius.cpu() * by_layer)
        assert torch.equal(other.vhat, one.vhat)


@pytest.mark.parametrize(
    "settings", [{"radius": "paper"}, {"certify": False}, {"estimator": "plug-in"}], ids=["paper", "off", "plug-in"]
)
def test_where_no_certificate_asks_for_it_nothing_is_audited(engine: Engine, monkeypatch, settings) -> None:
    def never(view, sample, delta):
        raise AssertionError("audited")

    monkeypatch.setattr(keeper, "audit", never)
    assert run(engine, policy(**settings)).keeper.evictions


def test_the_audit_is_part_of_the_time_that_compressing_takes(engine: Engine, monkeypatch) -> None:
    def slow(view, sample, delta):
        time.sleep(0.02)

    monkeypatch.setattr(keeper, "audit", slow)
    sequence = run(engine, policy())
    assert sequence.keeper.evictions[0].seconds >= 0.02 * NUM_LAYERS
    assert sequence.keeper.seconds >= sequence.keeper.evictions[0].seconds


def test_the_policy_names_its_form() -> None:
    assert policy().describe()["radius"] == "audited"
    assert policy(radius="paper").describe()["radius"] == "paper"
    assert "radius" not in policy("snapkv").describe()
    assert "radius" not in policy(certify=False).describe()
    with pytest.raises(BadInput, match="radius is 'published'; it must be 'audited' or 'paper'"):
        policy(radius="published")
