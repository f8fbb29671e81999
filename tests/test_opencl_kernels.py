"""Kernels one by one through pyopencl: each file compiles on its own, and what they share computes what it says."""

import math
import re
from pathlib import Path

import numpy
import pytest

cl = pytest.importorskip("pyopencl", reason="pyopencl is not installed")

KERNELS = Path(__file__).parent.parent / "kernels"
FILES = sorted(str(path.relative_to(KERNELS)) for path in KERNELS.rglob("*.cl"))


def expand(path: str, seen: set[str] | None = None) -> str:
    """The file with its includes, each once, as the library expands it."""
    seen = set() if seen is None else seen
    if path in seen:
        return ""
    seen.add(path)

    def include(match: "re.Match[str]") -> str:
        return expand(match.group(1), seen)

    return re.sub(r'^\s*#\s*include\s*"([^"]+)".*$', include, (KERNELS / path).read_text(), flags=re.MULTILINE)


def opencl_devices() -> "list[cl.Device]":
    try:
        return [device for platform in cl.get_platforms() for device in platform.get_devices()]
    except cl.LogicError:  # no platform at all
        return []


@pytest.fixture(scope="module", params=opencl_devices() or [None], ids=lambda d: d.platform.name if d else "none")
def queue(request: pytest.FixtureRequest) -> "cl.CommandQueue":
    if request.param is None:
        pytest.skip("no OpenCL platform that pyopencl sees")
    return cl.CommandQueue(cl.Context([request.param]))


def build(queue: "cl.CommandQueue", source: str) -> "cl.Program":
    return cl.Program(queue.context, source).build(["-cl-std=CL1.2"], cache_dir=False)


def call(queue: "cl.CommandQueue", source: str, inputs: list, dtype: str, count: int, size: int = 0) -> numpy.ndarray:
    """Runs kernel `test` over the inputs and an output of `count` elements; `size` work-items, else one for each."""
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    result = numpy.zeros(count, dtype)
    buffers = [cl.Buffer(queue.context, flags, hostbuf=numpy.ascontiguousarray(x)) for x in [*inputs, result]]
    build(queue, source).test(queue, (size or count,), None, *buffers)
    cl.enqueue_copy(queue, result, buffers[-1])
    return result


@pytest.mark.slow  # opencl_runtime.all of tests/c does the same by the library's own way
@pytest.mark.parametrize("path", FILES)
def test_compiles_alone_and_holds_its_entry(queue: "cl.CommandQueue", path: str) -> None:
    program = build(queue, expand(path))
    names = program.get_info(cl.program_info.KERNEL_NAMES).split(";")
    assert Path(path).stem in names, f"{path} holds {names}, expected an entry of its own name"


@pytest.mark.parametrize("path", FILES)
def test_says_what_it_computes(path: str) -> None:
    text = (KERNELS / path).read_text()
    header = re.match(r"(//[^\n]*\n)+", text)
    assert header and len(header.group(0)) > 100, f"{path} has no header comment"


@pytest.mark.parametrize("width", ["", "2", "4", "8", "16"])
@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_every_short_float_loads_exactly(queue: "cl.CommandQueue", name: str, width: str) -> None:
    bits = numpy.arange(65536, dtype=numpy.uint16)
    step = int(width or 1)
    statement = f"vstore{width}(LOADV(X, {width}, (P)x, i), 0, y + i);" if width else "y[i] = LOAD(X, (P)x, i);"
    source = f"""{expand("common/tensor.clh")}
        #define X_DTYPE {name}
        #define P const __global STORAGE_T(X)*
        __kernel void test(__global const ushort* x, __global float* y) {{
            const int i = get_global_id(0) * {step}; {statement} }}"""
    got = call(queue, source, [bits], "f4", bits.size, bits.size // step)
    wide = bits.view(numpy.float16).astype("f4") if name == "f16" else (bits.astype("u4") << 16).view("f4")
    numpy.testing.assert_array_equal(got, wide)


def round_to_bf16(values: numpy.ndarray) -> numpy.ndarray:
    bits = values.view("u4").astype("u8")
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("u2")


@pytest.mark.parametrize("width", ["", "4", "16"])
@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_short_floats_store_to_the_nearest(
    queue: "cl.CommandQueue", rng: numpy.random.Generator, name: str, width: str
) -> None:
    values = rng.integers(0, 2**32, 4096, dtype=numpy.uint32).view("f4")
    exponents = rng.integers(-26, 17, 4096).astype("f4")  # where halves are normal, subnormal and infinite
    values = numpy.concatenate([values, numpy.exp2(exponents) * rng.standard_normal(4096).astype("f4")]).astype("f4")
    values = values[numpy.isfinite(values)][:8000]
    step = int(width or 1)
    statement = f"STOREV(Y, {width}, (P)y, i, vload{width}(0, x + i));" if width else "STORE(Y, (P)y, i, x[i]);"
    source = f"""{expand("common/tensor.clh")}
        #define Y_DTYPE {name}
        #define P __global STORAGE_T(Y)*
        __kernel void test(__global const float* x, __global ushort* y) {{
            const int i = get_global_id(0) * {step}; {statement} }}"""
    got = call(queue, source, [values], "u2", values.size, values.size // step)
    with numpy.errstate(over="ignore"):
        wanted = values.astype(numpy.float16).view("u2") if name == "f16" else round_to_bf16(values)
    numpy.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize(
    ("name", "dtype", "wanted"),
    [
        ("s8", "i1", [0, 2, -2, 127, -128, 0, 127, -128]),
        ("u8", "u1", [0, 2, 0, 255, 0, 0, 255, 0]),
        ("s32", "i4", [0, 2, -2, 300, -300, 0, 2**31 - 1, -(2**31)]),
        ("s64", "i8", [0, 2, -2, 300, -300, 0, 4 * 10**9, -4 * 10**9]),
        ("bool", "u1", [1, 1, 1, 1, 1, 1, 1, 1]),
    ],
)
def test_floats_store_into_integers(queue: "cl.CommandQueue", name: str, dtype: str, wanted: list[int]) -> None:
    values = numpy.array([0.5, 1.5, -2.5, 300, -300, math.nan, 4e9, -4e9], "f4")
    source = f"""{expand("common/tensor.clh")}
        #define Y_DTYPE {name}
        __kernel void test(__global const float* x, __global STORAGE_T(Y)* y) {{
            const int i = get_global_id(0); STORE(Y, y, i, x[i]); }}"""
    numpy.testing.assert_array_equal(call(queue, source, [values], dtype, values.size), numpy.array(wanted, dtype))


def test_elementary(queue: "cl.CommandQueue") -> None:
    """poly_exp, poly_erf and poly_tanh within the errors that their header states, over the whole range."""
    special = [0.0, -0.0, math.inf, -math.inf, math.nan, 88.72283, 88.7229, -103.97, -104.1, 3.92, -3.92, 1e-30]
    powers = numpy.exp2(numpy.linspace(-60, 8, 20000))
    values = numpy.concatenate([numpy.linspace(-104, 89, 200000), powers, -powers, special]).astype("f4")
    values = numpy.resize(values, -(-values.size // 16) * 16)
    wide = values.astype("f8")
    with numpy.errstate(over="ignore"):
        wanted = {"exp": numpy.exp(wide), "erf": numpy.vectorize(math.erf)(wide), "tanh": numpy.tanh(wide)}
    for width in ("", "4", "8", "16"):
        for name, most in (("exp", 1.5), ("erf", 6), ("tanh", 5)):
            statement = (
                f"vstore{width}(poly_{name}(vload{width}(i, x)), i, y);" if width else f"y[i] = poly_{name}(x[i]);"
            )
            source = f"""{expand("common/elementary.clh")}
                __kernel void test(__global const float* x, __global float* y) {{
                    const int i = get_global_id(0); {statement} }}"""
            got = call(queue, source, [values], "f4", values.size, values.size // int(width or 1))
            with numpy.errstate(over="ignore"):
                exact = wanted[name].astype("f4")
            finite = numpy.isfinite(exact)
            numpy.testing.assert_array_equal(got[~finite], exact[~finite])
            error = numpy.abs(got[finite] - wanted[name][finite]) / numpy.spacing(numpy.abs(exact[finite]))
            worst = int(error.argmax())
            assert error[worst] <= most, f"{name}{width}({values[finite][worst]}) is off by {error[worst]} units"


@pytest.mark.parametrize("width", ["", "2", "4", "8", "16"])
def test_gelu(queue: "cl.CommandQueue", width: str) -> None:
    """gelu by the error function within the errors that its comment states, over the whole range."""
    special = [0.0, -0.0, math.inf, math.nan, 5.6, -5.6, 1e-30, -1e-30, 1e-42, -40.0, -math.inf, 40.0, -3e38]
    values = numpy.concatenate([numpy.linspace(-8, 8, 200000), special]).astype("f4")
    values = numpy.resize(values, -(-values.size // 16) * 16)
    statement = f"float{width} v = vload{width}(i, x);" if width else "float v = x[i];"
    store = f"vstore{width}(ACTIVATE(float{width}, v), i, y);" if width else "y[i] = ACTIVATE(float, v);"
    source = f"""#define ACTIVATION UNARY_gelu_erf
        {expand("common/activation.clh")}
        __kernel void test(__global const float* x, __global float* y) {{
            const int i = get_global_id(0); {statement} {store} }}"""
    got = call(queue, source, [values], "f4", values.size, values.size // int(width or 1)).astype("f8")
    assert numpy.isnan(got[numpy.isnan(values) | (values == -math.inf)]).all()
    assert (got[values == math.inf] == math.inf).all()
    finite = numpy.isfinite(values)
    got, wide = got[finite], values[finite].astype("f8")
    error = numpy.abs(got - 0.5 * wide * (1 + numpy.vectorize(math.erf)(wide / math.sqrt(2))))
    assert error[wide < 20].max() <= 1.6e-6
    right = wide > -1
    assert (error[right] <= 5e-7 * numpy.abs(got[right])).all()


ACTIVATIONS = {
    "identity": lambda x: x,
    "relu": lambda x: numpy.maximum(x, 0),
    "relu6": lambda x: numpy.clip(x, 0, 6),
    "leaky_relu": lambda x: numpy.where(x > 0, x, 0.3 * x),
    "elu": lambda x: numpy.where(x > 0, x, 0.3 * numpy.expm1(x)),
    "hardswish": lambda x: x * numpy.clip(x / 6 + 0.5, 0, 1),
    "hardsigmoid": lambda x: numpy.clip(x / 6 + 0.5, 0, 1),
    "silu": lambda x: x / (1 + numpy.exp(-x)),
    "sigmoid": lambda x: 1 / (1 + numpy.exp(-x)),
    "gelu_tanh": lambda x: 0.5 * x * (1 + numpy.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "mish": lambda x: x * numpy.tanh(numpy.log1p(numpy.exp(x))),
    "clip": lambda x: numpy.clip(x, 0.3, 2.0),
    "softsign": lambda x: x / (1 + numpy.abs(x)),
}


@pytest.mark.parametrize("width", ["", "4"])
def test_activations_of_scalars_and_vectors(queue: "cl.CommandQueue", width: str) -> None:
    x = numpy.linspace(-8, 8, 512, dtype="f4")
    t = "float" + width
    lines = [
        f"if (which == {k}) {{ {t} r = UNARY_{name}({t}, v, 0.3f, 2.0f); v = r; }}"
        for k, name in enumerate(ACTIVATIONS)
    ]
    load = f"{t} v = vload{width}(0, x + i % 512);" if width else "float v = x[i % 512];"
    save = f"vstore{width}(v, 0, y + i);" if width else "y[i] = v;"
    step = int(width or 1)
    source = f"""{expand("common/activation.clh")}
        __kernel void test(__global const float* x, __global float* y) {{
            const int i = get_global_id(0) * {step}, which = i / 512; {load} {" ".join(lines)} {save} }}"""
    count = 512 * len(ACTIVATIONS)
    got = call(queue, source, [x], "f4", count, count // step).reshape(len(ACTIVATIONS), 512)
    for row, (name, function) in zip(got, ACTIVATIONS.items(), strict=True):
        numpy.testing.assert_allclose(row, function(x.astype("f8")), rtol=3e-6, atol=2e-6, err_msg=name)


def test_a_tensor_argument_addresses_strided_memory(queue: "cl.CommandQueue", rng: numpy.random.Generator) -> None:
    memory = rng.standard_normal(400).astype("f4")
    shape, strides, offset = (2, 3, 4, 5), (60, 20, 1, 4), 7
    program = build(queue, expand("reorder/reorder_any.cl"))

    def argument(dims: tuple, steps: tuple, first: int) -> numpy.ndarray:
        fields = [first, *dims, *[0] * 4, *steps, *[0] * 4]
        return numpy.array([tuple(fields)], [(f"f{i}", "i4") for i in range(17)])[0]

    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    guard = numpy.full(140, numpy.float32(9))
    source, target = (cl.Buffer(queue.context, flags, hostbuf=x) for x in (memory, guard))
    plain = argument(shape, (60, 20, 5, 1), 10)
    program.reorder_any(queue, (128,), None, source, argument(shape, strides, offset), target, plain, numpy.int32(120))
    cl.enqueue_copy(queue, guard, target)
    view = numpy.lib.stride_tricks.as_strided(memory[offset:], shape, [4 * s for s in strides])
    numpy.testing.assert_array_equal(guard[10:130].reshape(shape), view)
    assert (guard[:10] == 9).all() and (guard[130:] == 9).all()


@pytest.mark.parametrize("keys", [16, 300])
def test_attention_of_few_queries_with_a_mask_writes_its_parts(
    queue: "cl.CommandQueue", rng: numpy.random.Generator, keys: int
) -> None:
    """By an optimising compiler too: tests/c has kernels that are not."""
    width, items, guard = 64, 128, 4096
    tensors = [rng.standard_normal((n, width)).astype("f4") for n in (1, keys, keys)]
    mask = rng.standard_normal((1, keys)).astype("f4")
    parts = -(-keys // items)
    memory = numpy.full(2 * guard + parts * (width + 2), 9, "f4")

    def argument(shape: tuple) -> numpy.ndarray:
        fields = [0, *shape, *[0] * 6, shape[1], 1, *[0] * 6, *[0] * 16]
        return numpy.array([tuple(fields)], [(f"f{i}", "i4") for i in range(33)])[0]

    source = """
        #define MASK_DTYPE f32
        #define MASK_IS_BOOL 0
        #define MASK_OFFSET(a, b, c, d, e, f, g, h) (mask_arg.offset + (g)*mask_arg.stride[0] + (h)*mask_arg.stride[1])
        #define ROWS 1
        #define QUERIES 1
        #define WIDTH 64
        #define VALUES 64
    """
    kernel = build(queue, source + expand("attention/attention_few.cl")).attention_few
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    buffers = [cl.Buffer(queue.context, flags, hostbuf=x) for x in (*tensors, mask, memory)]
    arguments = [part for x, b in zip((*tensors, mask), buffers, strict=False) for part in (b, argument(x.shape))]
    start, scale, count = numpy.uint64(guard), numpy.float32(0.125), numpy.int32(parts)
    kernel(queue, (parts * items,), (items,), *arguments, buffers[-1], start, scale, count)
    cl.enqueue_copy(queue, memory, buffers[-1])
    assert (memory[:guard] == 9).all() and (memory[-guard:] == 9).all()
    query, key, value = (tensor.astype("f8") for tensor in tensors)
    scores = (key @ query[0] * 0.125 + mask[0]) / math.log(2)
    for part, got in enumerate(memory[guard:-guard].reshape(parts, -1)):
        own = slice(part * items, (part + 1) * items)
        weights = numpy.exp2(scores[own] - scores[own].max())
        wanted = [scores[own].max(), weights.sum(), *(weights @ value[own])]
        numpy.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)
