"""Writing a report's folder, whole or not at all: a reader finds the old one or the new one, never a mixture.

OUT/report.md, OUT/report.html, OUT/figures/*.png and *.svg, OUT/tables/*.csv
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from fewer.errors import BadInput, StorageError, bad
from fewer.report.block import Document, Table
from fewer.report.build import build
from fewer.report.chart.mark import Figure
from fewer.report.chart.paint import paint
from fewer.report.markdown import write_markdown
from fewer.report.page import write_page
from fewer.report.published import PUBLISHED, Published
from fewer.report.sheet import write_sheet
from fewer.study.folder import read_run

__all__ = ["FORMATS", "write_report"]

FORMATS = ("md", "html", "png", "svg", "csv")
OURS = {"report.md", "report.html", "figures", "tables"}


def write_report(
    runs: Sequence[str | Path],
    out: str | Path,
    formats: Sequence[str] = FORMATS,
    paper_values: Sequence[Published] = PUBLISHED,
) -> list[Path]:
    """Write the report of one run, or of several with the first as the reference. Returns the files, sorted.

    `paper_values` are the published numbers to show beside matching arms; () shows none. An earlier report in `out` is
    replaced; a folder with anything else in it is refused. Raises BadInput for that, for an unknown format, for a run
    that cannot be read or is given twice, and StorageError where the disk refuses; then `out` is as it was.
    """
    for name in formats:
        if name not in FORMATS:
            raise bad("format", name, f"one of {', '.join(FORMATS)}", "Leave it out for all of them.")
    if not runs or not formats:
        raise BadInput(f"No {'run' if not runs else 'format'} is given. Name at least one.")
    folders = [Path(run).resolve() for run in runs]
    for folder in folders:
        if folders.count(folder) > 1:
            raise bad("run", str(folder), "given once", "Take one of the two out.")
    target = _check_target(Path(out))
    document = build([read_run(run) for run in runs], paper_values)
    contents = _render(document, formats)
    _put(target, contents)
    return [target / name for name in sorted(contents)]


def _render(document: Document, formats: Sequence[str]) -> dict[str, bytes]:
    """Every file by its path in the folder."""
    contents: dict[str, bytes] = {}
    pictures = [kind for kind in ("png", "svg") if kind in formats]
    if "md" in formats:
        contents["report.md"] = write_markdown(document, pictures[0] if pictures else None).encode()
    if "html" in formats:
        contents["report.html"] = write_page(document).encode()
    for block in document.all(Figure) if pictures else ():
        assert isinstance(block, Figure)
        for kind, picture in paint(block, pictures).items():
            contents[f"figures/{block.name}.{kind}"] = picture
    for block in document.all(Table) if "csv" in formats else ():
        assert isinstance(block, Table)
        contents[f"tables/{block.name}.csv"] = write_sheet(block).encode()
    return contents


def _check_target(out: Path) -> Path:
    target = out.resolve()
    if target.exists() and not target.is_dir():
        raise bad("the report's folder", str(out), "a folder, or a name not taken yet", "Choose another --out.")
    others = sorted(path.name for path in target.iterdir() if path.name not in OURS) if target.exists() else []
    if others:
        legal = f"empty, new, or an earlier report; it holds {others[0]}"
        raise bad("the report's folder", str(out), legal, "Choose another --out.")
    return target


def _put(target: Path, contents: Mapping[str, bytes]) -> None:
    """Write all files beside the target, then put the folder in its place; on trouble everything is as it was."""
    waiting = target.parent / f".{target.name}.{secrets.token_hex(4)}.part"
    old = target.parent / f".{target.name}.{secrets.token_hex(4)}.old"
    try:
        for name, content in contents.items():
            path = waiting / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(path, "xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        if target.exists():
            os.replace(target, old)
        try:
            os.replace(waiting, target)
        except OSError:
            if old.exists():
                os.replace(old, target)
            raise
    except OSError as error:
        raise StorageError(
            f"{target} cannot be written: {error.strerror or error}. Free space or choose another --out; "
            "what was there before is untouched."
        ) from error
    finally:
        shutil.rmtree(waiting, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
