"""Prefill, decode, sample, stop: a loaded model that answers, and the receipt of each answer."""

from fewer.engine.engine import Engine, Stream
from fewer.engine.request import Answer, Request, TokenLogprob

__all__ = ["Answer", "Engine", "Request", "Stream", "TokenLogprob"]
