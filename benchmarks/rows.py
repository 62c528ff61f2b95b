"""Checks every task of a folder: that it loads, that its prompts hold its chunks, and where its evidence is.

    python -m benchmarks.rows FOLDER [SPLIT]

One line a task: items, clusters, chunks, tokens of the prompt (with the embedded model's tokenizer), items with
labelled evidence, metrics, and the faults. Each prompt is decoded and compared with the wording and the chunks that
went into it, and each chunk's span with its text; items whose text the tokenizer cannot spell are only counted. Exits
with 1 where there is any fault.
"""

from __future__ import annotations

import sys
from collections import Counter
from statistics import median
from typing import Any

from fewer import Engine
from fewer.errors import FewerError
from fewer.study.item import Item, lay_out_item
from fewer.study.tasks import list_tasks, load_task

NO_LIMIT = 2**31
SINKS = 4
LOSSY = "the tokenizer cannot spell all of the text (noted, no fault of the rows)"


def check_item(tokenizer: Any, item: Item) -> tuple[int, list[str]]:
    """Tokens of the item's prompt, and what is wrong with it."""
    prompt = lay_out_item(tokenizer, item, NO_LIMIT, sinks=SINKS)

    def spell(start: int, stop: int) -> str:
        return str(tokenizer.decode(prompt.ids[start:stop], clean_up_tokenization_spaces=False))

    texts = [f"{chunk.title}\n{chunk.text}" if chunk.title else chunk.text for chunk in item.chunks]
    wording = item.wording
    asked = wording.ask.replace("{question}", item.question)
    body = wording.before + wording.between.join(texts) + asked
    faults: list[str] = []
    round_trip = tokenizer(body, add_special_tokens=False).input_ids
    if tokenizer.decode(round_trip, clean_up_tokenization_spaces=False) != body:
        return len(prompt), [LOSSY]
    if body not in spell(0, len(prompt)):
        faults.append("the prompt is not wording, chunks and question put together")
    if not spell(0, len(prompt)).endswith(item.answer_prefix):
        faults.append("the prompt does not end with the answer prefix")
    if asked != spell(*prompt.query):
        faults.append("the query is not the question in its wording")
    if [spell(chunk.start, chunk.stop) for chunk in prompt.chunks if chunk.start > SINKS] != texts[
        len(texts) - sum(chunk.start > SINKS for chunk in prompt.chunks) :
    ]:
        faults.append("a chunk's span does not spell the chunk")
    return len(prompt), faults


def main(folder: str, split: str | None = None) -> int:
    tokenizer = Engine.load().tokenizer
    wrong = 0
    print(f"{'task':32} items clusters chunks tokens(min/median/max) evidence metrics")
    for name in list_tasks(folder, split):
        faults: Counter[str] = Counter()
        try:
            items = load_task(name, folder, split=split)
        except FewerError as error:
            wrong += 1
            print(f"{name:32} {error}")
            continue
        lengths = []
        for item in items:
            length, found = check_item(tokenizer, item)
            lengths.append(length)
            faults.update(found)
        evidence = sum(item.supporting is not None for item in items)
        clusters = len({item.cluster for item in items})
        chunks = median(len(item.chunks) for item in items)
        metrics = ",".join(sorted({item.metric for item in items}))
        print(
            f"{name:32} {len(items):5} {clusters:8} {chunks:6g} {min(lengths):7}/{median(lengths):g}/{max(lengths)}"
            f" {evidence:8} {metrics}",
            *(f"\n    in {count} of them {fault}" for fault, count in faults.items()),
        )
        wrong += bool(faults.keys() - {LOSSY})
    return 1 if wrong else 0


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 3:
        sys.exit("python -m benchmarks.rows FOLDER [SPLIT]")
    sys.exit(main(*sys.argv[1:]))
