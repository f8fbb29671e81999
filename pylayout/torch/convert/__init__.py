"""Converters of ATen ops, a file a family; see `pylayout/torch/registry.py`."""
