"""What a pruned prefill really lost: the full model beside it. Measured diagnostics of one prompt, never guarantees.

Of each layer above a removal: how much attention the full model's retained rows pay to what is gone there (23), and by
how much its query rows exceed the measure that chose (26)(27). Of the two answers: margins, the logit shift, whether
they agree. No rows x keys map is held; rows are reduced in blocks as they are seen.

Not covered: later steps (a planner that brings tokens back is measured in its prefill), rows that were left out, other
prompts. Attention is as the model's type rounds it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from fewer.engine.batch import Batch
from fewer.engine.diagnosis import GAMMAS, Diagnosis, Loss, Ran
from fewer.engine.request import Request
from fewer.engine.sequence import Sequence
from fewer.errors import NonFiniteError, bad
from fewer.model.forward import forward
from fewer.model.segment import Segment
from fewer.model.shared import Prefilled
from fewer.prune.entroprefill import EntroPrefill
from fewer.prune.entroprefill.chunks import Candidates
from fewer.prune.entroprefill.watch import Watch
from fewer.types import Look, Looked, Observation, Prompt, Sampling

__all__ = ["diagnose"]


def diagnose(batch: Batch, request: Request, max_tokens: int) -> Diagnosis:
    """Run the request's prompt with its planner and in full, greedily; whatever else its sampling says is not used.

    Two prefills, the full one slower for all the rows it reads, and two answers of at most `max_tokens`. Raises
    BadInput without a planner, PromptTooLong, NonFiniteError.
    """
    if request.prune is None:
        raise bad("prune", None, "a planner", "Without one there is nothing to compare with the full model.")
    if request.evict is not None:
        raise bad("evict", request.evict.name, "left out: only what pruning leaves out is looked into", "Pass None.")
    old = request.sampling
    sampling = Sampling(max_tokens=max_tokens, stop=old.stop, seed=old.seed, ignore_eos=old.ignore_eos)
    request = replace(request, sampling=sampling)
    pruned, full = batch.make(request), batch.make(replace(request, prune=None))
    planner, prompt = pruned.request.prune, request.prompt
    assert planner is not None
    watch = Watch(planner, acts=True) if isinstance(planner, EntroPrefill) else None
    segment = Segment(pruned.state, prompt.ids, watch or planner, prompt, sampling.seed)
    pruned_logits = _prefill(batch, segment)
    accepted = [verdict for verdict in watch.verdicts if verdict.outcome == "accepted"] if watch else []
    mu = accepted[0].proposal.pooled.mu if accepted else None
    beside = _Beside(prompt, _active_above(segment, batch.adapter.num_layers), mu)
    reference = Segment(full.state, prompt.ids, beside, prompt, sampling.seed)
    full_logits = _prefill(batch, reference)
    last = next(reversed(beside.active.values()), torch.arange(len(prompt)))
    gone = torch.ones(len(prompt), dtype=torch.bool)
    gone[last] = False
    chunks = tuple(i for i, each in enumerate(prompt.chunks) if bool(gone[each.start : each.stop].all()))
    return Diagnosis(
        planner=planner.name,
        num_tokens=len(prompt),
        num_removed=int(gone.sum()),
        removed_chunks=chunks,
        outcomes=tuple((each.layer, each.outcome) for each in segment.decisions),
        probe_mass=accepted[0].numbers["removed_mass"] if accepted else None,
        layers=beside.losses(),
        full=_answer(batch, full, reference, full_logits),
        pruned=_answer(batch, pruned, segment, pruned_logits),
        logit_shift=float((full_logits - pruned_logits).abs().max()),
    )


@dataclass(eq=False)
class _Beside:
    """A planner of the full run: it leaves nothing out, and looks at what the pruned run's rows would have seen there.

    active: of each layer above a removal, the positions that were retained in it. mu: what chose, [T], if anything did.
    """

    prompt: Prompt
    active: dict[int, Tensor]
    mu: Tensor | None
    seen: Mapping[Look, Looked] = field(default_factory=dict)
    asked: dict[int, tuple[Look, Look | None]] = field(default_factory=dict)

    name: ClassVar[str] = "reference"
    needs: ClassVar[Literal["looks"]] = "looks"

    def layers(self, num_layers: int) -> tuple[int, ...]:
        return (num_layers,)

    def check(self, prompt: Prompt) -> None:
        pass

    def looks(self, prompt: Prompt, num_layers: int) -> tuple[Look, ...]:
        for layer, active in self.active.items():
            gone = torch.ones(len(prompt), dtype=torch.bool)
            gone[active] = False
            every = Look(layer, None, tuple(active.tolist()), _mass_on(gone))
            query = None if self.mu is None else Look(layer, None, self.query, _excess(self.mu, prompt))
            self.asked[layer] = every, query
        return tuple(look for pair in self.asked.values() for look in pair if look is not None)

    def after(self, observation: Observation) -> None:
        self.seen = dict(observation.looked)

    def describe(self) -> dict[str, str | int | float | None]:
        return {}

    @property
    def query(self) -> tuple[int, ...]:
        """The query's positions, all of them protected."""
        begin, end = self.prompt.query
        return tuple(range(begin, end)) or (len(self.prompt) - 1,)

    def losses(self) -> tuple[Loss, ...]:
        """What was seen, by layer."""
        return tuple(self._lose(layer, active.tolist()) for layer, active in self.active.items())

    def _lose(self, layer: int, active: list[int]) -> Loss:
        every, query = self.asked[layer]
        mass = self.seen[every].rows[..., 0].cpu().numpy()  # [heads, rows]
        asking = mass[:, np.isin(active, list(self.query))]
        most = mass.argmax(axis=1)
        gamma, excess = None, None
        if query is not None:
            worst = self.seen[query].rows.amax(dim=1).cpu().numpy()  # [heads, 1 + gammas]
            gamma, excess = worst[:, 0], {each: worst[:, 1 + i] for i, each in enumerate(GAMMAS)}
        return Loss(
            layer=layer,
            num_rows=len(active),
            num_removed=len(self.prompt) - len(active),
            eta=mass.max(axis=1),
            eta_position=np.array(active)[most],
            mean=mass.mean(axis=1),
            last=mass[:, -1],
            query_max=asking.max(axis=1),
            query_mean=asking.mean(axis=1),
            gamma=gamma,
            excess=excess,
        )


def _mass_on(gone: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    """Of rows [heads, m, T], what falls on the positions that are gone: [heads, m, 1] float64."""

    def reduce(rows: Tensor, pos: Tensor) -> Tensor:
        return (rows * gone.to(rows.device)).sum(-1, keepdim=True, dtype=torch.float64)

    return reduce


def _excess(mu: Tensor, prompt: Prompt) -> Callable[[Tensor, Tensor], Tensor]:
    """Of rows over the candidate chunks' tokens: the largest ratio to mu, and the excess over each Gamma mu."""
    candidates = Candidates.of(prompt)
    spans = zip(candidates.starts.tolist(), candidates.stops.tolist(), strict=True)
    places = torch.cat([torch.arange(start, stop) for start, stop in spans]).to(mu.device)
    measure = mu[places]

    def reduce(rows: Tensor, pos: Tensor) -> Tensor:
        mass = rows.index_select(-1, places).to(torch.float64)
        ratio = torch.where(mass > 0, mass / measure, 0.0).amax(-1)
        return torch.stack([ratio, *((mass - gamma * measure).clamp(min=0).sum(-1) for gamma in GAMMAS)], dim=-1)

    return reduce


def _active_above(segment: Segment, num_layers: int) -> dict[int, Tensor]:
    """Of each layer above the first plan that left something out, the positions that went through it; on the CPU."""
    assert segment.prompt is not None
    found, active = {}, None
    plans = {plan.layer: plan.keep.cpu() for plan in segment.plans}
    for layer in range(1, num_layers + 1):
        active = plans.get(layer - 1, active)
        if active is not None and len(active) < len(segment.prompt):
            found[layer] = active
    return found


def _prefill(batch: Batch, segment: Segment) -> Tensor:
    """The first token's logits, [1, vocab]."""
    logits = forward(batch.adapter, [segment])[0]
    if not bool(torch.isfinite(logits).all()):
        raise NonFiniteError("The model's logits are not finite, so there is nothing to compare. Check the weights.")
    return logits


def _answer(batch: Batch, sequence: Sequence, segment: Segment, logits: Tensor) -> Ran:
    """Go on alone from a prefill, greedily."""
    batch.enter(sequence, Prefilled(segment, logits, None, 0.0, False))
    while not batch.idle:
        batch.step()
    if sequence.error is not None:
        raise sequence.error
    sequence.state.clear()
    margins = sequence.sampler.margins
    return Ran(sequence.text.text, tuple(sequence.ids), sequence.finish_reason, margins[0], min(margins))
