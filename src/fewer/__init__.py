"""fewer: run decoder-only language models on fewer tokens, with a receipt for the ones left out."""

__version__ = "0.1.0"
