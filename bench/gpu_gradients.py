"""Gradients of single ops on a GPU against PyTorch's (cuDNN) on the same one, in one run: checked, then timed in turns.

    python -m bench.gpu_gradients --math fp32 tf32 fp16 --batch 16 64 --json out.json

Of ResNet-50's and MobileNetV2's convolutions, by input and by weights; batch norm in training, forward and backward;
max pool; a step of Adam; attention of 12 heads, by its own op and by products with the scores as tensors. pylayout's
side is a plan of the one op, its inputs on the device and its results in the layout that it likes, so its time includes
the reorders of inputs; `kernel` is what the plan's op alone is expected to take. Both sides' times are the better of
two layouts of the inputs, PyTorch's contiguous and channels last, its algorithms chosen by measurement
(cudnn.benchmark). Errors are of the whole result against double precision, as a ratio of norms. Without PyTorch for
CUDA pylayout alone is timed, checked against PyTorch on the processor.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import pylayout as pl
from pylayout import ops
from pylayout.cli.terminal import Table, ms_text

from .gpu import add_device, device_of
from .record import write
from .turns import relative_error, take_turns


class Layer(NamedTuple):
    """A convolution of (n, c, h, h) with kernels of k x k, or what follows one (k = 0)."""

    name: str
    c: int
    h: int
    oc: int
    k: int
    stride: int = 1
    groups: int = 1


LAYERS = [
    Layer("first 7x7", 3, 224, 64, 7, 2),
    Layer("3x3 56", 64, 56, 64, 3),
    Layer("3x3 28", 128, 28, 128, 3),
    Layer("3x3 14", 256, 14, 256, 3),
    Layer("3x3 7", 512, 7, 512, 3),
    Layer("3x3 56 by 2", 128, 56, 128, 3, 2),
    Layer("1x1 56", 64, 56, 256, 1),
    Layer("1x1 14", 1024, 14, 256, 1),
    Layer("1x1 56 by 2", 256, 56, 512, 1, 2),
    Layer("depthwise 56", 144, 56, 144, 3, 1, 144),
    Layer("depthwise 28 by 2", 192, 28, 192, 3, 2, 192),
]
NORMS = [Layer("64 x 112", 64, 112, 64, 0), Layer("256 x 56", 256, 56, 256, 0), Layer("512 x 7", 512, 7, 512, 0)]
PARAMETERS = 2359296  # of the largest convolution of ResNet-50
LAYOUTS = ["NCHW", "NHWC"]  # in which a plan is given images and kernels
DTYPES = {"fp32": "f4", "tf32": "f4", "fp16": "f2"}


class Case(NamedTuple):
    """An op: its inputs, the same of PyTorch, by the same arguments."""

    name: str
    inputs: list[np.ndarray]
    build: Callable[..., Any]  # of a graph and its values
    torch: Callable[..., Any]  # of torch and tensors: a tensor, the first result


def normal(rng: np.random.Generator, dtype: str, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape, np.float32).astype(dtype)


def convolutions(layer: Layer, n: int, dtype: str, rng: np.random.Generator) -> list[Case]:
    padding = layer.k // 2
    out = (layer.h + 2 * padding - layer.k) // layer.stride + 1
    window = {"stride": layer.stride, "padding": padding, "groups": layer.groups}
    x = normal(rng, dtype, n, layer.c, layer.h, layer.h)
    w = normal(rng, dtype, layer.oc, layer.c // layer.groups, layer.k, layer.k)
    g = normal(rng, dtype, n, layer.oc, out, out)
    rest = layer.h + 2 * padding - layer.k - (out - 1) * layer.stride

    def backward(torch: Any, mask: list[bool], x: Any, w: Any, g: Any) -> Any:
        sizes = [layer.stride] * 2, [padding] * 2, [1, 1]
        made = torch.ops.aten.convolution_backward(g, x, w, None, *sizes, False, [0, 0], layer.groups, mask)
        return made[mask.index(True)]

    return [
        Case(
            f"{layer.name}, by input",
            [x, w, g],
            lambda graph, x, w, g: graph.op("conv_transpose2d", g, w, output_padding=rest, **window),
            lambda torch, x, w, g: backward(torch, [True, False, False], x, w, g),
        ),
        Case(
            f"{layer.name}, by weights",
            [x, w, g],
            lambda graph, x, w, g: graph.op("conv2d_backward_weights", x, g, kernel_size=layer.k, **window),
            lambda torch, x, w, g: backward(torch, [False, True, False], x, w, g),
        ),
    ]


def norms(layer: Layer, n: int, dtype: str, rng: np.random.Generator) -> list[Case]:
    x, g = (normal(rng, dtype, n, layer.c, layer.h, layer.h) for _ in range(2))
    w, b = (normal(rng, dtype, layer.c) for _ in range(2))

    def forward(torch: Any, x: Any, w: Any, b: Any) -> Any:
        return torch.ops.aten.native_batch_norm(x, w, b, None, None, True, 0.1, 1e-5)

    def backward(torch: Any, x: Any, w: Any, b: Any, g: Any) -> Any:
        _, mean, inverse = forward(torch, x, w, b)
        return torch.ops.aten.native_batch_norm_backward(
            g, x, w, None, None, mean, inverse, True, 1e-5, [True, True, True]
        )[0]

    def both(graph: Any, x: Any, w: Any, b: Any, g: Any) -> Any:
        _, mean, variance = graph.op("batch_norm_training", x, w, b)
        return graph.op("batch_norm_backward", x, g, mean, variance, w)[0]

    return [
        Case(
            f"batch norm {layer.name}",
            [x, w, b],
            lambda graph, x, w, b: graph.op("batch_norm_training", x, w, b)[0],
            lambda torch, x, w, b: forward(torch, x, w, b)[0],
        ),
        Case(f"batch norm {layer.name}, both", [x, w, b, g], both, backward),
    ]


def others(n: int, dtype: str, rng: np.random.Generator) -> list[Case]:
    x, g = normal(rng, dtype, n, 64, 112, 112), normal(rng, dtype, n, 64, 56, 56)
    window = {"kernel_size": 3, "stride": 2, "padding": 1}

    def pool(torch: Any, x: Any, g: Any) -> Any:
        _, indices = torch.ops.aten.max_pool2d_with_indices(x, [3, 3], [2, 2], [1, 1])
        return torch.ops.aten.max_pool2d_with_indices_backward(g, x, [3, 3], [2, 2], [1, 1], [1, 1], False, indices)

    w, grad, mean, square = (normal(rng, "f4", PARAMETERS) for _ in range(4))
    rate, step = np.array(0.001, "f4"), np.array(3, "f4")

    def adam(torch: Any, w: Any, grad: Any, mean: Any, square: Any, rate: Any, step: Any) -> Any:
        w, mean, square = w.clone(), mean.clone(), square.clone()
        options = {"lr": 0.001, "beta1": 0.9, "beta2": 0.999, "weight_decay": 0.0, "eps": 1e-8}
        if not w.is_cuda:  # the fused step wants a device
            mean, square = 0.9 * mean + 0.1 * grad, 0.999 * square + 0.001 * grad * grad
            root = (square / (1 - 0.999**3)).sqrt() + 1e-8
            return w - 0.001 / (1 - 0.9**3) * mean / root
        torch.ops.aten._fused_adam_(
            [w],
            [grad],
            [mean],
            [square],
            [],
            [torch.full((), 2.0, device=w.device)],
            **options,
            amsgrad=False,
            maximize=False,
        )
        return w

    return [
        Case("max pool 3x3 by 2", [x, g], lambda graph, x, g: graph.op("max_pool2d_backward", x, g, **window), pool),
        Case(
            "Adam",
            [w, grad, mean, np.abs(square), rate, step],
            lambda graph, w, grad, mean, square, rate, step: graph.op("adam_step", w, grad, rate, mean, square, step)[
                0
            ],
            adam,
        ),
    ]


def attention(length: int, n: int, dtype: str, rng: np.random.Generator) -> list[Case]:
    """All three gradients, of which the first is checked. PyTorch's forward is kept from the first call on."""
    q, k, v, g = (normal(rng, dtype, n, 12, length, 64) for _ in range(4))
    kept: dict[int, Any] = {}

    def backward(torch: Any, q: Any, k: Any, v: Any, g: Any) -> Any:
        if id(q) not in kept:
            given = [x.detach().requires_grad_() for x in (q, k, v)]
            kept[id(q)] = q, given, torch.nn.functional.scaled_dot_product_attention(*given)
        _, given, y = kept[id(q)]
        return torch.autograd.grad(y, given, g, retain_graph=True)[0]

    def own(graph: Any, q: Any, k: Any, v: Any, g: Any) -> Any:
        made = graph.op("scaled_dot_product_attention_backward", q, k, v, g)
        for gradient in made[1:]:
            graph.output(gradient, layout="any")
        return made[0]

    def products(graph: Any, q: Any, k: Any, v: Any, g: Any) -> Any:
        scale = np.array(0.125, q.dtype.name.replace("f", "float"))
        weights = graph.op("softmax", graph.op("matmul", q, k, transpose_b=True) * scale, dim=3)
        of_weights = graph.op("matmul", g, v, transpose_b=True)
        mean = graph.op("sum", of_weights * weights, dim=[3], keepdim=True)
        of_scores = weights * (of_weights - mean) * scale
        graph.output(graph.op("matmul", of_scores, q, transpose_a=True), layout="any")
        graph.output(graph.op("matmul", weights, g, transpose_a=True), layout="any")
        return graph.op("matmul", of_scores, k)

    name = f"attention {length}"
    return [
        Case(f"{name}, its op", [q, k, v, g], own, backward),
        Case(f"{name}, products", [q, k, v, g], products, backward),
    ]


def ours(case: Case, math: str, layout: str, options: argparse.Namespace) -> tuple[Callable[[], Any], float]:
    """What runs it and waits, given images in a layout, and what the op of the plan takes by itself."""
    graph = pl.Graph()
    names = {"float32": "f32", "float16": "f16"}
    layouts = [layout if x.ndim == 4 else None for x in case.inputs]
    values = [
        graph.input(f"x{i}", x.shape, names[x.dtype.name], form)
        for i, (x, form) in enumerate(zip(case.inputs, layouts, strict=True))
    ]
    graph.output(case.build(graph, *values), "y", "any")
    plan = pl.compile(graph, device=options.device, math="fp32" if math == "fp16" else math, seconds=options.seconds)
    given = [pl.asarray(x, device=options.device) for x in case.inputs]
    given = [ops.reorder(x, form) if form else x for x, form in zip(given, layouts, strict=True)]

    def run() -> Any:
        result = plan(*given)
        pl.synchronize(options.device)
        return result[-1] if isinstance(result, (tuple, list)) else result

    return run, float(plan.summary()["op_ms"])


def theirs(torch: Any, case: Case, math: str) -> dict[str, Callable[[], Any]]:
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = math == "tf32"
    torch.backends.cudnn.benchmark = True
    engines: dict[str, Callable[[], Any]] = {}
    for name, form in (("torch", torch.contiguous_format), ("torch:channels_last", torch.channels_last)):
        given = [torch.from_numpy(x).cuda() for x in case.inputs]
        given = [x.contiguous(memory_format=form) if x.dim() == 4 else x for x in given]

        def run(given: list[Any] = given) -> Any:
            result = case.torch(torch, *given)
            torch.cuda.synchronize()
            return result

        engines[name] = run
    return engines


def cases_of(n: int, math: str, wanted: str) -> list[Case]:
    rng, dtype = np.random.default_rng(0), DTYPES[math]
    cases = [case for layer in LAYERS for case in convolutions(layer, n, dtype, rng)]
    cases += [case for layer in NORMS for case in norms(layer, n, dtype, rng)] + others(n, dtype, rng)
    cases += [case for length in (197, 1024) for case in attention(length, n, dtype, rng)]
    return [case for case in cases if wanted in case.name]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    add_device(parser)
    parser.add_argument("--batch", type=int, nargs="+", default=[16])
    parser.add_argument("--math", nargs="+", default=list(DTYPES), choices=list(DTYPES))
    parser.add_argument("--only", default="", help="cases whose names have this")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, help="measure for so long before the first run")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    options.device = device_of(options)
    import torch

    rows = []
    for batch in options.batch:
        for math in options.math:
            for case in cases_of(batch, math, options.only):
                where = "cuda" if torch.cuda.is_available() else "cpu"
                doubles = [torch.from_numpy(x).double().to(where) for x in case.inputs]
                if case.name == "Adam":
                    doubles = [x.cpu() for x in doubles]
                exact = case.torch(torch, *doubles).float().cpu().numpy()
                plans = {layout: ours(case, math, layout, options) for layout in LAYOUTS}
                engines = {f"plan:{layout}": run for layout, (run, _) in plans.items()}
                engines |= theirs(torch, case, math) if torch.cuda.is_available() else {}
                errors = {name: relative_error(each(), exact) for name, each in engines.items()}
                times = take_turns(engines, options.rounds)
                plan_ms, layout = min((times[f"plan:{layout}"], layout) for layout in LAYOUTS)
                row: dict[str, Any] = {"case": case.name, "batch": batch, "math": math, "layout": layout}
                row |= {"error": errors, "ms": times, "plan_ms": plan_ms, "kernel_ms": plans[layout][1]}
                peers = [ms for name, ms in times.items() if name.startswith("torch")]
                if peers:
                    row["pytorch_ms"] = min(peers)
                    row["ratio"] = round(min(peers) / plan_ms, 3)
                rows.append(row)
                print(row, flush=True)
    table = Table(("case", "batch", "math", "layout", "plan", "kernel", "torch", "ratio", "error", "its error"))
    for row in rows:
        table.add(
            row["case"],
            str(row["batch"]),
            row["math"],
            row["layout"],
            ms_text(row["plan_ms"]),
            ms_text(row["kernel_ms"]),
            ms_text(row["pytorch_ms"]) if "pytorch_ms" in row else "-",
            str(row.get("ratio", "-")),
            f"{row['error']['plan:' + row['layout']]:.1e}",
            f"{row['error'].get('torch', float('nan')):.1e}",
        )
    table.print()
    for math in options.math:
        ratios = [row["ratio"] for row in rows if row["math"] == math and "ratio" in row]
        if ratios:
            print(f"{math}: {statistics.geometric_mean(ratios):.3f} over {len(ratios)} rows, least {min(ratios)}")
    if options.json:
        write(options.json, "gpu_gradients", rows, device=options.device)


if __name__ == "__main__":
    main()
