"""The receipt of one answered request: what was computed, what was left out, what it cost, what can be claimed."""

from fewer.receipt.claims import CertificateRecord, DecisionRecord, PlanRecord
from fewer.receipt.compare import Comparison, Quantity
from fewer.receipt.eviction import CompressionRecord, EvictionRecord
from fewer.receipt.gate import AnswerRecord, GateRecord
from fewer.receipt.model import SCHEMA_VERSION, Receipt
from fewer.receipt.parts import (
    ChunkRecord,
    ComputedRecord,
    MemoryRecord,
    ModelRecord,
    OutputRecord,
    PromptRecord,
    RunRecord,
    SecondsRecord,
    SettingsRecord,
    SpreadRecord,
    VersionsRecord,
)
from fewer.receipt.revival import RevivalRecord

__all__ = [
    "SCHEMA_VERSION",
    "AnswerRecord",
    "CertificateRecord",
    "ChunkRecord",
    "Comparison",
    "CompressionRecord",
    "ComputedRecord",
    "DecisionRecord",
    "EvictionRecord",
    "GateRecord",
    "MemoryRecord",
    "ModelRecord",
    "OutputRecord",
    "PlanRecord",
    "PromptRecord",
    "Quantity",
    "Receipt",
    "RevivalRecord",
    "RunRecord",
    "SecondsRecord",
    "SettingsRecord",
    "SpreadRecord",
    "VersionsRecord",
]
