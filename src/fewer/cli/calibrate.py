"""`fewer calibrate`: find the heads of a model that point at what answers need, and write them down as a profile."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from fewer.cli import options
from fewer.cli.program import Debug
from fewer.cli.study import require_extra
from fewer.cli.targets import check_targets
from fewer.cli.terminal import Terminal, print_result
from fewer.errors import bad

if TYPE_CHECKING:
    from fewer.prune.profile import Profile

__all__ = ["calibrate"]


def calibrate(
    model: Annotated[
        str | None,
        typer.Argument(
            help="A model's folder, a GGUF file, or a name on the Hugging Face hub.",
            metavar="MODEL",
            show_default="the embedded model",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The profile.", metavar="FILE", show_default="the model's name")
    ] = None,
    task: Annotated[
        list[str] | None,
        typer.Option(
            help="Fit on this task; can be given more than once. Its items say which chunks support the answer.",
            show_default="all of --data, or four generated ones",
        ),
    ] = None,
    data: Annotated[Path | None, typer.Option(help="A folder of tasks with rows.", show_default="none")] = None,
    length: Annotated[
        int | None, typer.Option(help="Tokens of a generated prompt.", min=1, show_default="1024")
    ] = None,
    num_prompts: Annotated[int, typer.Option(help="Prompts in all, at least two a task.")] = 32,
    seed: Annotated[int, typer.Option(help="Seed of the prompts, at least 0. Studies begin at 0.")] = 101,
    check: Annotated[
        int, typer.Option(help="Answer so many items of other tasks with every preset afterwards; 0 for none.")
    ] = 8,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    allow_pickle: options.AllowPickle = False,
    force: Annotated[bool, typer.Option("--force", help="Write over an older profile.", metavar="")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.", metavar="")] = False,
    debug: Debug = False,
) -> None:
    """Find the heads of a model that point at the tokens an answer needs, and write them to a profile.

    LazyLLM chooses by a profile's heads: from Python, LazyLLM("balanced", profile=FILE).
    """
    require_extra()
    if out is not None:
        _check_out(out, force)
    terminal = Terminal(quiet)
    with terminal.busy("Loading"):
        from fewer.engine import Engine
        from fewer.study.calibrate import calibrate as find_heads
        from fewer.study.files import write_whole

        engine = Engine.load(model, device, dtype, allow_pickle=allow_pickle, progress=terminal.note)
        path = out or _name_after(engine.adapter.facts.name)
        _check_out(path, force)
    with _standing(terminal) as progress:
        profile = find_heads(
            engine,
            tasks=task,
            data=data,
            length=length,
            num_prompts=num_prompts,
            seed=seed,
            check_items=check,
            progress=progress,
        )
    write_whole(path, json.dumps(profile.model_dump(mode="json"), indent=1) + "\n")
    if not quiet:
        for part in _describe(profile):
            print_result(part)
    terminal.note(f"The profile is in {path}. Use it with LazyLLM('balanced', profile={str(path)!r}).")


def _name_after(model: str) -> Path:
    """For example smollm2-135m-instruct.profile.json."""
    name = re.sub(r"[^a-z0-9.]+", "-", PurePath(model).name.lower()).strip("-.")
    return Path(f"{name or 'model'}.profile.json")


def _check_out(path: Path, force: bool) -> None:
    check_targets({"--out": path})
    if path.exists() and not force:
        raise bad("--out", str(path), "a file that is not there yet", "Give --force to write over it.")


@contextmanager
def _standing(terminal: Terminal) -> Iterator[Callable[[str, int, int], None]]:
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


def _describe(profile: Profile) -> Iterator[RenderableType]:
    """Two tables, each with a line that says what its numbers are."""
    fitted, checked = profile.fitted_on, profile.fitted_on.get("checked")
    yield _gates_table(profile)
    yield Text(
        f"Window: {profile.before} tokens before, {profile.after} behind. Recall of the answers' tokens, on the "
        f"half of the {fitted['num_prompts']} prompts by which nothing was chosen but whether a head is added.\n"
    )
    yield _presets_table(profile)
    if checked:
        yield Text(
            f"Checked on {sum(checked['tasks'].values())} items of {', '.join(checked['tasks'])}: enough to find what "
            "is broken, too few to claim anything. Left out: of the prefill's work, in tokens x layers."
        )


def _gates_table(profile: Profile) -> Table:
    """Where tokens may leave, and how well that is chosen."""
    fitted = profile.fitted_on
    table = _start(("after layer", "heads (layer.head)"), ("recall", "paper's", "random"))
    for gate in fitted["gates"]:
        heads = " ".join(f"{layer}.{head}" for layer, head in gate["heads"])
        numbers = gate["recall"], gate["recall_paper"], fitted["recall_random"]
        table.add_row(*map(Text, (str(gate["layer"]), heads, *(f"{number:.2f}" for number in numbers))))
    return table


def _presets_table(profile: Profile) -> Table:
    """The schedules, and what generation said about them."""
    checked = profile.fitted_on.get("checked")
    arms: dict[str, dict[str, Any]] = checked["arms"] if checked else {name: {} for name in profile.presets}
    table = _start(("preset", "schedule"), ("score", "of full", "95% interval", "left out") if checked else ())
    for name, arm in arms.items():
        cells = [name, profile.presets.get(name, "")]
        if checked:
            ratio, ends = arm.get("ratio"), arm.get("interval")
            cells += [f"{arm['score']:.2f}", "-" if ratio is None else f"{ratio:.2f}"]
            cells += ["-" if ends is None else f"{ends[0]:.2f} to {ends[1]:.2f}", f"{arm['left_out']:.0%}"]
        table.add_row(*map(Text, cells))
    return table


def _start(texts: tuple[str, ...], numbers: tuple[str, ...]) -> Table:
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    for name in texts:
        table.add_column(Text(name), overflow="fold")
    for name in numbers:
        table.add_column(Text(name), justify="right", no_wrap=True)
    return table
