"""The device `ocl` of PyTorch: OpenCL devices of the library, with tensors, autograd and random numbers.

    import torch
    model.to("ocl:0")

The installed package is found by `import torch` (entry point `torch.backends`); from a folder that is not installed,
`import pylayout.ocl` does the same. What PyTorch's modules of devices have is in `torch.ocl`, which is
`pylayout.ocl.module`.
"""

from __future__ import annotations

import logging
import warnings

__all__ = ["autoload", "load"]

_loaded: BaseException | bool = False


def load() -> None:
    """Make the device known to PyTorch; build the shim for this PyTorch if that was not done before.

    Raises UnsupportedError for a PyTorch that is not known, or where the shim cannot be built.
    """
    global _loaded
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


def autoload() -> None:
    """What `import torch` calls: `load`, but a failure is a warning, and an unknown PyTorch goes without the device."""
    from .build import UnknownVersionError

    try:
        load()
    except UnknownVersionError as error:
        logging.getLogger("pylayout.ocl").info("%s", error)
    except Exception as error:
        warnings.warn(f"pylayout: PyTorch has no device ocl in this process: {error}", stacklevel=2)
