"""What was fixed before the run, under one hash: the study's file, every prompt, and the model.

The file is that of `fewer.study.registration`, so that the same code reads it and holds it against its hash. A hash is
evidence of a time only where others could see it then.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from fewer.engine import Engine
from fewer.study.environment import describe_environment
from fewer.study.item import Item
from fewer.study.registration import Registration, load_registration, register
from fewer.study.replay.items import make_units
from fewer.study.replay.spec import PACKAGED, ReplayStudy
from fewer.study.spec import Study

__all__ = ["PACKAGED_REGISTRATION", "check_registration", "register_replay"]

PACKAGED_REGISTRATION = PACKAGED.with_suffix(".registration.json")


def register_replay(study: ReplayStudy, engine: Engine, data: str | Path | None, path: Path) -> Registration:
    """Freeze and hash the study with these prompts, and write it. Raises BadInput where the file holds another one."""
    items = [unit.item for unit in make_units(study, engine.tokenizer, data)]
    found = _freeze(study, items, describe_environment(engine)["model_sha256"])
    found.save(path)
    return found


def check_registration(path: Path, study: ReplayStudy, items: Sequence[Item], model_sha256: str) -> dict[str, Any]:
    """How a run stands to its registration: {kind, sentence, registered_at, sha256}.

    kind: "registered"; "part", where prompts that were registered are not in this run and all that are in it were;
    "differs"; or "none". Raises BadInput for a broken registration.
    """
    if not path.exists():
        return {"kind": "none", "sentence": "Not registered: everything here is exploratory."}
    registration = load_registration(path)
    now = _freeze(study, items, model_sha256)
    known = {name: mark for task in registration.tasks for name, mark in task.items.items()}
    ours = {name: mark for task in now.tasks for name, mark in task.items.items()}
    differences = []
    if registration.study_sha256 != study.sha256:
        differences.append("the study's file has changed")
    if registration.model_sha256 != model_sha256:
        differences.append("the model is another one")
    if changed := sorted(name for name, mark in ours.items() if known.get(name) != mark):
        differences.append(f"{len(changed)} prompts are others, such as {changed[0]}")
    told = {"registered_at": registration.registered_at, "sha256": registration.sha256}
    if differences:
        sentence = f"THIS RUN DOES NOT MATCH ITS REGISTRATION ({registration.short}...): {', '.join(differences)}."
        return {"kind": "differs", "sentence": sentence, **told}
    if missing := len(known.keys() - ours.keys()):
        sentence = (
            f"Registered {registration.short}...: this run has {len(ours)} of the {len(known)} prompts and they match; "
            f"{missing} were left out, so its verdicts are not those that were registered."
        )
        return {"kind": "part", "sentence": sentence, **told}
    return {"kind": "registered", "sentence": f"Registered {registration.short}...: this run matches.", **told}


def _freeze(study: ReplayStudy, items: Sequence[Item], model_sha256: str) -> Registration:
    """`register` wants of a study what this one has as well: its canonical JSON and the hash of it."""
    when = datetime.now(UTC).isoformat(timespec="seconds")
    return register(cast(Study, study), items, {}, model_sha256=model_sha256, when=when)
