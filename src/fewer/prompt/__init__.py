"""From files, texts and a question to token ids with the spans that may be pruned."""

from __future__ import annotations

from fewer.prompt.documents import Reading, as_documents, read_paths
from fewer.prompt.layout import lay_out
from fewer.prompt.split import Splitter

__all__ = ["Reading", "Splitter", "as_documents", "lay_out", "read_paths"]
