"""A policy: everything about how a sequence's keys and values are evicted, and when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from fewer.errors import bad
from fewer.evict.budget import Budget
from fewer.evict.size import CORE, Size
from fewer.types import Design, KnownDesign, RowScore
from fewer.types.number import check_number

__all__ = ["Estimator", "Policy"]

Estimator = Literal["hajek", "plug-in"]
Moment = Literal["prompt", "context"]
Form = Literal["audited", "paper"]

_LEVEL = 0.1  # the published one


@dataclass(frozen=True)
class Policy:
    """score x design x budget, with what is never evicted and when the cache is compressed.

    sinks, recent: the first and the newest tokens, which always stay; the budget counts them. estimator: "hajek" adds
    -log(pi) to the logits of the rows that stay, "plug-in" nothing; None is Hájek for designs with known probabilities,
    which are the only ones that can have it.

    core: of the rows that may be chosen, the share that the highest scores are certain to get; the rest is left to
    chance. size: what chance is in proportion to, "spread" (attention and the spread of values, `fewer.evict.size`) or
    the "score" itself. Both belong to designs with known probabilities.

    moment: when the cache is compressed. "prompt": when the whole prompt has been read, the question with it.
    "context": when the documents have been read, before the question exists. every: while decoding, compress again
    whenever so many rows have been added since the last time; None is never. block: read the prompt so many tokens at a
    time and compress after each, so that no layer ever holds more than budget + block rows; None reads it at once.

    certify: whether to compute the certificate, which exists where the design's probabilities are known and the
    estimator is Hájek's; None is yes where it does. delta: its level, 0.1 unless given. radius: its form, "audited"
    unless given, or "paper", the published one. Where there is none, all three are refused.
    """

    score: RowScore
    design: Design
    budget: Budget
    sinks: int = 4
    recent: int = 32
    estimator: Estimator | None = None
    core: float | None = None
    size: Size | None = None
    moment: Moment = "prompt"
    every: int | None = None
    block: int | None = None
    delta: float | None = None
    certify: bool | None = None
    radius: Form | None = None

    def __post_init__(self) -> None:
        for name, part, wanted, example in (
            ("score", self.score, "needs", "SnapKV()"),
            ("design", self.design, "draw", "TopK()"),
            ("budget", self.budget, "over", 'Budget(Keep.parse("25%"))'),
        ):
            if isinstance(part, type) or not hasattr(part, wanted):
                way_out = 'Or let fewer.evict.make_policy("pivotal:question", "25%") make the policy.'
                raise bad(name, part, f"a {name} such as {example}", way_out)
        if self.certify not in (None, True, False):
            raise bad("certify", self.certify, "true or false", "Leave it out for true.")
        check_number("sinks", self.sinks, int, 0, 2**31, "4 keeps what first tokens draw to themselves.")
        check_number("recent", self.recent, int, 1, 2**31, "32 keeps the end of the prompt.")
        if self.delta is not None:
            check_number("delta", self.delta, float, 0.0, 0.5, "0.1 is the published level.", open_low=True)
        for name, value in (("every", self.every), ("block", self.block)):
            if value is not None:
                check_number(name, value, int, 1, None, "Leave it out to compress once, after the prefill.")
        if self.moment not in ("prompt", "context"):
            raise bad("moment", self.moment, "'prompt' or 'context'", "Leave it out to compress after the prompt.")
        if self.radius not in (None, "audited", "paper"):
            raise bad("radius", self.radius, "'audited' or 'paper'", "'paper' is the published equation (4).")
        if self.estimator not in (None, "hajek", "plug-in"):
            raise bad("estimator", self.estimator, "'hajek' or 'plug-in'", "Leave it out for the design's own.")
        if self.estimator == "hajek" and not self.known:
            legal = "'plug-in' for a design without known probabilities"
            raise bad("estimator", "hajek", legal, f"{self.design.name} keeps rows for certain; sample instead.")
        if self.size not in (None, "spread", "score"):
            raise bad("size", self.size, "'spread' or 'score'", "Leave it out for spread.")
        if self.core is not None:
            check_number("core", self.core, float, 0.0, 1.0, f"{CORE:g} is the default; 0 leaves all to chance.")
        given: dict[str, object] = {"core": self.core, "size": self.size}
        for name, setting in given.items():
            if setting is not None and not self.known:
                raise bad(name, setting, f"left out for {self.design.name}", "It belongs to designs that sample.")
        given = {"certify": self.certify or None, "delta": self.delta, "radius": self.radius}
        for name, setting in given.items():
            if setting is not None and self.certified is None:
                way_out = 'A certificate needs a design that samples and the estimator "hajek".'
                raise bad(name, setting, "left out where there is no certificate", way_out)

    def check(self, num_tokens: int) -> None:
        """Raise BadInput where a prompt of this length can be seen to have too small a budget."""
        certain = min(self.sinks + self.recent, num_tokens)
        minimum = certain + (self.known and certain < num_tokens)
        self.budget.check(num_tokens, minimum)

    @property
    def known(self) -> bool:
        """Whether the design draws with known probabilities."""
        return hasattr(self.design, "variance")

    @property
    def certain_core(self) -> float:
        """The share of what may be chosen that is certain."""
        return CORE if self.core is None else self.core

    @property
    def sizes(self) -> Size:
        """What chance is in proportion to."""
        return self.size or "spread"

    @property
    def level(self) -> float:
        """The level of the certificate."""
        return _LEVEL if self.delta is None else self.delta

    @property
    def form(self) -> Form:
        """The form of its radius."""
        return self.radius or "audited"

    @property
    def weighs(self) -> Estimator:
        """The estimator in use."""
        return self.estimator or ("hajek" if self.known else "plug-in")

    @property
    def certified(self) -> KnownDesign | None:
        """The design, where its samples can have a certificate and one is wanted."""
        wanted = self.certify is not False and self.known and self.weighs == "hajek"
        return self.design if wanted else None  # type: ignore[return-value]

    @property
    def name(self) -> str:
        """As it is written on the command line: the score, or design:score."""
        return self.score.name if self.design.name == "topk" else f"{self.design.name}:{self.score.name}"

    def describe(self) -> Mapping[str, str | int | float | None]:
        """The settings, for the receipt."""
        found: dict[str, str | int | float | None] = {"name": self.name, "score": self.score.name}
        found |= {f"score.{key}": value for key, value in self.score.describe().items()}
        found |= {"design": self.design.name, "estimator": self.weighs}
        found |= {"core": self.certain_core, "size": self.sizes} if self.known else {}
        found |= {f"design.{key}": value for key, value in self.design.describe().items()}
        found |= {f"budget.{key}": value for key, value in self.budget.describe().items()}
        found |= {"sinks": self.sinks, "recent": self.recent, "moment": self.moment}
        found |= {"every": self.every, "block": self.block}
        certificate = {"delta": self.level, "radius": self.form}
        return found | (certificate if self.certified else {"certify": "off"} if self.known else {})
