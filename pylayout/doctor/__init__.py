"""What is slow on this machine and why: `facts` reads the machine, `checks` judges what was read."""

from .checks import Finding, examine
from .facts import Facts, gather

__all__ = ["Facts", "Finding", "examine", "gather"]
