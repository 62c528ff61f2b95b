"""The embedded model in float32: greedy tokens are those of transformers' `generate` on real prompts.

Prompts of the same length go through `generate` together, so that nothing is padded.
"""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import GenerationConfig, PreTrainedModel

from fewer import Answer, EndsPrune, Engine, Prompt, RandomPrune, Request, Sampling, StaticPrune

pytestmark = pytest.mark.real

TOKENS = 64
SIZES = (*[40] * 10, *[110] * 10, *[220] * 9, 700)
TASKS = (  # one prompt of each
    *("mt_bench", "ramdocs", "nq_multidoc_5", "samsum_fewshot", "babi_long_2k", "trec_fewshot150"),
    *("2wikimultihopqa", "hotpotqa_distractor", "musique", "kv_retrieval_75", "multi_news", "ruler_vt"),
    *("code_stdlib_infile", "conflictqa_strategyqa", "rgb_conflict", "qmsum_window", "ruler_cwe", "leval_tpo"),
    *("locomo", "leval_quality", "longeval_lines_200", "passage_count_nq", "qasper_evidence", "mtrag_12docs"),
    *("leval_coursera", "longeval_topics_5", "leval_gov_report", "dialogue_retrieval", "code_stdlib_crossfile"),
    "ruler_niah_wiki",
)
TAIL = 24  # tokens at the end that stay when a prompt is cut: the end of the question and the template's last words
NEAR = 1e-4  # a best logit this close to the second may fall either way in float32
WORDS = (
    "the lamp",
    "keeper",
    "wrote that",
    "a storm",
    "in winter",
    "broke",
    "seven panes",
    "of glass",
    "went down",
    "to mend",
)


def read_row(folder: Path | None, task: str, size: int) -> tuple[str, list[dict[str, str]]]:
    """A question and documents of at least so many tokens; made up where there is no data."""
    if folder is None:
        chosen = random.Random(task)
        text = " ".join(chosen.choice(WORDS) for _ in range(2 * size))
        return f"What did the keeper of {task} do?", [{"title": task, "text": text}]
    with gzip.open(folder / "dev" / f"{task}.jsonl.gz", "rt", encoding="utf-8") as file:
        row = json.loads(next(file))
    documents = []
    for chunk in row["context_chunks"]:
        documents.append({"title": chunk["title"], "text": chunk["text"][: 8 * size]})
        if sum(len(document["text"]) for document in documents) > 8 * size:
            break
    return row["question"] or "Go on.", documents


def lay_out(engine: Engine, folder: Path | None, task: str, size: int) -> Tensor:
    """A prompt of exactly so many tokens: the beginning of a longer one, and its last words."""
    ids = engine.prompt(*read_row(folder, task, size)).ids
    assert ids.numel() >= size, task
    return torch.cat([ids[: size - TAIL], ids[-TAIL:]])


@pytest.fixture(scope="module")
def prompts(real: Engine, data: Path | None) -> list[Tensor]:
    assert len(set(TASKS)) == 30
    return [lay_out(real, data, task, size) for task, size in zip(TASKS, SIZES, strict=True)]


def theirs(model: PreTrainedModel, prompts: list[Tensor]) -> list[list[int]]:
    """What transformers generates for prompts of one length."""
    config = GenerationConfig(max_new_tokens=TOKENS, eos_token_id=None, pad_token_id=0, do_sample=False)
    ids = torch.stack(prompts).to(model.device)
    out = model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=config)
    return out[:, ids.shape[1] :].tolist()


def margin(model: PreTrainedModel, ids: Tensor) -> float:
    """How far the best next token is ahead of the second, by transformers."""
    with torch.no_grad():
        best = model(ids[None].to(model.device), logits_to_keep=1).logits[0, -1].topk(2).values
    return float(best[0] - best[1])


def test_greedy_tokens_equal_generate_on_thirty_prompts(
    real: Engine, real_reference: PreTrainedModel, prompts: list[Tensor]
) -> None:
    sampling = Sampling(max_tokens=TOKENS, ignore_eos=True)
    answers = real.generate([Request(Prompt.from_ids(ids), sampling) for ids in prompts])
    ours = [list(answer.ids) for answer in answers]
    expected: list[list[int]] = []
    for size in sorted(set(SIZES)):
        expected += theirs(real_reference, [ids for ids in prompts if ids.numel() == size])
    near = []
    for task, ids, mine, his in zip(TASKS, prompts, ours, expected, strict=True):
        if mine != his:
            at = next(place for place in range(TOKENS) if mine[place] != his[place])
            near.append((task, at, margin(real_reference, torch.tensor([*ids.tolist(), *his[:at]]))))
    assert all(gap < NEAR for _, _, gap in near), near
    assert len(near) <= 1, near


def bits(answer: Answer) -> tuple:
    return answer.text, answer.ids, answer.finish_reason, answer.logprobs, answer.receipt.output


def test_in_company_and_alone_and_again(real: Engine, prompts: list[Tensor]) -> None:
    requests = [
        Request(Prompt.from_ids(prompts[6]), Sampling(max_tokens=12, logprobs=2)),
        Request(Prompt.from_ids(prompts[12]), Sampling(max_tokens=12, logprobs=2), StaticPrune("50%")),
        Request(
            Prompt.from_ids(prompts[13]), Sampling(max_tokens=8, temperature=0.8, seed=3, logprobs=2), RandomPrune(90)
        ),
        Request(Prompt.from_ids(prompts[0]), Sampling(max_tokens=12, repetition_penalty=1.2, logprobs=2)),
        Request(Prompt.from_ids(prompts[14]), Sampling(max_tokens=5, logprobs=2), EndsPrune(0.3, 12)),
    ]
    together = real.generate(requests, max_running=3)
    alone = [real.generate([one])[0] for one in requests]
    for shared, single in zip(together, alone, strict=True):
        assert (shared.text, shared.ids, shared.finish_reason) == (single.text, single.ids, single.finish_reason)
        ours, others = ([entry.logprob for entry in answer.logprobs] for answer in (shared, single))
        assert ours == pytest.approx(others, abs=NEAR)
    assert [bits(real.generate([one])[0]) for one in requests] == [bits(answer) for answer in alone]


def test_keeping_all_changes_no_bit(real: Engine, prompts: list[Tensor]) -> None:
    sampling = Sampling(max_tokens=6, logprobs=2)
    (plain,) = real.generate([Request(Prompt.from_ids(prompts[7]), sampling)])
    for planner in (StaticPrune("100%"), RandomPrune(1.0, 5), EndsPrune(40, grain="chunk")):
        (answer,) = real.generate([Request(Prompt.from_ids(prompts[7]), sampling, planner)])
        assert bits(answer) == bits(plain)
        assert answer.receipt.bypass == ("the budget covers every token that may be left out",)


def test_an_answer_that_can_be_read(real: Engine) -> None:
    stream = real.stream("What is the capital of France?", max_tokens=16)
    pieces = list(stream)
    answer = stream.answer
    assert "".join(pieces) == answer.text == "The capital of France is Paris."
    assert answer.finish_reason == "stop"
    assert real.tokenizer.decode(list(answer.ids[:-1])) == answer.text
    cut = real.ask("What is the capital of France?", max_tokens=16, stop=" Paris")
    assert (cut.text, cut.finish_reason) == ("The capital of France is", "stop_string")
