"""Sums and formulas of f16 and bf16 are computed in f32 and rounded once: results are within little more than half an
ulp of their type, whatever the length, and weights keep their stored size."""

import itertools
import zipfile

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from checks import check, check_equal
from e2e.tessera_e2e import rotating_target, target_name
from fuzz.cases.types import rounded_to_bf16

PRECISION = {"f16": 2.0**-10, "bf16": 2.0**-7}
PROTO = {"f16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16}
ULPS = 0.55  # one rounding is half an ulp; f32 adds little


def rounded(kind, values):
    values = np.asarray(values, np.float32)
    return rounded_to_bf16(values) if kind == "bf16" else values.astype(np.float16).astype(np.float32)


def initializer(kind, name, values):
    if kind == "f16":
        return numpy_helper.from_array(values.astype(np.float16), name)
    bits = (np.ascontiguousarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return helper.make_tensor(name, TensorProto.BFLOAT16, values.shape, bits.tobytes(), raw=True)


class Model:
    """Independent operators on values of one 16-bit type; inputs and outputs are f32 tensors of such values."""

    def __init__(self, kind):
        self.kind, self.random = kind, np.random.default_rng(5)
        self.nodes, self.arrays, self.constants, self.expected, self.what = [], {}, [], {}, {}

    def values(self, *shape, low=0.5, high=1.5):
        return rounded(self.kind, self.random.uniform(low, high, shape))

    def input(self, array):
        name = f"x{len(self.arrays)}"
        self.arrays[name] = array
        self.nodes.append(helper.make_node("Cast", [name], [name + "h"], to=PROTO[self.kind]))
        return name + "h"

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants.append(initializer(self.kind, name, array))
        return name

    def raw(self, array):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def op(self, what, operator, inputs, exact, **attributes):
        name = f"y{len(self.expected)}"
        outputs = ["", name + "h"] if what.startswith("last state") else [name + "h"]
        self.nodes.append(helper.make_node(operator, inputs, outputs, **attributes))
        self.nodes.append(helper.make_node("Cast", [name + "h"], [name], to=TensorProto.FLOAT))
        self.expected[name], self.what[name] = np.asarray(exact, np.float64), what

    def save(self, path):
        def info(name, array):
            return helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape)
        graph = helper.make_graph(self.nodes, "halves", [info(*each) for each in self.arrays.items()],
                                  [info(*each) for each in self.expected.items()], self.constants)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def ulps_off(kind, ours, exact):
    """Largest error in ulps of the exact value; subnormal results count in ulps of the least normal number."""
    least = {"f16": 2.0**-14, "bf16": 2.0**-126}[kind]
    ulp = PRECISION[kind] * 2.0 ** np.floor(np.log2(np.maximum(np.abs(exact), least)))
    return float(np.max(np.abs(ours.astype(np.float64) - exact) / ulp)) if exact.size else 0.0


def windows(x, size, stride):
    """[n, c, out, out, size, size]"""
    return np.lib.stride_tricks.sliding_window_view(x, (size, size), (2, 3))[:, :, ::stride, ::stride]


def f64(*arrays):
    return [a.astype(np.float64) for a in arrays]


def products(m):
    a, b, c = m.values(7, 2053), m.values(2053, 33), m.values(33)
    A, B, C = f64(a, b, c)
    m.op("MatMul", "MatMul", [m.input(a), m.input(b)], A @ B)
    m.op("MatMul, constant", "MatMul", [m.input(a), m.constant(b)], A @ B)
    m.op("one row", "MatMul", [m.input(a[:1]), m.constant(b)], A[:1] @ B)
    m.op("Gemm", "Gemm", [m.input(a), m.constant(np.ascontiguousarray(b.T)), m.constant(c)], 0.25 * (A @ B) - 2 * C,
         transB=1, alpha=0.25, beta=-2.0)
    p, q = m.values(3, 5, 1031), m.values(3, 1031, 17)
    m.op("batches", "MatMul", [m.input(p), m.input(q)], p.astype(np.float64) @ q)
    m.op("broadcast batches", "MatMul", [m.input(p[:, None]), m.input(q[None])],
         p[:, None].astype(np.float64) @ q[None])
    m.op("Einsum", "Einsum", [m.input(p), m.input(q)], np.einsum("bij,bjk->ik", *f64(p, q)), equation="bij,bjk->ik")
    x = m.values(1, 1999)
    m.op("a dot product", "MatMul", [m.input(x), m.input(np.ascontiguousarray(x.T))], f64(x)[0] @ f64(x)[0].T)


def convolutions(m):
    x, w, b = m.values(2, 65, 12, 11), m.values(19, 65, 3, 3), m.values(19)
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    direct = np.einsum("ncyxij,fcij->nfyx", windows(padded, 3, 1), f64(w)[0])
    m.op("Conv", "Conv", [m.input(x), m.constant(w), m.constant(b)], direct + f64(b)[0][:, None, None],
         pads=[1, 1, 1, 1])
    m.op("Conv, stride 2", "Conv", [m.input(x), m.input(w)], direct[:, :, ::2, ::2], pads=[1, 1, 1, 1], strides=[2, 2])
    d = m.values(65, 1, 3, 3)
    m.op("depthwise", "Conv", [m.input(x), m.constant(d)],
         np.einsum("ncyxij,cij->ncyx", windows(padded, 3, 1), f64(d)[0][:, 0]), pads=[1, 1, 1, 1], group=65)
    g = m.values(10, 13, 3, 3)
    grouped = [np.einsum("ncyxij,fcij->nfyx", windows(f64(x)[0][:, 13 * k:13 * k + 13], 3, 1), f64(g)[0][2 * k:2 * k + 2])
               for k in range(5)]
    m.op("groups", "Conv", [m.input(x), m.constant(g)], np.concatenate(grouped, 1), group=5)
    line, taps = m.values(1, 40, 30), m.values(6, 40, 5)
    m.op("one dimension", "Conv", [m.input(line), m.constant(taps)],
         np.einsum("ncxi,fci->nfx", np.lib.stride_tricks.sliding_window_view(f64(line)[0], 5, 2), f64(taps)[0]))
    t = m.values(65, 7, 3, 3)
    spread = np.zeros((2, 65, 2 * 12 + 3, 2 * 11 + 3))
    spread[:, :, 2:-2:2, 2:-2:2] = x
    m.op("ConvTranspose", "ConvTranspose", [m.input(x), m.constant(t)],
         np.einsum("ncyxij,cfij->nfyx", windows(spread, 3, 1), f64(t)[0][:, :, ::-1, ::-1]), strides=[2, 2])


def pools_and_reductions(m):
    x = m.values(2, 5, 33, 31)
    X, = f64(x)
    m.op("AveragePool", "AveragePool", [m.input(x)], windows(X, 13, 2).mean((4, 5)), kernel_shape=[13, 13], strides=[2, 2])
    m.op("LpPool", "LpPool", [m.input(x)], np.sqrt((windows(X, 9, 1)**2).sum((4, 5))), kernel_shape=[9, 9], p=2)
    m.op("GlobalAveragePool", "GlobalAveragePool", [m.input(x)], X.mean((2, 3), keepdims=True))
    for operator, exact in {"ReduceMean": X.mean((0, 2, 3)), "ReduceL1": X.sum((0, 2, 3)),
                            "ReduceL2": np.sqrt((X**2).sum((0, 2, 3))), "ReduceSumSquare": (X**2).sum((0, 2, 3)),
                            "ReduceLogSum": np.log(X.sum((0, 2, 3))),
                            "ReduceLogSumExp": np.log(np.exp(X).sum((0, 2, 3)))}.items():
        m.op(operator, operator, [m.input(x)], exact, axes=[0, 2, 3], keepdims=0)
    m.op("ReduceSum", "ReduceSum", [m.input(x), m.raw(np.int64([0, 2, 3]))], X.sum((0, 2, 3)), keepdims=0)
    m.op("CumSum", "CumSum", [m.input(x.reshape(10, -1)), m.raw(np.int64(1))], np.cumsum(X.reshape(10, -1), 1))


def softmax(x, axis=-1):
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def normalizations(m):
    x, scale, bias = m.values(3, 12, 257, low=-4, high=4), m.values(12), m.values(12, low=2, high=3)
    X, S, B = f64(x, scale, bias)
    m.op("Softmax", "Softmax", [m.input(x)], softmax(X))
    m.op("Softmax, other axis", "Softmax", [m.input(x)], softmax(X, 1), axis=1)
    m.op("LogSoftmax", "LogSoftmax", [m.input(x)], np.log(softmax(X)))
    norm = (X - X.mean(2, keepdims=True)) / np.sqrt(X.var(2, keepdims=True) + 1e-5)
    m.op("InstanceNormalization", "InstanceNormalization", [m.input(x), m.constant(scale), m.constant(bias)],
         norm * S[:, None] + B[:, None])
    last, ends = m.values(257), m.values(257, low=6, high=7)
    m.op("LayerNormalization", "LayerNormalization", [m.input(x), m.constant(last), m.constant(ends)],
         norm * f64(last)[0] + f64(ends)[0])
    m.op("LayerNormalization, stash of halves", "LayerNormalization", [m.input(x), m.constant(last), m.constant(ends)],
         norm * f64(last)[0] + f64(ends)[0], stash_type=PROTO[m.kind])
    mean, variance = m.values(12, low=-1, high=1), m.values(12)
    M, V = f64(mean, variance)
    batch = (X - M[:, None]) / np.sqrt(V + 1e-5)[:, None] * S[:, None] + 8 * B[:, None]
    parameters = [scale, rounded(m.kind, 8 * bias), mean, variance]
    for what, give in {"constants": m.constant, "inputs": m.input}.items():
        m.op("BatchNormalization of " + what, "BatchNormalization", [m.input(x), *map(give, parameters)], batch)
    squares = np.pad(X**2, ((0, 0), (2, 2), (0, 0)))
    near = np.lib.stride_tricks.sliding_window_view(squares, 5, 1).sum(-1)
    m.op("LRN", "LRN", [m.input(x)], X / (1 + 0.5 / 5 * near)**0.75, size=5, alpha=0.5)
    m.op("LpNormalization", "LpNormalization", [m.input(x)], X / np.sqrt((X**2).sum(-1, keepdims=True)))
    m.op("MeanVarianceNormalization", "MeanVarianceNormalization", [m.input(x[..., None])],
         ((X - X.mean((0, 2), keepdims=True)) / (X.std((0, 2), keepdims=True) + 1e-9))[..., None])


def layers(m):
    """A recurrent step, a loss, and formulas of several steps."""
    x, w, r = m.values(1, 2, 300), m.values(1, 5, 300, low=0, high=0.002), m.values(1, 5, 5)
    m.op("last state of RNN", "RNN", [m.input(x), m.constant(w), m.constant(r)],
         np.tanh(f64(x)[0][0] @ f64(w)[0][0].T)[None], hidden_size=5)
    scores = m.values(6, 90, low=-3, high=3)
    picked = -np.log(softmax(f64(scores)[0], 1))[np.arange(6), np.arange(6)]
    m.op("SoftmaxCrossEntropyLoss", "SoftmaxCrossEntropyLoss", [m.input(scores), m.raw(np.arange(6))], picked.mean())
    z = m.values(999, low=-4, high=4)
    Z, = f64(z)
    for operator, exact in {"Sigmoid": 1 / (1 + np.exp(-Z)), "Softplus": np.log1p(np.exp(Z)),
                            "Elu": np.where(Z > 0, Z, np.expm1(Z)), "HardSwish": Z * np.clip(Z / 6 + 0.5, 0, 1),
                            "Softsign": Z / (1 + np.abs(Z))}.items():
        m.op(operator, operator, [m.input(z)], exact)


def odd_shapes(m):
    """Sums within one step, of odd and prime lengths, with rows and columns that are no whole vectors."""
    for rows, steps, columns in ((1, 1, 1), (1, 2, 33), (3, 7, 17), (14, 64, 32), (29, 97, 50), (65, 131, 96), (2, 768, 5)):
        a, b = m.values(rows, steps), m.values(steps, columns)
        m.op(f"{rows}x{steps}x{columns}", "MatMul", [m.input(a), m.constant(b)], f64(a)[0] @ f64(b)[0])
        m.op(f"{rows}x{steps}x{columns} of activations", "MatMul", [m.input(a), m.input(b)], f64(a)[0] @ f64(b)[0])
    for channels, filters, size, kernel, stride, pad, dilation, group in (
            (3, 64, (19, 16), 7, 2, 3, 1, 1), (1, 5, (9, 8), 3, 1, 1, 1, 1), (2, 16, (9, 8), 3, 1, 0, 2, 1),
            (5, 16, (8, 9), 3, 3, 2, 1, 1), (16, 32, (10, 7), 3, 1, 1, 1, 1), (32, 48, (7, 6), 1, 2, 0, 1, 1),
            (34, 34, (6, 5), 3, 1, 2, 2, 2), (13, 26, (6, 6), 2, 1, 0, 1, 13), (64, 64, (12, 12), 3, 1, 1, 1, 1)):
        x, w = m.values(1, channels, *size), m.values(filters, channels // group, kernel, kernel)
        padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
        reach = dilation * (kernel - 1) + 1
        view = windows(padded, reach, stride)[..., ::dilation, ::dilation]
        parts = [np.einsum("ncyxij,fcij->nfyx", v, f) for v, f in zip(np.split(view, group, 1), np.split(f64(w)[0], group))]
        m.op(f"Conv {channels}->{filters} {kernel}x{kernel} s{stride} p{pad} d{dilation} g{group}", "Conv",
             [m.input(x), m.constant(w)], np.concatenate(parts, 1), strides=[stride] * 2, pads=[pad] * 4,
             dilations=[dilation] * 2, group=group)


def attributes(m):
    """Attributes are f32 and are not rounded to 16 bits before they are compared or multiplied. Tests values around
    each bound, and the 16-bit float that the bound would be rounded to."""
    for bound in (0.9085108, 0.3333333, 1.00001, 0.7071068):
        near = rounded(m.kind, bound) * (1 + m.random.integers(-3, 4, 67) * PRECISION[m.kind])
        z = rounded(m.kind, np.concatenate([rounded(m.kind, [bound]), near, -near]))
        Z, alpha = z.astype(np.float64), float(np.float32(bound))
        m.op(f"ThresholdedRelu {bound}", "ThresholdedRelu", [m.input(z)], np.where(Z > alpha, Z, 0), alpha=bound)
        m.op(f"Shrink {bound}", "Shrink", [m.input(z)],
             np.where(Z > alpha, Z - 0.25, np.where(Z < -alpha, Z + 0.25, 0)), lambd=bound, bias=0.25)
        m.op(f"LeakyRelu {bound}", "LeakyRelu", [m.input(z)], np.where(Z < 0, Z * alpha, Z), alpha=bound)


FAMILIES = (products, convolutions, odd_shapes, pools_and_reductions, normalizations, layers, attributes)


def onnx_case(kind, family, target, service):
    model = Model(kind)
    family(model)
    path = service.scratch(f"{family.__name__}-{kind}.onnx")
    model.save(path)
    compiled = service.compile(path, None, *(["--verify"] if target == "host" else []), target=target)
    ours, _ = service.run(compiled.artifact, model.arrays, "--guard")
    off = {model.what[name]: ulps_off(kind, ours[name], exact) for name, exact in model.expected.items()}
    print("  " + ", ".join(f"{what} {value:.2f}" for what, value in off.items()), flush=True)
    check(all(value <= ULPS for value in off.values()),
          f"within {ULPS} ulp of {kind}: " + str({k: v for k, v in off.items() if not v <= ULPS}))


def test_expression(service):
    """The other input formats sum in f32 too."""
    text = service.scratch("product.te")
    text.write_text("input A[M, K], B[K, N]: f16;  C[i, j] += A[i, k] * B[k, j];")
    module = service.scratch("product.mlir")
    module.write_text("""func.func @main(%a: tensor<3x4096xf16>, %b: tensor<4096x5xf16>) -> tensor<3x5xf16> {
  %zero = arith.constant 0.0 : f16
  %empty = tensor.empty() : tensor<3x5xf16>
  %c = linalg.fill ins(%zero : f16) outs(%empty : tensor<3x5xf16>) -> tensor<3x5xf16>
  %r = linalg.matmul ins(%a, %b : tensor<3x4096xf16>, tensor<4096x5xf16>) outs(%c : tensor<3x5xf16>) -> tensor<3x5xf16>
  return %r : tensor<3x5xf16>
}
""")
    random = np.random.default_rng(3)
    a, b = (random.uniform(0.5, 1.5, shape).astype(np.float16) for shape in ((3, 4096), (4096, 5)))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    for path, shapes in ((text, {"A": a.shape, "B": b.shape}), (module, None)):
        compiled = service.compile(path, shapes)
        names = ("A", "B") if path is text else ("arg0", "arg1")
        found, _ = service.run(compiled.artifact, dict(zip(names, (a, b))))
        (ours,) = found.values()
        check(ulps_off("f16", ours, exact) <= ULPS, f"{path.name}: {ulps_off('f16', ours, exact)} ulps")


def test_weights_stay_small(service):
    """16-bit weights are widened when they are read, not in the file."""
    model = Model("f16")
    w = model.values(512, 384)
    x = model.values(9, 512)
    model.op("MatMul", "MatMul", [model.input(x), model.constant(w)], x.astype(np.float64) @ w)
    path = service.scratch("weights.onnx")
    model.save(path)
    compiled = service.compile(path)
    with zipfile.ZipFile(compiled.artifact) as file:
        largest = max(entry.file_size for entry in file.infolist())
    check(largest < 1.5 * w.size * 2, f"{largest} bytes for {w.size} weights of f16")


def test_filters_stay_small(service):
    """Winograd filters are eight times as large as 16-bit weights; the first run computes them."""
    model = Model("f16")
    w, x = model.values(256, 224, 3, 3), model.values(1, 224, 21, 19)
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    model.op("Conv", "Conv", [model.input(x), model.constant(w)],
             np.einsum("ncyxij,fcij->nfyx", windows(padded, 3, 1), f64(w)[0]), pads=[1, 1, 1, 1])
    path = service.scratch("filters.onnx")
    model.save(path)
    compiled = service.compile(path, None, "--verify")
    manifest = service.cli("inspect", compiled.artifact, "--json").json
    stored, prepared = int(manifest["weights_bytes"]), int(manifest.get("prepared_bytes", 0))
    check(stored <= 1.3 * w.size * 2, f"{stored} bytes for {w.size} weights of f16")
    size = compiled.artifact.stat().st_size
    check(size <= 1.3 * w.size * 2, f"an artifact of {size} bytes, code included, for {w.size} weights of f16")
    check(prepared >= 4 * w.size * 2, f"{prepared} bytes of filters in Winograd's domain")
    check(", prepared weights " in service.cli("inspect", compiled.artifact).out, "inspect prints their size")
    check("(1 steps before the first run)" in service.cli("explain", path).out, "explain prints size and steps")
    for arguments in (("--threads", "1"), ("--threads", "2", "--guard")):
        ours, answer = service.run(compiled.artifact, model.arrays, *arguments)
        check_equal(answer["memory"]["prepared_bytes"], prepared, "prepared bytes of a run")
        (name, exact), = model.expected.items()
        check(ulps_off("f16", ours[name], exact) <= ULPS, f"{ulps_off('f16', ours[name], exact)} ulps")


def single_model(service):
    """Two products and a convolution in f32, with weights and inputs."""
    random = np.random.default_rng(11)
    x, w, v = (random.standard_normal(shape).astype(np.float32) for shape in ((37, 770), (770, 96), (96, 33)))
    conv = random.standard_normal((24, 3, 5, 5)).astype(np.float32)
    image = random.standard_normal((1, 3, 21, 18)).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["r"]),
             helper.make_node("MatMul", ["r", "v"], ["y"]),
             helper.make_node("Conv", ["image", "conv"], ["z"], strides=[2, 2], pads=[2] * 4)]
    def info(name, *shape):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    graph = helper.make_graph(nodes, "single", [info("x", 37, 770), info("image", 1, 3, 21, 18)],
                              [info("y", 37, 33), info("z", 1, 24, 11, 9)],
                              [numpy_helper.from_array(a, n) for a, n in ((w, "w"), (v, "v"), (conv, "conv"))])
    path = service.scratch("single.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path, {"x": x, "image": image}, (w, v, conv)


@pytest.mark.parametrize("target", ("host", "x86-64-v3"))
def test_as_bf16(service, target):
    """A float model compiled with products in bf16: both operands are rounded once, sums are f32, and nothing else changes."""
    path, arrays, (w, v, conv) = single_model(service)
    x, image = arrays["x"], arrays["image"]
    flags = ["--precision", "bf16", *(["--verify"] if target == "host" else [])]
    plain = service.compile(path, target=target)
    compiled = service.compile(path, None, *flags, target=target)
    again = service.compile(path, None, *flags, "--no-cache", target=target)
    check(compiled.artifact.read_bytes() == again.artifact.read_bytes(), "equal requests give equal bytes")
    check(compiled.artifact.stat().st_size < plain.artifact.stat().st_size - w.size, "weights are stored as halves")
    exact, _ = service.run(plain.artifact, arrays)
    found, _ = service.run(compiled.artifact, arrays, "--guard")
    hidden = np.maximum(rounded("bf16", x).astype(np.float64) @ rounded("bf16", w), 0)
    wanted = rounded("bf16", hidden).astype(np.float64) @ rounded("bf16", v)
    # Rounding of intermediates changes few elements, by one part in 256 of a term.
    magnitude = hidden @ np.abs(v)
    off = np.abs(found["y"] - wanted) / magnitude
    check(off.max() < 2.0**-10, f"y is {off.max():.2g} of its terms' magnitude off what bf16 operands give")
    padded = np.pad(rounded("bf16", image).astype(np.float64), ((0, 0), (0, 0), (2, 2), (2, 2)))
    wanted = np.einsum("ncyxij,fcij->nfyx", windows(padded, 5, 2), rounded("bf16", conv).astype(np.float64))
    magnitude = np.einsum("ncyxij,fcij->nfyx", np.abs(windows(padded, 5, 2)), np.abs(conv).astype(np.float64))
    off = np.abs(found["z"] - wanted) / magnitude
    check(off.max() < 2.0**-20, f"z is {off.max():.2g} of its terms' magnitude off the exact sum of rounded operands")
    for name in exact:
        check(not np.array_equal(exact[name], found[name]), f"{name} is not rounded")
        lost = np.abs(found[name] - exact[name]).max() / np.abs(exact[name]).max()
        check(lost < 2.0**-6, f"{name} lost {lost:.2g} of its largest value")


@pytest.mark.parametrize("target", ("host", "x86-64-v3"))
def test_special_values(service, target):
    """Infinities and NaNs are preserved. Subnormals may count as zero. A sum of k terms may differ by k f32 ulps of the
    terms' magnitudes, plus each term whose operand or product is subnormal."""
    random = np.random.default_rng(13)
    steps = 66
    a = rounded("bf16", random.uniform(0.5, 1.5, (5, steps)))
    a[0, 7], a[1, 65], a[2, 2:4] = np.inf, np.nan, [np.inf, -np.inf]
    b = rounded("bf16", random.uniform(0.5, 1.5, (steps, 18)))
    b[:, 1], b[:33, 2], b[:, 3] = 2.0**-130, 2.0**-133, 2.0**-126
    nodes = [*(helper.make_node("Cast", [n], [n + "h"], to=TensorProto.BFLOAT16) for n in "ab"),
             *(helper.make_node("Cast", [f"y{i}h"], [f"y{i}"], to=TensorProto.FLOAT) for i in (0, 1))]
    nodes[2:2] = [helper.make_node("MatMul", ["ah", "w"], ["y0h"]), helper.make_node("MatMul", ["ah", "bh"], ["y1h"])]
    infos = {n: helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
             for n, s in (("a", a.shape), ("b", b.shape), ("y0", (5, 18)), ("y1", (5, 18)))}
    graph = helper.make_graph(nodes, "special", [infos["a"], infos["b"]], [infos["y0"], infos["y1"]],
                              [initializer("bf16", "w", b)])
    path = service.scratch("special.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    found, _ = service.run(service.compile(path, target=target).artifact, {"a": a, "b": b}, "--guard")
    with np.errstate(invalid="ignore"):
        exact = a.astype(np.float64) @ b.astype(np.float64)
    for name in ("y0", "y1"):
        ours = found[name]
        # Infinity times a subnormal that counts as zero is NaN.
        infinite = (ours[0] == np.inf) | (np.isnan(ours[0]) & (b < 2.0**-126).any(0))
        check(infinite.all(), f"{name}: an infinity is lost: {ours[0]}")
        check(np.isnan(ours[1:3]).all(), f"{name}: a NaN is lost: {ours[1:3]}")
        # Half an ulp of the result, subnormal ones included, the small error of f32 sums, and flushed terms.
        bound = 0.51 * PRECISION["bf16"] * np.abs(exact[3:]) + 2.0**-134 + 1.5 * steps * 2.0**-126
        bound[:, 4:] = 0.51 * PRECISION["bf16"] * np.abs(exact[3:, 4:])
        check((np.abs(ours[3:] - exact[3:]) <= bound).all(), f"{name}: {np.abs(ours[3:] - exact[3:]) / bound}")


def test_accuracy_is_printed(service):
    """What became of the products; with --verify also the differences of results."""
    path = service.scratch("plain.te")
    path.write_text("input A[M, K], B[K, N]: f32;  C[i, j] += A[i, k] * B[k, j];")
    done = service.cli("compile", path, "--shape", "A=5x64", "--shape", "B=64x32", "--precision", "bf16", "-o",
                       service.scratch("plain.tsra"))
    check("precision: 0 products" in done.out, f"that there is nothing to round is said: {done.out}")
    path, _, _ = single_model(service)
    done = service.cli("compile", path, "--precision", "bf16", "--verify", "-o", service.scratch("single.tsra"))
    check("precision: 3 products" in done.out and "differ from the model's by at most" in done.out, done.out)


CASES = [(kind, family, target) for number, (kind, family) in enumerate(itertools.product(PRECISION, FAMILIES))
         for target in ("host", rotating_target(2 * number + 8))]


@pytest.mark.parametrize("kind, family, target", CASES, ids=[f"{family.__name__}/{kind}/{target_name(target)}" for kind, family, target in CASES])
def test_operators(service, kind, family, target):
    onnx_case(kind, family, target, service)
