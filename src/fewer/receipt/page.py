"""The receipt as one HTML page that needs nothing else.

The picture has one row for each chunk and one column for each layer; the shade is the share of the chunk's tokens
that the layer computed in the prefill. Everything the user wrote is escaped by the template engine, and the page's
own security policy forbids it to load or run anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from fewer.receipt import summary
from fewer.receipt.model import Receipt
from fewer.receipt.picture import MAX_TITLE, Bar, draw_part, draw_steps, list_labels
from fewer.receipt.remains import draw_radii, draw_remains
from fewer.receipt.units import clip, format_bytes, format_count, format_seconds, format_share

Facts = list[tuple[str, str]]

BYPASSED = {
    "not pruned": "Pruning was asked for and did not happen",
    "not evicted": "Eviction was asked for and did not happen",
    "not done": "Of pruning and eviction, not all that was asked for happened",
}


def render_page(receipt: Receipt) -> str:
    """The whole page."""
    size = receipt.model.num_layers
    return _load_template().render(
        receipt=receipt,
        name=clip(receipt.model.name, MAX_TITLE),
        subtitle=summary.describe_model(receipt),
        figures=_list_figures(receipt),
        claim=summary.describe_claim(receipt),
        size=size,
        labels=list_labels(size),
        rows_bars=_draw_rows(receipt),
        cache_bars=_draw_cache(receipt),
        cache_words=summary.describe_cache(receipt),
        protected=draw_part("Protected text", receipt.prompt.num_protected, receipt.prompt.protected_per_layer),
        chunks=[
            draw_part(chunk.title or f"chunk {number}", chunk.num_tokens, chunk.kept_per_layer, chunk.revived_per_layer)
            for number, chunk in enumerate(receipt.prompt.chunks, 1)
        ],
        prompt_words=summary.describe_prompt(receipt),
        plans=[summary.describe_plan(plan) for plan in receipt.plans],
        decisions=[summary.describe_decision(decision) for decision in receipt.decisions],
        method=summary.describe_pruning(receipt.settings.prune) if receipt.settings.prune else "",
        revival=summary.describe_revival(receipt.revival) if receipt.revival else "",
        step_bars=draw_steps(receipt.revival.revived_per_step, _say_revived) if receipt.revival else [],
        bypassed=BYPASSED[summary.describe_bypass(receipt)],
        remains=draw_remains(receipt),
        radii=draw_radii(receipt.certificate),
        cards=_list_cards(receipt),
    )


@cache
def _load_template() -> Template:
    loader = PackageLoader("fewer.receipt", "")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("page.html.j2")


def _draw_rows(receipt: Receipt) -> list[Bar]:
    size = receipt.prompt.num_tokens - receipt.prompt.num_before
    return [
        Bar(rows / size if size else 0.0, 1.0, f"layer {layer}: {rows:,} of {format_count(size, 'prompt token')}")
        for layer, rows in enumerate(receipt.computed.prefill_rows_per_layer, 1)
    ]


def _draw_cache(receipt: Receipt) -> list[Bar]:
    memory = receipt.memory
    used_by, held_by, full_by = (
        memory.kv_used_bytes_per_layer,
        memory.kv_bytes_per_layer,
        memory.kv_bytes_full_estimate,
    )
    top = max(1, *used_by, *full_by)
    return [
        Bar(
            used / top,
            full / top,
            f"layer {layer}: {format_bytes(used)} in use; a full run: {format_bytes(full)}; "
            f"{format_bytes(held)} held with reserved rows",
        )
        for layer, (used, held, full) in enumerate(zip(used_by, held_by, full_by, strict=True), 1)
    ]


def _say_revived(part: Sequence[float]) -> str:
    mean = sum(part) / len(part)
    return f"{format_count(int(mean), 'token') if len(part) == 1 else f'{mean:.1f} tokens a step'} came back"


def _list_figures(receipt: Receipt) -> list[tuple[str, str, str]]:
    """The numbers at the top: label, value, small print."""
    work, seconds, memory = receipt.computed, receipt.seconds, receipt.memory
    each = seconds.per_output_token_s
    return [
        (
            "Work left out",
            format_share(work.token_layers_skipped, work.token_layers_full),
            f"of {work.token_layers_full:,} token-layers",
        ),
        ("First token", format_seconds(seconds.first_token_s), f"prefill {format_seconds(seconds.prefill_s)}"),
        (
            "Each later token",
            format_seconds(each.median if each else None),
            f"median; slowest {format_seconds(each.max)}" if each else "there is none",
        ),
        (
            "KV cache in use",
            format_bytes(sum(memory.kv_used_bytes_per_layer)),
            f"a full run: {format_bytes(sum(memory.kv_bytes_full_estimate))}",
        ),
        *_list_eviction_figures(receipt),
        ("Answer tokens", f"{receipt.output.num_tokens:,}", summary.ENDED[receipt.output.finish_reason]),
    ]


def _list_eviction_figures(receipt: Receipt) -> list[tuple[str, str, str]]:
    """The share of rows left by the last compression, and the bytes of the first and the last."""
    compressions = receipt.eviction.compressions if receipt.eviction else ()
    if not compressions:
        return []
    last, before = compressions[-1], compressions[0].used_bytes_before
    seen = last.num_seen * receipt.model.num_layers * receipt.model.num_kv_heads
    small = f"of tokens seen; {format_bytes(before)} before, {format_bytes(last.used_bytes_after)} after"
    return [("Rows kept", format_share(last.num_after, seen), small)]


def _list_cards(receipt: Receipt) -> list[tuple[str, Facts]]:
    """Everything else, in cards of label and value."""
    model, run, seconds, memory, output = receipt.model, receipt.run, receipt.seconds, receipt.memory, receipt.output
    each = seconds.per_output_token_s
    spread = (
        f"median {format_seconds(each.median)}, mean {format_seconds(each.mean)}, slowest {format_seconds(each.max)}"
        if each
        else "-"
    )
    cards: list[tuple[str, Facts]] = [
        (
            "Time, measured",
            [
                ("tokenise and lay out", format_seconds(seconds.layout_s)),
                ("wait in the queue", format_seconds(seconds.queue_s)),
                ("prefill", format_seconds(seconds.prefill_s)),
                *((("evict", format_seconds(seconds.evict_s)),) if receipt.eviction else ()),
                ("start to first token", format_seconds(seconds.first_token_s)),
                ("each later token", spread),
                ("start to end", format_seconds(seconds.total_s)),
                ("load the model, before", format_seconds(seconds.load_s)),
            ],
        ),
        (
            "Memory",
            [
                ("KV cache in use", format_bytes(sum(memory.kv_used_bytes_per_layer))),
                *(
                    (("of it padding", format_bytes(sum(memory.kv_padding_bytes_per_layer))),)
                    if receipt.eviction
                    else ()
                ),
                ("held with reserved rows, measured", format_bytes(memory.kv_total_bytes)),
                *((("most at a compression", format_bytes(receipt.eviction.most_bytes)),) if receipt.eviction else ()),
                ("in use in a full run, computed", format_bytes(sum(memory.kv_bytes_full_estimate))),
                ("weights", format_bytes(memory.weights_bytes)),
                (f"peak: {memory.peak_scope}", format_bytes(memory.peak_bytes)),
            ],
        ),
        (
            "Work",
            [
                ("token-layers of a full run", f"{receipt.computed.token_layers_full:,}"),
                ("computed", f"{receipt.computed.token_layers_computed:,}"),
                ("skipped", f"{receipt.computed.token_layers_skipped:,}"),
                ("computed twice", f"{receipt.computed.token_layers_repeated:,}"),
                ("decode steps", f"{receipt.computed.decode_steps:,}"),
                ("question", format_count(receipt.prompt.query_len, "token")),
                *((("read before", format_count(before, "token")),) if (before := receipt.prompt.num_before) else ()),
                ("cut off before the run", format_count(receipt.prompt.truncated_tokens, "token")),
            ],
        ),
        (
            "Answer",
            [
                ("mean log-probability", _write(output.mean_logprob)),
                ("margin of the first token", _write(output.first_token_margin)),
                ("smallest margin", _write(output.min_margin)),
            ],
        ),
        (
            "Model",
            [
                ("from", model.source),
                ("parameters", f"{model.num_parameters:,}"),
                ("heads", f"{model.num_heads}, {model.num_kv_heads} for keys and values"),
                ("widths", f"{model.hidden_size} hidden, {model.head_dim} a head"),
                ("SHA-256", model.sha256 or "not computed"),
            ],
        ),
        (
            "Run",
            [
                ("dtype", f"{run.dtype}: {run.dtype_reason}"),
                ("weights", run.weights),
                ("threads", str(run.num_threads)),
                ("seed", str(run.seed)),
                ("other requests in its steps", f"at most {run.batch_mates}"),
                ("prefill", "in part shared with other requests" if run.shared_prefill else "its own"),
                ("versions", ", ".join(f"{name} {value}" for name, value in receipt.versions)),
            ],
        ),
    ]
    if receipt.gate:
        labels = ("decision", "first run", "second run", "tokens")
        cards.insert(0, ("Gate", list(zip(labels, summary.describe_gate(receipt.gate), strict=False))))
    for heading, settings in (
        ("Sampling", receipt.settings.sampling),
        ("Pruning asked for", receipt.settings.prune),
        ("Eviction asked for", receipt.settings.evict),
    ):
        facts = [(name, str(value)) for name, value in settings.items()] if settings else [("nothing", "")]
        cards.append((heading, facts))
    return cards


def _write(number: float | None) -> str:
    return "not measured" if number is None else f"{number:.3g}"
