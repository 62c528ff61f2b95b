"""Writing a report's folder, whole or not at all: a reader finds the old one or the new one, never a mixture.

OUT/report.md, OUT/report.html, OUT/figures/*.png and *.svg, OUT/tables/*.csv, and OUT/report.json, the list of these
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from fewer.errors import BadInput, bad
from fewer.report.block import Document, Table
from fewer.report.build import build
from fewer.report.chart.mark import Figure
from fewer.report.chart.paint import paint
from fewer.report.folder import MANIFEST, check_target, list_files, put
from fewer.report.markdown import write_markdown
from fewer.report.page import write_page
from fewer.report.published import PUBLISHED, Published
from fewer.report.sheet import write_sheet
from fewer.study.folder import Run, read_run

__all__ = ["FORMATS", "write_report"]

FORMATS = ("md", "html", "png", "svg", "csv")


def write_report(
    runs: Sequence[str | Path],
    out: str | Path,
    formats: Sequence[str] = FORMATS,
    paper_values: Sequence[Published] = PUBLISHED,
    timed: str | Path | None = None,
) -> list[Path]:
    """Write the report of one run, or of several with the first as the reference. Returns the files, sorted.

    `paper_values` are the published numbers to show beside matching arms; () shows none. `timed` is a run whose arms
    ran alone: its seconds are shown for arms that are defined alike. An earlier report in `out` is replaced; a folder
    with anything else in it, at any depth, is refused, and so is one whose files were changed since (by the hashes in
    report.json). Raises BadInput for that, for an unknown format, for a run that cannot be read or is given twice (also
    as a copy), and StorageError where the disk refuses; then `out` is as it was.
    """
    for name in formats:
        if name not in FORMATS:
            raise bad("format", name, f"one of {', '.join(FORMATS)}", "Leave it out for all of them.")
    if not runs or not formats:
        raise BadInput(f"No {'run' if not runs else 'format'} is given. Name at least one.")
    target = check_target(Path(out))
    read = [read_run(run) for run in runs]
    _refuse_same(read)
    contents = _render(build(read, paper_values, None if timed is None else read_run(timed)), formats)
    contents[MANIFEST] = list_files(contents)
    put(target, contents)
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


def _refuse_same(runs: Sequence[Run]) -> None:
    """Refuse a run that is given twice, be it by another path or as a copy: its answers would be counted twice."""
    for number, run in enumerate(runs):
        for other in runs[:number]:
            if _is_same(run, other):
                raise bad(
                    "run",
                    str(run.folder),
                    f"given once; it is the same run as {other.folder}, and its answers would count twice",
                    "Take one of the two out.",
                )


def _is_same(run: Run, other: Run) -> bool:
    """One folder; or one header and, if there are answers, some in both logs, as in a copy made while it ran."""
    if run.folder.samefile(other.folder):
        return True
    if run.header != other.header:
        return False
    mine, theirs = ({json.dumps(row) for row in run.rows.to_pylist()} for run in (run, other))
    return bool(mine & theirs) or not (mine or theirs)
