"""Eviction on the embedded model: needles stay, bytes leave, certificates say something."""

from __future__ import annotations

import pytest

from fewer import Engine, Request, Sampling
from fewer.evict import make_policy
from fewer.study.item import lay_out_item
from fewer.study.metrics import score
from fewer.study.tasks.generate import generate_task

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine.load(dtype="bfloat16")


def test_needles_survive_at_a_quarter(engine: Engine) -> None:
    names = ["question", "pivotal:question", "streaming"]
    policies = {name: make_policy(name, "25%") for name in names}
    right = dict.fromkeys(["full", *names], 0.0)
    for item in generate_task("ruler_niah_single_2", engine.tokenizer, length=1024, num_items=4, seed=21):
        prompt = lay_out_item(engine.tokenizer, item, engine.adapter.max_positions)
        ways = [None, *policies.values()]
        outcomes = engine.fan_out([Request(prompt, Sampling(max_tokens=24), evict=policy) for policy in ways])
        for name, outcome in zip(right, outcomes, strict=True):
            assert outcome.error is None
            right[name] += score(item.metric, outcome.answer.text, item.answers, item.meta)
            receipt = outcome.answer.receipt
            if name == "full":
                assert receipt.eviction is None
                continue
            rows = receipt.eviction.compressions[0].rows_after
            assert {count for layer in rows for count in layer} == {256}
            held, whole = receipt.memory.kv_used_bytes_per_layer, receipt.memory.kv_bytes_full_estimate
            assert sum(held) < 0.3 * sum(whole)
            assert (receipt.certificate.kind == "none") == (name != "pivotal:question")
            if name == "pivotal:question":
                assert len(receipt.certificate.steps) == receipt.computed.decode_steps
                assert 0.01 < receipt.certificate.radius < 5
    assert right["full"] == 4
    assert right["question"] == 4
    assert right["pivotal:question"] >= 3
    assert right["streaming"] < 4


def test_a_budget_of_everything_changes_no_token(engine: Engine) -> None:
    (item,) = generate_task("ruler_niah_single_2", engine.tokenizer, length=512, num_items=1, seed=22)
    prompt = lay_out_item(engine.tokenizer, item, engine.adapter.max_positions)
    ways = [None, make_policy("snapkv", "100%"), make_policy("pivotal:question", 10_000)]
    ids = [engine.generate([Request(prompt, Sampling(max_tokens=16), evict=way)])[0].ids for way in ways]
    assert ids[0] == ids[1] == ids[2]


def test_needles_that_nobody_has_asked_for_survive_where_the_text_is_repeated(engine: Engine) -> None:
    names = ["kvzip", "snapkv", "streaming"]
    right = dict.fromkeys(["full", *names], 0.0)
    for item in generate_task("ruler_niah_single_2", engine.tokenizer, length=1024, num_items=2, seed=91):
        prompt = lay_out_item(engine.tokenizer, item, engine.adapter.max_positions)
        ways = [None, *(make_policy(name, "25%", moment="context") for name in names)]
        outcomes = engine.fan_out([Request(prompt, Sampling(max_tokens=24), evict=way) for way in ways])
        for name, outcome in zip(right, outcomes, strict=True):
            assert outcome.error is None
            right[name] += score(item.metric, outcome.answer.text, item.answers, item.meta)
        kvzip, snapkv = (outcomes[at].answer.receipt for at in (1, 2))
        used = [receipt.eviction.compressions[0].used_bytes_after for receipt in (kvzip, snapkv)]
        assert used[0] == used[1]  # no more bytes, and none of them padding
        assert sum(kvzip.memory.kv_padding_bytes_per_layer) == 0
        (each,) = kvzip.eviction.compressions
        assert each.num_seen < each.repeated_tokens < 1.1 * each.num_seen
    assert right["full"] == 2
    assert right["kvzip"] == 2
    assert max(right[name] for name in names[1:]) == 0
