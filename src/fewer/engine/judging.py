"""What EntroPrefill would do with a prompt at each monitored layer, seen on the whole prompt; nothing is left out."""

from __future__ import annotations

from dataclasses import replace

from transformers import PreTrainedTokenizerBase

from fewer.engine.batch import Batch
from fewer.engine.request import Request
from fewer.errors import bad
from fewer.model.forward import forward
from fewer.model.segment import Segment
from fewer.prune.entroprefill import EntroPrefill
from fewer.prune.entroprefill.explain import Explanation, explain
from fewer.prune.entroprefill.transfer import Transfer, transfer_bytes
from fewer.prune.entroprefill.watch import Watch

__all__ = ["explain_request"]


def explain_request(
    batch: Batch, tokenizer: PreTrainedTokenizerBase, request: Request, layer: int | None, bandwidth: float
) -> Explanation:
    """One full prefill with every monitored layer judged. Up to the first acceptance it has the bits of the real run.

    layer: the one to show in full; None is the first accepted, or the last. bandwidth: Gbit/s, for what handing the
    cache on would take. Raises BadInput for another planner than EntroPrefill, for a layer that is not monitored, and
    for a bandwidth of 0 or less.
    """
    Transfer(0, 0, bandwidth)  # refuses one before anything runs
    if not isinstance(request.prune, EntroPrefill):
        shown = None if request.prune is None else request.prune.name
        raise bad("prune", shown, "EntroPrefill", "Only its decisions can be explained.")
    if request.evict is not None:
        raise bad("evict", request.evict.name, "left out: only what pruning leaves out is looked into", "Pass None.")
    sequence = batch.make(request)
    planner, prompt = sequence.request.prune, request.prompt
    assert isinstance(planner, EntroPrefill)
    explain(planner, prompt, (), layer)  # refuses a layer before anything runs
    watch = Watch(planner, acts=False)
    if planner.declines(prompt) is None:
        forward(batch.adapter, [Segment(sequence.state, prompt.ids, watch, prompt, request.sampling.seed)])
        sequence.state.clear()

    def decode(token: int) -> str:
        return str(tokenizer.decode([token]))

    found, model = explain(planner, prompt, watch.verdicts, layer, decode), batch.adapter
    retained, full = (
        transfer_bytes(model.dtype.itemsize, model.num_layers, model.num_kv_heads, model.head_dim, count)
        for count in (found.num_retained, found.num_tokens)
    )
    return replace(found, transfer=Transfer(retained, full, bandwidth))
