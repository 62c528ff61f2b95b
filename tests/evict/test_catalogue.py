"""The catalogue names parts that exist, the page says what it says, and policy names come apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from fewer import BadInput, Keep
from fewer.evict.budget import Budget
from fewer.evict.catalogue import BUDGETS, DESIGN_NAMES, METHODS, Method, parse_policy_name
from fewer.evict.design import DESIGNS
from fewer.evict.score import SCORES, make_score

PAGE = (Path(__file__).parents[2] / "docs" / "eviction.md").read_text("utf-8")


def rows_under(heading: str) -> list[list[str]]:
    """The cells of the first table under a heading of the page, without its two top lines."""
    part = PAGE.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in part.splitlines() if line.startswith("|")]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines[2:]]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_every_part_exists(method: Method) -> None:
    design = DESIGNS[method.design]()
    assert make_score(method.score).name == method.score
    assert design.name == method.design
    layers, heads = BUDGETS[method.budget]
    assert Budget(Keep.parse("25%"), layers, heads).layers == layers
    known = hasattr(design, "variance")
    assert method.certificate is known
    assert method.estimator == ("hajek" if known else "plug-in")
    assert parse_policy_name(method.policy) == (method.design, method.score)


def test_every_design_and_score_is_in_it() -> None:
    assert tuple(DESIGNS) == DESIGN_NAMES
    assert {method.design for method in METHODS} == set(DESIGN_NAMES)
    assert {method.score.removesuffix("+spread") for method in METHODS} == set(SCORES) - {"uniform"}
    assert {method.budget for method in METHODS} == set(BUDGETS)
    assert len({method.name for method in METHODS}) == len(METHODS)


def test_the_page_has_the_catalogue() -> None:
    expected = [
        [
            method.name,
            method.paper or "none",
            method.policy,
            method.score,
            method.budget,
            method.design,
            method.estimator,
            "yes" if method.certificate else "no",
            method.differs or "-",
        ]
        for method in METHODS
    ]
    assert rows_under("Published methods") == expected


def test_the_page_has_the_scores_and_their_settings() -> None:
    rows = {row[0]: row[3] for row in rows_under("Scores")}
    assert set(rows) == set(SCORES)
    for name, settings in rows.items():
        told = {} if settings == "none" else dict(part.partition("` (")[::2] for part in settings.split(", "))
        told = {key.strip("`"): value.strip(")") or "mean" for key, value in told.items()}
        assert told == {key: str(value) for key, value in make_score(name).describe().items()}


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("snapkv", ("topk", "snapkv")),
        ("topk:snapkv", ("topk", "snapkv")),
        ("poisson:snapkv", ("poisson", "snapkv")),
        (" Conditional-Poisson : H2O ", ("conditional-poisson", "h2o")),
        ("systematic:question+spread", ("systematic", "question+spread")),
        ("TOVA", ("topk", "tova")),
    ],
)
def test_names_come_apart(name: str, parts: tuple[str, str]) -> None:
    assert parse_policy_name(name) == parts


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("", "policy is ''; it must be a score, or a design and a score"),
        (":snapkv", "policy is ':snapkv'"),
        ("poisson:", "policy is 'poisson:'"),
        ("poisson:snapkv:3", "policy is 'poisson:snapkv:3'"),
        (None, "policy is None"),
        ("poison:snapkv", "design is 'poison'; it must be one of topk, .* Did you mean poisson"),
        ("random:snapkv", "design is 'random'; .* Leave it out for topk"),
        ("snapvk", "score is 'snapvk'; .* Did you mean snapkv"),
        ("snap-kv", "score is 'snap-kv'; it must be one of h2o, .* SnapKV is snapkv\\.$"),
        ("poisson", "policy is 'poisson'; .* poisson is a design: add a score, as in poisson:snapkv"),
        ("pyramidkv", "PyramidKV is snapkv with layers='pyramid' and heads='equal'"),
        ("poisson:ada-snapkv", "Ada-SnapKV is snapkv with layers='uniform' and heads='adaptive'"),
        ("streamingllm", "StreamingLLM is streaming\\."),
    ],
)
def test_what_is_no_name(name: object, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        parse_policy_name(name)
