"""Classes of cases that random tests once found wrong, repeated in each run and compared with ONNX Runtime."""

import itertools
import re

import numpy as np
import onnx
import pytest
from onnx import helper, mapping, numpy_helper

from checks import check, check_equal
from e2e.tessera_e2e import ROOT
from oracle.oracle import difference

# Of the output's largest magnitude; integers are exact. 16-bit floats are rounded twice at most.
TOLERANCE = {np.dtype(np.float16): 2 ** -10}
USUAL_TOLERANCE = 1e-5
BUILTIN = ROOT / "compiler" / "target" / "builtin"


def wide_target(service):
    """The registers and caches of AVX-512 with instructions that all test hosts have."""
    block = re.compile(r"^code \{.*?^\}", re.MULTILINE | re.DOTALL)
    code = block.search((BUILTIN / "x86-64-v3.textproto").read_text()).group()
    path = service.scratch("wide.textproto")
    path.write_text(block.sub(code, (BUILTIN / "znver4.textproto").read_text()).split("intrinsics {")[0])
    return path


TARGETS = {"host": lambda service: "host", "haswell": lambda service: "haswell", "wide": wide_target}


class Cases:
    """Independent small graphs in one model, each with its own inputs and outputs."""

    def __init__(self, opset=17):
        self.random = np.random.default_rng(11)
        self.nodes, self.arrays, self.constants, self.outputs, self.opset = [], {}, {}, {}, opset

    def values(self, *shape, dtype=np.float32):
        return self.random.standard_normal(shape).astype(dtype)

    def input(self, array):
        name = f"x{len(self.arrays)}"
        self.arrays[name] = array
        return name

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(array)
        return name

    def op(self, kind, *inputs, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def output(self, value, rank, what, dtype=np.float32):
        self.nodes.append(helper.make_node("Identity", [value], [f"y{len(self.outputs)}"]))
        self.outputs[f"y{len(self.outputs)}"] = (what, rank, dtype)

    def save(self, path):
        def info(name, dtype, shape):
            return helper.make_tensor_value_info(name, mapping.NP_TYPE_TO_TENSOR_TYPE[np.dtype(dtype)], shape)
        graph = helper.make_graph(
            self.nodes, "found", [info(name, array.dtype, array.shape) for name, array in self.arrays.items()],
            [info(name, dtype, [f"{name}d{d}" for d in range(rank)]) for name, (_, rank, dtype) in self.outputs.items()],
            [numpy_helper.from_array(array, name) for name, array in self.constants.items()])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8), path)


def convolution_transposed_behind_pad():
    """The strides must spread the padding as they spread the elements."""
    cases = Cases()
    for strides, kernel, dilation, groups in itertools.product(([1, 1], [2, 1], [3, 2]), ([1, 1], [3, 2]), (1, 2), (1, 3)):
        x = cases.input(cases.values(1, 6, 5, 4))
        low, high = ([int(v) for v in cases.random.integers(0, 3, 2)] for _ in range(2))
        padded = cases.op("Pad", x, cases.constant(np.array([0, 0, *low, 0, 0, *high], np.int64)))
        weight = cases.constant(cases.values(6, 2, *kernel))
        cases.output(cases.op("ConvTranspose", padded, weight, strides=strides, kernel_shape=kernel, group=groups,
                              dilations=[dilation, dilation]), 4, f"{low}, {high}, {strides}, {kernel}, {dilation}, {groups}")
    return cases


def sums_along_strides():
    """Dot products of operands with transposed layouts: whole tensors, and a few results each."""
    cases = Cases()
    for dtype, extents in itertools.product((np.float32, np.float64), ((33, 5, 4, 33), (3, 7, 1, 65), (2, 34, 9, 102))):
        # All of one sign, so that a long sum is large compared with its rounding errors.
        x = cases.op("Abs", cases.input(cases.values(*extents, dtype=dtype)))
        other = cases.constant(np.abs(cases.values(*extents[::-1], dtype=dtype)))
        cases.output(cases.op("Einsum", x, other, equation="abcd,dcba->"), 0, f"{extents}", dtype)
        cases.output(cases.op("Einsum", x, other, equation="abcd,dcba->b"), 1, f"{extents} by b", dtype)
    weight = cases.constant(cases.values(12, 102, 5, 1))
    for width in (1, 3):
        x = cases.input(cases.values(1, 408, 2, width))
        cases.output(cases.op("Conv", x, weight, kernel_shape=[5, 1], pads=[2, 0, 1, 0], strides=[1, 2], group=4), 4,
                     f"convolution of groups, width {width}")
    weight, ends = cases.constant(cases.values(6, 11, 2, 5)), cases.constant(np.full(4, -9))
    last, axes = cases.constant(np.full(4, -1)), cases.constant(np.arange(4))
    for batch in (1, 2):
        x = cases.input(cases.values(batch, 33, 1, 1))
        y = cases.op("Conv", x, weight, kernel_shape=[2, 5], pads=[0, 3, 1, 2], strides=[2, 3], group=3)
        cases.output(cases.op("Slice", y, last, ends, axes, last), 4, f"convolution of one element, batch {batch}")
    return cases


def narrow_sums_along_strides():
    """Copies across the reduction of types with more elements in a vector than a transposed square has."""
    cases = Cases()
    for steps, rows, batch in itertools.product((33, 34, 65), (5, 8, 40), (1, 5)):
        x, y = (np.abs(cases.values(*shape, dtype=np.float16)) for shape in ((steps, rows), (batch, rows, steps)))
        what = f"{steps}, {rows}, {batch}"
        cases.output(cases.op("Einsum", cases.input(x), cases.input(y), equation="ab,kba->bk"), 2, what, np.float16)
        x, y = (cases.random.integers(0, 256, array.shape).astype(np.uint8) for array in (x.T, y.transpose(0, 2, 1)))
        x = cases.op("Transpose", cases.op("Transpose", cases.input(x), perm=[1, 0]), perm=[1, 0])
        cases.output(cases.op("MatMulInteger", x, cases.input(y)), 3, f"{what} of bytes", np.int32)
    return cases


def signs_of_zero():
    """The sign of zero, observed through a reciprocal: selecting operators keep it, and Sign of -0 is 0."""
    cases = Cases()
    for dtype in (np.float16, np.float32, np.float64):
        x = cases.values(31, 5, dtype=dtype)
        x[::3], x[1::3, ::2] = -0.0, 0.0
        for operator in ("Sign", "Identity", "Neg", "Abs"):
            value = cases.op("Reciprocal", cases.op(operator, cases.input(x)))
            cases.output(cases.op("Clip", value, cases.constant(dtype(-8)), cases.constant(dtype(8))), 2, f"{operator}, {dtype}", dtype)
    return cases


def average_pools():
    """Windows that extend over the end because their number is rounded up: missing elements do not count."""
    cases = Cases()
    for padding, up, count, stride in itertools.product(("VALID", "SAME_UPPER", "SAME_LOWER", None), (0, 1), (0, 1), (1, 2)):
        x = cases.input(cases.values(2, 3, 9, 6))
        where = {"auto_pad": padding} if padding else {"pads": [1, 0, 0, 1]}
        cases.output(cases.op("AveragePool", x, kernel_shape=[2, 3], strides=[stride, 2], ceil_mode=up, count_include_pad=count,
                              **where), 4, f"{padding}, {up}, {count}, {stride}")
    return cases


def grid_sample():
    cases = Cases()
    for mode, padding, corners in itertools.product(("bilinear", "nearest", "bicubic"),
                                                    ("zeros", "border", "reflection"), (0, 1)):
        x, grid = cases.values(2, 3, 7, 6), cases.random.uniform(-1.8, 1.8, (2, 5, 4, 2)).astype(np.float32)
        cases.output(cases.op("GridSample", cases.input(x), cases.input(grid), mode=mode, padding_mode=padding,
                              align_corners=corners), 4, f"{mode}, {padding}, {corners}")
    return cases


def zero_vectors():
    cases = Cases()
    for p, axis in itertools.product((1, 2), (0, 1)):
        x = cases.values(5, 7)
        x[2], x[:, 3] = 0, 0
        cases.output(cases.op("LpNormalization", cases.input(x), axis=axis, p=p), 2, f"norm {p} along {axis}")
    return cases


def truth_values():
    """LLVM's instruction selection did not terminate for compared bytes with a stride."""
    cases = Cases(opset=20)
    x = cases.input(cases.values(2, 3, 4) > 0.8)
    for kind, count in itertools.product(("ReduceMax", "ReduceMin"), (1, 2, 3)):
        for axes in itertools.combinations(range(3), count):
            value = cases.op(kind, x, cases.constant(np.int64(axes)), keepdims=0)
            cases.output(value, 3 - count, f"{kind} along {axes}", bool)
    return cases


def regions():
    cases = Cases()
    for mode, samples in itertools.product(("avg", "max"), (1, 2, 3)):
        corner = cases.random.uniform(-2, 8, (5, 2))
        rois = np.concatenate([corner, corner + cases.random.uniform(0.1, 7, (5, 2))], axis=1).astype(np.float32)
        names = [cases.input(array) for array in (cases.values(2, 3, 9, 8), rois, np.array([0, 1, 1, 0, 1]))]
        cases.output(cases.op("RoiAlign", *names, mode=mode, sampling_ratio=samples, output_height=3, output_width=2,
                              spatial_scale=0.75), 4, f"{mode} of {samples}")
    return cases


def agrees(service, oracle, cases, target):
    path, artifact = service.scratch("found.onnx"), service.scratch("found.tsra")
    cases.save(path)
    session = oracle.load(path)
    expected, _ = session.run(cases.arrays)
    session.close()
    answer = service.cli("compile", path, "--target", TARGETS[target](service), "--json", "-o", artifact, expect=None)
    check_equal(answer.code, 0, f"{answer.failure or answer}\nexit code of compile")
    for threads in (1, 2):
        found, _ = service.run(artifact, cases.arrays, "--threads", threads)
        wrong = []
        for name, (what, _, dtype) in cases.outputs.items():
            check_equal(found[name].shape, expected[name].shape, f"shape of {what}")
            relative = difference(found[name], expected[name])[1]
            tolerance = TOLERANCE.get(np.dtype(dtype), USUAL_TOLERANCE) if np.issubdtype(dtype, np.floating) else 0
            if relative > tolerance:
                wrong.append(f"{what} is off by {relative:.3g}")
        check(not wrong, f"{len(wrong)} of {len(cases.outputs)} with {threads} threads: " + "; ".join(wrong))


def ends_of_ranges():
    """Powers, remainders and sines at the ends of the number range: infinities, NaN, zeros of both signs, denormals,
    integers beyond the mantissa. Exact except for the last bits."""
    cases = Cases()
    ends = [np.nan, np.inf, 0, np.finfo(np.float32).tiny / 4, 0.5, 1, 1.5, 2, 3, 20, 1e6, 1e10, 1e20, 3e38]
    numbers = np.array([sign * end for end in ends for sign in (1, -1)], np.float32)
    first, second = (each.ravel() for each in np.meshgrid(numbers, numbers))
    for what, made in (("Pow", cases.op("Pow", cases.input(first), cases.input(second))),
                       ("Mod", cases.op("Mod", cases.input(first), cases.input(second), fmod=1))):
        cases.output(made, 1, what)
        # Next to 3e38, a comparison by the largest magnitude sees nothing else.
        small = cases.op("Less", cases.op("Abs", made), cases.constant(np.float32(100)))
        cases.output(cases.op("Where", small, made, cases.constant(np.float32(1))), 1, f"small results of {what}")
        cases.output(cases.op("Reciprocal", made), 1, f"signs of zeros of {what}")
    for kind in ("Sin", "Cos"):
        cases.output(cases.op(kind, cases.input(numbers[np.isfinite(numbers)])), 1, kind)
    return cases


def many_of_a_kind():
    """Concat and Sum of many operands, many results that differ only in numbers, and parts of constants."""
    cases = Cases()
    parts = [cases.input(cases.values(3, 5)) for _ in range(70)]
    for axis in (0, 1):
        cases.output(cases.op("Concat", *parts, axis=axis), 2, f"Concat along {axis}")
        cases.output(cases.op("Relu", cases.op("Concat", *parts[:41], axis=axis)), 2, f"Relu of Concat along {axis}")
    for kind in ("Sum", "Max", "Min", "Mean"):
        cases.output(cases.op(kind, *parts[:37]), 2, f"{kind} of 37")
    x = cases.input(cases.values(3, 7))
    for number in range(70):
        scaled = cases.op("Mul", x, cases.constant(np.float32(0.1 + number)))
        cases.output(cases.op("Add", scaled, cases.constant(np.float32(number % 3))), 2, f"linear function {number}")
    product = cases.op("MatMul", cases.constant(cases.values(33, 130)), cases.constant(cases.values(130, 271)))
    for first, last, step in ((0, 2, 1), (5, 270, 53)):
        bounds = [cases.constant(np.array([bound])) for bound in (first, last, 1, step)]
        part = cases.op("Slice", product, *bounds)
        cases.output(cases.op("Add", cases.input(cases.values(33, 1)), part), 2, f"part {first}:{last}:{step} of a constant")
    return cases


TABLE = (convolution_transposed_behind_pad, sums_along_strides, narrow_sums_along_strides, signs_of_zero, average_pools,
         grid_sample, zero_vectors, truth_values, regions, ends_of_ranges, many_of_a_kind)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("build", TABLE, ids=lambda build: build.__name__)
def test_agrees(service, oracle, build, target):
    agrees(service, oracle, build(), target)
