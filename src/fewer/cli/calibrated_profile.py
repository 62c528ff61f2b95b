"""What `fewer calibrate` says about a profile of LazyLLM."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from fewer.cli.columns import start_table
from fewer.prune.profile import Profile

__all__ = ["describe_profile"]

_FEW_PROMPTS = 24  # fewer than that, and the half that recall is taken on has less than a dozen
_LOW_RECALL = 0.6


def describe_profile(profile: Profile) -> Iterator[RenderableType]:
    """Two tables, each with a line that says what its numbers are; then what speaks against relying on them."""
    fitted, checked = profile.fitted_on, profile.fitted_on.get("checked")
    yield _gates_table(profile)
    yield Text(
        f"Window: {profile.before} tokens before, {profile.after} behind. Recall of the answers' tokens, on the "
        f"half of the {fitted['num_prompts']} prompts by which nothing was chosen but whether a head is added.\n"
    )
    yield _presets_table(profile)
    if checked:
        yield Text(
            f"Checked on {sum(checked['tasks'].values())} items of {', '.join(checked['tasks'])}: enough to find what "
            "is broken, too few to claim anything. Left out: of the prefill's work, in tokens x layers."
        )
    yield from (Text(f"Warning: {each}") for each in _list_warnings(profile))


def _list_warnings(profile: Profile) -> Iterator[str]:
    """By two thresholds set by hand, and where a later gate is no better than the first."""
    fitted = profile.fitted_on
    if (prompts := fitted["num_prompts"]) < _FEW_PROMPTS:
        yield f"{prompts} prompts are few; recall is of {prompts // 2}. Take --num-prompts {_FEW_PROMPTS} or more."
    first = fitted["gates"][0]
    for gate in fitted["gates"]:
        where = f"after layer {gate['layer']} recall is {gate['recall']:.2f}"
        if gate["recall"] < _LOW_RECALL:
            yield f"{where}, below {_LOW_RECALL:g}: much of what answers need is ranked low. Keep more there."
        if gate["recall"] < first["recall"]:
            yield f"{where}, less than after layer {first['layer']}: a schedule with that stop alone may do better."
    if "checked" not in fitted:
        yield "no answer was generated with these presets (--check 0), so nothing is known of what they cost."


def _gates_table(profile: Profile) -> Table:
    """Where tokens may leave, and how well that is chosen."""
    fitted = profile.fitted_on
    table = start_table(("after layer", "heads (layer.head)"), ("recall", "paper's", "random"))
    for gate in fitted["gates"]:
        heads = " ".join(f"{layer}.{head}" for layer, head in gate["heads"])
        numbers = gate["recall"], gate["recall_paper"], fitted["recall_random"]
        table.add_row(*map(Text, (str(gate["layer"]), heads, *(f"{number:.2f}" for number in numbers))))
    return table


def _presets_table(profile: Profile) -> Table:
    """The schedules, and what generation said about them."""
    checked = profile.fitted_on.get("checked")
    arms: dict[str, dict[str, Any]] = checked["arms"] if checked else {name: {} for name in profile.presets}
    table = start_table(("preset", "schedule"), ("score", "of full", "95% interval", "left out") if checked else ())
    for name, arm in arms.items():
        cells = [name, profile.presets.get(name, "")]
        if checked:
            ratio, ends = arm.get("ratio"), arm.get("interval")
            cells += [f"{arm['score']:.2f}", "-" if ratio is None else f"{ratio:.2f}"]
            cells += ["-" if ends is None else f"{ends[0]:.2f} to {ends[1]:.2f}", f"{arm['left_out']:.0%}"]
        table.add_row(*map(Text, cells))
    return table
