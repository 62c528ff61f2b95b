"""Studies: tasks, metrics, signals, statistics, runs that cannot lose work, and registration before the run.

Not covered: training, judging by another model, and anything that needs a network.
"""
