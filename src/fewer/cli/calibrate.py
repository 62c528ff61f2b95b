"""`fewer calibrate`: find what a method of leaving tokens out needs to know about a model, and write it to a file."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from fewer.cli import options
from fewer.cli.program import Debug
from fewer.cli.study import require_extra
from fewer.cli.targets import check_targets
from fewer.cli.terminal import Terminal, print_result
from fewer.errors import bad

if TYPE_CHECKING:
    from fewer.engine import Engine

__all__ = ["calibrate"]

Told = Callable[[str, int, int], None]


def calibrate(
    model: Annotated[
        str | None,
        typer.Argument(
            help="A model's folder, a GGUF file, or a name on the Hugging Face hub.",
            metavar="MODEL",
            show_default="the embedded model",
        ),
    ] = None,
    method: Annotated[str, typer.Option(help="What to calibrate: lazyllm or entroprefill.")] = "lazyllm",
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The file to write.", metavar="FILE", show_default="the model's name"),
    ] = None,
    task: Annotated[
        list[str] | None,
        typer.Option(
            help="Fit on this task; can be given more than once. Its items say which chunks support the answer.",
            show_default="lazyllm: all of --data, or four generated ones; entroprefill: a fixed list",
        ),
    ] = None,
    data: Annotated[Path | None, typer.Option(help="A folder of tasks with rows.", show_default="none")] = None,
    length: Annotated[
        int | None,
        typer.Option(help="Tokens of a generated prompt.", min=1, show_default="1024; entroprefill 1536 to 6144"),
    ] = None,
    num_prompts: Annotated[
        int | None,
        typer.Option(
            help="Prompts to fit on, at least two a task; with entroprefill four more of each are reported.",
            show_default="32; entroprefill 189",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="Seed of the prompts, at least 0. Studies begin at 0.", show_default="101; entroprefill 301"),
    ] = None,
    check: Annotated[
        int | None,
        typer.Option(
            help="With lazyllm: answer so many items of other tasks with every preset afterwards; 0 for none.",
            show_default="8",
        ),
    ] = None,
    saving: Annotated[
        float | None,
        typer.Option(
            help="With entroprefill: the share of the prefill to be saved on needles, above 0 to 1.",
            show_default="0.25",
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            help="With entroprefill: in so many of the prompts that prune all evidence has to survive, above 0 to 1.",
            show_default="0.95",
        ),
    ] = None,
    tables: Annotated[
        Path | None,
        typer.Option(
            help="With entroprefill: keep what each prompt showed in this folder, and go on from there.",
            metavar="FOLDER",
            show_default="none",
        ),
    ] = None,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    allow_pickle: options.AllowPickle = False,
    force: Annotated[bool, typer.Option("--force", help="Write over an older file.", metavar="")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.", metavar="")] = False,
    debug: Debug = False,
) -> None:
    """Find what a method needs to know about a model, on prompts with labelled evidence, and write it to a file.

    For lazyllm, heads that point at the tokens an answer needs. For entroprefill, where chunks may leave, by which
    heads and within which limits. Use the file with fewer ask --prune METHOD --profile FILE, or in Python with
    LazyLLM("balanced", profile=FILE) or EntroPrefill(profile=FILE).
    """
    require_extra()
    _check_method(method, {"--check": check}, {"--saving": saving, "--rate": rate, "--tables": tables})
    if out is not None:
        _check_out(out, force)
    terminal = Terminal(quiet)
    with terminal.busy("Loading"):
        from fewer.engine import Engine
        from fewer.study.files import write_whole

        engine = Engine.load(model, device, dtype, allow_pickle=allow_pickle, progress=terminal.note)
        path = out or _name_after(engine.adapter.facts.name, "profile" if method == "lazyllm" else method)
        _check_out(path, force)
    given: dict[str, Any] = {"tasks": task, "data": data, "length": length}
    given |= {"num_prompts": num_prompts} if num_prompts is not None else {}
    given |= {"seed": seed} if seed is not None else {}
    with _standing(terminal) as progress:
        if method == "lazyllm":
            text, parts = _fit_profile(engine, progress, given | ({} if check is None else {"check_items": check}))
        else:
            goal = {"saving": saving, "rate": rate}
            given |= {"folder": tables} | {name: value for name, value in goal.items() if value is not None}
            text, parts = _fit_settings(engine, progress, given)
    write_whole(path, text + "\n")
    if not quiet:
        for part in parts:
            print_result(part)
    if method == "lazyllm":
        what, python = "The profile is", f"LazyLLM('balanced', profile={str(path)!r})"
    else:
        what, python = "The settings are", f"EntroPrefill(profile={str(path)!r})"
    command = f"fewer ask ... --prune {method} --profile {shlex.quote(str(path))}"
    terminal.note(f"{what} in {path}. Use this file with {command}, or in Python with {python}.")


def _fit_profile(engine: Engine, progress: Told, given: dict[str, Any]) -> tuple[str, list[RenderableType]]:
    """The file's text, and what to say about it."""
    from fewer.cli.calibrated_profile import describe_profile
    from fewer.study.calibrate import calibrate as find_heads

    profile = find_heads(engine, **given, progress=progress)
    return json.dumps(profile.model_dump(mode="json"), indent=1), list(describe_profile(profile))


def _fit_settings(engine: Engine, progress: Told, given: dict[str, Any]) -> tuple[str, list[RenderableType]]:
    """The same for EntroPrefill."""
    from fewer.cli.calibrated_settings import describe_settings
    from fewer.study.calibrate.entroprefill import calibrate_entroprefill

    calibrated = calibrate_entroprefill(engine, **given, progress=progress)
    return json.dumps(calibrated.model_dump(mode="json"), indent=1), list(describe_settings(calibrated))


def _check_method(method: str, lazyllm: dict[str, object], entroprefill: dict[str, object]) -> None:
    """Refuse another method, and options that only the other one reads."""
    of = {"lazyllm": entroprefill, "entroprefill": lazyllm}
    if method not in of:
        raise bad("--method", method, "lazyllm or entroprefill", "Leave it out for lazyllm.")
    for name, value in of[method].items():
        if value is not None:
            raise bad(name, str(value), f"left out with method {method}", "It is for the other method.")


def _name_after(model: str, kind: str) -> Path:
    """For example smollm2-135m-instruct.profile.json."""
    name = re.sub(r"[^a-z0-9.]+", "-", PurePath(model).name.lower()).strip("-.")
    return Path(f"{name or 'model'}.{kind}.json")


def _check_out(path: Path, force: bool) -> None:
    check_targets({"--out": path})
    if path.exists() and not force:
        raise bad("--out", str(path), "a file that is not there yet", "Give --force to write over it.")


@contextmanager
def _standing(terminal: Terminal) -> Iterator[Told]:
    """What to call with where things stand: it draws a bar on a terminal, and elsewhere says where a part begins."""
    if not terminal.moves:

        def say(what: str, done: int, total: int) -> None:
            if done == 0:
                terminal.note(f"{what}: {total}")

        yield say
        return
    columns = TextColumn("{task.description}"), BarColumn(20), MofNCompleteColumn()
    with Progress(*columns, console=terminal.console, transient=True) as bar:
        running = bar.add_task("", total=None)

        def draw(what: str, done: int, total: int) -> None:
            bar.update(running, description=what, completed=done, total=total)

        yield draw
