"""Arms that are like another one, and what a plan and a registration make of them."""

from __future__ import annotations

import pytest
from test_plan import item, prefill, rates
from test_plan import study as plain

from fewer.errors import BadInput
from fewer.study.arms import Arm, expand_arms
from fewer.study.cells import list_cells
from fewer.study.changes import compare_studies
from fewer.study.cost import cost_item
from fewer.study.plan import plan
from fewer.study.spec import Study

CHUNKS = {"name": "chunks", "prune": "ends", "keep": "25%", "grain": "chunk", "layer": 4}
TEXT = {"condition": "removed_text", "like": "chunks"}


def expand(*arms: dict) -> tuple[Arm, ...]:
    return expand_arms([{"name": "full"}, *arms])


def test_it_is_named_by_what_it_is_like() -> None:
    second = CHUNKS | {"name": "others", "keep": "50%"}
    found = expand(CHUNKS, second, {"prune": "entroprefill"}, TEXT | {"like": ["chunks", "others", "entroprefill"]})
    assert [arm.name for arm in found[4:]] == [
        "removed_text like chunks",
        "removed_text like others",
        "removed_text like entroprefill",
    ]
    assert [arm.like for arm in found[4:]] == ["chunks", "others", "entroprefill"]
    assert not any(arm.is_full for arm in found[1:])
    assert found[4].planner is None
    assert found[4].describe() == {
        "name": "removed_text like chunks",
        "prune": "none",
        "evict": "none",
        "condition": "removed_text",
        "like": "chunks",
    }
    assert "like" not in found[1].describe()


@pytest.mark.parametrize(
    ("arms", "message"),
    [
        ([{"condition": "removed_text"}], "like of an arm is None; it must be given with condition removed_text"),
        ([CHUNKS, CHUNKS | {"name": "x", "like": "chunks"}], "like of an arm is 'chunks'; it must be given with"),
        ([TEXT], "an arm that removes chunks \\(there is none\\)"),
        ([CHUNKS, TEXT | {"like": "full"}], "an arm that removes chunks \\(chunks\\)"),
        ([CHUNKS, {"name": "t", "prune": "ends", "keep": 9}, TEXT | {"like": "t"}], "an arm that removes chunks"),
        ([CHUNKS, TEXT | {"name": "a"}, TEXT | {"like": "a"}], "an arm that removes chunks \\(chunks\\)"),
        ([{"name": "lazy", "prune": "lazyllm"}, TEXT | {"like": "lazy"}], "an arm that removes chunks"),
        ([CHUNKS, TEXT | {"prune": "ends", "keep": 9}], "its text is shorter already"),
        ([CHUNKS, TEXT | {"keep": 9}], "nothing is pruned"),
        ([CHUNKS, TEXT, TEXT], "given once"),
        ([CHUNKS, TEXT | {"like": 3}], "like of an arm is 3; it must be a text"),
        ([{"name": "e", "prune": "entroprefill", "monitor": {"8": "all"}}], "monitor of the arm 'e' is .*Write it as"),
    ],
)
def test_what_it_cannot_be_like(arms: list[dict], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        expand(*arms)


def test_it_has_a_seed_for_each_draw_of_the_other() -> None:
    draws = {"name": "draws", "prune": "random", "keep": "25%", "grain": "chunk"}
    made = plain(CHUNKS, draws, TEXT, TEXT | {"like": "draws"}, seeds=[0, 1, 2])
    counts = [cell.arm.name for cell in list_cells(made)]
    assert counts.count("removed_text like chunks") == 1
    assert counts.count("removed_text like draws") == counts.count("draws") == 3
    warm = plain(CHUNKS, TEXT, seeds=[0, 1], sampling={"temperature": 1.0})
    assert [cell.arm.name for cell in list_cells(warm)].count("removed_text like chunks") == 2


def test_the_hash_and_the_differences_name_it() -> None:
    second = CHUNKS | {"name": "others", "keep": "50%"}
    one, other = (plain(CHUNKS, second, TEXT | {"name": "text", "like": like}) for like in ("chunks", "others"))
    assert one.sha256 != other.sha256
    differences, notes = compare_studies(one, other, same_items={}, same_weights=True)
    assert differences == ["Arm text: like changed, chunks -> others."]
    assert notes == []
    assert Study.model_validate(one.model_dump(mode="json")).sha256 == one.sha256


def test_its_cost_is_that_of_a_shorter_prompt_alone() -> None:
    cost = cost_item(plain(CHUNKS, TEXT), item(), 1000, rates())
    shared = prefill(1000) + 8 / 12 * prefill(250)
    assert cost.seconds[1] == pytest.approx(shared + prefill(250))
    assert (cost.answers, cost.prefills, cost.branches) == (3, 2, 1)
    assert cost.token_layers == 12_000 + 8 * 250 + 12 * 250
    assert cost.token_layers_alone == 36_000
    two = plain(CHUNKS, CHUNKS | {"name": "b", "keep": 100}, TEXT, TEXT | {"like": "b"})
    assert cost_item(two, item(), 1000, rates()).prefills == 3
    refused = cost_item(plain(CHUNKS, TEXT), item(), 5000, rates())
    assert (refused.refused, refused.seconds[1]) == (3, 0)
    cut = cost_item(plain(CHUNKS, TEXT, truncate=True), item(), 9000, rates())
    assert cut.seconds[1] == pytest.approx(prefill(4088) + (8 / 12 + 1) * prefill(1022))


def test_schedules_are_planned_stop_by_stop() -> None:
    lazy = cost_item(plain({"prune": "lazyllm", "keep": "4:50%, 10:100"}), item(), 1000, rates())
    assert lazy.seconds[1] == pytest.approx(prefill(1000) + 6 / 12 * prefill(500) + 2 / 12 * prefill(100))
    assert (lazy.branches, lazy.token_layers) == (1, 12_000 + 6 * 500 + 2 * 100)
    held = 1000 + (4 * 1000 + 6 * 500 + 2 * 100) / 12
    assert lazy.kv_tokens == pytest.approx(held + 2 * 1 + 1000)
    assert cost_item(plain({"prune": "lazyllm", "keep": "mild"}), item(), 1000, rates()).branches == 1
    assert cost_item(plain({"prune": "lazyllm"}), item(), 1000, rates()).branches == 1


def test_the_plan_says_what_it_cannot_know_of_entroprefill() -> None:
    fixed = {"prune": "entroprefill", "keep": "50%", "monitor": "4:all"}
    found = plan(plain(fixed), [(item(), 1000)], rates())
    assert found.whole.seconds.likely == pytest.approx(prefill(1000) + 8 / 12 * prefill(500))
    assert any("Whether entroprefill prunes a prompt is not known before" in note for note in found.notes)
    assert cost_item(plain({"prune": "entroprefill"}), item(), 1000, rates()).seconds[1] == prefill(1000)
    assert not any("entroprefill" in note for note in plan(plain(CHUNKS), [(item(), 1000)], rates()).notes)
