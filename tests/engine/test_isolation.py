"""One request's trouble stays its own: memory that runs out, plans and planners that are wrong, receipts that fail."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from tinytext import make_engine

from fewer import BadInput, Engine, Keep, Observation, Plan, Prompt, Request, Sampling, StaticPrune
from fewer.kv import LayerKV

IDS = torch.arange(3, 43)


@pytest.fixture(scope="module")
def engine(device: torch.device) -> Engine:
    return make_engine(device)


def request(**settings: Any) -> Request:
    return Request(Prompt.from_ids(IDS), Sampling(max_tokens=6, ignore_eos=True), **settings)


@dataclass(frozen=True)
class Wrong:
    """A planner whose plan is changed before it is given out."""

    change: dict[str, Any]
    described: Any = "fine"
    name: str = "wrong"
    needs: str = "nothing"

    def layers(self, num_layers: int) -> tuple[int, ...]:
        return (1,)

    def check(self, prompt: Prompt) -> None:
        Keep.parse("100%").count(len(prompt))

    def after(self, observation: Observation) -> Plan:
        return replace(Plan(observation.layer, observation.pos), **self.change)

    def describe(self) -> dict[str, Any]:
        return {"described": self.described}


def test_memory_that_runs_out_while_freeing_leaves_the_others_right(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = engine.generate([request()])[0].ids

    def refuse(*_: object) -> None:
        raise RuntimeError("no memory")

    monkeypatch.setattr(LayerKV, "select", refuse)
    with pytest.raises(RuntimeError, match="no memory") as caught:
        engine.generate([request(), request(prune=StaticPrune("50%", layer=1)), request()])
    answers = caught.value.answers  # type: ignore[attr-defined]
    assert [answer and answer.ids for answer in answers] == [alone, None, alone]


@pytest.mark.parametrize(
    "change",
    [
        {"layer": 2},
        {"layer": "1"},
        {"reason": None},
        {"bound": float("nan")},
        {"release": torch.tensor([1, 2])},
        {"keep": torch.arange(40.0)},
        {"keep": torch.arange(40, dtype=torch.uint8)},
        {"keep": torch.tensor(3)},
        {"keep": None},
    ],
    ids=str,
)
def test_a_wrong_plan_fails_alone_and_is_named(engine: Engine, change: dict[str, Any]) -> None:
    alone = engine.generate([request()])[0].ids
    with pytest.raises(BadInput, match=r"plan.*fault of the planner") as caught:
        engine.generate([request(), request(prune=Wrong(change))])
    assert caught.value.answers[0].ids == alone  # type: ignore[attr-defined]


def test_a_receipt_that_cannot_be_written_costs_no_other_answer(engine: Engine) -> None:
    with pytest.raises(Exception, match=r"prune|described") as caught:
        engine.generate([request(prune=Wrong({}, described=float("nan"))), request()])
    assert [answer is None for answer in caught.value.answers] == [True, False]  # type: ignore[attr-defined]


def test_a_planner_cannot_move_rows_by_writing_into_what_it_sees(engine: Engine) -> None:
    class Writes(Wrong):
        def after(self, observation: Observation) -> Plan:
            kept = observation.pos.clone()
            observation.pos.zero_()
            return Plan(observation.layer, kept)

    assert engine.generate([request(prune=Writes({}))])[0].ids == engine.generate([request()])[0].ids
