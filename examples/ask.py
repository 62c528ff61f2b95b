"""Ask the embedded model a question over two documents, and print the answer and its receipt."""

from __future__ import annotations

from fewer import Engine

ferry = (
    "The ferry to the mainland is called the Merrow. "
    "It sails at eight in the morning, and the crossing takes 50 minutes."
)
keepers = "Josiah Penhallow was the first keeper of the lighthouse. Ingrid Solberg was the last one, and she kept bees."

engine = Engine.load()
answer = engine.ask(
    "How long does the crossing take?",
    documents=[ferry, {"title": "The keepers", "text": keepers}],
    max_tokens=64,
    seed=0,
)
print(answer.text)
print(answer.receipt.model_dump(mode="json"))
