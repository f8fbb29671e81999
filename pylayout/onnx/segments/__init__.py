"""Segments: models in which a size is known only after a value: what a plan can hold, then steps on the host.

A graph is run in rounds (rounds.py). Integers that shapes follow from come to a plan as sizes of inputs without
elements, so that they may be others in each run (importing.py).
"""

from .plan import SegmentedPlan, missing_op

__all__ = ["SegmentedPlan", "missing_op"]
