"""`fewer ask`: one question over documents. The answer goes to standard output, everything else to standard error."""

from __future__ import annotations

import json
import shlex
import sys
from typing import TYPE_CHECKING, Any

import typer

from fewer.cli import options
from fewer.cli.program import Debug
from fewer.cli.settings import divide_settings, read_settings
from fewer.cli.targets import check_targets
from fewer.cli.terminal import Terminal
from fewer.errors import BadInput, bad

if TYPE_CHECKING:
    from fewer.engine import Answer, Engine, Stream
    from fewer.evict import Policy
    from fewer.types import Document, Planner

__all__ = ["ask", "build_policy", "check_budget", "check_drawing", "read_documents"]

UNSEEN = {code: "\ufffd" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


def ask(
    question: options.Question,
    docs: options.Docs = None,
    prune: options.Prune = "none",
    keep: options.Keep = None,
    layer: options.Layer = None,
    grain: options.Grain = None,
    aux: options.Aux = None,
    selection: options.Selection = None,
    profile: options.ScoreProfile = None,
    preset: options.Preset = None,
    evict: options.Evict = "none",
    budget: options.EvictBudget = None,
    given: options.SetEither = None,
    model: options.Model = None,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    weights: options.Weights = "native",
    allow_pickle: options.AllowPickle = False,
    system: options.System = None,
    split: options.Split = "document",
    truncate: options.Truncate = False,
    max_tokens: options.MaxTokens = 256,
    temperature: options.Temperature = 0.0,
    top_k: options.TopK = 0,
    top_p: options.TopP = 1.0,
    min_p: options.MinP = 0.0,
    repetition_penalty: options.RepetitionPenalty = 1.0,
    stop: options.Stop = None,
    seed: options.Seed = 0,
    as_json: options.Json = False,
    logprobs: options.Logprobs = None,
    html: options.Html = None,
    receipt: options.ReceiptFile = None,
    quiet: options.Quiet = False,
    debug: Debug = False,
) -> None:
    """Answer a question over documents.

    The answer goes to standard output while it is written; its receipt and everything else go to standard error.
    """
    if not question.strip():
        raise bad("the question", question, "a text that is not blank", "Ask something.")
    named = {"keep": keep, "layer": layer, "grain": grain, "aux": aux, "selection": selection}
    named |= {"profile": profile, "preset": preset, "budget": budget}
    choice = read_settings(named, given or [])
    written = {name for name, value in named.items() if value is not None}
    owners = prune != "none", evict != "none"
    of_prune, of_evict = divide_settings(choice, written, *owners, lambda: _list_known(prune, evict))
    _check_choice(prune, of_prune)
    check_budget(evict, of_evict)
    drawing = {"top_k": top_k, "top_p": top_p, "min_p": min_p}
    check_drawing(temperature, drawing)
    _check_logprobs(as_json, logprobs)
    check_targets({"--html": html, "--receipt": receipt}, docs or ())
    sampling = {
        "max_tokens": max_tokens,
        "temperature": temperature,
        **drawing,
        "repetition_penalty": repetition_penalty,
        "stop": tuple(stop or ()),
        "seed": seed,
        "logprobs": 0 if logprobs is None and evict != "none" else logprobs,  # fewer why asks the receipt for them
    }

    terminal = Terminal(quiet)
    with terminal.busy("Loading"):
        planner, policy = _prepare(prune, of_prune, split, sampling), build_policy(evict, of_evict)
        _check_pair(planner, policy)
    documents = read_documents(docs or [], terminal)
    with terminal.busy("Loading"):
        from fewer.engine import Engine

        engine = Engine.load(model, device, dtype, weights=weights, allow_pickle=allow_pickle, progress=terminal.note)

    layout: dict[str, Any] = {"system": system, "split": split, "truncate": truncate}
    with terminal.layers("Reading the prompt") as progress:
        stream = engine.stream(
            question, documents, prune=planner, evict=policy, progress=progress, **layout, **sampling
        )
        interrupted = _follow(stream, silent=as_json)
    answer = stream.answer
    if as_json:
        print(json.dumps(_to_object(answer, engine, logprobs is not None), allow_nan=False), flush=True)
    elif answer.ids:
        terminal.show(answer.receipt.to_table())
    for path, save in ((html, answer.receipt.save_html), (receipt, answer.receipt.save_json)):
        if path is not None:
            save(path)
            terminal.note(f"The receipt is in {path}.")
    if interrupted:
        raise typer.Exit(130)


def _list_known(prune: str, evict: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of settings that each has; an unknown method has none, and is refused later."""
    from fewer.evict import settings_of_policy
    from fewer.prune import PLANNERS, make_planner
    from fewer.prune.names import settings_of

    if prune not in PLANNERS:
        make_planner(prune)  # says what there is
    return settings_of(prune), ("budget", *settings_of_policy(evict))


def _check_choice(prune: str, choice: dict[str, Any]) -> None:
    """Refuse settings that have another name here, and a method without the one that it needs."""
    if prune == "lazyllm" and "schedule" in choice:
        value = choice["schedule"]
        raise bad("--set schedule", value, "given as --keep", f"Write --keep {shlex.quote(str(value))}.")
    if prune in ("random", "static", "ends", "lexical") and "keep" not in choice:
        raise BadInput(
            f"--prune is {prune!r}, but --keep is missing. Add a number of tokens (--keep 256) or a share of the "
            "prompt (--keep 25%), or leave --prune out."
        )


def check_budget(evict: str, choice: dict[str, Any]) -> None:
    """Refuse a policy without a budget."""
    if evict != "none" and "budget" not in choice:
        raise BadInput(
            f"--evict is {evict!r}, but --budget is missing. Add a number of tokens (--budget 256) or a share of the "
            "tokens seen (--budget 25%), or leave --evict out."
        )


def check_drawing(temperature: float, drawing: dict[str, Any]) -> None:
    """Refuse options of drawing tokens where none is drawn."""
    off = {"top_k": 0, "top_p": 1.0, "min_p": 0.0}
    for name, value in drawing.items():
        if temperature == 0 and value != off[name]:
            option = "--" + name.replace("_", "-")
            raise BadInput(
                f"{option} is {value!r}, but --temperature is 0, which always takes the likeliest token. Add a "
                f"--temperature above 0, such as 0.7, or leave {option} out."
            )


def _check_logprobs(as_json: bool, logprobs: int | None) -> None:
    if logprobs is not None and not as_json:
        raise BadInput(f"--logprobs is {logprobs}, but only --json shows them. Add --json, or leave --logprobs out.")


def _prepare(prune: str, choice: dict[str, Any], split: str, sampling: dict[str, Any]) -> Planner | None:
    """The planner; refuses at once what would be refused after the model is loaded."""
    from fewer.prompt import Splitter
    from fewer.prune import make_planner
    from fewer.types import Sampling

    Splitter.parse(split)
    Sampling(**sampling)
    return make_planner(prune, **choice)


def build_policy(evict: str, choice: dict[str, Any]) -> Policy | None:
    """The policy of eviction; None for none."""
    from fewer.evict import make_policy

    try:
        return make_policy(evict, **choice)
    except BadInput as error:
        raise (error.renamed("budget") if error.name == "keep" else error) from None


def _check_pair(planner: Planner | None, policy: Policy | None) -> None:
    """Refuse what does not go together, before the model is loaded."""
    from fewer.model.segment import asks_again

    if planner is None or policy is None:
        return
    if asks_again(planner):
        way_out = "Add --aux off --selection prefill, or leave one of --prune and --evict out."
        raise bad("--evict", policy.name, "left out where pruned tokens can come back", way_out)
    for name, value, off in (("block", policy.block, None), ("moment", policy.moment, "prompt")):
        if value != off:
            raise bad(f"--set {name}", value, "left out with --prune", "Pruning needs the whole prompt at once.")


def read_documents(docs: list[str], terminal: Terminal) -> tuple[Document, ...]:
    """The documents; says which files were left out."""
    from fewer.prompt import read_paths

    if "-" in docs and sys.stdin is None:
        raise bad("DOCS", "-", "files or folders, since standard input is closed", "Name a file.")
    if "-" in docs and sys.stdin.isatty():
        terminal.note("Reading standard input; end it with Ctrl-D.")
    reading = read_paths(docs)
    if skipped := reading.skipped:
        names = ", ".join(str(path) for path in skipped[:3]) + (", ..." if len(skipped) > 3 else "")
        terminal.note(f"Left out, for their suffix: {len(skipped)} file{'s' * (len(skipped) != 1)} ({names}).")
    return reading.documents


def _follow(stream: Stream, silent: bool) -> bool:
    """Write the answer while it comes; whether Ctrl-C ended it. What came before stays in the stream's answer."""
    started = interrupted = False
    try:
        for piece in stream:
            if not silent:
                started = True
                sys.stdout.write(piece.translate(UNSEEN) if sys.stdout.isatty() else piece)
                sys.stdout.flush()
    except KeyboardInterrupt:
        stream.close()
        interrupted = True
    finally:
        if started:
            sys.stdout.write("\n")
            sys.stdout.flush()
    return interrupted


def _to_object(answer: Answer, engine: Engine, listed: bool) -> dict[str, Any]:
    """What --json prints; with `logprobs` if they are to be listed: each token's own (nats) and the likeliest ones'."""

    def entry(token: int, logprob: float) -> dict[str, Any]:
        return {"token": token, "text": str(engine.tokenizer.decode([token])), "logprob": logprob}

    found: dict[str, Any] = {
        "text": answer.text,
        "finish_reason": answer.finish_reason,
        "receipt": answer.receipt.model_dump(mode="json"),
    }
    if listed:
        found["logprobs"] = [
            {**entry(each.token, each.logprob), "top": [entry(token, logprob) for token, logprob in each.top]}
            for each in answer.logprobs or ()
        ]
    return found
