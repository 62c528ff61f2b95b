"""What can be typed in `fewer chat` beside questions: lines that begin with a slash."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch

from fewer.cli.chat_marks import explain_answer
from fewer.cli.chat_room import Room
from fewer.cli.targets import check_targets
from fewer.cli.why import find_table
from fewer.cli.why_table import AttributionTable
from fewer.decide import Setting
from fewer.errors import bad
from fewer.receipt.units import format_bytes, format_count
from fewer.session import Session

__all__ = ["COMMANDS", "run_command"]

_ASK = "Ask something first."


class Command(NamedTuple):
    """argument: what follows its name, or empty. run: returns whether the chat is over."""

    argument: str
    says: str
    run: Callable[[Room, str], bool]


def run_command(room: Room, line: str) -> bool:
    """Do what the line says; whether the chat is over. Raises BadInput, and what the session raises."""
    name, _, argument = line[1:].partition(" ")
    argument = argument.strip()
    command = COMMANDS.get(name)
    if command is None:
        way_out = "Write /help for what they do, or two slashes to ask a question that begins with one."
        raise bad("the command", f"/{name}", f"one of /{', /'.join(COMMANDS)}", way_out)
    if bool(command.argument) != bool(argument):
        wants = f"with {command.argument}" if command.argument else "without anything behind it"
        raise bad("the command", line, f"/{name} {wants}", "Write /help for all of them.")
    return command.run(room, argument)


def _compress(room: Room, _: str) -> bool:
    room.compress()
    return False


def _why(room: Room, _: str) -> bool:
    if room.told is None:
        raise bad("/why", "no answer", "after an answer", _ASK)
    if room.told.answer.first is not None:
        room.terminal.note("About the first run, over the compressed cache; the answer above is that of the second.")
    odds = find_table(room.told.compressed.receipt, room.terminal) if room.odds is None else room.odds
    room.terminal.show(AttributionTable(explain_answer(room.told, odds)))
    return False


def _recompute(room: Room, _: str) -> bool:
    told = room.told
    if told is None:
        raise bad("/recompute", "no answer", "after an answer", _ASK)
    if room.compressed_since:
        raise bad("/recompute", "an answer before a compression", "right after the answer", "Ask again.")
    if told.answer.first is not None:
        raise bad("/recompute", "an answer that was computed again", "after one that was not", "Ask something else.")
    if not told.evicted:
        legal = "after an answer over a compressed cache"
        raise bad("/recompute", "an answer over the whole cache", legal, "It is the full cache's answer already.")
    fork = room.session.fork()
    fork.rollback()
    again = room.answer(told.question, fork, "always")
    if again is None:
        room.terminal.note("Stopped; the earlier answer stays in the chat.")
    else:
        room.session, room.told = fork, again
    return False


def _undo(room: Room, _: str) -> bool:
    if room.told is None:
        raise bad("/undo", "no answer", "after an answer; one step is held", _ASK)
    room.session.rollback()
    also = ", and the compression since is undone" if room.compressed_since else ""
    room.told, room.compressed_since = None, False
    room.terminal.note(f"The last question and its answer are gone from the chat{also}.")
    return False


def _save(room: Room, argument: str) -> bool:
    room.session.save(argument)
    room.terminal.note(f"The session is in {argument}.")
    return False


def _load(room: Room, argument: str) -> bool:
    engine = room.session.engine
    session = Session.load(argument, engine)
    if room.odds is not None:
        policy = {} if session.policy is None else session.policy.describe()
        room.odds.check(Setting(engine.adapter.facts.fingerprint, policy, "stream"))
    if session.policy is None and room.rule != "never":
        raise bad("/load", argument, "a session with a policy, with --recompute", "Begin a chat without --recompute.")
    room.session, room.told, room.compressed_since = session, None, False
    name = "no policy" if session.policy is None else session.policy.name
    room.terminal.note(f"Loaded {format_count(session.num_seen, 'token')}, {room.describe_cache()}, {name}.")
    return False


def _receipt(room: Room, argument: str) -> bool:
    if room.told is None:
        raise bad("/receipt", "no answer", "after an answer", _ASK)
    check_targets({"/receipt": Path(argument)})
    room.told.answer.receipt.save_json(argument)
    room.terminal.note(f"The receipt is in {argument}.")
    return False


def _budget(room: Room, _: str) -> bool:
    session, adapter = room.session, room.session.engine.adapter
    row = 2 * adapter.num_kv_heads * adapter.head_dim * adapter.dtype.itemsize
    full = row * adapter.num_layers * session.num_seen
    rows = float(session.num_seen)
    if session.evictions:
        last = session.evictions[-1]
        rows = float(torch.as_tensor(last.rows_after).double().mean()) + session.num_seen - last.num_seen
    says = f"{format_count(session.num_seen, 'token')} seen, {rows:,.1f} rows a head and layer on average; "
    says += f"{room.describe_cache()}, reserved rows included (uncompressed {format_bytes(full)}, computed)"
    if session.policy is not None:
        says += f"; {session.policy.name}, budget {session.policy.budget.keep}"
    room.terminal.note(says + ".")
    return False


def _help(room: Room, _: str) -> bool:
    for name, command in COMMANDS.items():
        room.terminal.note(f"/{name} {command.argument}".ljust(16) + f" {command.says}")
    room.terminal.note("Everything else is a question. Ctrl-C stops an answer, Ctrl-D ends the chat.")
    return False


def _quit(room: Room, _: str) -> bool:
    return True


COMMANDS: dict[str, Command] = {
    "compress": Command("", "bring the cache down to the budget; what leaves is gone for later questions", _compress),
    "why": Command("", "what stands out about the last answer: the cache, the question, both or neither", _why),
    "recompute": Command("", "answer the last question again with the full cache, and go on from that", _recompute),
    "undo": Command("", "take the last question and its answer back, and a compression since", _undo),
    "budget": Command("", "tokens seen, rows and bytes held", _budget),
    "receipt": Command("FILE", "write the last answer's receipt, for fewer why", _receipt),
    "save": Command("DIR", "write the session to a directory", _save),
    "load": Command("DIR", "go on with a saved session in place of this one", _load),
    "help": Command("", "this", _help),
    "quit": Command("", "end the chat", _quit),
}
