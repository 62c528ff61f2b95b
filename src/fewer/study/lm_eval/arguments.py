"""What `--model_args` may say, checked before a model is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from fewer.errors import bad
from fewer.prune import PLANNERS, make_planner, settings_of
from fewer.types import Keep, Planner

__all__ = ["AUTO_BATCH", "Arguments", "read_arguments"]

AUTO_BATCH = 32  # requests running at once with batch_size=auto; nothing is tried out, since nothing is padded


@dataclass(frozen=True)
class Arguments:
    """The model arguments of one evaluation, with their defaults."""

    pretrained: str | None = None
    """A directory, a GGUF file or a hub name; left out, the embedded model."""
    device: str = "auto"
    dtype: str = "auto"
    """"float32" to compare with other models; "auto" is what this machine computes fastest, not the stored type."""
    weights: str = "native"
    """Or "int8"."""
    allow_pickle: bool = False
    prune: str = "none"
    """Which prompt tokens are left out: a planner's name. Its own settings (keep, layer, grain, ...) are too."""
    evict: str = "none"
    sinks: int = 4
    """Tokens at the start of a context that always stay when pruning. Its last token always stays too."""
    seed: int = 0
    """With the context's tokens it gives each request's seed: the same in any order and batch."""
    batch_size: int = 1
    """Contexts computed together."""
    max_length: int | None = None
    """Tokens of context and continuation; left out, the model's positions."""
    truncation: str = "left"
    """What happens to a context that is too long: its beginning is cut off and counted, or "error"."""
    add_bos_token: bool | None = None
    """Whether the tokenizer adds its special tokens; left out, what the tokenizer says."""
    prefix_token_id: int | None = None
    """The context of an empty context; left out, the tokenizer's bos, or else eos."""
    chat_template_args: Mapping[str, Any] | None = None
    enable_thinking: bool | None = None
    think_end_token: str | int | None = None
    """A string or token id; generations are what follows the last one."""
    receipts: str | None = None
    """A new file for the receipts, one JSON object a line."""
    settings: tuple[tuple[str, Any], ...] = ()
    """The planner's settings."""

    @property
    def planner(self) -> Planner | None:
        """The planner, or None. Raises BadInput for settings that it does not take."""
        try:
            return make_planner(self.prune, **dict(self.settings))
        except TypeError as error:
            legal = f"settings of prune={self.prune}: {', '.join(settings_of(self.prune))}"
            raise bad("model_args", dict(self.settings), legal, f"{error}.") from None

    @property
    def most_kept(self) -> int | None:
        """The budget where it is a number of tokens; no shorter context loses any."""
        keep = dict(self.settings).get("keep")
        return None if keep is None or self.prune == "lazyllm" else Keep.parse(keep).tokens


def read_arguments(given: Mapping[str, Any]) -> Arguments:
    """Check the arguments of `--model_args`, `--batch_size`, `--max_batch_size` and `--device`.

    Raises BadInput for one that is unknown, out of range, or without effect beside the others.
    """
    wanted = {name: value for name, value in given.items() if value is not None}
    prune = wanted.get("prune", "none")
    if wanted.get("evict", "none") != "none":
        raise bad("evict", wanted["evict"], "none in this version", "Take it out of model_args.")
    if prune not in ("none", *PLANNERS):
        raise bad("prune", prune, f"one of {', '.join(['none', *sorted(PLANNERS)])}", "Leave it out for the full run.")
    own = {field.name for field in fields(Arguments)} - {"settings"} | {"max_batch_size"}
    of_planners = {name for planner in PLANNERS for name in settings_of(planner)} - own
    legal = own | set(settings_of(prune))
    for name in wanted:
        if name not in own | of_planners:
            way_out = "Nothing is accepted and ignored: take it out."
            raise bad("a model argument", name, f"one of {', '.join(sorted(legal))}", way_out)
    if idle := sorted(set(wanted) & (of_planners | {"sinks"}) - set(settings_of(prune))) if prune == "none" else []:
        raise bad(
            "model_args", wanted, f"without {', '.join(idle)}, since nothing is pruned", "Add prune, or take out."
        )
    settings = tuple((name, wanted.pop(name)) for name in sorted(of_planners & set(wanted)))
    wanted["batch_size"] = _batch_size(wanted.get("batch_size", 1), wanted.pop("max_batch_size", None))
    arguments = Arguments(**wanted, settings=settings)
    _check(arguments)
    return arguments


def _check(arguments: Arguments) -> None:
    _ = arguments.planner, arguments.most_kept
    for name, low in (("sinks", 0), ("seed", 0), ("max_length", 2), ("prefix_token_id", 0)):
        value = getattr(arguments, name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < low):
            raise bad(name, value, f"a whole number of at least {low}", "Leave it out for the usual one.")
    for name in ("allow_pickle", "add_bos_token", "enable_thinking"):
        if getattr(arguments, name) not in (True, False, None):
            raise bad(name, getattr(arguments, name), "True or False", "Leave it out for the usual one.")
    if arguments.truncation not in ("left", "error"):
        way_out = "Leave it out to cut the beginning of contexts that are too long, as the hf model does."
        raise bad("truncation", arguments.truncation, "'left' or 'error'", way_out)
    if arguments.enable_thinking and arguments.think_end_token is None:
        way_out = "Name the token that ends the thinking, such as think_end_token='</think>'."
        raise bad("think_end_token", None, "given with enable_thinking=True", way_out)
    if not isinstance(arguments.chat_template_args or {}, Mapping):
        raise bad("chat_template_args", arguments.chat_template_args, "a mapping", "Pass model_args as JSON.")


def _batch_size(size: object, most: object) -> int:
    """`--batch_size` and `--max_batch_size` as one number."""
    text = str(size)
    if text == "auto":
        text, most = str(AUTO_BATCH if most is None else most), None
    if most is not None:
        raise bad("max_batch_size", most, "left out where batch_size is a number", "Use one of the two.")
    if not text.isdigit() or int(text) < 1:
        raise bad("batch_size", size, "a whole number of at least 1, or 'auto'", f"'auto' is {AUTO_BATCH}.")
    return int(text)
