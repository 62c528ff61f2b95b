"""Which prompt tokens go deeper: planners, pure functions of an observation."""

from fewer.prune.baselines import PLANNERS, EndsPrune, RandomPrune, StaticPrune, make_planner

__all__ = ["PLANNERS", "EndsPrune", "RandomPrune", "StaticPrune", "make_planner"]
