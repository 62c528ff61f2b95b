"""One unit of a run: every arm's answer to one item, as rows of the log.

Arms over the same prompt share its prefill and decode together, unless the study asks for each to run alone. An arm
that fails has a row that says so; the others go on. An arm of `removed_text` comes after the one whose removals it
takes out of the text, and runs alone. Its shares are of the whole text's tokens, so what was taken out counts as lost.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from fewer.engine import Answer, Engine, Outcome, Request
from fewer.errors import PromptTooLong
from fewer.receipt import Receipt
from fewer.study.cells import Cell
from fewer.study.evicted import describe_eviction, left_something_out, share_supporting
from fewer.study.evidence import describe_evidence
from fewer.study.item import Item, lay_out_item
from fewer.study.metrics import score
from fewer.study.prepare import Unit
from fewer.study.row import LOG_VERSION, SCHEMA
from fewer.study.signals import measure_agreement, reference_ids
from fewer.study.spec import Study
from fewer.types import Prompt, Sampling

__all__ = ["Answering"]

_ENDLESS = 10**9


class Answering:
    """Answers units for one study and one engine. `stamp` is what all rows have in common."""

    def __init__(self, study: Study, engine: Engine, cells: tuple[Cell, ...], stamp: dict[str, Any]) -> None:
        self.study, self.engine, self.cells, self.stamp = study, engine, cells, stamp

    def answer(self, unit: Unit) -> list[dict[str, Any]]:
        """The unit's rows, in the order of the cells."""
        rows: dict[Cell, dict[str, Any]] = {}
        by_condition: dict[str, list[Cell]] = defaultdict(list)
        for cell in self.cells:
            by_condition[cell.arm.condition].append(cell)
        by_condition["removed_text"] = by_condition.pop("removed_text", [])  # last: it needs the others' receipts
        for condition, cells in by_condition.items():
            if not self.study.share and cells:  # whoever comes first pays for cold caches: another arm each time
                turn = int(unit.item.fingerprint[:8], 16) % len(cells)
                cells = cells[turn:] + cells[:turn]
            if condition == "removed_text":
                found = [self._answer_without(unit.item, _find(rows, cell), cell) for cell in cells]
            else:
                item = unit.item.without_context() if condition == "no_context" else unit.item
                found = self._answer_all(item, cells)
            for cell, row in zip(cells, found, strict=True):
                rows[cell] = dict.fromkeys(SCHEMA.names) | self.stamp | self._identify(unit, cell) | row
        fulls = {cell.seed: row for cell, row in rows.items() if cell.arm.is_full}
        if "agreement" in self.study.signals:
            for cell, row in rows.items():
                full = fulls.get(cell.seed, next(iter(fulls.values())))
                if row["ids"] is not None and full["ids"] is not None:
                    row["agreement"] = measure_agreement(row["ids"], full["ids"])
                    row["same_text"] = row["text"] == full["text"]
        return [rows[cell] for cell in self.cells]

    def _answer_without(self, item: Item, like: dict[str, Any], cell: Cell) -> dict[str, Any]:
        """What the model says to the text without the chunks of which nothing was left in the row `like`.

        A text that was cut to fit stays cut at the same place. Where nothing was left out, it is the full run. Without
        a receipt nobody knows what to take out, and nothing is run.
        """
        who = f"the arm {cell.arm.like!r}, whose chunks are taken out,"
        if not like["receipt"]:
            return _nothing(like["status"], f"{who} has no answer: {like['reason']}")
        receipt = Receipt.model_validate_json(like["receipt"])
        chunks, first = receipt.prompt.chunks, self._count_swallowed(item, receipt)
        gone = {first + place for place, chunk in enumerate(chunks) if not chunk.kept_per_layer[-1]}
        left = item.with_chunks([index for index in range(first + len(chunks)) if index not in gone])
        room = None
        if receipt.prompt.truncated_tokens and first + len(chunks) - 1 not in gone:
            asked = self._limit(left)
            whole = lay_out_item(self.engine.tokenizer, asked, _ENDLESS)
            cut = whole.chunks[-1].stop - whole.chunks[-1].start - chunks[-1].num_tokens
            room = len(whole) - cut + asked.max_tokens
        row = self._answer_all(left, [cell], room)[0]
        if row["status"] != "ok":
            return row
        for name in ("computed_fraction", "kept_fraction"):
            row[name] *= row["num_tokens"] / receipt.prompt.num_tokens
        row["supporting_kept"] = _supporting_kept(item, receipt, first, by_text=True)
        if not gone:
            row |= {"status": "bypassed", "reason": f"{who} left out none: {like['reason'] or 'all of them go on'}"}
        return row

    def _limit(self, item: Item) -> Item:
        """The item with no more tokens to answer than the study allows."""
        return replace(item, max_tokens=min(item.max_tokens, self.study.sampling.max_tokens or item.max_tokens))

    def _count_swallowed(self, item: Item, receipt: Receipt) -> int:
        """How many chunks at the start lie among the sinks, and so are none of the receipt's."""
        missing = len(item.chunks) - len(receipt.prompt.chunks)
        if not missing or not receipt.prompt.truncated_tokens:
            return missing
        positions = self.engine.adapter.max_positions
        every = lay_out_item(self.engine.tokenizer, self._limit(item), positions, truncate=True, sinks=0)
        return len(every.chunks) - len(receipt.prompt.chunks)

    def _answer_all(self, item: Item, cells: list[Cell], room: int | None = None) -> list[dict[str, Any]]:
        """What the model says, by cell. room: positions to lay out in, if fewer than the model's."""
        positions = self.engine.adapter.max_positions
        asked = self._limit(item)
        max_tokens = asked.max_tokens
        try:
            prompt = lay_out_item(self.engine.tokenizer, asked, room or positions, self.study.truncate)
        except PromptTooLong as error:
            return [_nothing("refused", str(error)) for _ in cells]
        requests = []
        for cell in cells:
            sampling = Sampling(
                max_tokens=max_tokens,
                temperature=self.study.sampling.temperature,
                top_p=self.study.sampling.top_p,
                stop=item.stop,
                seed=cell.draw_seed(item),
                logprobs=0 if "margins" in self.study.signals else None,
            )
            wanted = "evidence" in self.study.signals
            requests.append(Request(prompt, sampling, cell.arm.planner, evict=cell.arm.policy, evidence=wanted))
        reference = None
        if "nll" in self.study.signals:
            ending = str(self.engine.tokenizer.decode(prompt.ids[-1:].tolist()))
            whole = reference_ids(self.engine.tokenizer, ending, item.answers[0])
            reference = whole[: positions - len(prompt) + 1] or None  # the last one needs no position
        return [
            self._describe(item, prompt, outcome, reference)
            for group in ([requests] if self.study.share else [[request] for request in requests])
            for outcome in self._fan_out(group, reference)
        ]

    def _fan_out(self, requests: list[Request], reference: list[int] | None) -> list[Outcome]:
        try:
            return self.engine.fan_out(requests, reference)
        except Exception as error:  # before any arm went its own way: everyone's
            return [Outcome(None, None, error) for _ in requests]

    def _describe(self, item: Item, prompt: Prompt, outcome: Outcome, reference: list[int] | None) -> dict[str, Any]:
        """The row's part that an arm filled; of a failed one, why."""
        if outcome.answer is None:
            error = outcome.error
            return _nothing("failed", f"{type(error).__name__}: {error}") | {"num_tokens": len(prompt)}
        answer, receipt = outcome.answer, outcome.answer.receipt
        row = _count(prompt, receipt) | describe_eviction(receipt) | _say(item, answer)
        row |= describe_evidence(answer.evidence)
        if answer.logprobs is not None:
            row |= {
                "first_margin": receipt.output.first_token_margin,
                "min_margin": receipt.output.min_margin,
                "mean_logprob": receipt.output.mean_logprob,
            }
        if reference and outcome.reference_logprobs:
            row["nll"] = -sum(outcome.reference_logprobs) / len(outcome.reference_logprobs)
            row["nll_tokens"] = len(outcome.reference_logprobs)
        swallowed = self._count_swallowed(item, receipt)
        row["supporting_kept"] = _supporting_kept(item, receipt, swallowed)
        row["supporting_rows"] = share_supporting(item, receipt, swallowed)
        return row

    def _identify(self, unit: Unit, cell: Cell) -> dict[str, Any]:
        item, arm, settings = unit.item, cell.arm, dict(cell.arm.settings)
        return {
            "log_version": LOG_VERSION,
            "cell": cell.key(item),
            "unit": unit.number,
            "item": item.id,
            "item_sha256": item.fingerprint,
            "task": item.task,
            "category": item.category,
            "cluster": item.cluster,
            "metric": item.metric,
            "arm": arm.name,
            "prune": arm.prune,
            "evict": arm.evict,
            "condition": arm.condition,
            "settings": json.dumps(settings, sort_keys=True),
            "keep": ", ".join(arm.budgets) or None,
            "seed": cell.seed,
            "asked_length": item.meta.get("length"),
            "depth": item.meta.get("depth"),
            "num_tokens": unit.num_tokens,
            "ended": datetime.now(UTC).isoformat(timespec="seconds"),
        }


def _find(rows: dict[Cell, dict[str, Any]], cell: Cell) -> dict[str, Any]:
    """The row of the arm that a cell is like, with the same seed."""
    return next(row for other, row in rows.items() if (other.arm.name, other.seed) == (cell.arm.like, cell.seed))


def _nothing(status: str, reason: str) -> dict[str, Any]:
    return {"status": status, "reason": reason, "score": 0.0}


def _say(item: Item, answer: Answer) -> dict[str, Any]:
    """The answer and what it is worth."""
    receipt = answer.receipt
    bypassed = bool(receipt.bypass) and not left_something_out(receipt)
    return {
        "status": "bypassed" if bypassed else "ok",
        "reason": "; ".join(receipt.bypass) if bypassed else None,
        "text": answer.text,
        "ids": list(answer.ids),
        "finish_reason": answer.finish_reason,
        "num_new_tokens": len(answer.ids),
        "score": score(item.metric, answer.text, item.answers, item.meta),
    }


def _count(prompt: Prompt, receipt: Receipt) -> dict[str, Any]:
    """What it took."""
    rows, seconds = receipt.computed.prefill_rows_per_layer, receipt.seconds
    return {
        "num_tokens": len(prompt),
        "num_protected": prompt.num_protected,
        "truncated_tokens": prompt.truncated,
        "num_chunks": len(prompt.chunks),
        "computed_fraction": sum(rows) / (len(prompt) * len(rows)),
        "kept_fraction": rows[-1] / len(prompt),
        "kv_bytes": receipt.memory.kv_total_bytes,
        "kv_bytes_full": sum(receipt.memory.kv_bytes_full_estimate),
        "kv_used_bytes": sum(receipt.memory.kv_used_bytes_per_layer),
        "shared": receipt.run.shared_prefill,
        "batch_mates": receipt.run.batch_mates,
        "prefill_s": seconds.prefill_s,
        "first_token_s": seconds.first_token_s,
        "per_output_token_s": seconds.per_output_token_s.median if seconds.per_output_token_s else None,
        "total_s": seconds.total_s,
        "receipt": receipt.model_dump_json(),
    }


def _supporting_kept(item: Item, receipt: Receipt, swallowed: int, by_text: bool = False) -> float | None:
    """Of the supporting chunks' tokens, the share that reached the last layer. A chunk among the sinks counts as kept.

    Of a cut prompt only the chunks that are in it count. by_text: a chunk of which anything is left counts as whole.
    """
    if not item.supporting:
        return None
    chunks = receipt.prompt.chunks
    inside = [chunks[i - swallowed] for i in item.supporting if 0 <= i - swallowed < len(chunks)]
    total = sum(chunk.num_tokens for chunk in inside)
    if not total:
        return None if receipt.prompt.truncated_tokens else 1.0
    if by_text:
        return sum(chunk.num_tokens for chunk in inside if chunk.kept_per_layer[-1]) / total
    return sum(chunk.kept_per_layer[-1] for chunk in inside) / total
