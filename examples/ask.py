"""Ask the embedded model a question over two documents, and print the answer and its receipt."""

from __future__ import annotations

from fewer import Engine

engine = Engine.load()
answer = engine.ask(
    "How long does the crossing take?",
    documents=[
        "The ferry to the mainland sails at eight in the morning. The crossing takes 50 minutes.",
        {
            "title": "The lamp",
            "text": "The light flashes three times every twenty seconds. The lens weighs 2.6 tonnes.",
        },
    ],
    max_tokens=64,
    seed=0,
)
print(answer.text)
print(answer.receipt.model_dump(mode="json"))
