"""The device `ocl` of PyTorch: OpenCL devices of the library, with tensors, autograd and random numbers.

    import torch
    model.to("ocl:0")

The installed package is found by `import torch` (entry point `torch.backends`). From a folder that is not installed,
and where PyTorch drives a GPU itself, `pylayout.ocl.load()` does the same. What PyTorch's modules of devices have is in
`torch.ocl`, which is `pylayout.ocl.module`.
"""

from __future__ import annotations

import logging
import warnings

__all__ = ["autoload", "load"]

_loaded: BaseException | bool = False


def load() -> None:
    """Make the device known to PyTorch; build the shim for this PyTorch if that was not done before.

    In this process `backward()` works on the CPU and on `ocl` then, no longer on `cuda`: see `autoload`.

    Raises UnsupportedError for a PyTorch that is not known, or where the shim cannot be built.
    """
    global _loaded
    import torch  # noqa: F401  # which calls `autoload` where it was not imported before

    if _loaded is True:
        return
    if isinstance(_loaded, BaseException):
        raise _loaded
    from .register import register

    try:
        register()
    except BaseException as error:
        _loaded = error if isinstance(error, Exception) else False
        raise
    _loaded = True


def _driven_by_pytorch() -> str | None:
    """The kind of the devices beside the CPU that this process's PyTorch drives itself.

    Counts devices without starting a driver's context, which forked children could not use.
    """
    import torch

    if torch.cuda.device_count():
        return "cuda"
    if torch.xpu.device_count():
        return "xpu"
    return "mps" if torch.backends.mps.is_available() else None


def autoload() -> None:
    """What `import torch` calls: `load`, but a failure is a warning, and an unknown PyTorch goes without the device.

    PyTorch has one accelerator in a process, and a device that comes from outside takes the place of its own: every
    `backward()` on `cuda` would fail from then on (pytorch issue 161129). So where PyTorch drives a GPU itself nothing
    is loaded unasked.
    """
    from .build import UnknownVersionError

    own = _driven_by_pytorch()
    if own:
        logging.getLogger("pylayout.ocl").info("PyTorch drives %s: the device ocl comes by pylayout.ocl.load()", own)
        return
    try:
        load()
    except UnknownVersionError as error:
        logging.getLogger("pylayout.ocl").info("%s", error)
    except Exception as error:
        warnings.warn(f"pylayout: PyTorch has no device ocl in this process: {error}", stacklevel=2)
