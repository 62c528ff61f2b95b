"""L-Eval's wordings (An et al. 2024), closed-ended and open-ended, and LooGLE's (Li et al. 2024).

L-Eval: from its Baselines/LEval_config.py and llama2-chat-test.py. Its system text opens the user's turn here, since an
item has no system text. Its closed-ended prompts append `Answer:` after the model's template, so that is an
`answer_prefix`. Its open-ended prompts tell the model how many words the reference has; so do these.

LooGLE: from its config/task2prompt.json and task2maxlen.json; Prediction/pred_opensource_models.py uses no chat
template, and a repetition penalty of 2, which is not used here.
"""

from __future__ import annotations

from fewer.study.tasks.wordings.template import Row, Template

__all__ = ["LOOGLE", "WORDINGS"]

_ORIGIN = (
    "OpenLMLab/LEval Baselines/LEval_config.py and llama2-chat-test.py, its system text at the head of the user's "
    "turn; chat template: the model's"
)
_LOOGLE_ORIGIN = (
    "bigai-nlco/LooGLE config/task2prompt.json and task2maxlen.json; chat template: none, as its code for open models"
)
_COURSERA = (
    "Now you are given a very long document. Please follow the instruction based on this document. For multi-choice "
    "questions, there could be a sinlge correct option or multiple correct options. Please only provide the letter "
    "corresponding to the answer (like A or AB) when answering. "
)
_CHOICE = (
    "Now you are given a very long document. Please follow the instruction based on this document. For multi-choice "
    "questions, there is only a sinlge correct option. Please only provide the letter corresponding to the answer "
    "(like A or B) when answering. For other questions, please directly give the concise and accurate answer. "
)
_FICTION = (
    'Now you are given a scientific fiction. I will ask you some questions and the answer should be "True" or "False". '
    "Notice that you should answer the question based on the evidence in the document instead of your background "
    "knowledge."
)
_OPEN = (
    "Now you are given a very long document. Please follow the instruction after this document. These instructions may "
    "include summarizing a document, answering questions based on the document, or writing a required paragraph. "
)


def _closed(system: str) -> Template:
    return Template(
        _ORIGIN + ", then the answer prefix",
        before=f"{system}\n\nDocument is as follows. ",
        ask=" \nQuestion: {question}.  Please directly give the answer without any additional output or explanation ",
        answer_prefix="\nAnswer:",
        max_tokens=512,
    )


def _count_words(row: Row) -> dict[str, str]:
    return {"question": row["question"], "count": str(len(row["answers"][0].split()))}


_OPEN_ENDED = Template(
    _ORIGIN,
    before=f"{_OPEN}\n\nDocument is as follows. ",
    ask=" Instruction: {question} \nAnswer this question with {count} words.",
    max_tokens=512,
    fill=_count_words,
)
_QUESTION = Template(
    _LOOGLE_ORIGIN,
    before="Please answer the question based on the long texts below. \n",
    ask="\nQuestion: {question}\nAnswer: ",
    max_tokens=300,
    chat=False,
)

LOOGLE: dict[str, Template] = {
    "shortdep_qa": _QUESTION,
    "longdep_qa": Template(_LOOGLE_ORIGIN, _QUESTION.before, _QUESTION.ask, max_tokens=500, chat=False),
    "longdep_summarization": Template(
        _LOOGLE_ORIGIN + "; its closing cue is the question",
        before="Please generate a summary of the below paper. \n",
        ask="\n {question} ",
        max_tokens=500,
        chat=False,
        fill=lambda row: {"question": "Summarization:"},
    ),
    "shortdep_cloze": Template(
        _LOOGLE_ORIGIN,
        before="Please fill in the clozes based on the given long texts below. Each of the placeholder '<mask-n>' in "
        "the question could be an entity of Person, Location or Organiocation. The same masks represent the same "
        "entity. Output a json format answer, for example: {'<mask-0>': 'Bob', '<mask-1>': 'Gorrosion "
        "Magazine','<mask-2>': 'Bethel Horizon'}\n",
        ask="\n Question: {question} What are the masked entities? \nAnswer:",
        max_tokens=50,
        chat=False,
    ),
}

WORDINGS: dict[str, Template] = {
    "leval_coursera": _closed(_COURSERA),
    "leval_quality": _closed(_CHOICE),
    "leval_tpo": _closed(_CHOICE),
    "leval_sci_fi": _closed(_FICTION),
    **dict.fromkeys(
        [
            "leval_financial_qa",
            "leval_gov_report",
            "leval_multidoc_qa",
            "leval_natural_question",
            "leval_patent_summ",
            "leval_scientific_qa",
            "leval_tv_show_summ",
        ],
        _OPEN_ENDED,
    ),
    "loogle_longdep_window": LOOGLE["longdep_qa"],
    "loogle_shortdep_window": LOOGLE["shortdep_qa"],
}
