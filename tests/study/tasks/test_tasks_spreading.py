"""The order of items: seeded, spread over clusters, and the same start however many are taken."""

from __future__ import annotations

import random

import pytest

from fewer.study.item import Item
from fewer.study.tasks.spreading import spread

SIZES = {"a": 7, "b": 1, "c": 4, "d": 2}
ITEMS = [
    Item(f"{cluster}{number}", "t", "c", cluster, (), "q?", ("x",), "qa_f1")
    for cluster, size in SIZES.items()
    for number in range(size)
]


@pytest.mark.parametrize("seed", range(5))
def test_every_start_has_as_many_clusters_as_it_can(seed: int) -> None:
    order = spread(ITEMS, seed)
    assert sorted(item.id for item in order) == sorted(item.id for item in ITEMS)
    clusters = [item.cluster for item in order]
    assert [len(set(clusters[:size])) for size in range(1, 5)] == [1, 2, 3, 4]
    for size in range(1, len(order) + 1):  # no cluster is two ahead of one that has items left
        counts = {name: clusters[:size].count(name) for name in SIZES}
        assert all(counts[a] - counts[b] <= 1 or counts[b] == SIZES[b] for a in SIZES for b in SIZES)


def test_the_order_is_of_seed_and_ids_alone() -> None:
    order = spread(ITEMS, 3)
    shuffled = ITEMS[:]
    random.Random(0).shuffle(shuffled)
    assert spread(shuffled, 3) == order
    assert len({tuple(item.id for item in spread(ITEMS, seed)) for seed in range(20)}) == 20
    assert spread([], 0) == ()


def test_one_item_more_leaves_the_others_in_order() -> None:
    new = Item("e0", "t", "c", "e", (), "q?", ("x",), "qa_f1")
    with_it = spread([*ITEMS, new], 1)
    assert tuple(item for item in with_it if item is not new) == spread(ITEMS, 1)


def test_first_places_are_drawn_fairly() -> None:
    """Over 400 seeds each of 4 clusters comes first 60 to 140 times; a fair draw fails this with p < 1e-4."""
    firsts = [spread(ITEMS, seed)[0].cluster for seed in range(400)]
    assert all(60 <= firsts.count(name) <= 140 for name in SIZES)
