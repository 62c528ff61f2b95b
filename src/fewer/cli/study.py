"""`fewer study`: register, plan and run a study, look into its log, and list the tasks there are."""

from __future__ import annotations

import importlib.util
import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from fewer.cli.program import Debug
from fewer.cli.terminal import Terminal, print_result
from fewer.errors import BadInput, bad

if TYPE_CHECKING:
    from collections.abc import Callable

    from fewer.study.run import Progress as Standing

__all__ = ["Out", "app", "parse_shard", "require_extra", "show_standing"]

SAID_EVERY_S = 30  # where nothing can move, one line this often

app = typer.Typer(no_args_is_help=True)

File = Annotated[Path, typer.Argument(help="The study: a YAML file, or a Python file with STUDY.", metavar="FILE")]
Out = Annotated[Path, typer.Option("--out", "-o", help="The run's folder.", metavar="RUN", show_default=False)]


@app.callback()
def study() -> None:
    """Run models x tasks x arms x seeds; nothing that is finished is ever lost."""
    require_extra()


@app.command()
def run(
    file: File,
    out: Out,
    shard: Annotated[
        str, typer.Option(help="K/N: run the K-th of N parts. They may run side by side, into one folder.")
    ] = "1/1",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.", metavar="")] = False,
    debug: Debug = False,
) -> None:
    """Run a study, or what is left of it: the same command goes on where a killed one stopped."""
    index, count = parse_shard(shard)
    terminal = Terminal(quiet)
    with terminal.busy("Preparing"):
        from fewer.study.run import run_study
    with show_standing(terminal) as progress:
        done = run_study(file, out, shard=(index, count), note=terminal.note, progress=progress)
    counts = ", ".join(f"{number} {status}" for status, number in sorted(done.statuses.items())) or "nothing was left"
    terminal.note(f"{done.answered} items answered now ({counts}). The log is in {done.folder}.")
    if done.left:
        terminal.note(f"{done.left} items of other shards are not in the log yet.")


@app.command()
def register(
    file: File,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Where to write it.", show_default="beside FILE", metavar="JSON")
    ] = None,
    debug: Debug = False,
) -> None:
    """Freeze and hash claims, kill conditions, tasks, items and seeds, before the run.

    A later run says on every page whether it matches. Publish the hash: a file alone proves no date.
    """
    terminal = Terminal()
    with terminal.busy("Registering"):
        from datetime import UTC, datetime

        from fewer.study.environment import describe_environment
        from fewer.study.registration import register as freeze
        from fewer.study.registration import registration_path
        from fewer.study.run import open_study

        study, engine, prepared = open_study(file, terminal.note)
        registration = freeze(
            study,
            [unit.item for unit in prepared.units],
            prepared.left_out,
            when=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
            model_sha256=describe_environment(engine)["model_sha256"],
        )
        path = out or registration_path(file)
        registration.save(path)
    for claim in study.claims:
        clusters = {unit.item.cluster for unit in prepared.units if not claim.tasks or unit.item.task in claim.tasks}
        if len(clusters) < claim.min_clusters:
            terminal.note(
                f"The claim {claim.id!r} asks for {claim.min_clusters} clusters and its tasks have {len(clusters)}: it "
                "can only end undecided. Take more items."
            )
    terminal.note(f"{len(study.claims)} claims over {len(prepared.units)} items are registered in {path}.")
    print(registration.sha256)


@app.command()
def plan(
    file: File,
    machines: Annotated[int, typer.Option(help="Machines like this one.", min=1)] = 1,
    answers: Annotated[
        int | None, typer.Option(help="Scale the study to so many answers.", show_default="as it is", min=1)
    ] = None,
    rates: Annotated[
        Path | None, typer.Option(help="Take the speeds from this run.", show_default="measured now", metavar="RUN")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of a table.", metavar="")
    ] = False,
    debug: Debug = False,
) -> None:
    """Say what a study would take: answers, time, memory and disk, from speeds measured on this machine."""
    terminal = Terminal()
    with terminal.busy("Planning"):
        from fewer.study.folder import read_run
        from fewer.study.plan import plan as make_plan
        from fewer.study.rates import measure_rates, rates_from_run
        from fewer.study.run import open_study

        study, engine, prepared = open_study(file, terminal.note)
        speeds = measure_rates(engine) if rates is None else rates_from_run(read_run(rates))
        found = make_plan(
            study,
            [(unit.item, unit.num_tokens) for unit in prepared.units],
            speeds,
            machines=machines,
            answers=answers,
        )
    print_result(found.to_table()) if not as_json else print(json.dumps(found.model_dump(mode="json")))


@app.command()
def query(
    runs: Annotated[list[Path], typer.Argument(help="Runs; their rows are the table `rows`.", metavar="RUN...")],
    sql: Annotated[str, typer.Option("--sql", help="A DuckDB query over `rows`.", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.", metavar="")] = False,
    debug: Debug = False,
) -> None:
    """Ask the logs of runs in SQL, such as --sql "SELECT arm, avg(score) FROM rows GROUP BY arm"."""
    from fewer.study.query import query_runs, write_json

    names, found = query_runs(runs, sql)
    if as_json:
        print(write_json(names, found))
        return
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    for name in names:
        table.add_column(Text(name), overflow="fold")
    for row in found:
        table.add_row(
            *(
                Text("-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value))
                for value in row
            )
        )
    print_result(table)


@app.command()
def tasks(
    data: Annotated[
        Path | None, typer.Option(help="A folder with rows or a benchmark.", show_default="the shipped sample")
    ] = None,
    debug: Debug = False,
) -> None:
    """List the tasks of a folder, or those that come along: the generators and the sample."""
    from fewer.study.tasks import list_tasks
    from fewer.study.tasks.generate import GENERATORS

    table = Table(box=None, padding=(0, 1), pad_edge=False)
    table.add_column("task", overflow="fold")
    table.add_column("what it is", overflow="fold")
    for name in list_tasks(data):
        table.add_row(Text(name), Text("items in the folder" if data else "items in the sample"))
    if data is None:
        for name, generator in GENERATORS.items():
            table.add_row(Text(name), Text(f"generated: {generator.what}"))
    print_result(table)


def require_extra() -> None:
    """Raise BadInput unless the packages of the extra `study` are there."""
    needed = {"pyarrow": "pyarrow", "duckdb": "duckdb", "scipy": "scipy", "sklearn": "scikit-learn"}
    needed |= {"statsmodels": "statsmodels", "yaml": "pyyaml", "matplotlib": "matplotlib"}
    missing = [package for module, package in needed.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise BadInput(f"Studies need {', '.join(missing)}. Install them with: pip install 'fewer[study]'")


def parse_shard(text: str) -> tuple[int, int]:
    """`K/N` as (index from 0, count). Raises BadInput."""
    match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
    index, count = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= index <= count:
        raise bad("--shard", text, "K/N with K from 1 to N", "Write 1/4 for the first of four parts.")
    return index - 1, count


@contextmanager
def show_standing(terminal: Terminal) -> Iterator[Callable[[Standing], None]]:
    """What to call with where a run stands: it draws a bar on a terminal, and elsewhere says a line now and then."""
    if not terminal.moves:
        said = [time.monotonic()]

        def say(now: Standing) -> None:
            if time.monotonic() - said[0] >= SAID_EVERY_S:
                said[0] = time.monotonic()
                terminal.note(f"{now.done} of {now.total} items; {_describe_left(now.left_s)}.")

        yield say
        return
    columns = TextColumn("{task.description}"), BarColumn(20), MofNCompleteColumn(), TextColumn("{task.fields[left]}")
    with Progress(*columns, console=terminal.console, transient=True) as bar:
        task: Any = bar.add_task("", total=None, left="")

        def draw(now: Standing) -> None:
            bar.update(task, description=now.task, completed=now.done, total=now.total, left=_describe_left(now.left_s))

        yield draw


def _describe_left(left_s: tuple[float, float] | None) -> str:
    if left_s is None:
        return "too early to say how long"
    low, high = (time_words(seconds) for seconds in left_s)
    return f"{low} left" if low == high else f"{low} to {high} left"


def time_words(seconds: float) -> str:
    """Seconds, minutes or hours, as a person would say them."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
