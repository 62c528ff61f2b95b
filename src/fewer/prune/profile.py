"""Model profiles: which heads of a model point at the tokens that an answer needs, found on calibration data.

A profile is a small JSON file. It names its model by a fingerprint and is refused for any other, says what it was
fitted on, and has a score for every depth from which tokens may be left out, and schedules that were chosen with it.

A score looks at the rows behind the last unprotected token (the question and what frames it). Of each head it takes the
largest attention that any of these rows pays to a token, as a share of the head's sum over the unprotected tokens;
shares are added up with the head's weight, and then averaged over a window, since what a head points at is often next
to what is wanted. Not covered: prompts whose question comes first, and heads whose part depends on the position.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import torch.nn.functional as F
from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import Tensor

from fewer.errors import BadInput, bad
from fewer.prune.schedule import as_preset, find_layer, parse_schedule
from fewer.prune.shipped import check_model, find_shipped, read_model_file
from fewer.types import Look, Looked, ModelFacts, Prompt

__all__ = ["Profile", "Score", "load_profile", "shipped_profile"]

_STRICT = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
_WAY_OUT = "Make one with fewer calibrate."


class Head(BaseModel):
    """One query head and how much it counts."""

    model_config = _STRICT

    layer: Annotated[int, Field(ge=1)]
    head: Annotated[int, Field(ge=0)]
    weight: Annotated[float, Field(gt=0)] = 1.0


class Score(BaseModel):
    """The heads to look at for stops after `layer` or deeper; none of them is above it."""

    model_config = _STRICT

    layer: Annotated[int, Field(ge=1)]
    heads: Annotated[tuple[Head, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _check(self) -> Score:
        deepest = max(head.layer for head in self.heads)
        if deepest > self.layer:
            raise bad("the layer of a head", deepest, f"at most {self.layer}, the score's own", "Look at it deeper.")
        return self

    def looks(self, rows: tuple[int, ...] | None) -> tuple[Look, ...]:
        """What has to be seen for it, one look a layer."""
        by_layer: dict[int, list[int]] = {}
        for head in self.heads:
            by_layer.setdefault(head.layer, []).append(head.head)
        return tuple(Look(layer, tuple(heads), rows) for layer, heads in by_layer.items())

    def weights(self, layer: int) -> Tensor:
        """Of the heads of one layer, in order: [heads]."""
        return torch.tensor([head.weight for head in self.heads if head.layer == layer])


class Profile(BaseModel):
    """All that calibration found out about one model."""

    model_config = _STRICT

    format: Literal["fewer-profile"]
    version: Literal[1]
    model: str
    fingerprint: str
    num_layers: Annotated[int, Field(ge=1)]
    num_heads: Annotated[int, Field(ge=1)]
    before: Annotated[int, Field(ge=0, le=1024)]  # a token's score flows to so many tokens before it
    after: Annotated[int, Field(ge=0, le=1024)]  # and to so many behind it
    scores: Annotated[tuple[Score, ...], Field(min_length=1)]  # by depth
    presets: dict[str, str]  # schedules by name
    fitted_on: dict[str, Any]  # tasks, seeds, prompts, and what was reached on them

    @model_validator(mode="after")
    def _check(self) -> Profile:
        layers = [score.layer for score in self.scores]
        if layers != sorted(set(layers)) or layers[-1] > self.num_layers:
            legal = f"ascending, each once, and at most {self.num_layers}"
            raise bad("the layers of the scores", layers, legal, _WAY_OUT)
        heads = [head.head for score in self.scores for head in score.heads]
        if max(heads) >= self.num_heads:
            raise bad("a head of the profile", max(heads), f"at most {self.num_heads - 1}", _WAY_OUT)
        for name, text in self.presets.items():
            self._check_preset(name, text)
        return self

    def _check_preset(self, name: str, text: str) -> None:
        """A preset is a schedule of its own, after layers of this model that have a score and one layer each."""
        what = f"the preset {name}"
        if as_preset(text):
            raise bad(what, text, "a schedule and not the name of one", "Write its stops, such as 8:35%.")
        try:
            layers = [find_layer(place, self.num_layers) for place, _ in parse_schedule(text)]
            self.score_at(layers[0])
        except BadInput as error:
            raise BadInput(f"{what}: {error}") from None
        if len(set(layers)) < len(layers):
            raise bad(what, text, f"a schedule with each of the {self.num_layers} layers once", "Drop a stop.")

    def __hash__(self) -> int:
        return hash(self.title)

    def preset(self, name: str) -> str:
        """The schedule of this name. Raises BadInput."""
        if name not in self.presets:
            legal = f"one of {', '.join(self.presets)}, the presets of the profile of {self.model}"
            if not self.presets:
                legal = f"a schedule of stops, since the profile of {self.model} has no presets"
            raise bad("schedule", name, legal, f"Write for example {self.scores[0].layer}:50%.")
        return self.presets[name]

    def score_at(self, layer: int, place: int | float | None = None) -> Score:
        """The score for a stop after this layer: the deepest there is by then. Raises BadInput before the first.

        place: how the layer was written, if it was a fraction of the depth, for the message.
        """
        found = [score for score in self.scores if score.layer <= layer]
        if not found:
            legal = f"at least {self.scores[0].layer}, where the profile of {self.model} has its first score"
            if isinstance(place, float):
                legal = f"a place at layer {self.scores[0].layer} or deeper, where the profile of {self.model} has its "
                legal += f"first score; of {self.num_layers} layers it is layer {layer}"
            shown = layer if place is None else place
            raise bad("a layer of the schedule", shown, legal, "Leave tokens out deeper, or take profile none.")
        return found[-1]

    def rank(self, score: Score, looked: Mapping[Look, Looked], pos: Tensor, prompt: Prompt) -> Tensor:
        """The prefill's score of the active tokens `pos`: [n] float32. Each head's shares sum to its weight."""
        return self._sum(score, looked, prompt, as_shares=True).index_select(0, pos)

    def add_up(self, score: Score, looked: Mapping[Look, Looked], pos: Tensor, prompt: Prompt) -> Tensor:
        """The same of a later step's newest row, as attention and not as shares, so that a head that looks away
        from the prompt says little: [n] float32."""
        return self._sum(score, looked, prompt, as_shares=False).index_select(0, pos)

    def _sum(self, score: Score, looked: Mapping[Look, Looked], prompt: Prompt, as_shares: bool) -> Tensor:
        """[T]: the heads' largest attention over the rows, added up and spread."""
        total: Tensor | None = None
        for look, seen in looked.items():
            if look not in score.looks(look.rows):
                continue
            if total is None:
                total = seen.rows.new_zeros(len(prompt))
                free = (~prompt.protected).to(seen.pos.device)
            rows = seen.rows
            most = (rows[:, 0] if rows.shape[1] == 1 else rows.amax(1)) * free.index_select(0, seen.pos)  # [heads, n]
            if as_shares:
                most = most / most.sum(-1, keepdim=True).clamp_min(1e-9)
            total.index_add_(0, seen.pos, score.weights(look.layer).to(most) @ most)
        assert total is not None
        return self.spread(total)

    @property
    def title(self) -> str:
        """What to call it on a receipt: the model, and a digest of the profile itself."""
        digest = hashlib.sha256(self.model_dump_json().encode()).hexdigest()
        return f"{self.model} ({digest[:8]})"

    def check_model(self, facts: ModelFacts) -> None:
        """Raise BadInput for another model than its own."""
        way_out = "Calibrate that one with fewer calibrate, or take profile none."
        check_model(self.model, self.fingerprint, self.num_layers, self.num_heads, facts, way_out)

    def spread(self, score: Tensor) -> Tensor:
        """The mean over the window of positions from `after` before a token to `before` behind it: [T]."""
        padded = F.pad(score[None, None], (self.after, self.before))
        return F.avg_pool1d(padded, self.after + self.before + 1, stride=1)[0, 0]


def load_profile(path: str | Path) -> Profile:
    """A profile from its file. Raises BadInput where it cannot be read, or is none."""
    return read_model_file(Profile, path, "profile", _WAY_OUT)


def shipped_profile(fingerprint: str) -> Profile | None:
    """The profile that comes with the package for this model, if there is one."""
    return find_shipped(Profile, "lazyllm", fingerprint, _WAY_OUT)
