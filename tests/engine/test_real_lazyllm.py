"""LazyLLM on the embedded model in float32: its profile is there, keeping all changes nothing, needles survive."""

from __future__ import annotations

import pytest

from fewer import Engine, LazyLLM, Request, Sampling
from fewer.prune.profile import shipped_profile
from fewer.study.item import lay_out_item
from fewer.study.metrics import score
from fewer.study.tasks.generate import generate_task

pytestmark = pytest.mark.real


def test_the_profile_that_comes_along_is_this_models(real: Engine) -> None:
    facts = real.adapter.facts
    profile = shipped_profile(facts.fingerprint)
    assert profile is not None
    profile.check_model(facts)
    assert [(head.layer, head.head) for head in profile.scores[0].heads] == [(8, 7)]
    assert LazyLLM("balanced").fitted(facts).layers(30) == (8,)


def test_needles_survive_half_of_the_work_and_every_token_does_where_all_are_kept(real: Engine) -> None:
    planners = {
        "full": None,
        "everything": LazyLLM("8:100%, 20:100%"),
        "balanced": LazyLLM("balanced"),
        "paper": LazyLLM("8:35%", profile=None),
    }
    scores = dict.fromkeys(planners, 0.0)
    for item in generate_task("ruler_niah_single_2", real.tokenizer, length=700, num_items=4, seed=3):
        prompt = lay_out_item(real.tokenizer, item, real.adapter.max_positions, False)
        requests = [Request(prompt, Sampling(max_tokens=12), planner) for planner in planners.values()]
        answers = dict(zip(planners, real.generate(requests), strict=True))
        assert answers["everything"].ids == answers["full"].ids
        computed = answers["balanced"].receipt.computed
        assert computed.token_layers_computed < 0.62 * computed.token_layers_full
        for name, answer in answers.items():
            scores[name] += score(item.metric, answer.text, item.answers, item.meta)
    assert scores["full"] == 4
    assert scores["balanced"] >= 3
    assert scores["paper"] <= 1
