"""`fewer explain`: for one prompt, why EntroPrefill leaves chunks out or does not, and what that loses."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from fewer.cli import options
from fewer.cli.ask import read_documents
from fewer.cli.program import Debug
from fewer.cli.settings import read_settings
from fewer.cli.streams import output_kept_clean
from fewer.cli.terminal import Terminal, print_result
from fewer.errors import BadInput, bad

__all__ = ["explain"]

_ANSWER = 32  # tokens of each answer with --reference


def explain(
    question: options.Question,
    docs: options.Docs = None,
    keep: Annotated[
        str | None,
        typer.Option(
            help="Chunks leave until so much of the prompt stays: tokens (256) or a share (25%, 0.25).",
            rich_help_panel=options.PRUNE,
            show_default="the preset's",
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="default (calibrated for the model, if it has a file), paper (Algorithm 1, short questions audited "
            "whole) or general.",
            rich_help_panel=options.PRUNE,
            show_default="default",
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            help="A file made by fewer calibrate entroprefill, auto (the one that comes along for the model, if any), "
            "or none.",
            rich_help_panel=options.PRUNE,
            show_default="auto",
        ),
    ] = None,
    given: options.Set = None,
    layer: Annotated[
        int | None,
        typer.Option(
            help="The monitored layer to show in full, from 1.",
            rich_help_panel=options.OUTPUT,
            show_default="the one that decides",
        ),
    ] = None,
    bandwidth: Annotated[
        float,
        typer.Option(
            help="Gbit/s at which the prompt's cache would be handed on, for the least time that takes; above 0.",
            rich_help_panel=options.OUTPUT,
        ),
    ] = 10.0,
    reference: Annotated[
        bool,
        typer.Option(
            "--reference",
            help="Also run the pruned prompt and the full model beside it, and measure what was lost.",
            rich_help_panel=options.OUTPUT,
            metavar="",
        ),
    ] = False,
    max_tokens: Annotated[
        int | None,
        typer.Option(
            help="With --reference, the longest answer of each of the two, in tokens, at least 1.",
            rich_help_panel=options.OUTPUT,
            show_default=str(_ANSWER),
        ),
    ] = None,
    model: options.Model = None,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    weights: options.Weights = "native",
    allow_pickle: options.AllowPickle = False,
    system: options.System = None,
    split: options.Split = "document",
    truncate: options.Truncate = False,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print one JSON object instead of tables: explanation, reference.",
            rich_help_panel=options.OUTPUT,
            metavar="",
        ),
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Say nothing but the result, and errors.", metavar="")
    ] = False,
    debug: Debug = False,
) -> None:
    """Explain what EntroPrefill would do with a question over documents, layer by layer, without answering.

    The explanation goes to standard output, everything else to standard error.
    """
    if not question.strip():
        raise bad("the question", question, "a text that is not blank", "Ask something.")
    if max_tokens is not None and not reference:
        raise BadInput(f"--max-tokens is {max_tokens}, but nothing is answered. Add --reference, or leave it out.")
    choice = read_settings({"keep": keep, "preset": preset, "profile": profile}, given or [])
    length = _ANSWER if max_tokens is None else max_tokens
    terminal = Terminal(quiet)
    with terminal.busy("Loading"):
        from fewer.prompt import Splitter
        from fewer.prune import make_planner
        from fewer.prune.entroprefill.transfer import Transfer
        from fewer.types import Sampling

        Splitter.parse(split)
        Transfer(0, 0, bandwidth)
        Sampling(max_tokens=length)
        settings = {name: value for name, value in choice.items() if value is not None}
        planner = make_planner("entroprefill", **settings)
    documents = read_documents(docs or [], terminal)
    with terminal.busy("Loading"):
        from fewer.cli.explanation import ExplanationTable
        from fewer.engine import Engine

        engine = Engine.load(model, device, dtype, weights=weights, allow_pickle=allow_pickle, progress=terminal.note)
    layout: dict[str, Any] = {"system": system, "split": split, "truncate": truncate}
    request = engine.request(question, documents, prune=planner, max_tokens=length if reference else 1, **layout)
    with terminal.busy("Reading the prompt"), output_kept_clean():
        explanation = engine.explain(request, layer, bandwidth=bandwidth)
    diagnosis = None
    if reference:
        with terminal.busy("Running the full model beside it"):
            diagnosis = engine.diagnose(request, max_tokens=length)
    if as_json:
        beside = None if diagnosis is None else diagnosis.to_object()
        print(json.dumps({"explanation": explanation.to_object(), "reference": beside}, allow_nan=False), flush=True)
    else:
        print_result(ExplanationTable(explanation, diagnosis))
