"""Networks of any family by name: their modules, inputs and ONNX files, for benchmarks of whole models."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

import numpy as np

from . import generators, image_transformers, super_resolution, text_models, torchvision_models, video_models

__all__ = ["NETWORKS", "input_of", "module_of", "prepare"]

_INPUTS = {  # of each family
    torchvision_models: torchvision_models.images_for,
    super_resolution: super_resolution.images_for,
    text_models: text_models.tokens_for,
    video_models: video_models.clips_for,
    generators: generators.inputs_for,
    image_transformers: image_transformers.images_for,
}
NETWORKS = [network for family in _INPUTS for network in family.NETWORKS]

_FILES = {"model": ".onnx", "images": ".npy", "reference": ".npy"}


def _family_of(network: str) -> Any:
    return next((family for family in _INPUTS if network in family.NETWORKS), torchvision_models)


def module_of(network: str) -> Any:
    """The network in eval mode, with seeded weights."""
    return _family_of(network).build(network)


def input_of(network: str, batch: int) -> Any:
    """A seeded tensor that the network takes."""
    return _INPUTS[_family_of(network)](network, batch)


def _export(network: str, batch: int, files: dict[str, str]) -> None:
    """Runs in a process of its own: PyTorch's threads must not live on beside the engines."""
    import torch

    module, x = module_of(network), input_of(network, batch)
    torchvision_models.write_onnx(module, x, Path(files["model"]))
    with torch.no_grad():
        np.save(files["images"], x.numpy())
        np.save(files["reference"], module(x).numpy())


def prepare(network: str, batch: int, folder: Path) -> dict[str, Any]:
    """The files that engines read (the model, its input, PyTorch's result) as options of bench/engines.py.

    Of a network that is an ONNX file, the result is that of a plan without measuring.
    """
    if network.endswith(".onnx"):
        import pylayout as pl

        plan = pl.compile(network, device="cpu", tune="off")
        rng = np.random.default_rng(batch)
        files = {"model": network, "images": str(folder / "images.npy"), "reference": str(folder / "reference.npy")}
        images = rng.standard_normal(plan.inputs[0]["shape"]).astype("float32")
        np.save(files["images"], images)
        np.save(files["reference"], plan.run(images)[0])
        return files
    files = {key: str(folder / f"{key}{suffix}") for key, suffix in _FILES.items()}
    process = multiprocessing.get_context("spawn").Process(target=_export, args=(network, batch, files))
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(f"{network}: could not be exported")
    return {**files, "network": network}
