"""What the commands raise."""

from __future__ import annotations

__all__ = ["UsageError"]


class UsageError(Exception):
    """What was asked for cannot be: exit code 2."""
