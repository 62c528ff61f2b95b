"""Choosing tokens: transformers' own draws for the same seed, the right distribution, and honest numbers beside it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import chi2
from tinytext import random_ids, request, theirs
from torch import Tensor
from transformers import PreTrainedModel

from fewer import Engine, Sampling
from fewer.engine.sampling import Sampler

SETTINGS = {
    "temperature": {"temperature": 0.7},
    "hot": {"temperature": 3.0},
    "plain": {"temperature": 1.0},
    "top-k": {"temperature": 1.0, "top_k": 7},
    "top-p": {"temperature": 1.2, "top_p": 0.8},
    "min-p": {"temperature": 1.5, "min_p": 0.1},
    "all": {"temperature": 0.9, "top_k": 40, "top_p": 0.95, "min_p": 0.02, "repetition_penalty": 1.3},
}


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("seed", [0, 1, 2**63 - 1])
def test_draws_are_those_of_transformers(engine: Engine, reference: PreTrainedModel, name: str, seed: int) -> None:
    ids, chosen = random_ids(50, 15), SETTINGS[name]
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        off = {"top_k": 0, "top_p": 1.0, "temperature": 1.0}
        expected = theirs(reference, ids, 24, do_sample=True, **{**off, **chosen})
    company = [request(random_ids(51, 9), temperature=2.0, seed=seed), request(random_ids(52, 30))]
    (answer, *_) = engine.generate([request(ids, max_tokens=24, ignore_eos=True, seed=seed, **chosen), *company])
    assert list(answer.ids) == expected


@pytest.mark.parametrize("penalty", [0.7, 1.1, 1.8, 50.0])
def test_a_greedy_penalty_is_that_of_transformers(engine: Engine, reference: PreTrainedModel, penalty: float) -> None:
    ids = random_ids(53, 12)
    plain, answer = engine.generate(
        [request(ids, max_tokens=24, ignore_eos=True, repetition_penalty=value) for value in (1.0, penalty)]
    )
    assert list(answer.ids) == theirs(reference, ids, 24, repetition_penalty=penalty)
    assert answer.ids != plain.ids
    assert penalty < 10 or len({*ids, *answer.ids}) == len({*ids}) + 24  # such a penalty allows nothing twice


def test_one_candidate_is_greedy(engine: Engine) -> None:
    ids = random_ids(54, 10)
    greedy = engine.generate([request(ids, max_tokens=20)])[0].ids
    for narrow in ({"top_k": 1}, {"top_p": 1e-9}, {"min_p": 1.0}, {"temperature": 1e-6}):
        (answer,) = engine.generate([request(ids, max_tokens=20, seed=8, **{"temperature": 2.0, **narrow})])
        assert answer.ids == greedy, narrow


def test_seeds(engine: Engine) -> None:
    ids = random_ids(55, 10)

    def answers(*seeds: int) -> list[tuple[int, ...]]:
        return [answer.ids for answer in engine.generate([request(ids, temperature=1.0, seed=seed) for seed in seeds])]

    assert answers(3, 4, 3) == [*answers(3), *answers(4), *answers(3)]
    assert len(set(answers(*range(8)))) == 8


def softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


def allowed(logits: np.ndarray, sampling: Sampling, seen: list[int]) -> np.ndarray:
    """The probabilities written out from the definitions, in float64."""
    scores = logits.copy()
    for token in set(seen):
        scores[token] *= 1 / sampling.repetition_penalty if scores[token] > 0 else sampling.repetition_penalty
    scores /= sampling.temperature
    if sampling.top_k:
        scores[np.argsort(-scores)[sampling.top_k :]] = -np.inf
    order = np.argsort(-scores)
    before = np.cumsum(softmax(scores)[order]) - softmax(scores)[order]  # mass of the more likely ones
    scores[order[before >= sampling.top_p]] = -np.inf
    chances = softmax(scores)
    scores[chances < sampling.min_p * chances.max()] = -np.inf
    return softmax(scores)


@pytest.mark.parametrize("name", SETTINGS)
def test_the_distribution(name: str) -> None:
    """Pearson's chi-square over 4000 draws of a vocabulary of 12, one seed each.

    A right sampler would fail one of the seven with probability 7e-6 over the choice of seeds.
    """
    logits = torch.tensor([2.0, 1.5, 1.4, 1.0, 0.5, 0.2, 0.0, -0.3, -0.5, -1.0, -2.0, -4.0])
    seen, draws = [0, 5, 5, 9], 4000
    counts = np.zeros(12)
    for seed in range(draws):
        sampling = Sampling(seed=seed, **{**SETTINGS[name], "top_k": min(5, SETTINGS[name].get("top_k", 0))})
        counts[Sampler(sampling, torch.tensor(seen), torch.device("cpu")).choose(logits[None])] += 1
    expected = draws * allowed(logits.double().numpy(), sampling, seen)
    assert counts[expected == 0].sum() == 0
    cells = expected > 5
    statistic = ((counts - expected)[cells] ** 2 / expected[cells]).sum()
    assert statistic < chi2.isf(1e-6, cells.sum() - 1)
    assert cells.sum() > 2


def test_one_generator_goes_on_from_token_to_token() -> None:
    """8000 tokens of one request, in pairs: the distribution, and no memory of the token before.

    A right sampler would fail with probability 1e-6 over the choice of the seed.
    """
    chances = np.array([0.4, 0.3, 0.2, 0.1])
    sampler = Sampler(Sampling(temperature=1.0, seed=9), torch.tensor([0]), torch.device("cpu"))
    tokens = [sampler.choose(torch.tensor(np.log(chances)).float()[None]) for _ in range(8000)]
    pairs = np.zeros((4, 4))
    np.add.at(pairs, (tokens[0::2], tokens[1::2]), 1)
    expected = 4000 * np.outer(chances, chances)
    assert ((pairs - expected) ** 2 / expected).sum() < chi2.isf(1e-6, 15)


@pytest.mark.parametrize(
    "chosen", [{}, {"temperature": 1.4, "top_k": 9, "repetition_penalty": 1.3}], ids=["greedy", "sampled"]
)
def test_logprobs_and_margins_are_the_models_own(
    engine: Engine, reference: PreTrainedModel, fp32: float, chosen: dict[str, float]
) -> None:
    ids = random_ids(56, 14)
    (answer,) = engine.generate([request(ids, logprobs=5, ignore_eos=True, **chosen)])
    with torch.no_grad():
        logits = reference(torch.tensor([[*ids, *answer.ids[:-1]]], device=reference.device)).logits[0, len(ids) - 1 :]
    expected = logits.double().log_softmax(-1).cpu()
    assert [entry.token for entry in answer.logprobs] == list(answer.ids)
    for row, entry in zip(expected, answer.logprobs, strict=True):
        assert entry.logprob == pytest.approx(float(row[entry.token]), abs=fp32)
        best = row.topk(5)
        assert [token for token, _ in entry.top] == best.indices.tolist()
        assert [value for _, value in entry.top] == pytest.approx(best.values.tolist(), abs=fp32)
    gaps = [float(best[0] - best[1]) for best in logits.double().topk(2).values]
    output = answer.receipt.output
    assert output.first_token_margin == pytest.approx(gaps[0], abs=fp32)
    assert output.min_margin == pytest.approx(min(gaps), abs=fp32)
    assert output.mean_logprob == pytest.approx(np.mean([entry.logprob for entry in answer.logprobs]), abs=1e-10)


@pytest.mark.parametrize("size", [0, 1])
def test_how_many_alternatives(engine: Engine, size: int) -> None:
    (answer,) = engine.generate([request(random_ids(57, 5), logprobs=size)])
    assert {len(entry.top) for entry in answer.logprobs} == {size}
    assert engine.generate([request(random_ids(57, 5))])[0].logprobs is None


def test_logits_are_left_as_they_are() -> None:
    logits = torch.randn(1, 50, generator=torch.Generator().manual_seed(1))
    before = logits.clone()
    for chosen in SETTINGS.values():
        Sampler(Sampling(logprobs=3, **chosen), torch.tensor([1, 2]), torch.device("cpu")).choose(logits)
    assert torch.equal(logits, before)


def test_one_word_is_enough() -> None:
    sampler = Sampler(Sampling(temperature=1.0), torch.tensor([0]), torch.device("cpu"))
    assert (sampler.choose(torch.tensor([[1.5]])), sampler.margins) == (0, [0.0])


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("place", [0, 3])
def test_logits_that_are_not_finite_give_no_token(value: float, place: int) -> None:
    logits: Tensor = torch.zeros(1, 5)
    logits[0, place] = value
    for sampling in (Sampling(logprobs=2), Sampling(temperature=1.0, top_p=0.5)):
        sampler = Sampler(sampling, torch.tensor([0]), torch.device("cpu"))
        assert sampler.choose(logits) is None
        assert (sampler.margins, sampler.logprobs) == ([], [])


@pytest.mark.parametrize("penalty", [0.01, 100.0])
@pytest.mark.parametrize("temperature", [1e-6, 100.0])
def test_the_ends_of_the_legal_ranges_stay_finite(penalty: float, temperature: float) -> None:
    logits = torch.tensor([[3e4, -3e4, 1.0, 0.0]])
    sampling = Sampling(temperature=temperature, repetition_penalty=penalty, top_p=1e-9, min_p=1.0)
    assert Sampler(sampling, torch.tensor([0, 1]), torch.device("cpu")).choose(logits) in (0, 1, 2)
