"""What changed between two studies, in sentences: differences that matter to what is claimed, and notes on the rest.

Every field of a study falls on one of the two sides. A field that is not named here is a difference.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from fewer.study.spec import Study

__all__ = ["compare_studies", "compare_tasks", "quote"]

_NOTED = ("name", "title")  # fields of a study that change nothing of what is claimed, asked or computed
_KEYED = {"outcomes": ("outcome", "name"), "claims": ("claim", "id")}  # lists whose entries have a name


def compare_studies(
    before: Study, now: Study, *, same_items: Mapping[str, bool], same_weights: bool
) -> tuple[list[str], list[str]]:
    """The differences and the notes, one sentence each.

    same_items: for each task that has items, then or now, whether they are the same: how they were chosen is then only
    a note, and what became of the others is for `compare_tasks` to say. same_weights: the model's weights are known to
    be the same; where they lie is then only a note.
    """
    differences: list[str] = []
    notes: list[str] = []
    old, new = before.model_dump(mode="json"), now.model_dump(mode="json")
    for field in new:
        if field == "model":
            _compare_models(before, now, same_weights, differences, notes)
        elif field == "tasks":
            _compare_choices(before, now, same_items, differences, notes)
        elif field == "arms":
            differences += _compare_entries("arm", _arms(before), _arms(now))
        elif field in _KEYED:
            noun, key = _KEYED[field]
            differences += _compare_entries(noun, _by(old[field], key), _by(new[field], key))
        elif field == "task_seed":
            (notes if all(same_items.values()) else differences).extend(_compare_fields("The study", old, new, [field]))
        else:
            side = notes if field in _NOTED else differences
            side += _compare_fields("The study", old, new, [field])
    return differences, notes


def compare_tasks(name: str, before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """How the items of a task changed: counts, and the first of them by name. The maps are id to fingerprint."""
    if not before or not now:
        return f"Task {name}, {len(before or now)} items, was {'added' if now else 'taken out'}."
    changed = [key for key in before if key in now and before[key] != now[key]]
    added, gone = [key for key in now if key not in before], [key for key in before if key not in now]
    parts = [
        f"{len(keys)} {what} (such as {quote(keys[0])})"
        for keys, what in ((changed, "changed"), (added, "added"), (gone, "gone"))
        if keys
    ]
    return f"The items of task {name} changed: {', '.join(parts)}; {len(before)} -> {len(now)} items."


def quote(value: Any) -> str:
    """A value in a sentence, as JSON, cut where it is long."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:60]}... ({len(text)} characters)"


def _compare_models(before: Study, now: Study, same_weights: bool, differences: list[str], notes: list[str]) -> None:
    """Path and device are notes where the weights are the same and nothing is claimed of speed."""
    old, new = before.model.model_dump(mode="json"), now.model.model_dump(mode="json")
    timed = any(claim.kind == "speedup" for claim in (*before.claims, *now.claims))
    for field in new:
        free = (field == "path" and same_weights) or (field == "device" and not timed)
        (notes if free else differences).extend(_compare_fields("The model", old, new, [field]))


def _compare_choices(
    before: Study, now: Study, same_items: Mapping[str, bool], differences: list[str], notes: list[str]
) -> None:
    """How items are chosen, and tasks that came or went without changing the items."""
    old, new = _choices(before), _choices(now)
    for key, choice in new.items():
        if key in old:
            side = notes if same_items.get(choice["name"]) else differences
            side += _compare_fields(f"Task {key}", old[key], choice, list(choice))
    for key in sorted(old.keys() ^ new.keys()):
        same = same_items.get((old.get(key) or new[key])["name"])
        if same is not False:
            where = "added to" if key in new else "taken out of"
            (notes if same else differences).append(f"Task {key} was {where} the study.")


def _choices(study: Study) -> dict[str, dict[str, Any]]:
    """By name, and where a name is there twice, by name and folder."""
    names = [task.name for task in study.tasks]
    return {
        task.name if names.count(task.name) == 1 else f"{task.name} of {task.data}": task.model_dump(mode="json")
        for task in study.tasks
    }


def _compare_entries(noun: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    found = [f"{noun.capitalize()} {key} was added." for key in new if key not in old]
    found += [f"{noun.capitalize()} {key} was taken out." for key in old if key not in new]
    for key in new:
        if key in old:
            fields = list(dict.fromkeys([*old[key], *new[key]]))
            found += _compare_fields(f"{noun.capitalize()} {key}", old[key], new[key], fields)
    return found


def _compare_fields(what: str, old: Mapping[str, Any], new: Mapping[str, Any], fields: Iterable[str]) -> list[str]:
    return [
        f"{what}: {field} changed, {quote(old.get(field))} -> {quote(new.get(field))}."
        for field in fields
        if old.get(field) != new.get(field)
    ]


def _arms(study: Study) -> dict[str, Any]:
    return {arm.name: json.loads(json.dumps(arm.describe(), default=str)) for arm in study.expanded}


def _by(entries: list[dict[str, Any]], key: str) -> dict[str, dict[str, Any]]:
    return {entry[key]: entry for entry in entries}
