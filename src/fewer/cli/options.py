"""The options of `fewer ask`: what each one means, in which unit, and which values it takes.

The values are checked where they are used, so that the command line and Python refuse the same ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

MODEL, PROMPT, PRUNE, ANSWER, OUTPUT = "Model", "Prompt", "Leaving prompt tokens out", "Answer", "Output"
EVICT = "Evicting keys and values"


def _option(panel: str, text: str, *flags: str, default: bool | str = True, metavar: str | None = None) -> Any:
    return typer.Option(*flags, help=text, rich_help_panel=panel, show_default=default, metavar=metavar)


def _flag(panel: str, text: str, *flags: str) -> Any:
    return _option(panel, text, *flags, default=False, metavar="")


Question = Annotated[str, typer.Argument(help="The question, in quotes.", metavar="QUESTION", show_default=False)]
Docs = Annotated[
    list[str] | None,
    typer.Argument(
        help="Files, folders, or - for standard input. Text, Markdown, HTML, JSON, JSON lines and PDF are read.",
        metavar="DOCS",
        show_default=False,
    ),
]

Model = Annotated[
    str | None,
    _option(MODEL, "A model's folder, a GGUF file, or a name on the Hugging Face hub.", default="the embedded model"),
]
Device = Annotated[str, _option(MODEL, "auto, cpu, cuda, or another that PyTorch has here.")]
Dtype = Annotated[str, _option(MODEL, "auto (the faster one on this device), float32 or bfloat16.")]
Weights = Annotated[str, _option(MODEL, "native, or int8: weights in 8 bits, for families of the Llama kind.")]
AllowPickle = Annotated[bool, _flag(MODEL, "Also open weights in pickle files, which can run code.", "--allow-pickle")]

System = Annotated[str | None, _option(PROMPT, "A system text, put before everything else.", default="none")]
Split = Annotated[str, _option(PROMPT, "What one chunk is: document, paragraph, or a number of tokens, at least 1.")]
Truncate = Annotated[
    bool, _flag(PROMPT, "Where the prompt is too long for the model, cut the documents' end.", "--truncate")
]

Prune = Annotated[
    str, _option(PRUNE, "How to choose them: none, random, static, ends, lexical, lazyllm or entroprefill.")
]
Keep = Annotated[
    str | None,
    _option(
        PRUNE,
        "How much of the prompt stays, with --prune: tokens (256) or a share (25%, 0.25); from 1 token to all. For "
        "lazyllm a schedule: mild, balanced, aggressive, or what stays after which layers (10:70%,18:50%, or shares of "
        "the depth: 0.3:70%,0.6:50%). For "
        "entroprefill: chunks leave until so much stays.",
        default=False,
    ),
]
Layer = Annotated[
    int | None,
    _option(
        PRUNE,
        "The layer after which they leave, with --prune random, static, ends or lexical: from 0 (static: from 1) to "
        "the number of layers less 1.",
        default="0; static: a third of the layers",
    ),
]
Grain = Annotated[
    str | None,
    _option(
        PRUNE, "What leaves at once, with --prune random, static, ends or lexical: token or chunk.", default="token"
    ),
]
Aux = Annotated[
    str | None,
    _option(
        PRUNE,
        "With --prune lazyllm: keep the states of tokens left out, recompute them when they come back, or off: none "
        "comes back.",
        default="keep",
    ),
]
Selection = Annotated[
    str | None,
    _option(PRUNE, "With --prune lazyllm: choose anew per_step, or by the prefill alone.", default="per_step"),
]
ScoreProfile = Annotated[
    str | None,
    _option(
        PRUNE,
        "With --prune lazyllm or entroprefill: a file made by fewer calibrate, auto (the one that comes along for the "
        "model, if any), or none.",
        default="auto",
    ),
]

Preset = Annotated[
    str | None,
    _option(
        PRUNE,
        "With --prune entroprefill: default (calibrated for the model, if it has a file), paper (Algorithm 1 as "
        "printed) or general.",
        default="default",
    ),
]
Set = Annotated[
    list[str] | None,
    _option(
        PRUNE,
        "Any setting of the method by its name in Python, such as tolerance=0.2. Can be given more than once.",
        "--set",
        default=False,
        metavar="NAME=VALUE",
    ),
]

Evict = Annotated[
    str,
    _option(
        EVICT,
        "Which rows of the cache stay when the prompt has been read: none, those of a score (snapkv), or drawn by "
        "design:score (systematic:question), which can have a certificate. fewer policies lists them.",
    ),
]
EvictBudget = Annotated[
    str | None,
    _option(
        EVICT,
        "How many rows each key-value head keeps, with --evict: tokens (256) or a share of the tokens seen (25%, "
        "0.25). The first and the newest rows, which always stay, are in it.",
        "--budget",
        default=False,
    ),
]
SetEither = Annotated[
    list[str] | None,
    _option(
        EVICT,
        "Any setting of the method by its name in Python, of --prune (tolerance=0.2) or of --evict (window=64). Where "
        "both have the name, write prune.NAME or evict.NAME. Can be given more than once.",
        "--set",
        default=False,
        metavar="NAME=VALUE",
    ),
]

SetEvict = Annotated[
    list[str] | None,
    _option(
        EVICT,
        "Any setting of the policy by its name in Python, such as window=64. Can be given more than once.",
        "--set",
        default=False,
        metavar="NAME=VALUE",
    ),
]

MaxTokens = Annotated[int, _option(ANSWER, "Longest answer, in tokens, at least 1.")]
Temperature = Annotated[
    float, _option(ANSWER, "0 takes the likeliest token; above, up to 100, tokens are drawn at random.")
]
TopK = Annotated[
    int, _option(ANSWER, "Draw from this many tokens, at most the vocabulary; 0 is off. With --temperature.")
]
TopP = Annotated[
    float,
    _option(
        ANSWER, "Draw from the likeliest tokens with this total probability, above 0; 1 is off. With --temperature."
    ),
]
MinP = Annotated[
    float,
    _option(
        ANSWER,
        "Draw from tokens with this share of the likeliest one's probability, up to 1; 0 is off. With --temperature.",
    ),
]
RepetitionPenalty = Annotated[
    float, _option(ANSWER, "Above 1, makes tokens seen before less likely; 0.01 to 100, 1 is off.")
]
Stop = Annotated[
    list[str] | None,
    _option(
        ANSWER, "A text that ends the answer, not empty. Can be given more than once.", default=False, metavar="TEXT"
    ),
]
Seed = Annotated[int, _option(ANSWER, "Seed of every random choice, at least 0.")]

Json = Annotated[
    bool, _flag(OUTPUT, "Print one JSON object instead of the text: text, finish_reason, receipt.", "--json")
]
Logprobs = Annotated[
    int | None,
    _option(
        OUTPUT,
        "With --json, add logprobs: of every token and of this many others in its place, in nats; 0 to 100.",
        default=False,
    ),
]
Html = Annotated[
    Path | None, _option(OUTPUT, "Write the receipt to this file, as a page.", default=False, metavar="FILE")
]
ReceiptFile = Annotated[
    Path | None,
    _option(OUTPUT, "Write the receipt to this file, as JSON.", "--receipt", default=False, metavar="FILE"),
]
Quiet = Annotated[bool, _flag(OUTPUT, "Say nothing but the answer, and errors.", "--quiet", "-q")]
OddsFile = Annotated[
    Path | None,
    typer.Option(
        "--odds",
        help="A table of odds measured in a study of this model, policy, budget and condition.",
        metavar="FILE",
        show_default="one that comes along, if any holds",
    ),
]
