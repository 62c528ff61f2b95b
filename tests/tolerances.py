"""The four named tolerances, absolute on numbers of order one. No test uses another."""

from __future__ import annotations

FP64 = 1e-10
FP32 = 1e-5
BF16 = 2e-2
GPU = 1e-3
