"""A receipt in a few sentences, the same in the terminal and on the page."""

from __future__ import annotations

from statistics import fmean

from pydantic import JsonValue

from fewer.receipt.claims import CertificateRecord, DecisionRecord, PlanRecord
from fewer.receipt.eviction import CompressionRecord
from fewer.receipt.gate import GateRecord
from fewer.receipt.model import Receipt
from fewer.receipt.revival import RevivalRecord
from fewer.receipt.units import format_bytes, format_count, format_seconds, format_share

ENDED = {
    "stop": "ended by the model",
    "length": "cut at max_tokens",
    "stop_string": "ended by a stop string",
    "cancelled": "cancelled",
    "scored": "given, and only read",
}


def describe_model(receipt: Receipt) -> str:
    """Family, layers, number format and device."""
    model, run = receipt.model, receipt.run
    weights = f" with {run.weights} weights" if run.weights != run.dtype else ""
    return f"{model.family}, {format_count(model.num_layers, 'layer')}, {run.dtype}{weights} on {run.device}"


def describe_prompt(receipt: Receipt) -> str:
    """Tokens by part, and what was cut off."""
    prompt = receipt.prompt
    inside = prompt.num_tokens - prompt.num_protected
    words = format_count(prompt.num_tokens, "token")
    words += f", {prompt.num_before:,} of them read before" if prompt.num_before else ""
    words += f": {prompt.num_protected:,} protected"
    words += f", {inside:,} in {format_count(len(prompt.chunks), 'chunk')}" if prompt.chunks else ", no chunks"
    cut = prompt.truncated_tokens
    return words + (f"; {format_count(cut, 'more token')} cut off before the run" if cut else "")


def describe_work(receipt: Receipt) -> str:
    """The skipped share of the token-layers."""
    work = receipt.computed
    share = format_share(work.token_layers_skipped, work.token_layers_full)
    words = f"{work.token_layers_computed:,} of {work.token_layers_full:,} token-layers; {share} skipped"
    return words + (f"; {work.token_layers_repeated:,} computed twice" if work.token_layers_repeated else "")


def describe_seconds(receipt: Receipt) -> str:
    """First token, further tokens, total."""
    seconds, each = receipt.seconds, receipt.seconds.per_output_token_s
    words = (
        "no first token" if seconds.first_token_s is None else f"first token {format_seconds(seconds.first_token_s)}"
    )
    words += f", then {format_seconds(each.median)} a token" if each else ""
    return f"{words}; total {format_seconds(seconds.total_s)}"


def describe_cache(receipt: Receipt) -> str:
    """Bytes of keys and values in use, beside what a full run would use; and what is held for them."""
    memory = receipt.memory
    used, full = sum(memory.kv_used_bytes_per_layer), sum(memory.kv_bytes_full_estimate)
    words = f"{format_bytes(used)} in use, a full run {format_bytes(full)} (computed)"
    padding = sum(memory.kv_padding_bytes_per_layer)
    words += f"; {format_bytes(padding)} of it padding" if padding else ""
    words += f"; {format_bytes(memory.kv_total_bytes)} held with the rows reserved"
    most = receipt.eviction.most_bytes if receipt.eviction else 0
    return words + (f", at a compression at most {format_bytes(most)}" if most else "")


def describe_memory(receipt: Receipt) -> str:
    """Weights and peak."""
    memory = receipt.memory
    return f"weights {format_bytes(memory.weights_bytes)}, peak {format_bytes(memory.peak_bytes)} ({memory.peak_scope})"


def describe_answer(receipt: Receipt) -> str:
    """Tokens and what ended them."""
    output = receipt.output
    return f"{format_count(output.num_tokens, 'token')}, {ENDED[output.finish_reason]}"


def describe_pruning(prune: dict[str, JsonValue]) -> str:
    """The method and what mainly sets it; a preset's name with the schedule that it stands for."""
    preset, schedule = prune.get("preset"), prune.get("schedule")
    words = [str(prune.get("name", ""))]
    if schedule is not None:
        words[0] += f" {preset}, here {schedule}" if preset not in (None, schedule) else f" {schedule}"
    names = ("keep", "layer", "grain", "profile", "aux", "selection", *(() if schedule is not None else ("preset",)))
    return "; ".join([*words, *(f"{name} {prune[name]}" for name in names if prune.get(name) is not None)])


def describe_plan(plan: PlanRecord) -> str:
    """One decision of the pruning."""
    words = f"after layer {plan.layer}: {plan.num_kept:,} went deeper, {plan.num_dropped:,} did not"
    words += f"; {format_bytes(plan.released_bytes)} freed" if plan.released_bytes else ""
    words += f"; audit bound {plan.bound:.4g}" if plan.bound is not None else ""
    words += f"; dual gap {format_count(round(plan.dual_gap), 'token')}" if plan.dual_gap is not None else ""
    return words + (f" ({plan.reason})" if plan.reason else "")


def describe_decision(decision: DecisionRecord) -> str:
    """What came of asking the planner after one layer."""
    return f"after layer {decision.layer}: {decision.outcome}" + (f"; {decision.says}" if decision.says else "")


def describe_revival(record: RevivalRecord) -> str:
    """What came back after the prefill."""
    steps = format_count(len(record.revived_per_step), "step")
    if record.aux == "off":
        return f"nothing comes back (aux off), in {steps}{_describe_active(record)}"
    words = f"{format_count(record.num_revived, 'token')} came back in {steps}"
    if record.num_revived:
        words += f", at most {max(record.revived_per_step):,} at one"
        words += f"; {format_count(record.token_layers_revived, 'token-layer')} for them"
    words += f"; {format_bytes(record.aux_bytes) + ' of states' if record.aux == 'keep' else 'no states'} held"
    return words + _describe_active(record)


def _describe_active(record: RevivalRecord) -> str:
    """How many prompt tokens a step's newest position saw above the last stop."""
    seen = [step[-1] for step in record.active_per_step if step]
    if not seen:
        return ""
    low, high = min(seen), max(seen)
    span = f"{low:,} to " if low < high else ""
    return f"; a step saw {span}{format_count(high, 'prompt token')} above the last stop"


def describe_policy(evict: dict[str, JsonValue]) -> str:
    """The policy of eviction and what mainly sets it."""
    words = [str(evict.get("name", ""))]
    for name, usual in (("keep", None), ("layers", "uniform"), ("heads", "equal")):
        value = evict.get(f"budget.{name}")
        if value not in (None, usual):
            words.append(f"budget {value}" if name == "keep" else f"{name} {value}")
    words += [f"{name} {evict[name]}" for name in ("every", "block") if evict.get(name) is not None]
    if evict.get("moment") == "context":
        words.append("before the question is read")
    return "; ".join([*words, *([str(evict["estimator"])] if "estimator" in evict else [])])


def describe_compression(each: CompressionRecord) -> str:
    """What one compression of the cache left."""
    before, after = each.num_before, each.num_after
    words = f"after {format_count(each.num_seen, 'token')}: {format_share(after, before)} of the rows stayed "
    words += f"({after:,} of {before:,}); {format_bytes(each.used_bytes_before)} in use before, "
    words += f"{format_bytes(each.used_bytes_after)} after; {format_bytes(each.bytes_before)} and "
    words += f"{format_bytes(each.bytes_after)} held with reserved rows"
    words += f" and {format_count(each.num_padding, 'row')} of padding" if each.num_padding else ""
    words += f"; {format_count(each.repeated_tokens, 'token')} read again for it" if each.repeated_tokens else ""
    return f"{words}; {format_seconds(each.evict_s)}"


def describe_rows(receipt: Receipt, first: int, stop: int) -> str:
    """The share of the rows of these chunks, from 0, that the cache holds at the end; a dash without eviction."""
    rows = receipt.eviction.rows_per_chunk[first:stop] if receipt.eviction else ()
    tokens = sum(chunk.stop - chunk.start for chunk in receipt.prompt.chunks[first:stop])
    full = tokens * receipt.model.num_kv_heads * receipt.model.num_layers
    return format_share(sum(map(sum, rows)), full) if rows else "-"


def describe_bypass(receipt: Receipt) -> str:
    """What the reasons in `bypass` are about."""
    if receipt.settings.evict is None:
        return "not pruned"
    return "not evicted" if receipt.settings.prune is None else "not done"


def describe_gate(record: GateRecord) -> list[str]:
    """What was decided and why; where there were two runs also the first, the second, and how far they agree."""
    again = record.again
    if again is None:
        return [f"the answer stands: {record.reason}"]
    budget = "the full cache" if record.escalate == "full" else f"a budget of {record.escalate}"
    lines = [f"computed again with {budget}: {record.reason}"]
    for run in (record.first, again):
        work = f"{run.token_layers_computed:,} token-layers, {format_bytes(run.kv_used_bytes)} of cache in use"
        tokens = f"{format_count(run.num_tokens, 'token')}, {ENDED[run.finish_reason]}"
        lines.append(f"{tokens}; {work}; {format_seconds(run.total_s)}")
    agree = f"the first {format_count(record.num_agreeing or 0, 'token')} agree"
    if record.num_agreeing == record.first.num_tokens == again.num_tokens:
        agree = "the tokens are the same"
    if record.kept_token_layers:
        agree += f"; reading the answer into the compressed cache took {format_seconds(record.kept_s)} more"
    return [*lines, agree]


def describe_claim(receipt: Receipt) -> str:
    """What can be claimed about the part left out."""
    claim: CertificateRecord = receipt.certificate
    if claim.kind == "none":
        evicted = receipt.eviction is not None and receipt.eviction.compressions
        nothing_left_out = not receipt.computed.token_layers_skipped and not evicted
        return f"none; {claim.says}" + (" (no token was left out)" if nothing_left_out else "")
    if claim.clipped is None:
        return f"{claim.kind}, {claim.radius:.4g}: {claim.says}"
    numbers = f"{claim.clipped:.4g} with radii above 1 counted as 1, {claim.radius:.4g} without"
    return f"{claim.kind}, {numbers}: {claim.says}"


def describe_assumptions(claim: CertificateRecord) -> str:
    """The short names of what the claim stands on, an assumption without a name in full; empty where there are none."""
    names = ", ".join(text.partition(": ")[0] for text in claim.assumptions)
    named = any(": " in text for text in claim.assumptions)
    return names and f"if {names}" + (" (in full in the JSON)" if named else "")


def describe_radii(claim: CertificateRecord) -> str:
    """All steps of an estimate in a line; empty where there are none."""
    if claim.mean is None or claim.largest is None:
        return ""
    steps, clipped = format_count(len(claim.steps), "step"), claim.clipped_steps
    words = f"over {steps} the mean is {fmean(clipped):.4g} and the largest {max(clipped):.4g}"
    return f"{words}; not clipped, {claim.mean:.4g} and {claim.largest:.4g}"
