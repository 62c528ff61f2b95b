"""Every generator by name."""

from __future__ import annotations

from functools import partial

from fewer.study.tasks.generate.answering import plan_answering, plan_reordered
from fewer.study.tasks.generate.diffuse import plan_diffuse
from fewer.study.tasks.generate.facts import plan_chain, plan_disagreement, plan_questions
from fewer.study.tasks.generate.frequent import plan_coded, plan_common
from fewer.study.tasks.generate.generator import Generator, Setting
from fewer.study.tasks.generate.niah import NEEDLES, plan_needles, plan_passcode
from fewer.study.tasks.generate.pairs import plan_pairs
from fewer.study.tasks.generate.tracking import plan_tracking

__all__ = ["GENERATORS"]

RULER = "RULER (Hsieh et al. 2024)"
OWN = "fewer's own"
EXAMPLE = Setting("begin with a worked example, as RULER does", True, choices=(True, False))
SOURCE = Setting("file or folder of questions; None for fewer's own about fictional facts", None)
RETRIEVAL = {  # what, and about the shortest prompt
    "single_1": ("one needle in noise: word key, number value", 130),
    "single_2": ("one needle in prose: word key, number value", 130),
    "single_3": ("one needle in prose: word key, UUID value", 160),
    "multikey_1": ("one needle of four in prose: word keys, number values", 200),
    "multikey_2": ("one line among lines of its kind: word keys, number values", 135),
    "multikey_3": ("one line among lines of its kind: UUID keys and values", 315),
    "multivalue": ("four needles with one key in prose; all four values", 200),
    "multiquery": ("four needles in prose; the values of all four keys", 235),
}

GENERATORS: dict[str, Generator] = {
    **{
        f"ruler_niah_{name}": Generator(
            RETRIEVAL[name][0],
            f"{RULER}; prose is a novel instead of essays",
            "synthetic",
            "ruler_string_match_all",
            partial(plan_needles, kind),
            RETRIEVAL[name][1],
            haystack="" if kind.haystack == "needles" else kind.haystack,
            takes_depth=kind.num_values * kind.num_queries == 1,
        )
        for name, kind in NEEDLES.items()
    },
    "ruler_vt": Generator(
        "variable tracking: all variables that a chain of assignments in noise gives one value",
        RULER,
        "diffuse",
        "ruler_string_match_all",
        plan_tracking,
        455,
        haystack="noise",
        settings={
            "chains": Setting("chains of assignments; the first one is asked for", 1, 1, 8),
            "hops": Setting("assignments of a variable to a variable in a chain", 4, 1, 16),
            "example": EXAMPLE,
        },
    ),
    "ruler_cwe": Generator(
        "the ten most common words of a numbered list",
        f"{RULER}; another list of words",
        "diffuse",
        "ruler_string_match_all",
        plan_common,
        780,
        settings={"example": EXAMPLE},
    ),
    "ruler_fwe": Generator(
        "the three most frequent words of a coded text with a zeta distribution",
        RULER,
        "diffuse",
        "ruler_string_match_all",
        plan_coded,
        210,
        settings={"alpha": Setting("exponent of the distribution; harder when lower", 2.0, 1.1, 4.0, real=True)},
    ),
    "ruler_qa_1": Generator(
        "one gold passage among distractors",
        f"{RULER}; other questions unless a source is given",
        "multi_doc_qa",
        "ruler_string_match_part",
        partial(plan_answering, 1),
        230,
        takes_depth=True,
        settings={"source": SOURCE},
    ),
    "ruler_qa_2": Generator(
        "two gold passages among distractors, both needed",
        f"{RULER}; other questions unless a source is given",
        "multi_hop",
        "ruler_string_match_part",
        partial(plan_answering, 2),
        325,
        settings={"source": SOURCE},
    ),
    "kv_retrieval": Generator(
        "the value of a key in a JSON object of UUIDs",
        "Lost in the Middle (Liu et al. 2023)",
        "synthetic",
        "kv_value",
        plan_pairs,
        235,
        takes_depth=True,
    ),
    "passcode": Generator(
        "a number said twice in one place of noise",
        "InfiniteBench's passkey (Zhang et al. 2024)",
        "synthetic",
        "infinitebench_passkey",
        plan_passcode,
        110,
        haystack="noise",
        takes_depth=True,
    ),
    "several_questions": Generator(
        "several facts in prose, asked for at once in another order",
        OWN,
        "synthetic",
        "ruler_string_match_all",
        plan_questions,
        250,
        haystack="essay",
        settings={"questions": Setting("how many", 4, 2, 32)},
    ),
    "multi_hop": Generator(
        "a chain of facts in chunks of their own, with other chains beside it",
        OWN,
        "multi_hop",
        "best_subspan_em",
        plan_chain,
        240,
        haystack="essay",
        settings={
            "hops": Setting("facts that lead to the answer", 2, 2, 4),
            "distractors": Setting("other chains of the same kind", 2, 0, 32),
        },
    ),
    "diffuse": Generator(
        "a part of the answer in every chunk",
        OWN,
        "diffuse",
        "ruler_string_match_all",
        plan_diffuse,
        305,
        haystack="essay",
        settings={
            "kind": Setting("what to do with the parts", "list", choices=("list", "sum", "count")),
            "parts": Setting("chunks, each with one part", 8, 2, 512),
        },
    ),
    "contradictory": Generator(
        "sources that disagree, and a rule that says which is right",
        OWN,
        "contradiction",
        "ramdocs",
        plan_disagreement,
        210,
        haystack="essay",
        settings={
            "sources": Setting("sources that disagree", 3, 2, 6),
            "rule": Setting("which source is right", "newest", choices=("newest", "official")),
        },
    ),
    "reordered": Generator(
        "one gold passage among distractors, the same ones in several orders",
        "after Lost in the Middle (Liu et al. 2023), with other questions",
        "multi_doc_qa",
        "ruler_string_match_part",
        plan_reordered,
        220,
        settings={"source": SOURCE, "orders": Setting("orders of each question's passages", 5, 2, 64)},
    ),
}
