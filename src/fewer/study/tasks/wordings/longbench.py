"""LongBench's wordings (Bai et al. 2024), and the tasks of other publications that are worded as LongBench words them.

From its config/dataset2prompt.json and config/dataset2maxlen.json. LongBench's own code puts the whole wording, answer
cue included, into the user's turn of the model's chat template, except for trec, triviaqa, samsum, lcc and repobench-p,
which get none; so `Answer:` ends the user's turn here, or the prompt where no template is used. Passages are numbered
and joined by one line end, paragraphs by a blank line, as in its published prompts.
"""

from __future__ import annotations

from dataclasses import replace

from fewer.study.tasks.wordings.template import Row, Template, as_passage, keep, with_colon
from fewer.types import Document

__all__ = ["LONGBENCH", "WORDINGS"]

_ORIGIN = "THUDM/LongBench config/dataset2prompt.json and dataset2maxlen.json; chat template: {chat}"
_CHAT = _ORIGIN.format(chat="yes, as its pred.py")
_PLAIN = _ORIGIN.format(chat="none, as its pred.py")


def _constant(question: str) -> Template:
    """A template for tasks that ask the same of every row."""
    return Template("", fill=lambda row: {"question": question})


def _after_blank_line(row: Row) -> dict[str, str]:
    """The rows put an instruction and a blank line before the abstract; the wording has its own instruction."""
    head, _, tail = row["question"].partition("\n\n")
    return {"question": tail or head}


_PASSAGES = Template(
    _CHAT,
    before="Answer the question based on the given passages. Only give me the answer and do not output any other "
    "words.\n\nThe following are given passages.\n",
    between="\n",
    ask="\n\nAnswer the question based on the given passages. Only give me the answer and do not output any other "
    "words.\n\nQuestion: {question}\nAnswer:",
    max_tokens=32,
    chunk=as_passage,
)
_QASPER = (
    "Answer the question based on the above article as concisely as you can, using a single phrase or sentence if "
    'possible. If the question cannot be answered based on the information in the article, write "unanswerable". If '
    'the question is a yes/no question, answer "yes", "no", or "unanswerable". Do not provide any explanation.'
)
_NARRATIVE = (
    "answer the question based on the story as concisely as you can, using a single phrase if possible. Do not provide "
    "any explanation."
)

LONGBENCH: dict[str, Template] = {
    "narrativeqa": Template(
        _CHAT,
        before="You are given a story, which can be either a novel or a movie script, and a question. Answer the "
        "question as concisely as you can, using a single phrase if possible. Do not provide any explanation."
        "\n\nStory: ",
        ask=f"\n\nNow, {_NARRATIVE}\n\nQuestion: {{question}}\n\nAnswer:",
        max_tokens=128,
    ),
    "qasper": Template(
        _CHAT,
        before="You are given a scientific article and a question. "
        + _QASPER.replace("based on the above article ", "")
        + "\n\nArticle: ",
        ask=f"\n\n {_QASPER}\n\nQuestion: {{question}}\n\nAnswer:",
        max_tokens=128,
    ),
    "multifieldqa_en": Template(
        _CHAT,
        before="Read the following text and answer briefly.\n\n",
        ask="\n\nNow, answer the following question based on the above text, only give me the answer and do not output "
        "any other words.\n\nQuestion: {question}\nAnswer:",
    ),
    "hotpotqa": _PASSAGES,
    "2wikimqa": _PASSAGES,
    "musique": _PASSAGES,
    "gov_report": replace(
        _constant("Now, write a one-page summary of the report."),
        origin=_CHAT,
        before="You are given a report by a government agency. Write a one-page summary of the report.\n\nReport:\n",
        ask="\n\n{question}\n\nSummary:",
        max_tokens=512,
    ),
    "qmsum": Template(
        _CHAT,
        before="You are given a meeting transcript and a query containing a question or instruction. Answer the query "
        "in one or more sentences.\n\nTranscript:\n",
        ask="\n\nNow, answer the query based on the above meeting transcript in one or more sentences."
        "\n\nQuery: {question}\nAnswer:",
        max_tokens=512,
    ),
    "multi_news": replace(
        _constant("Now, write a one-page summary of all the news."),
        origin=_CHAT,
        before="You are given several news passages. Write a one-page summary of all news. \n\nNews:\n",
        between="\n",
        ask="\n\n{question}\n\nSummary:",
        max_tokens=512,
    ),
    "trec": Template(
        _PLAIN + "; stops where the next example would begin, since its eval.py reads the first line only",
        before="Please determine the type of the question below. Here are some examples of questions.\n\n",
        between="\n",
        ask="\n{question}",
        chat=False,
        stop=("\nQuestion:",),
    ),
    "triviaqa": Template(
        _PLAIN + "; stops where the next example would begin, since its eval.py reads the first line only",
        before="Answer the question based on the given passage. Only give me the answer and do not output any other "
        "words. The following are some examples.\n\n",
        between="\n",
        ask="\n{question}",
        max_tokens=32,
        chat=False,
        stop=("\nPassage:",),
    ),
    "samsum": Template(
        _PLAIN + "; ends at a line end, as its pred.py",
        before="Summarize the dialogue into a few short sentences. The following are some examples.\n\n",
        between="\n",
        ask="\n\n{question}",
        max_tokens=128,
        chat=False,
        stop=("\n",),
    ),
    "passage_count": replace(
        _constant(
            "Please enter the final count of unique paragraphs after removing duplicates. The output format should "
            "only contain the number, such as 1, 2, 3, and so on."
        ),
        origin=_CHAT,
        before="There are some paragraphs below sourced from Wikipedia. Some of them may be duplicates. Please "
        "carefully read these paragraphs and determine how many unique paragraphs there are after removing duplicates. "
        "In other words, how many non-repeating paragraphs are there in total?\n\n",
        ask="\n\n{question}\n\nThe final answer is: ",
        max_tokens=32,
        chunk=with_colon,
    ),
    "passage_retrieval_en": Template(
        _CHAT,
        before="Here are 30 paragraphs from Wikipedia, along with an abstract. Please determine which paragraph the "
        "abstract is from.\n\n",
        ask="\n\nThe following is an abstract.\n\n{question}\n\nPlease enter the number of the paragraph that the "
        'abstract is from. The answer format must be like "Paragraph 1", "Paragraph 2", etc.\n\nThe answer is: ',
        max_tokens=32,
        fill=_after_blank_line,
        chunk=with_colon,
    ),
    "lcc": Template(
        _PLAIN, before="Please complete the code given below. \n", between="\n", ask="\n{question}", chat=False
    ),
    "repobench-p": Template(
        _PLAIN, before="Please complete the code given below. \n", between="\n", ask="\n{question}", chat=False
    ),
}


def _count_dialogues(row: Row) -> dict[str, str]:
    return _after_blank_line(row) | {"count": str(len(row["context_chunks"]))}


def _as_news(number: int, title: str, text: str) -> Document:
    """A piece of an article under LongBench's `Passage 1:`; an article in several pieces repeats its line."""
    return Document(text, f"{title}:" if title else "")


def _like(name: str, note: str, **changes: object) -> Template:
    template = LONGBENCH[name]
    return replace(template, origin=f"{template.origin}; its {name}, {note}", **changes)  # type: ignore[arg-type]


WORDINGS: dict[str, Template] = {
    **{f"longbench_{name}": template for name, template in LONGBENCH.items()},
    "2wikimultihopqa": _like("2wikimqa", "over the dataset's own paragraphs"),
    "2wikimultihopqa_long40": _like("2wikimqa", "over more paragraphs of the dataset"),
    "hotpotqa_distractor": _like("hotpotqa", "over the dataset's own paragraphs"),
    "hotpotqa_long40": _like("hotpotqa", "over more paragraphs of the dataset"),
    "musique": _like("musique", "over the dataset's own paragraphs"),
    "multi_news": _like("multi_news", "with the passage's name at each of its pieces", chunk=_as_news),
    "qasper_evidence": _like("qasper", "with the section's name at each paragraph", chunk=keep),
    "qmsum_full": _like("qmsum", "over the whole meeting"),
    "qmsum_window": _like("qmsum", "over a window of the meeting"),
    "samsum_fewshot": _like("samsum", "with other examples"),
    "trec_fewshot150": _like("trec", "with 150 examples"),
    "passage_count_nq": _like("passage_count", "over passages of Natural Questions"),
    "code_stdlib_infile": _like("lcc", "over Python's standard library"),
    "code_stdlib_crossfile": _like("repobench-p", "over Python's standard library; the file's name is in the question"),
    "dialogue_retrieval": Template(
        "ours, after THUDM/LongBench passage_retrieval_en, with dialogues and their summaries; chat template: yes",
        before="Here are {count} dialogues, along with a summary. Please determine which dialogue the summary is of."
        "\n\n",
        ask="\n\nThe following is a summary.\n\n{question}\n\nPlease enter the number of the dialogue that the summary "
        'is of. The answer format must be like "Dialogue 1", "Dialogue 2", etc.\n\nThe answer is: ',
        max_tokens=32,
        fill=_count_dialogues,
    ),
}
