"""Ops on the host, one file a family."""
