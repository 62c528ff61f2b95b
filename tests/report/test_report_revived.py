"""What came back, from receipts: shares by hand, steps averaged over the answers that have them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from fewer.report.revived import _draw, _list_bands, _read, list_revived
from fewer.study.arms import Arm

ARM = Arm("lazy", "lazyllm", settings=(("keep", "2:50%"),))


def receipt_of(steps: list[list[int]], revived: list[int]) -> str:
    return json.dumps(
        {
            "prompt": {
                "num_tokens": 100,
                "chunks": [{"revived_per_layer": [0, 0, 4, 4]}, {"revived_per_layer": [0, 0, 2, 1]}],
            },
            "computed": {"prefill_rows_per_layer": [100, 100, 50, 50]},
            "plans": [{"layer": 2, "num_kept": 50}],
            "revival": {
                "num_revived": 6,
                "revived_per_step": revived,
                "active_per_step": steps,
                "aux_bytes": 1_000,
            },
            "memory": {"kv_total_bytes": 20_000},
        }
    )


class Rows:
    """A log of three items, the second of which failed."""

    num_items = 3
    place = np.array([0, 1, 2])
    pruned = (ARM,)

    def of_arm(self, name: str) -> np.ndarray:
        return np.array([name == "lazy"] * 3)

    def texts(self, column: str) -> np.ndarray:
        assert column == "receipt"
        found = [receipt_of([[50], [40]], [4, 2]), None, receipt_of([[60]], [3])]
        return np.array(found, dtype=object)


def test_an_arms_receipts_are_read() -> None:
    used: Any = _read(Rows(), ARM)  # type: ignore[arg-type]
    np.testing.assert_allclose(used.prefill, [0.5, np.nan, 0.5])
    np.testing.assert_allclose(used.end, [0.55, np.nan, 0.55])
    np.testing.assert_allclose(used.per_step, [3.0, np.nan, 3.0])
    np.testing.assert_allclose(used.aux / used.kv, [0.05, np.nan, 0.05])
    assert used.stops == (2,)
    assert used.counts == (2, 2, 1)
    assert used.steps == ((0.5, pytest.approx(0.55), 0.4),)


def test_the_picture_has_a_line_for_each_stop() -> None:
    used: Any = _read(Rows(), ARM)  # type: ignore[arg-type]
    (figure,) = _draw([used], "")
    assert [panel.title for panel in figure.panels] == ["lazy"]
    assert "after layer 2" in str(figure.panels[0].marks)


def test_bands_of_layers_have_the_same_shares_in_numbers() -> None:
    used: Any = _read(Rows(), ARM)  # type: ignore[arg-type]
    table = _list_bands([used], "")
    assert [[cell.raw[""] if cell.raw.get("") is not None else None for cell in row] for row in table.rows] == [
        ["lazy", 1, 2, 1.0, 1.0, 1.0, None, None, None, None, 1],
        ["lazy", 3, 4, 0.5, pytest.approx(0.55), 0.4, None, None, None, None, 1],
    ]
    assert [column.title for column in table.columns][1:6] == ["layers from", "to", "prefill", "step 1", "step 2"]


def test_arms_that_choose_once_have_no_section() -> None:
    class Once(Rows):
        def texts(self, column: str) -> np.ndarray:
            return np.array(["{}", None, json.dumps({"revival": None})], dtype=object)

    class Estimates:
        log = Once()

    assert list_revived(Estimates()) is None  # type: ignore[arg-type]
