"""Prefill, decode, sample, stop: a loaded model that answers, and the receipt of each answer."""

from fewer.engine.diagnosis import Diagnosis
from fewer.engine.engine import Engine, Stream
from fewer.engine.fan import Outcome
from fewer.engine.request import Answer, Request, TokenLogprob
from fewer.engine.score import Score

__all__ = ["Answer", "Diagnosis", "Engine", "Outcome", "Request", "Score", "Stream", "TokenLogprob"]
