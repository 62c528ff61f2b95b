"""Keys, values and names, drawn from a seeded generator.

The lists are this project's own; people and places are fictional. Not covered: any language but English.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from random import Random
from uuid import UUID

from fewer.errors import bad

__all__ = [
    "MAKERS",
    "draw_code",
    "draw_month",
    "draw_new",
    "draw_number",
    "draw_person",
    "draw_place",
    "draw_thing",
    "draw_uuid",
    "draw_word",
    "load_words",
]


@cache
def _load_lists() -> dict[str, list[str]]:
    """The lists of text/names.txt by their headings."""
    sections = files("fewer.study.tasks.generate").joinpath("text/names.txt").read_text("ascii").split("# ")[1:]
    return {heading: words.split() for heading, words in (section.split("\n", 1) for section in sections)}


def draw_word(rng: Random) -> str:
    """An adjective and a noun with a hyphen between, the form of RULER's word keys."""
    lists = _load_lists()
    return f"{rng.choice(lists['adjectives'])}-{rng.choice(lists['nouns'])}"


def draw_number(rng: Random, digits: int = 7) -> str:
    """A whole number of exactly so many digits."""
    return str(rng.randrange(10 ** (digits - 1), 10**digits))


def draw_uuid(rng: Random) -> str:
    """A version 4 UUID."""
    return str(UUID(int=rng.getrandbits(128), version=4))


def draw_code(rng: Random, size: int, letters: str) -> str:
    """So many of these letters, each equally likely."""
    return "".join(rng.choice(letters) for _ in range(size))


def draw_person(rng: Random) -> str:
    """A first and a last name."""
    lists = _load_lists()
    return f"{rng.choice(lists['first'])} {rng.choice(lists['last'])}"


def draw_place(rng: Random) -> str:
    """The name of a town."""
    lists = _load_lists()
    return str(rng.choice(lists["place heads"]) + rng.choice(lists["place tails"]))


def draw_month(rng: Random) -> str:
    """The name of a month."""
    return rng.choice(_load_lists()["months"])


def draw_thing(rng: Random) -> str:
    """A noun with a capital, as a name."""
    return str(rng.choice(_load_lists()["nouns"])).capitalize()


MAKERS: dict[str, Callable[[Random], str]] = {"words": draw_word, "numbers": draw_number, "uuids": draw_uuid}


def draw_new(make: Callable[[], str], taken: set[str], text: str = "") -> str:
    """The first draw that is neither in `taken`, where it is then put, nor anywhere in `text` (lower case).

    Raises BadInput where 10,000 draws give nothing new.
    """
    for _ in range(10_000):
        value = make()
        if value not in taken and value.lower() not in text:
            taken.add(value)
            return value
    legal = "fewer than there are names, numbers or words that are not in the haystack"
    raise bad("names drawn", len(taken), legal, "Ask for a shorter prompt, for fewer parts, or pass another haystack.")


@cache
def load_words() -> tuple[str, ...]:
    """4,608 common English words of 4 to 9 letters (see text/NOTICE), sorted."""
    packed = files("fewer.study.tasks.generate").joinpath("text/words.txt.gz").read_bytes()
    return tuple(gzip.decompress(packed).decode("ascii").split())
