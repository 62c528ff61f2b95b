"""What can be generated, with its settings, and making one item of exactly the length asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from os import PathLike
from typing import Any

from fewer.errors import bad
from fewer.study.item import Item, lay_out_item
from fewer.study.tasks.generate.draw import Draw, Plan
from fewer.study.tasks.generate.fit import NoFit, TooShort

__all__ = ["Generator", "Setting", "make_item"]

NO_LIMIT = 2**31
TRIES = 6


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting: what it is, its default, and its legal values.

    Legal are whole numbers from `low` to `high` (with `real` other numbers too), or one of `choices`, or a path where
    neither is given; None as well where that is the default.
    """

    what: str
    default: Any
    low: float = 0
    high: float = 0
    choices: tuple[Any, ...] = ()
    real: bool = False

    @property
    def legal(self) -> str:
        """The legal values in words."""
        kind = " or ".join(map(repr, self.choices)) if self.choices else "a path"
        kind = f"a {'' if self.real else 'whole '}number of {self.low:g} to {self.high:g}" if self.high else kind
        return kind + (" or None" if self.default is None else "")

    def check(self, name: str, value: Any) -> None:
        """Raise BadInput unless the value is legal."""
        if value is None and self.default is None:
            return
        if self.high:
            right = isinstance(value, (int, float) if self.real else int) and not isinstance(value, bool)
            right = right and self.low <= value <= self.high
        elif self.choices:
            right = any(value is choice or (isinstance(value, str) and value == choice) for choice in self.choices)
        else:
            right = isinstance(value, str | PathLike)
        if not right:
            raise bad(name, value, self.legal, f"Leave it out for {self.default!r}.")


@dataclass(frozen=True, slots=True)
class Generator:
    """A task that can be generated.

    `source`: the benchmark or paper it follows, and where it departs from it. `haystack`: the shipped one it uses
    unless another is given, empty where it takes none. `takes_depth`: it has one needle whose depth can be chosen.
    `shortest`: about the shortest prompt in tokens with the default settings under the embedded model's tokenizer;
    others need more or less, and the error of a shorter one names the exact number.
    """

    what: str
    source: str
    category: str
    metric: str
    plan: Callable[[Draw], Plan]
    shortest: int
    haystack: str = ""
    takes_depth: bool = False
    settings: Mapping[str, Setting] = field(default_factory=dict)


def make_item(generator: Generator, draw: Draw) -> Item:
    """The item, laid out to exactly `draw.length` tokens. Raises BadInput where there is no such item."""
    plan = generator.plan(draw)
    templated = draw.settings["chat"] and draw.tokenizer.chat_template is not None
    prefix = plan.prefix if templated or not plan.prefix else " " + plan.prefix
    item = Item(
        id=_name_item(draw),
        task=draw.task,
        category=generator.category,
        cluster=f"{draw.task}/s{draw.seed}/{plan.cluster}",
        chunks=(),
        question=plan.question,
        answers=plan.answers or ("?",),
        metric=plan.metric or generator.metric,
        wording=plan.wording,
        answer_prefix=prefix,
        chat=draw.settings["chat"],
        max_tokens=plan.max_tokens,
        source=plan.source or generator.source,
        licence=plan.licence,
    )
    frame = _measure(draw, item)
    budget = draw.length - frame
    hint = NoFit()
    meta = {"length": draw.length, "seed": draw.seed, "index": draw.index, **plan.meta}
    for _ in range(TRIES):
        try:
            filled = plan.fill(budget)
        except TooShort as error:
            legal = f"at least {frame + error.needed} tokens for this item of {draw.task}"
            raise bad("length", draw.length, legal, "Ask for a longer prompt, or change the task's settings.") from None
        except NoFit as error:
            hint = error
            break
        made = replace(
            item,
            chunks=filled.chunks,
            supporting=filled.supporting,
            answers=filled.answers or item.answers,
            meta={**meta, **filled.meta},
        )
        missing = draw.length - _measure(draw, made)
        if not missing:
            return made
        budget += missing
    legal = f"a length that the filler of {draw.task} can have exactly under this tokenizer"
    if hint.fewer and hint.more:
        legal += f", probably {draw.length - hint.fewer} or {draw.length + hint.more}"
    raise bad("length", draw.length, legal, "Ask for another length; long prompts can have any.")


def _measure(draw: Draw, item: Item) -> int:
    return len(lay_out_item(draw.tokenizer, item, NO_LIMIT))


def _name_item(draw: Draw) -> str:
    """The task, the length, the depth if chosen, the seed, a mark of the settings and the haystack, and the number."""
    depth = "" if draw.depth is None else f"/d{draw.depth:g}"
    chosen = repr(sorted((name, str(value)) for name, value in draw.settings.items()))
    text = draw.haystack.text if draw.haystack else ""
    mark = sha256(f"{chosen}|{text}".encode()).hexdigest()[:6]
    return f"{draw.task}/{draw.length}{depth}/s{draw.seed}/{mark}/{draw.index:05d}"
