"""`pylayout verify`: every candidate of every op at the sizes that networks have, against exact sums.

case.py: a check and its tensors; generate.py, networks.py: where cases come from; reference.py and the files that it
loads: exact results; bounds.py: how far off a result may be; check.py: one case on a device; session.py: many.
"""

from .case import Case
from .check import Checked, Outcome, check_case
from .generate import random_case
from .networks import network_cases
from .session import Session, Settings, summary_rows

__all__ = [
    "Case",
    "Checked",
    "Outcome",
    "Session",
    "Settings",
    "check_case",
    "network_cases",
    "random_case",
    "summary_rows",
]
