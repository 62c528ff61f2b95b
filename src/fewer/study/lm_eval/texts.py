"""Between the harness's texts and token ids, as its `hf` model goes there and back."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from jinja2 import TemplateError
from lm_eval.models.utils import postprocess_generated_text
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from fewer.errors import bad
from fewer.study.lm_eval.arguments import Arguments

__all__ = ["Texts", "load_tokenizer"]

_log = logging.getLogger("lm_eval.models.fewer")


class Texts:
    """Encodes contexts, decodes generations, and writes conversations."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, arguments: Arguments) -> None:
        self._tokenizer, self._arguments = tokenizer, arguments

    @property
    def prefix(self) -> int:
        """What stands for an empty context: the token asked for, the tokenizer's bos, or its eos."""
        for found in (self._arguments.prefix_token_id, self._tokenizer.bos_token_id, self._tokenizer.eos_token_id):
            if found is not None:
                return int(found)
        raise bad("prefix_token_id", None, "given, as the tokenizer has neither bos nor eos", "Add it to model_args.")

    def encode(self, text: str, special: bool | None = None) -> list[int]:
        """Ids of a text to be scored. None adds special tokens where it does not begin with the prefix's text."""
        begun = special is None and text.startswith(self._tokenizer.decode(self.prefix))
        return self._encode(text, False if begun else special)

    def encode_prompt(self, text: str) -> list[int]:
        """Ids of a text to be continued: the tokenizer's bos counts here. An empty one is the prefix token."""
        bos = self._tokenizer.bos_token
        begun = bos is not None and text.startswith(bos)
        return self._encode(text, False if begun else None) or [self.prefix]

    def decode(self, ids: Sequence[int], until: Sequence[str]) -> str:
        """The text of a generation, after the thinking and before the first of the stop strings."""
        end, kept = self._arguments.think_end_token, list(ids)
        number = int(end) if isinstance(end, int) or (end is not None and end.isdigit()) else None
        if number in kept:
            kept = kept[len(kept) - kept[::-1].index(number) :]
        text = self._tokenizer.decode(kept, skip_special_tokens=True)
        if number is not None:
            text = text.lstrip()
        mark = None if end is None or number is not None else end
        return str(postprocess_generated_text(text, list(until), mark))

    def write_chat(self, turns: list[dict[str, str]], add_generation_prompt: bool) -> str:
        """A conversation in the model's template; without its system turns where the template refuses them."""
        settings = dict(self._arguments.chat_template_args or {})
        if self._arguments.enable_thinking is not None:
            settings["enable_thinking"] = self._arguments.enable_thinking
        settings |= {
            "add_generation_prompt": add_generation_prompt,
            "continue_final_message": not add_generation_prompt,
        }
        try:
            return str(self._tokenizer.apply_chat_template(turns, tokenize=False, **settings))
        except TemplateError:
            _log.warning("the chat template refuses the conversation; trying it without the system turn")
            rest = [turn for turn in turns if turn["role"] != "system"]
            return str(self._tokenizer.apply_chat_template(rest, tokenize=False, **settings))

    def _encode(self, text: str, special: bool | None) -> list[int]:
        if special is None:
            special = self._arguments.add_bos_token
        settings = {} if special is None else {"add_special_tokens": special}
        return [int(token) for token in self._tokenizer.encode(text, **settings)]


def load_tokenizer(directory: Path, add_bos_token: bool) -> PreTrainedTokenizerBase:
    """The tokenizer of a model that is already loaded, told whether its special tokens include bos."""
    return AutoTokenizer.from_pretrained(
        directory, local_files_only=True, trust_remote_code=False, add_bos_token=add_bos_token
    )
