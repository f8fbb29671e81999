"""Converters, one file for each family of ops; see `pylayout.onnx.registry`."""
