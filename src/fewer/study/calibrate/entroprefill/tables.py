"""One prefill of a prompt, reduced to what each head looks at by chunk: all that the search needs.

`L` layers down to half of the depth (deeper stops save too little), `H` heads, `k` candidate chunks. Rows are the
query's; the observers are its last `OBSERVERS`. A table is a few hundred kilobytes, and can be kept in a folder.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field, fields
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fewer.engine import Engine
from fewer.prune.entroprefill import EntroPrefill
from fewer.prune.entroprefill.audit import document_shares
from fewer.prune.entroprefill.pooling import pool
from fewer.prune.entroprefill.situation import Situation
from fewer.study.calibrate.entroprefill.prompts import Asked
from fewer.study.calibrate.watching import Watcher, watch
from fewer.study.files import refuse, sync
from fewer.types import Looked

__all__ = ["OBSERVERS", "Table", "find_deepest", "tabulate"]

OBSERVERS = 32
"""Rows that propose: the last ones of the query, which is mostly shorter."""
VERSION = 2


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """What one prompt showed."""

    task: str
    size: int  # T
    query: int  # rows of the query
    sizes: NDArray[np.int64]  # [k] tokens
    supporting: NDArray[np.bool_]  # [k]
    layers: NDArray[np.int64]  # [L] their numbers, ascending
    shares: NDArray[np.float64]  # [L, H, k] the observers' mean mass on a chunk as a share of that on all; 1 where none
    audited: NDArray[np.float64]  # [L, H, k] the mean over the whole query of each row's shares
    document_mass: NDArray[np.float64]  # [L] Z of the pooled measure; 0 where no head looks beyond the sinks


@dataclass(eq=False)
class Tabulator(Watcher):
    """Notes the tables of every layer that sees the whole prompt."""

    situation: Situation | None = None
    num_groups: int = 1
    wanted: frozenset[int] = frozenset()
    layers_seen: list[int] = field(default_factory=list)
    shares: list[NDArray[np.float64]] = field(default_factory=list)
    audited: list[NDArray[np.float64]] = field(default_factory=list)
    document_mass: list[float] = field(default_factory=list)

    def rows(self) -> tuple[int, ...]:
        """The query's."""
        return tuple(range(*self.prompt.query))

    def note(self, layer: int, seen: Looked) -> None:
        """In float64, by the functions that the planner uses."""
        if layer not in self.wanted:
            return
        assert self.situation is not None
        candidates, settings = self.situation.candidates, self.situation.settings
        mass = candidates.mass(seen.rows).cpu().numpy()  # [H, rows, k]
        proposing = [self.rows().index(position) for position in self.situation.observers]
        self.layers_seen.append(layer)
        self.shares.append(document_shares(mass[:, proposing].mean(axis=1)))
        self.audited.append(document_shares(mass).mean(axis=1))
        sinks = self.situation.sinks(seen.rows.device)
        pooled = pool(
            seen.rows[:, proposing], sinks, self.num_groups, settings.tau, settings.zeta, settings.residual_min
        )
        fine = pooled.finite and not pooled.all_fell_back
        self.document_mass.append(float(_sum(candidates.mass(pooled.mu))) if fine else 0.0)


def find_deepest(num_layers: int) -> int:
    """The deepest layer that is looked at: half of the depth, and never the last layer."""
    return max(1, min(num_layers // 2, num_layers - 1))


def tabulate(engine: Engine, asked: Asked, folder: Path | None = None) -> Table:
    """The prompt's table, from `folder` where it is there already; else it is made, and put there.

    Raises NonFiniteError where the model does, StorageError where the folder cannot be written to.
    """
    facts = engine.adapter.facts
    path = None if folder is None else folder / f"{_digest(engine, asked)}.npz"
    if path is not None and (found := _load(path)) is not None:
        return found
    planner = EntroPrefill(preset="general", observers=OBSERVERS).fitted(facts)
    situation = Situation.of(planner.settings, planner.heads, asked.prompt)
    deepest = find_deepest(facts.num_layers)
    wanted = frozenset(facts.global_layers) or frozenset(range(1, deepest + 1))
    watcher = Tabulator(asked.prompt, deepest, None, situation, facts.num_kv_heads, wanted)
    watch(engine, watcher)
    sizes = situation.candidates.sizes
    supporting = np.isin(np.arange(len(sizes)), sorted(asked.supporting))
    table = Table(
        asked.task,
        len(asked.prompt),
        asked.prompt.query[1] - asked.prompt.query[0],
        sizes,
        supporting,
        np.array(watcher.layers_seen, dtype=np.int64),
        np.stack(watcher.shares),
        np.stack(watcher.audited),
        np.array(watcher.document_mass),
    )
    if path is not None:
        _save(path, table)
    return table


def _sum(mass: Tensor) -> float:
    return float(mass.sum())


def _digest(engine: Engine, asked: Asked) -> str:
    """Of everything that the table depends on: the model, the prompt, its chunks and labels, and this format."""
    prompt = asked.prompt
    parts = (
        (VERSION, OBSERVERS, engine.adapter.facts.fingerprint, str(engine.adapter.dtype), asked.task),
        [(chunk.start, chunk.stop) for chunk in prompt.chunks],
        (prompt.query, sorted(asked.supporting), prompt.protected.tolist(), prompt.ids.tolist()),
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def _load(path: Path) -> Table | None:
    """None where it is not there, or is not whole."""
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as found:
            columns = {each.name: found[each.name] for each in fields(Table)}
    except (OSError, KeyError, ValueError, BadZipFile):
        return None
    one = {name: columns.pop(name).item() for name in ("task", "size", "query")}
    return Table(**one, **columns)


def _save(path: Path, table: Table) -> None:
    waiting = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(waiting, "wb") as file:
            np.savez_compressed(file, **{each.name: getattr(table, each.name) for each in fields(Table)})
        sync(waiting)
        os.replace(waiting, path)
    except OSError as error:
        waiting.unlink(missing_ok=True)
        raise refuse(path, error) from error
