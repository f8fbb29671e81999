"""What estimates alone choose on OpenCL devices that are treated as GPUs (PYLAYOUT_OPENCL_AS)."""

import numpy as np

import pylayout as pl

CALLS = {
    "layer_norm": {"normalized_shape": [2048]},
    "rms_norm": {"normalized_shape": [2048]},
    "softmax": {"dim": 1},
    "argmax": {"dim": 1},
    "cumsum": {"dim": 1},
}
ROWS = (1, 3, 4096)


def first_choices():
    pl.set_tuning("off")
    device = next(device for device in pl.devices() if device.name.startswith("opencl"))
    assert device.capabilities["type"] == "gpu"
    for op, attributes in CALLS.items():
        for rows in ROWS:
            x = pl.asarray(np.zeros((rows, 2048), "f4"), device=device.name)
            print(op, rows, pl.query(op, x, **attributes).candidates[0]["implementation"])


def test_rows_are_taken_by_the_kernels_for_them_however_few_they_are(run_as_gpu):
    """The kernels for any layout leave as much of a device idle, where there are few rows, as those by work-groups."""
    chosen = [line.split() for line in run_as_gpu(__file__).splitlines()]
    assert [(op, int(rows)) for op, rows, _ in chosen] == [(op, rows) for op in CALLS for rows in ROWS]
    assert not [each for each in chosen if each[2].endswith("_rows")]


if __name__ == "__main__":
    first_choices()
