"""The single kernels and chains of tests/bench/run, each as an ONNX model and as library calls.

Shapes: batch matmul chains G1-G12 and convolution chains C1-C8 of Chimera (tables 3.5 and 3.6 of the thesis), the
convolutions of YOLO v1 (table 4.3) and of ResNet-18 at batch 16 (table 5.4), square products, grouped and depthwise
layers of ShuffleNet-v1 and MobileNet-v1, pools, and the other convolutions of table 1.1. Unless stated otherwise,
padding keeps the size where the stride is 1. Rows that start with "int8" are products and ResNet-18's layers as
QLinearMatMul and QLinearConv: u8 times s8 to u8, one scale for each channel of the weights, a bias, and a result cut at
0 like ReLU.
"""

import dataclasses

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT


@dataclasses.dataclass(frozen=True)
class Workload:
    """`call` is the peers' form: a kind and its integers (see peers/libraries.cpp). Bytes are compulsory traffic."""

    name: str
    family: str
    flops: float
    bytes: float
    call: tuple
    model: object  # () -> onnx.ModelProto


class _Graph:
    def __init__(self, name):
        self.name, self.nodes, self.inputs, self.outputs, self.constants = name, [], [], [], []
        self.random = np.random.default_rng(7)

    def input(self, name, *shape, dtype=FLOAT):
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def constant(self, name, value):
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def bytes(self, name, *shape):
        return self.constant(name, self.random.integers(-64, 65, shape, dtype=np.int8))

    def weight(self, name, *shape):
        fan_in = max(1, int(np.prod(shape[1:])) if len(shape) > 2 else shape[0])
        value = self.random.standard_normal(shape, dtype=np.float32) / np.float32(np.sqrt(fan_in))
        self.constants.append(numpy_helper.from_array(value, name))
        return name

    def node(self, op, result, *inputs, **attributes):
        self.nodes.append(helper.make_node(op, list(inputs), [result], **attributes))
        return result

    def finish(self, result, *shape, dtype=FLOAT):
        self.outputs.append(helper.make_tensor_value_info(result, dtype, shape))
        graph = helper.make_graph(self.nodes, self.name, self.inputs, self.outputs, self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
        model.ir_version = 8
        onnx.checker.check_model(model)
        return model


def product(m, n, k, constant):
    def model():
        graph = _Graph("product")
        right = graph.weight("b", k, n) if constant else graph.input("b", k, n)
        return graph.finish(graph.node("MatMul", "c", graph.input("a", m, k), right), m, n)

    name = f"gemm {m}x{n}x{k} {'constant B' if constant else 'run-time'}"
    return Workload(name, "gemm", 2.0 * m * n * k, 4.0 * (m * n + m * k + k * n), ("gemm", m, n, k, int(constant)), model)


def matmul_chain(label, batch, m, n, k, l, softmax):
    """(batch, m, k) x (batch, k, l), softmax over l, x (batch, l, n)."""

    def model():
        graph = _Graph("matmul_chain")
        middle = graph.node("MatMul", "s", graph.input("a", batch, m, k), graph.input("b", batch, k, l))
        if softmax:
            middle = graph.node("Softmax", "p", middle, axis=-1)
        return graph.finish(graph.node("MatMul", "c", middle, graph.input("d", batch, l, n)), batch, m, n)

    flops = 2.0 * batch * m * l * (k + n)
    moved = 4.0 * batch * (m * k + k * l + l * n + m * n)
    return Workload(f"{label}{' softmax' if softmax else ''}", "matmul chain softmax" if softmax else "matmul chain", flops,
                    moved, ("chain", batch, m, n, k, l, int(softmax)), model)


def _steps(graph, fan_in, channels):
    """Names of scales and zero points: of the operand, of the weights' channels, of the result, which is cut at 0 like ReLU."""
    weights = np.linspace(0.5, 1, channels, dtype=np.float32) * np.float32(0.01) if channels else np.float32(0.01)
    result = np.float32(0.02 * 0.01 * 74 * 37 * np.sqrt(fan_in) / 40)  # 1/40 of the sums' deviation
    return ([graph.constant("x_scale", np.float32(0.02)), graph.constant("x_zero", np.uint8(0))],
            [graph.constant("w_scale", weights), graph.constant("w_zero", np.zeros(np.shape(weights), np.int8))],
            [graph.constant("y_scale", result), graph.constant("y_zero", np.uint8(0))])


def quantized_product(size):
    def model():
        graph = _Graph("quantized_product")
        of_x, of_w, of_y = _steps(graph, size, 0)
        x, w = graph.input("a", size, size, dtype=TensorProto.UINT8), graph.bytes("b", size, size)
        return graph.finish(graph.node("QLinearMatMul", "c", x, *of_x, w, *of_w, *of_y), size, size, dtype=TensorProto.UINT8)

    return Workload(f"int8 gemm {size}x{size}x{size} constant B", "int8 gemm", 2.0 * size**3, 3.0 * size**2,
                    ("qgemm", size, size, size), model)


def quantized_convolution(label, batch, c, size, k, kernel, stride):
    out = _extent(size, kernel, stride)

    def model():
        graph = _Graph("quantized_convolution")
        of_x, of_w, of_y = _steps(graph, c * kernel**2, k)
        x, w = graph.input("x", batch, c, size, size, dtype=TensorProto.UINT8), graph.bytes("w", k, c, kernel, kernel)
        bias = graph.constant("bias", graph.random.integers(-999, 1000, k, dtype=np.int32))
        value = graph.node("QLinearConv", "y", x, *of_x, w, *of_w, *of_y, bias, kernel_shape=[kernel, kernel],
                           strides=[stride, stride], pads=[(kernel - 1) // 2] * 4)
        return graph.finish(value, batch, k, out, out, dtype=TensorProto.UINT8)

    return Workload(f"int8 {label}", "int8 convolution", 2.0 * batch * k * out**2 * c * kernel**2,
                    1.0 * (batch * c * size**2 + k * c * kernel**2 + batch * k * out**2),
                    ("qconv", batch, c, size, k, kernel, stride), model)


def _extent(size, kernel, stride):
    return (size + 2 * ((kernel - 1) // 2) - kernel) // stride + 1


def convolution(label, family, batch, c, size, k, kernel, stride, groups=1, relu=True):
    out = _extent(size, kernel, stride)

    def model():
        graph = _Graph("convolution")
        pad = [(kernel - 1) // 2] * 4
        value = graph.node("Conv", "y", graph.input("x", batch, c, size, size),
                           graph.weight("w", k, c // groups, kernel, kernel), graph.weight("bias", k),
                           kernel_shape=[kernel, kernel], strides=[stride, stride], pads=pad, group=groups)
        if relu:
            value = graph.node("Relu", "z", value)
        return graph.finish(value, batch, k, out, out)

    flops = 2.0 * batch * k * out * out * (c // groups) * kernel * kernel
    moved = 4.0 * (batch * c * size * size + k * (c // groups) * kernel * kernel + batch * k * out * out)
    return Workload(label, family, flops, moved, ("conv", batch, c, size, k, kernel, stride, groups, int(relu)), model)


def pooling(label, kind, batch, c, size, kernel, stride, pad):
    """`kind`: max, average or global (over the whole plane)."""
    kernel = size if kind == "global" else kernel
    out = (size + 2 * pad - kernel) // stride + 1
    operator = {"max": "MaxPool", "average": "AveragePool", "global": "GlobalAveragePool"}[kind]

    def model():
        graph = _Graph("pooling")
        given = {} if kind == "global" else {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
        value = graph.node(operator, "y", graph.input("x", batch, c, size, size), **given)
        return graph.finish(value, batch, c, out, out)

    return Workload(label, "pooling", 1.0 * batch * c * out**2 * kernel**2, 4.0 * batch * c * (size**2 + out**2),
                    ("pool", int(kind == "max"), batch, c, size, kernel, stride, pad), model)


def other_convolution(label, c, k, size, kernel, stride=1, dilation=1, transposed=False):
    """`size` and `kernel` of one to three dimensions, padded to keep the size if the stride is 1."""
    pad = [dilation * (extent - 1) // 2 for extent in kernel]
    if transposed:
        pad = [(extent - stride) // 2 for extent in kernel]
        out = [(s - 1) * stride - 2 * p + e for s, p, e in zip(size, pad, kernel)]
    else:
        out = [(s + 2 * p - dilation * (e - 1) - 1) // stride + 1 for s, p, e in zip(size, pad, kernel)]

    def model():
        graph = _Graph("other_convolution")
        shape = [c, k] if transposed else [k, c]
        value = graph.node("ConvTranspose" if transposed else "Conv", "y", graph.input("x", 1, c, *size),
                           graph.weight("w", *shape, *kernel), graph.weight("bias", k), kernel_shape=list(kernel),
                           strides=[stride] * len(size), dilations=[dilation] * len(size), pads=pad + pad)
        return graph.finish(graph.node("Relu", "z", value), 1, k, *out)

    points = np.prod(size) if transposed else np.prod(out)
    flops = 2.0 * c * k * float(np.prod(kernel)) * float(points)
    moved = 4.0 * (c * float(np.prod(size)) + c * k * float(np.prod(kernel)) + k * float(np.prod(out)))
    return Workload(label, "other layer", flops, moved, None, model)


def convolution_chain(label, c, size, k1, k2, stride1, stride2, kernel1, kernel2, relu):
    middle = _extent(size, kernel1, stride1)
    out = _extent(middle, kernel2, stride2)

    def model():
        graph = _Graph("convolution_chain")
        value = graph.input("x", 1, c, size, size)
        for i, (fan_in, fan_out, kernel, stride) in enumerate([(c, k1, kernel1, stride1), (k1, k2, kernel2, stride2)]):
            value = graph.node("Conv", f"y{i}", value, graph.weight(f"w{i}", fan_out, fan_in, kernel, kernel),
                               kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[(kernel - 1) // 2] * 4)
            if relu:
                value = graph.node("Relu", f"z{i}", value)
        return graph.finish(value, 1, k2, out, out)

    flops = 2.0 * (k1 * middle**2 * c * kernel1**2 + k2 * out**2 * k1 * kernel2**2)
    moved = 4.0 * (c * size**2 + k1 * c * kernel1**2 + k2 * k1 * kernel2**2 + k2 * out**2)
    return Workload(f"{label}{' relu' if relu else ''}", "convolution chain", flops, moved,
                    ("convchain", c, size, k1, k2, stride1, stride2, kernel1, kernel2, int(relu)), model)


# label, batch, M, N, K, L
_G = [("G1", 8, 512, 64, 64, 512), ("G2", 12, 512, 64, 64, 512), ("G3", 16, 512, 64, 64, 512), ("G4", 12, 256, 64, 64, 256),
      ("G5", 16, 256, 64, 64, 256), ("G6", 16, 256, 80, 80, 256), ("G7", 12, 208, 64, 64, 208), ("G8", 16, 208, 64, 64, 208),
      ("G9", 16, 208, 80, 80, 208), ("G10", 1, 512, 64, 64, 256), ("G11", 1, 768, 64, 64, 384), ("G12", 1, 1024, 64, 64, 512)]
# label, IC, H = W, OC1, OC2, stride 1, stride 2, kernel 1, kernel 2
_C = [("C1", 64, 112, 192, 128, 2, 1, 3, 1), ("C2", 32, 147, 64, 80, 2, 1, 3, 1), ("C3", 64, 56, 128, 64, 1, 1, 3, 1),
      ("C4", 128, 28, 256, 128, 1, 1, 3, 1), ("C5", 16, 227, 64, 16, 4, 1, 3, 1), ("C6", 64, 56, 64, 64, 1, 1, 1, 3),
      ("C7", 64, 56, 64, 64, 1, 1, 1, 1), ("C8", 256, 56, 256, 64, 1, 1, 1, 1)]
# C, K, H = W, kernel, stride
_YOLO = [(3, 64, 448, 7, 2), (64, 192, 112, 3, 1), (192, 128, 56, 1, 1), (128, 256, 56, 3, 1), (256, 256, 56, 1, 1),
         (256, 512, 56, 3, 1), (512, 256, 28, 1, 1), (256, 512, 28, 3, 1), (512, 512, 28, 1, 1), (512, 1024, 28, 3, 1),
         (1024, 512, 14, 1, 1), (512, 1024, 14, 3, 1), (1024, 1024, 14, 3, 1), (1024, 1024, 14, 3, 2), (1024, 1024, 7, 3, 1)]
# C, K, H = W of the input, kernel, stride
_RESNET18 = [(3, 64, 224, 7, 2), (64, 64, 56, 3, 1), (64, 64, 56, 1, 1), (64, 128, 56, 3, 2), (64, 128, 56, 1, 2),
             (128, 128, 28, 3, 1), (128, 256, 28, 3, 2), (128, 256, 28, 1, 2), (256, 256, 14, 3, 1), (256, 512, 14, 3, 2),
             (256, 512, 14, 1, 2), (512, 512, 7, 3, 1)]
# name, C, K, H = W, kernel, stride, groups
_GROUPED = [("depthwise 64 112 s1", 64, 64, 112, 3, 1, 64), ("depthwise 128 56 s1", 128, 128, 56, 3, 1, 128),
            ("depthwise 128 56 s2", 128, 128, 56, 3, 2, 128), ("depthwise 512 14 s1", 512, 512, 14, 3, 1, 512),
            ("depthwise 1024 7 s1", 1024, 1024, 7, 3, 1, 1024), ("grouped 240 28 g3", 240, 60, 28, 1, 1, 3),
            ("grouped 480 14 g3", 480, 120, 14, 1, 1, 3), ("grouped 128 28 g32", 128, 128, 28, 3, 1, 32)]
# name, kind, C, H = W, kernel, stride, pad: pools of ResNet, SqueezeNet, Inception and DenseNet
_POOLS = [("max 64 112 3x3 s2", "max", 64, 112, 3, 2, 1), ("max 64 111 3x3 s2", "max", 64, 111, 3, 2, 0),
          ("max 192 28 3x3 s1", "max", 192, 28, 3, 1, 1), ("max 480 28 3x3 s2", "max", 480, 28, 3, 2, 0),
          ("average 128 56 2x2 s2", "average", 128, 56, 2, 2, 0), ("average 288 35 3x3 s1", "average", 288, 35, 3, 1, 1),
          ("global average 2048 7", "global", 2048, 7, 7, 1, 0), ("global average 1000 13", "global", 1000, 13, 13, 1, 0)]
# name, C, K, size, kernel, then the other parameters: the other convolutions of table 1.1
_OTHERS = [("1-D 64->128 4000 k9", 64, 128, (4000,), (9,), {}),
           ("1-D 128->128 4000 k3 dilation 4", 128, 128, (4000,), (3,), {"dilation": 4}),
           ("dilated 256->256 28 3x3 d2", 256, 256, (28, 28), (3, 3), {"dilation": 2}),
           ("dilated 64->64 56 3x3 d4", 64, 64, (56, 56), (3, 3), {"dilation": 4}),
           ("3-D 3->64 16x112x112", 3, 64, (16, 112, 112), (3, 3, 3), {}),
           ("3-D 128->128 8x28x28", 128, 128, (8, 28, 28), (3, 3, 3), {}),
           ("transposed 128->64 56 2x2 s2", 128, 64, (56, 56), (2, 2), {"stride": 2, "transposed": True}),
           ("transposed 256->128 16 4x4 s2", 256, 128, (16, 16), (4, 4), {"stride": 2, "transposed": True})]


def catalog():
    """All workloads, in the order of the report."""
    found = [product(s, s, s, constant) for s in (512, 1024, 2048) for constant in (False, True)]
    found += [matmul_chain(*row, softmax) for softmax in (False, True) for row in _G]
    found += [convolution_chain(*row, relu) for relu in (False, True) for row in _C]
    found += [convolution(f"YOLO C{i + 1}", "convolution", 1, c, size, k, kernel, stride)
              for i, (c, k, size, kernel, stride) in enumerate(_YOLO)]
    found += [convolution(f"ResNet-18 C{i}", "convolution", 16, c, size, k, kernel, stride)
              for i, (c, k, size, kernel, stride) in enumerate(_RESNET18)]
    found += [quantized_product(size) for size in (512, 1024, 2048)]
    found += [quantized_convolution(f"ResNet-18 C{i}", 16, c, size, k, kernel, stride)
              for i, (c, k, size, kernel, stride) in enumerate(_RESNET18)]
    found += [convolution(name, "grouped convolution", 1, c, size, k, kernel, stride, groups)
              for name, c, k, size, kernel, stride, groups in _GROUPED]
    found += [pooling(name, kind, 1, *shape) for name, kind, *shape in _POOLS]
    found += [other_convolution(*row, **more) for *row, more in _OTHERS]
    return found


def write(workload, folder):
    """Writes the model and drawn inputs to `folder`: the two paths, and the inputs' shapes."""
    folder.mkdir(parents=True)
    model, given = folder / "model.onnx", folder / "inputs.npz"
    made = workload.model()
    onnx.save(made, model)
    random = np.random.default_rng(3)

    def drawn(kind):
        shape = [d.dim_value for d in kind.shape.dim]
        if kind.elem_type == TensorProto.UINT8:
            return random.integers(0, 256, shape, dtype=np.uint8)
        return random.standard_normal(shape, dtype=np.float32)

    arrays = {value.name: drawn(value.type.tensor_type) for value in made.graph.input}
    np.savez(given, **arrays)
    return model, given, {name: array.shape for name, array in arrays.items()}


def sweep(count, seed=1):
    """Products with M, N and K between 1 and 4096: powers of two, primes and other numbers, the same in every run."""
    random = np.random.default_rng(seed)
    primes = [2, 3, 5, 7, 13, 17, 31, 61, 67, 127, 131, 257, 509, 521, 1021, 1031, 2039, 2053, 4093]

    def extent():
        kind = random.integers(3)
        if kind == 0:
            return int(2 ** random.integers(0, 13))
        if kind == 1:
            return int(random.choice(primes))
        return int(np.exp(random.uniform(0, np.log(4096))))

    found = []
    while len(found) < count:
        m, n, k = extent(), extent(), extent()
        if 2.0 * m * n * k <= 4e10:  # at most a second of one core
            found.append(product(m, n, k, False))
    return found
