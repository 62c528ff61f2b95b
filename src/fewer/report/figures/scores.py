"""Score against what it cost: kept tokens, and speedup or, where nothing ran alone, the work that was computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from fewer.report.arms import mean_of
from fewer.report.chart.axis import fit_axis
from fewer.report.chart.mark import Figure, Key, Panel
from fewer.report.chart.palette import SHAPES, tone_of
from fewer.report.chart.xy import Level, Point, Series, plot_xy
from fewer.report.estimates import UNIT, Estimates
from fewer.report.log import Log, Mask, read_family
from fewer.report.number import write_count, write_number, write_share
from fewer.study.arms import Arm
from fewer.study.stats import Interval

__all__ = ["draw_cost", "draw_kept", "list_keys", "list_levels", "span", "tell"]

Place = Callable[[Arm, Mask], float | None]


def draw_kept(estimates: Estimates, name: str = "") -> list[Figure]:
    """Score against the share that is kept, of tokens or of the cache's rows, a panel for each category."""
    log = estimates.log

    def place(arm: Arm, among: Mask) -> float | None:
        return mean_of(log.kept(arm.name), among)

    caption = (
        "Points are arms, lines join the budgets of one way of pruning, bars are 95% intervals, moved "
        "sideways by a few pixels where they would lie over each other. The level across is "
        "the full run with its interval; dashed, the question without context."
    )
    title, axis = "Score against kept tokens", "prompt tokens kept"
    return _draw(estimates, f"{name}score-kept", title, caption, axis, place, True, "Scores of the arms")


def draw_cost(estimates: Estimates, elsewhere: Mapping[str, Interval], name: str = "") -> list[Figure]:
    """Score against the speedup to the first token; against computed work where no speedup can be told.

    elsewhere: the speedups of arms that another run timed, by the name that they have here; the work is shown as well.
    """
    log = estimates.log
    everywhere = np.ones(log.num_items, dtype=bool)
    timed = [arm for arm in log.pruned if estimates.speedup(arm.name, everywhere)[0] is not None]
    table = "What the arms cost"
    if timed:

        def speedup(arm: Arm, among: Mask) -> float | None:
            found = estimates.speedup(arm.name, among)[0] if arm in timed else None
            return None if found is None else found.estimate

        caption = (
            "The speedup to the first token is the geometric mean over items; only answers that ran alone have seconds "
            "that count. Bars are 95% intervals of the score, moved sideways where they would lie over each other; the "
            "speedup's are in the table."
        )
        missing = ", ".join(arm.name for arm in log.pruned if arm not in timed)
        notes = (f"Not shown, since they were not timed alone beside the full run: {missing}.",) if missing else ()
        title, axis = "Score against speedup", "times faster to the first token"
        return _draw(estimates, f"{name}score-speedup", title, caption, axis, speedup, False, table, notes)

    lent: list[Figure] = []
    if elsewhere:

        def borrowed(arm: Arm, among: Mask) -> float | None:
            return elsewhere[arm.name].estimate if arm.name in elsewhere else None

        caption = (
            "The speedup to the first token is that of the same arm in another run, on other items, as the table names "
            "it. Bars are 95% intervals of the score, moved sideways where they would lie over each other."
        )
        missing = ", ".join(arm.name for arm in log.pruned if arm.name not in elsewhere)
        notes = (f"Not shown, since the other run did not time them: {missing}.",) if missing else ()
        title, axis = "Score against speedup", "times faster to the first token"
        lent = _draw(estimates, f"{name}score-speedup", title, caption, axis, borrowed, False, title, notes)

    def work(arm: Arm, among: Mask) -> float | None:
        return mean_of(log.values(arm.name, "computed_fraction"), among)

    note = (
        "No seconds here: no arm and full run were timed alone on the same items. Across is the share of token-layers "
        "computed, which knows nothing of overheads."
    )
    caption = "In place of the speedup. Bars are 95% intervals, moved sideways where they would lie over each other."
    title, axis = "Score against computed work", "token-layers computed in the prefill"
    return [*lent, *_draw(estimates, f"{name}score-work", title, caption, axis, work, True, table, (note,))]


def _draw(
    estimates: Estimates,
    name: str,
    title: str,
    caption: str,
    across: str,
    place: Place,
    percent: bool,
    table: str,
    notes: tuple[str, ...] = (),
) -> list[Figure]:
    log = estimates.log
    drawn = []
    for category in log.categories:
        among = log.among("category", category)
        drawn.append((category, _list_series(estimates, among, place), list_levels(estimates, among)))
    drawn = [entry for entry in drawn if any(series.points for series in entry[1])]
    if not drawn:
        return []
    every = [series for entry in drawn for series in entry[1]]
    levels = [level for entry in drawn for level in entry[2]]
    xs = [point.x for series in every for point in series.points]
    x_axis = fit_axis(
        across, xs, include=(0, 1) if percent else (1,), within=UNIT if percent else None, percent=percent
    )
    y_axis = fit_axis("score", span(every, levels), within=UNIT)
    panels: list[Panel] = [
        plot_xy(f"{category}, {_size(estimates, category)}", x_axis, y_axis, series, levels)
        for category, series, levels in drawn
    ]
    return [Figure(name, title, caption, tuple(panels), list_keys(log), table, notes)]


def _list_series(estimates: Estimates, among: Mask, place: Place) -> list[Series]:
    log = estimates.log
    points: dict[str, list[Point]] = {family: [] for family in log.families}
    for arm in log.pruned:
        score = estimates.mean(log.values(arm.name, "score"), among, UNIT)
        x = place(arm, among)
        if score.estimate is not None and x is not None:
            tip = f"{arm.name}: {tell(score)}; {x:.3g} across"
            points[read_family(arm)].append(Point(x, score.estimate, score.lower, score.upper, tip))
    return [
        Series(log.families[family], family, tuple(sorted(found, key=lambda point: point.x)))
        for family, found in points.items()
    ]


def list_levels(estimates: Estimates, among: Mask) -> list[Level]:
    """The full run and the question alone, as levels of the score."""
    log, levels = estimates.log, []
    for arm in log.arms:
        if arm in log.pruned:
            continue
        score = estimates.mean(log.values(arm.name, "score"), among, UNIT)
        if score.estimate is not None:
            band = (score.lower, score.upper) if arm.is_full else (None, None)
            tone, label = ("ink", "full") if arm.is_full else ("muted", "no context")
            levels.append(Level(label, score.estimate, *band, tone, not arm.is_full, f"{arm.name}: {tell(score)}"))
    return levels


def list_keys(log: Log) -> tuple[Key, ...]:
    """The ways of pruning, to switch on and off."""
    return tuple(
        Key(number, family, tone_of(number), SHAPES[number % len(SHAPES)]) for family, number in log.families.items()
    )


def span(series: list[Series], levels: list[Level]) -> list[float]:
    """Everything an axis has to reach."""
    ends = [end for each in series for point in each.points for end in (point.y, point.low, point.high)]
    ends += [end for level in levels for end in (level.y, level.low, level.high)]
    return [end for end in ends if end is not None]


def tell(interval: Interval, share: bool = False) -> str:
    """An estimate in words, for those who point at it."""
    write = write_share if share else write_number
    if interval.estimate is None:
        return "nothing measured"
    text = write(interval.estimate)
    if interval.lower is not None and interval.upper is not None:
        text += f", {100 * interval.level:g}% interval {write(interval.lower)} to {write(interval.upper)}"
    return f"{text}, {write_count(interval.n, 'item')} in {write_count(interval.clusters, 'cluster')}"


def _size(estimates: Estimates, category: str) -> str:
    inside = estimates.log.among("category", category)
    clusters = len(set(estimates.clusters[inside]))
    return f"{write_count(int(inside.sum()), 'item')} in {write_count(clusters, 'cluster')}"
