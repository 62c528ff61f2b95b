"""The parts of `fewer.study.lm_eval_model`: `fewer` as a model of lm-evaluation-harness.

Not covered: several processes, and tasks with images or sound.
"""
