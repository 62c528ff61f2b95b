"""Evicting keys and values: score x design x budget."""

from fewer.evict.budget import Budget
from fewer.evict.catalogue import METHODS, Method
from fewer.evict.compress import Eviction, compress
from fewer.evict.design import DESIGNS
from fewer.evict.names import make_policy, settings_of_policy
from fewer.evict.policy import Policy
from fewer.evict.score import SCORES, make_score

__all__ = [
    "DESIGNS",
    "METHODS",
    "SCORES",
    "Budget",
    "Eviction",
    "Method",
    "Policy",
    "compress",
    "make_policy",
    "make_score",
    "settings_of_policy",
]
