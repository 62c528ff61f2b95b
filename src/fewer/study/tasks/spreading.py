"""An order of a task's items in which every start is a fair part: seeded, and spread over the clusters."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence

from fewer.study.item import Item

__all__ = ["spread"]


def spread(items: Sequence[Item], seed: int) -> tuple[Item, ...]:
    """The items in an order that depends on `seed` and their ids and clusters, and not on the order they come in.

    One item of each cluster comes first, then a second of each that has one, and so on; the clusters' order, and that
    of the items in a cluster, is drawn by SHA-256 of seed and name. So the first n hold as many clusters as n items
    can, and the first 10 are the same whether 10 or 20 are taken.
    """
    clusters: dict[str, list[Item]] = defaultdict(list)
    for item in sorted(items, key=lambda item: (_draw(seed, "item", item.id), item.id)):
        clusters[item.cluster].append(item)
    order = sorted(clusters, key=lambda name: (_draw(seed, "cluster", name), name))
    rounds = max(map(len, clusters.values()), default=0)
    return tuple(clusters[name][turn] for turn in range(rounds) for name in order if turn < len(clusters[name]))


def _draw(seed: int, kind: str, name: str) -> str:
    return hashlib.sha256(f"{seed}|{kind}|{name}".encode()).hexdigest()
