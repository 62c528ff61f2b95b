"""`fewer chat`: a conversation over documents that are read once. Answers go to standard output, the rest beside it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fewer.cli import options
from fewer.cli.ask import build_policy, check_budget, check_drawing, read_documents
from fewer.cli.program import Debug
from fewer.cli.settings import divide_settings, read_settings
from fewer.cli.terminal import Terminal, print_error
from fewer.errors import BadInput, FewerError, bad

if TYPE_CHECKING:
    from fewer.cli.chat_room import Room
    from fewer.evict import Policy

__all__ = ["chat"]

PROMPT = "> "
RECOMPUTE = "Computing answers again"


def chat(
    context: typer.Context,
    docs: Annotated[
        list[str] | None,
        typer.Argument(help="Files or folders to read before the first question.", metavar="DOCS", show_default=False),
    ] = None,
    evict: options.Evict = "none",
    budget: options.EvictBudget = None,
    given: options.SetEvict = None,
    recompute: Annotated[
        str,
        typer.Option(
            help="When an answer over a compressed cache is computed again: never, always, or by a gate: "
            "signal=NAME,rate=SHARE (a share of the answers, below 1), signal=NAME,threshold=NUMBER, or file=PATH (a "
            "calibrated one).",
            rich_help_panel=RECOMPUTE,
            metavar="RULE",
        ),
    ] = "never",
    escalate: Annotated[
        str | None,
        typer.Option(
            help="With --recompute: the full cache (full), or a budget above the policy's: tokens (512) or a share "
            "(50%, 0.5).",
            rich_help_panel=RECOMPUTE,
            show_default="full",
        ),
    ] = None,
    odds: options.OddsFile = None,
    model: options.Model = None,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    weights: options.Weights = "native",
    allow_pickle: options.AllowPickle = False,
    system: options.System = None,
    plain: Annotated[
        bool,
        typer.Option(
            "--plain",
            help="Plain text with blank lines between, in place of the model's chat template.",
            rich_help_panel=options.PROMPT,
            metavar="",
        ),
    ] = False,
    max_tokens: options.MaxTokens = 256,
    temperature: options.Temperature = 0.0,
    top_k: options.TopK = 0,
    top_p: options.TopP = 1.0,
    min_p: options.MinP = 0.0,
    repetition_penalty: options.RepetitionPenalty = 1.0,
    stop: options.Stop = None,
    seed: options.Seed = 0,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Say nothing but answers, and errors.", metavar="")
    ] = False,
    debug: Debug = False,
) -> None:
    """Talk about documents that are read once, and compressed with --evict before the first question.

    Questions come from the terminal, or one a line from standard input. Answers go to standard output, marks and notes
    to standard error. /help lists the commands.
    """
    if "-" in (docs or ()):
        raise bad("DOCS", "-", "files or folders, since questions come from standard input", "Name a file.")
    if system is not None and not system.strip():
        raise bad("--system", system, "a text that is not blank", "Leave it out.")
    if system is not None and plain:
        raise bad("--system", system, "left out with --plain", "A system text is a turn of the chat template.")
    drawing = {"top_k": top_k, "top_p": top_p, "min_p": min_p}
    check_drawing(temperature, drawing)
    sampling: dict[str, Any] = {"max_tokens": max_tokens, "temperature": temperature, **drawing}
    sampling |= {"repetition_penalty": repetition_penalty, "stop": tuple(stop or ()), "seed": seed}
    terminal = Terminal(quiet)
    with terminal.busy("Loading"):
        policy = _make_policy(evict, budget, given)
        _check_rule(recompute, escalate, odds is not None, policy)
        from fewer.cli.chat_rules import parse_recompute
        from fewer.decide import load_odds
        from fewer.types import Sampling

        Sampling(**sampling)
        rule, table = parse_recompute(recompute), None if odds is None else load_odds(odds)
    documents = read_documents(docs or [], terminal)
    with terminal.busy("Loading"):
        from fewer.cli.chat_room import Room
        from fewer.decide import Setting
        from fewer.engine import Engine
        from fewer.session import Session

        engine = Engine.load(model, device, dtype, weights=weights, allow_pickle=allow_pickle, progress=terminal.note)
        if table is not None and policy is not None:
            table.check(Setting(engine.adapter.facts.fingerprint, policy.describe(), "stream"))
    room = Room(Session(engine, policy, seed=seed, chat=not plain), terminal, rule, escalate, table, sampling)
    room.read(documents, system)
    code = _talk(room, context.find_root().command)
    if code:
        raise typer.Exit(code)


def _make_policy(evict: str, budget: str | None, given: list[str] | None) -> Policy | None:
    choice = read_settings({"budget": budget}, given or [])
    written = {"budget"} if budget is not None else set()
    _, of_evict = divide_settings(choice, written, False, evict != "none", lambda: ((), ()))
    check_budget(evict, of_evict)
    if of_evict.get("moment") not in (None, "prompt"):
        way_out = "A chat compresses when the documents are read, and on /compress."
        raise bad("--set moment", of_evict["moment"], "left out in a chat", way_out)
    return build_policy(evict, of_evict)


def _check_rule(recompute: str, escalate: str | None, odds: bool, policy: Policy | None) -> None:
    """Refuse what would do nothing, and a budget that is none."""
    from fewer.types import Keep

    named = {"--recompute": recompute != "never", "--odds": odds}
    for name, wanted in named.items():
        if wanted and policy is None:
            raise BadInput(f"{name} is given, but nothing is evicted. Add --evict and --budget, or leave {name} out.")
    if escalate is not None and recompute == "never":
        raise BadInput(f"--escalate is {escalate!r}, but nothing is recomputed. Add --recompute, or leave it out.")
    if escalate not in (None, "full"):
        try:
            Keep.parse(escalate)
        except BadInput as error:
            raise error.renamed("--escalate") from None


def _talk(room: Room, program: Any) -> int:
    """Until the input ends; the exit code. On a terminal errors are said and passed over, and Ctrl-C ends nothing."""
    code, alive, lines = 0, True, _read_lines()
    while alive:
        try:
            line = next(lines, None)
            if line is None:
                break
            alive = _take(room, line)
        except KeyboardInterrupt:
            room.terminal.console.print()
            room.stopped, lines = True, _read_lines()
            room.terminal.note("Ctrl-D or /quit ends the chat.")
        except FewerError as error:
            print_error(str(error))
            code = code or error.exit_code
        if room.stopped:
            room.stopped = program.interrupted = False
            if not _on_terminal():
                return 130
    return 0 if _on_terminal() else code


def _take(room: Room, line: str) -> bool:
    """Do what a line says; whether the chat goes on."""
    from fewer.cli.chat_commands import run_command

    line = line.strip()
    if not line:
        return True
    if line.startswith("/") and not line.startswith("//"):
        return not run_command(room, line)
    told = room.answer(line[1:] if line.startswith("//") else line)
    if told is None:
        room.terminal.note("Stopped; the question and what was written are not in the chat.")
    else:
        room.told, room.compressed_since = told, False
    return True


def _read_lines() -> Iterator[str]:
    """What is typed, or piped in."""
    if sys.stdin is None:
        return
    if not _on_terminal():
        try:
            yield from sys.stdin
        except UnicodeDecodeError as error:
            raise bad("standard input", error.object[error.start : error.end], "UTF-8", "Convert it first.") from None
        return
    import readline  # noqa: F401  # the line is edited, and earlier ones come back

    while True:
        try:
            if not sys.stdout.isatty():
                print(PROMPT, end="", file=sys.stderr, flush=True)
            yield input(PROMPT if sys.stdout.isatty() else "")
        except EOFError:
            print(file=sys.stderr)
            return


def _on_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()
