"""What Theorem 1's worlds showed: how far the error moved that a deterministic policy cannot see, and who noticed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from fewer.study.replay.estimates import LEVEL, RESAMPLES
from fewer.study.stats import Interval, mean

__all__ = ["Moved", "find_moved"]


@dataclass(frozen=True)
class Moved:
    """Of one condition. A cell is a layer, query head and step of a prompt, seen in every world."""

    condition: str
    budget: float
    cells: int
    worlds: int  # besides the one as it was
    same: int  # cells whose retained statistics have the same bits in all worlds
    median_factor: float  # of the largest error over the smallest, over a cell's worlds
    tenth_factor: float  # what a tenth of the cells exceeds
    largest_factor: float
    from_error: float  # of the cell with the largest factor
    to_error: float
    coverage: Interval  # of the sampled arm, drawn anew in each permuted world


def find_moved(worlds: pa.Table, resamples: int = RESAMPLES) -> tuple[Moved, ...]:
    """One for each condition that has rows."""
    column = worlds["condition"].combine_chunks()
    names = column.dictionary.to_pylist() if len(worlds) else []
    codes = column.indices.to_numpy() if len(worlds) else np.empty(0)
    found = []
    for code, name in enumerate(names):
        some = worlds.filter(pa.array(codes == code))
        keys = ("prompt", "layer", "head", "step")
        cell, world = (some[each].to_numpy() for each in ("prompt", "world"))
        order = np.lexsort([world, *(some[key].to_numpy() for key in reversed(keys))])
        count = int(world.max()) + 1
        error = some["error"].to_numpy().astype(np.float64)[order].reshape(-1, count)
        same = some["same"].to_numpy(zero_copy_only=False)[order].reshape(-1, count).all(1)
        factor = error.max(1) / np.maximum(error.min(1), np.finfo(np.float64).tiny)
        top = int(factor.argmax())
        permuted = world > 0
        holds = (some["sampled_error"].to_numpy() <= some["sampled_radius"].to_numpy())[permuted].astype(float)
        found.append(
            Moved(
                condition=name,
                budget=round(float(some["budget"][0].as_py()), 6),
                cells=len(error),
                worlds=count - 1,
                same=int(same.sum()),
                median_factor=float(np.median(factor)),
                tenth_factor=float(np.quantile(factor, 0.9)),
                largest_factor=float(factor[top]),
                from_error=float(error[top].min()),
                to_error=float(error[top].max()),
                coverage=mean(holds, cell[permuted], bounds=(0, 1), level=LEVEL, resamples=resamples),
            )
        )
    return tuple(found)
