"""Running a replay: prompt by prompt, until all are in the folder.

Deterministic but for dates: the same study on the same machine and versions gives the same rows. Killed at any moment,
the same command goes on with the first prompt that is not finished. Not covered: two machines on one folder.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
from filelock import FileLock, Timeout
from torch import Tensor

from fewer.engine import Engine
from fewer.errors import BadInput, bad
from fewer.evict import Policy
from fewer.study.environment import describe_environment
from fewer.study.files import hash_json, refuse, write_whole
from fewer.study.replay.arms import make_arm
from fewer.study.replay.capture import Captured, capture
from fewer.study.replay.items import Unit, make_units
from fewer.study.replay.measure import Cells, Full, keep_rows, look, measure
from fewer.study.replay.registered import PACKAGED_REGISTRATION, check_registration
from fewer.study.replay.spec import ArmSpec, Condition, ReplayStudy
from fewer.study.replay.table import CELLS, WORLDS, join, read_done, read_tables, write_prompt
from fewer.study.replay.worlds import World, visit_worlds
from fewer.study.run import Progress

__all__ = ["FORMAT", "Replay", "read_replay", "run_replay"]

FORMAT = "1"


@dataclass(frozen=True)
class Replay:
    """A replay as it lies on disk, finished or not."""

    folder: Path
    header: dict[str, Any]
    study: ReplayStudy
    cells: pa.Table
    worlds: pa.Table

    @property
    def left(self) -> int:
        """Prompts that are not finished."""
        return len(self.header["prompts"]) - len(read_done(self.folder))


def run_replay(
    study: ReplayStudy,
    engine: Engine,
    out: str | Path,
    *,
    data: str | Path | None = None,
    registration: Path = PACKAGED_REGISTRATION,
    most: int | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> int:
    """Replay what is left of a study into a folder; the number of prompts that are then still left.

    data: the folder of the documents' tasks; without it there are generated prompts alone. most: so many prompts now.
    Raises BadInput where the folder holds something else or is in use, StorageError; what was finished is kept.
    """
    out = Path(out)
    units = make_units(study, engine.tokenizer, data)
    with _hold(out):
        _write_header(study, engine, units, out, registration)
        waiting = [unit for unit in units if unit.number not in read_done(out)]
        now = waiting[: len(waiting) if most is None else most]
        for unit in now:
            if progress is not None:
                progress(Progress(len(read_done(out)), len(units), unit.item.task, None))
            cells, worlds = replay_prompt(study, engine, unit)
            write_prompt(out, unit.number, study.sha256, cells, worlds)
    return len(waiting) - len(now)


def read_replay(folder: str | Path) -> Replay:
    """Read a replay. Raises BadInput where the folder holds none, or one that was changed."""
    folder = Path(folder)
    header = _read_header(folder)
    if header is None:
        raise bad("the run", str(folder), "a folder written by fewer study replay", "Check the path.")
    study = ReplayStudy.model_validate(header["study"])
    return Replay(folder, header, study, *read_tables(folder, study.sha256))


@torch.inference_mode()
def replay_prompt(study: ReplayStudy, engine: Engine, unit: Unit) -> tuple[pa.Table, pa.Table]:
    """Cells and worlds of one prompt: every condition, budget, arm and draw."""
    captured = capture(engine, unit, study.steps)
    cells: list[dict[str, Any]] = []
    worlds: list[dict[str, Any]] = []
    if captured.steps:
        full, wide = look(captured), captured.widen()
        seed = study.seed * 1000 + unit.number
        for condition in study.conditions:
            num_rows, count = unit.num_rows(condition), unit.num_observed(condition)
            for arm, policy, place in _list_places(study, condition, count, seed):
                some = wide if arm.sets == "query head" else captured
                found = _draw(some, full, num_rows, policy, arm.draws, seed)
                cells += [_fill_cells(each, place | {"prompt": unit.number, "draw": n}) for n, each in enumerate(found)]
            fixed, sampled = (
                make_arm(study.arm(name), study.worlds.budget, study.delta, count, seed)
                for name in (study.reference, study.main)
            )
            place = {"prompt": unit.number, "condition": condition, "budget": study.worlds.budget}
            visited = visit_worlds(captured, full, num_rows, fixed, sampled, study.worlds.permutations, seed)
            worlds += [_fill_world(each, place | {"world": number}) for number, each in enumerate(visited)]
    return join(CELLS, cells), join(WORLDS, worlds)


def _list_places(
    study: ReplayStudy, condition: Condition, count: int, seed: int
) -> Iterator[tuple[ArmSpec, Policy, dict[str, Any]]]:
    """Every budget and arm, with the arm's policy and what its rows say of it."""
    for budget in study.budgets:
        for arm in study.arms:
            place = {"condition": condition, "budget": budget, "arm": arm.name}
            yield arm, make_arm(arm, budget, study.delta, count, seed), place


def _draw(captured: Captured, full: Full, num_rows: int, policy: Policy, draws: int, seed: int) -> Iterator[Cells]:
    own = captured.k[0].shape[0] != full.values[0].shape[0]
    against = Full(full.weights, captured.v, full.y) if own else full
    for draw in range(draws):
        state = captured.restore(num_rows, policy.score.needs)
        yield measure(against, keep_rows(state, policy, seed + 1_000_000 * draw), num_rows, policy)


def _fill_cells(cells: Cells, place: dict[str, Any]) -> dict[str, Any]:
    """One draw's columns."""
    parts: dict[str, Tensor | None] = {"error": cells.error, "plug_in": cells.plug_in, "kept": cells.kept[..., None]}
    parts |= {
        "radius": cells.radius,
        "variance": cells.variance,
        "paper_radius": cells.paper_radius,
        "paper_variance": cells.paper_variance,
    }
    parts |= {"kappa": None if cells.kappa is None else cells.kappa[..., None]}
    place = place | {"asked": cells.asked}
    return place | {name: part.numpy() for name, part in parts.items() if part is not None}


def _fill_world(world: World, place: dict[str, Any]) -> dict[str, Any]:
    """One world's columns."""
    parts = {"error": world.error, "same": world.same}
    parts |= {"sampled_error": world.sampled_error, "sampled_radius": world.sampled_radius}
    return place | {name: part.numpy() for name, part in parts.items()}


@contextmanager
def _hold(out: Path) -> Iterator[None]:
    lock = FileLock(out / "lock")
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout:
        way_out = "Wait for it, or choose another --out."
        raise bad("the run's folder", str(out), "used by one process at a time", way_out) from None
    except OSError as error:
        raise refuse(out, error) from error
    try:
        yield
    finally:
        lock.release()


def _write_header(study: ReplayStudy, engine: Engine, units: tuple[Unit, ...], out: Path, registration: Path) -> None:
    """Write the run's header, or hold what is there against this study, these prompts, this model and machine."""
    environment = describe_environment(engine)
    items = [unit.item for unit in units]
    standing = check_registration(registration, study, items, environment["model_sha256"])
    fields = ("kind", "id", "task", "category", "sha256", "num_tokens", "context")
    prompts = [
        (u.kind, u.item.id, u.item.task, u.item.category, u.item.fingerprint, len(u.prompt), u.context) for u in units
    ]
    header = {
        "replay_format": FORMAT,
        "study": study.model_dump(mode="json"),
        "study_sha256": study.sha256,
        "environment": environment,
        "prompts": [dict(zip(fields, each, strict=True)) for each in prompts],
        "registration": standing,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    there = _read_header(out)
    if there is None:
        if any(path.name not in ("lock", "prompts") and not path.name.startswith(".") for path in out.iterdir()):
            raise bad("the run's folder", str(out), "empty, new, or a run of this study", "Choose another --out.")
        write_whole(out / "run.json", json.dumps(header, indent=1) + "\n")
        return
    for name in ("study_sha256", "prompts", "environment"):
        if there[name] != json.loads(json.dumps(header[name])):
            what = {"study_sha256": "study", "environment": "model, machine and versions"}.get(name, name)
            raise bad("the run's folder", str(out), f"a run of the same {what}", "Choose another --out.")


def _read_header(folder: Path) -> dict[str, Any] | None:
    path = folder / "run.json"
    if not path.exists():
        return None
    try:
        header: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        sound = header["replay_format"] == FORMAT and hash_json(header["study"]) == header["study_sha256"]
        sound = sound and {"prompts", "environment", "registration", "started"} <= header.keys()
    except (OSError, ValueError, KeyError, TypeError):
        sound = False
    if not sound:
        raise BadInput(f"{path} is no sound header of a replay. Put it back, or start a new run elsewhere.")
    return header
