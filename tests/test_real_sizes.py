"""Every candidate at the sizes that networks have: some cases drawn anew each day, and all families of ops.

PYLAYOUT_VERIFY_SECONDS: how long the drawn cases may take, for each device and half of them (default 25).
PYLAYOUT_VERIFY_CHECKS: how many candidates are run instead, however long that takes.
PYLAYOUT_VERIFY_SEED: of the draw; default: the date, which a failure names.
PYLAYOUT_TEST_DEVICE: this device alone ("opencl:0": PoCL, Intel's runtime or a GPU).
What fails is run again by `pylayout verify --case`, as the message has it.
"""

from __future__ import annotations

import datetime
import json
import os

import pytest

from pylayout.verify import Case, Session, Settings, check_case

SEED = int(os.environ.get("PYLAYOUT_VERIFY_SEED", datetime.date.today().strftime("%Y%m%d")))
SECONDS = float(os.environ.get("PYLAYOUT_VERIFY_SECONDS", "25"))
CHECKS = int(os.environ["PYLAYOUT_VERIFY_CHECKS"]) if "PYLAYOUT_VERIFY_CHECKS" in os.environ else None


@pytest.fixture(scope="module", autouse=True)
def untimed(untuned: None) -> None:
    """Nothing is measured."""


def explain(failures: list[dict]) -> str:
    lines = [f"seed {SEED}: {len(failures)} wrong"]
    for failure in failures[:10]:
        candidate = failure.get("candidate", {})
        lines.append(f"{candidate.get('provider')} {candidate.get('implementation')}: {failure['problem']}")
        lines.append(f"  pylayout verify --case '{json.dumps(failure['case'])}'")
    return "\n".join(lines)


@pytest.mark.slow
@pytest.mark.timeout(0 if CHECKS else 600)
@pytest.mark.parametrize("sources", ["networks", "random"])
def test_todays_cases(device: str, sources: str) -> None:
    """On the CPU without the OpenCL kernels, which its OpenCL device runs, too: they are compiled once."""
    providers = ("host", "onednn") if device == "cpu" else ()
    session = Session(Settings(device, SEED, providers=providers, sources=sources))
    print(f"PYLAYOUT_VERIFY_SEED={SEED}")
    session.run(float("inf") if CHECKS else SECONDS / 60, CHECKS)
    assert session.checks > 0
    assert not session.failures, explain(session.failures)


# What was wrong once, or lies where a library's blocks of a long reduction begin; each in few operations.
ALWAYS = [
    *(
        Case("conv_transpose2d", (f"f32:1x{ic}x3x4", f"f32:{ic}x{oc}x4x4", f"f32:{oc}"), {"stride": 2, "padding": 1})
        for ic, oc in ((512, 64), (1024, 64), (1024, 40))
    ),
    Case("conv_transpose3d", ("f32:1x512x2x3x2", "f32:512x32x4x4x4", "f32:32"), {"stride": 2, "padding": 1}),
    Case("conv_transpose1d", ("f32:1x512x16", "f32:512x256x16", "f32:256"), {"stride": 8, "padding": 4}),
    Case(
        "conv_transpose2d",
        ("f32:2x1024x4x4", "f32:1024x48x3x3", "f32:48"),
        {"stride": 2, "padding": 1, "output_padding": 1, "activation": "relu"},
    ),
    Case("conv2d", ("f32:1x2048x4x4", "f32:48x2048x3x3", "f32:48"), {"padding": 1, "activation": "relu"}),
    Case("conv2d", ("f32:1x1023x5x5", "f32:65x1023x1x1", "f32:65", "f32:1x65x5x5"), {"activation": "relu"}),
    Case("conv2d", ("f32:1x512x6x6", "f32:64x512x3x3", "f32:64"), {"padding": 1}, "both NHWC"),
    Case("conv2d", ("bf16:1x1025x4x4", "bf16:64x1025x3x3", "bf16:64"), {"padding": 1}),
    Case("conv3d", ("bf16:1x533x3x3x3", "bf16:24x533x3x3x3"), {}),
    Case("conv_transpose3d", ("bf16:1x255x6x2x3", "bf16:255x1x7x7x7"), {"stride": 1, "padding": 3}),
    Case("conv1d", ("bf16:2x2047x27", "bf16:40x2047x4"), {"padding": 1}),
    Case("conv_integer", ("u8:1x48x46", "s8:112x48x7", "u8:"), {"padding": [3, 5]}),
    Case("conv_integer", ("u8:1x320x3x3", "s8:128x320x7x4", "u8:"), {"stride": [1, 2], "padding": [6, 1]}),
    Case("log", ("f32:4x400x10x4",), {}, seed=270072037),
    Case("conv_integer", ("u8:1x128x10x15", "s8:129x128x1x1", "u8:"), {}),
    Case("max_pool1d", ("f32:4x1x8",), {"kernel_size": 5, "stride": 2, "padding": 2}, "input NHWC"),
    Case("max_pool2d", ("f32:2x3x6x7",), {"kernel_size": [3, 7], "stride": 1}, "input NCHW"),
    Case("linear", ("f32:3x4096", "f32:257x4096", "f32:257"), {"activation": "gelu"}),
    Case("linear", ("bf16:5x4095", "bf16:129x4095"), {}),
    Case("matmul", ("f32:2x33x2049", "f32:2x2049x65", "f32:65"), {}),
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("case", ALWAYS, ids=lambda case: case.key)
def test_where_blocks_begin(case: Case, device: str) -> None:
    if case.strided and device != "cpu":
        pytest.skip("strided views are parts of memory that has addresses")
    checked = check_case(case, device, wanted=lambda each: device != "cpu" or each["provider"] != "opencl")
    if not checked.outcomes:
        # On the CPU oneDNN alone has bf16, from AVX-512 on.
        lacking = any("has no bf16 implementation for instruction set" in each for each in checked.refusals)
        if device != "cpu" or lacking:
            pytest.skip(f"{device}: {'; '.join(checked.refusals)}")
    assert checked.outcomes, "nothing here can run it"
    assert not checked.wrong, "\n".join(
        f"{o.provider} {o.implementation} {o.inputs}: {o.ratio:.3g} times the bound at {o.at}; {o.damage}"
        for o in checked.wrong
    )
