"""A model in pylayout and in its peers, side by side: `race` measures, `worker` holds one engine in a process."""

from .race import Engine, Row, race
from .worker import PEERS, missing

__all__ = ["PEERS", "Engine", "Row", "missing", "race"]
