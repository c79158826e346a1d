"""Random graphs: operators in random order on tensors of odd shapes, from a seed.

A graph of `steps` operators is a prefix of each longer one with its seed, so a failure is reduced by taking fewer
steps. Values stay O(1), and no operator is used whose result depends on rounding alone (comparisons, arg-max of
computed values), so two correct results differ by rounding only.
"""

import dataclasses

import numpy as np
import onnx
from onnx import TensorProto, helper

from models.builder import GraphBuilder, seeded

EXTENTS = (1, 1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 31, 33, 48, 64)
LARGE_EXTENTS = (96, 128, 197, 256)
LARGEST = 40_000  # elements of a tensor; every fifth seed has ten times as many
OPSET = 17


@dataclasses.dataclass(frozen=True)
class Value:
    name: str
    shape: tuple

    @property
    def rank(self):
        return len(self.shape)

    @property
    def size(self):
        return int(np.prod(self.shape))


class RandomGraph:
    """`model` and `arrays` (inputs by name). All unread values are outputs, and sometimes another."""

    def __init__(self, seed, steps=None):
        self.random = seeded("random graph", seed)
        self.graph = GraphBuilder(f"random_{seed}", opset=OPSET)
        self.arrays, self.values, self._read = {}, [], set()
        self._largest = LARGEST * 10 if seed % 5 == 4 else LARGEST
        for _ in range(self.random.integers(1, 4)):
            self._input()
        wanted = int(self.random.integers(4, 15))
        self.steps = 0
        for _ in range(wanted if steps is None else min(steps, wanted)):
            self._step()
            self.steps += 1
        ends = [value for value in self.values if value.name not in self._read and value.name not in self.arrays]
        middle = [value for value in self.values if value.name in self._read and value.name not in self.arrays]
        for value in ends + middle[2:3]:
            copied = self.graph.op("Identity", value.name)  # keeps the value's own name for its readers
            self.graph.output(copied, f"y{len(self.graph.outputs)}", value.shape)

    @property
    def model(self):
        return self.graph.model()

    def _pick(self, *options):
        return options[int(self.random.integers(len(options)))]

    def _extent(self):
        return int(self._pick(*EXTENTS, *(LARGE_EXTENTS if self._largest > LARGEST else ())))

    def _input(self):
        shape = tuple(self._extent() for _ in range(self._pick(1, 2, 2, 3, 3, 4, 4, 4, 5)))
        while np.prod(shape) > self._largest:
            shape = tuple(max(1, extent // 2) for extent in shape)
        name = self.graph.input(f"x{len(self.arrays)}", shape)
        self.arrays[name] = self.random.standard_normal(shape, np.float32)
        self.values.append(Value(name, shape))

    def _value(self, *ranks):
        """A value of one of these ranks (any by default), the latest most often; None if there is none."""
        fitting = [value for value in self.values if not ranks or value.rank in ranks]
        if not fitting:
            return None
        return fitting[max(-len(fitting), -1 - int(self.random.geometric(0.7) - 1))]

    def _step(self):
        """Adds one operator; if it does not fit, or its result is too large, another one is drawn."""
        for _ in range(100):
            before = len(self.graph.nodes), len(self.graph.initializers)
            made = self._pick(*OPERATORS)(self)
            if made is None:
                continue
            read, names = made
            shapes = self._shapes(names, before)
            if all(shape is not None and 0 < np.prod(shape) <= self._largest for shape in shapes):
                self._read.update(value.name for value in read)
                self.values.extend(Value(name, shape) for name, shape in zip(names, shapes))
                return
            del self.graph.nodes[before[0]:], self.graph.initializers[before[1]:]
        raise RuntimeError("no operator fits")

    def _shapes(self, names, before):
        """Shapes of new values as ONNX infers them; None if inference fails."""
        known = [helper.make_tensor_value_info(v.name, TensorProto.FLOAT, v.shape) for v in self.values]
        graph = helper.make_graph(self.graph.nodes[before[0]:], "step", known,
                                  [helper.make_empty_tensor_value_info(name) for name in names], self.graph.initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
        inferred = {info.name: info.type.tensor_type.shape
                    for info in onnx.shape_inference.infer_shapes(model, data_prop=True).graph.output}
        return [tuple(dim.dim_value for dim in inferred[name].dim) if inferred[name].dim else None for name in names]

    # Operators: each returns (values read, names made), or None if it does not fit.

    def unary(self):
        x = self._value()
        kind = self._pick("Relu", "Sigmoid", "Tanh", "Erf", "Abs", "Neg", "LeakyRelu", "HardSigmoid", "Softplus", "Elu",
                          "Exp", "Sqrt", "Log", "Reciprocal", "Selu", "Softsign", "Sin", "Cos", "HardSwish")
        y = x.name
        if kind in ("Sqrt", "Log", "Reciprocal"):
            y = self.graph.op("Add", self.graph.op("Abs", y), self.graph.constant(np.float32(0.5)))
        elif kind in ("Exp", "Sin", "Cos"):
            y = self.graph.op("Clip", y, self.graph.constant(np.float32(-2)), self.graph.constant(np.float32(1.5)))
        return [x], [self.graph.op(kind, y)]

    def binary(self):
        x, kind = self._value(), self._pick("Add", "Sub", "Mul", "Max", "Min", "Div", "PRelu")
        others = [v for v in self.values if v.rank <= x.rank and
                  all(a in (1, b) for a, b in zip(reversed(v.shape), reversed(x.shape)))]
        if kind != "PRelu" and self._pick(True, False, True):
            other = others[int(self.random.integers(len(others)))]
            name, read = other.name, [x, other]
        else:
            rank = int(self.random.integers(0, x.rank + 1))
            shape = tuple(extent if self._pick(True, False) else 1 for extent in x.shape[x.rank - rank:])
            name, read = self.graph.normal(shape, 1.0), [x]
        if kind == "Div":
            name = self.graph.op("Add", self.graph.op("Abs", name), self.graph.constant(np.float32(0.5)))
        operands = [x.name, name]
        if kind in ("Add", "Mul", "Sub") and self._pick(True, False):
            operands.reverse()
        return read, [self.graph.op(kind, *operands)]

    def where(self):
        x = self._value()
        mask = self.graph.constant(self.random.random(x.shape[-1:]) < 0.5, "mask")
        return [x], [self.graph.op("Where", mask, x.name, self.graph.normal((), 1.0))]

    def transpose(self):
        x = self._value(2, 3, 4, 5)
        return x and ([x], [self.graph.op("Transpose", x.name, perm=[int(p) for p in self.random.permutation(x.rank)])])

    def reshape(self):
        x = self._value()
        shape = list(x.shape)
        if self._pick(True, False) and len(shape) > 1:
            at = int(self.random.integers(len(shape) - 1))
            shape[at:at + 2] = [shape[at] * shape[at + 1]]
        else:
            at = int(self.random.integers(len(shape)))
            divisors = [d for d in range(1, shape[at] + 1) if shape[at] % d == 0]
            part = int(self._pick(*divisors))
            shape[at:at + 1] = [part, shape[at] // part]
        if len(shape) > 5:
            return None
        return [x], [self.graph.op("Reshape", x.name, self.graph.constant(shape, dtype=np.int64))]

    def cut(self):
        x = self._value()
        axis = int(self.random.integers(x.rank))
        extent = x.shape[axis]
        begin = int(self.random.integers(extent))
        end = int(self.random.integers(begin, extent)) + 1
        step = int(self._pick(1, 1, 2, 3))
        if self._pick(False, False, True):
            begin, end, step = end - 1, begin - extent - 1, -step
        numbers = [self.graph.constant([n], dtype=np.int64) for n in (begin, end, axis, step)]
        return [x], [self.graph.op("Slice", x.name, *numbers)]

    def split(self):
        x = self._value()
        axis = int(self.random.integers(x.rank))
        if x.shape[axis] < 2:
            return None
        first = int(self.random.integers(1, x.shape[axis]))
        sizes = self.graph.constant([first, x.shape[axis] - first], dtype=np.int64)
        return [x], self.graph.op("Split", x.name, sizes, outputs=2, axis=axis)

    def concat(self):
        x = self._value()
        axis = int(self.random.integers(x.rank))
        others = [v for v in self.values if v.rank == x.rank and
                  all(a == b for i, (a, b) in enumerate(zip(v.shape, x.shape)) if i != axis)]
        read = [x] + [others[int(i)] for i in self.random.integers(len(others), size=self._pick(1, 2))]
        return read, [self.graph.op("Concat", *(value.name for value in read), axis=axis)]

    def pad(self):
        x = self._value()
        mode = self._pick("constant", "constant", "reflect", "edge")
        most = [min(3, extent - 1) if mode == "reflect" else 3 for extent in x.shape]
        pads = [int(self.random.integers(0, m + 1)) for m in most + most]
        inputs = [self.graph.constant(pads, dtype=np.int64)]
        if mode == "constant":
            inputs.append(self.graph.constant(np.float32(self._pick(0, 1, -3))))
        return [x], [self.graph.op("Pad", x.name, *inputs, mode=mode)]

    def gather(self):
        x = self._value()
        axis = int(self.random.integers(x.rank))
        rows = self.random.integers(-x.shape[axis], x.shape[axis], size=int(self._pick(1, 3, 5)))
        return [x], [self.graph.op("Gather", x.name, self.graph.constant(rows, dtype=np.int64), axis=axis)]

    def reduce(self):
        x = self._value()
        kind = self._pick("ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceL1", "ReduceLogSumExp")
        axes = [a for a in range(x.rank) if self._pick(True, False)] or [x.rank - 1]
        keep = 1 if len(axes) == x.rank else self._pick(0, 1)
        return [x], [self.graph.op(kind, x.name, axes=axes, keepdims=keep)]

    def normalize(self):
        x = self._value(2, 3, 4)
        if x is None:
            return None
        kind = self._pick("Softmax", "LogSoftmax", "LayerNormalization", "BatchNormalization", "InstanceNormalization")
        if kind in ("Softmax", "LogSoftmax"):
            return [x], [self.graph.op(kind, x.name, axis=int(self.random.integers(x.rank)))]
        if kind == "LayerNormalization":
            axis = int(self.random.integers(1, x.rank))
            shape = x.shape[axis:]
            return [x], [self.graph.op(kind, x.name, self.graph.normal(shape, 0.3, mean=1.0),
                                       self.graph.normal(shape, 0.1), axis=axis, epsilon=1e-3)]
        if kind == "BatchNormalization":
            return [x], [self.graph.batch_norm(x.name, x.shape[1])]
        channels = (x.shape[1],)
        return x.rank > 2 and ([x], [self.graph.op(kind, x.name, self.graph.normal(channels, 0.3, mean=1.0),
                                                   self.graph.normal(channels, 0.1), epsilon=1e-2)]) or None

    def matmul(self):
        x = self._value(2, 3, 4)
        if x is None:
            return None
        inner, columns = x.shape[-1], self._extent()
        scale = 1 / np.sqrt(inner)
        others = [v for v in self.values if v.rank >= 2 and v.shape[-2] == inner and
                  (v.rank == 2 or v.shape[:-2] == x.shape[:-2])]
        if others and self._pick(True, False):
            other = others[int(self.random.integers(len(others)))]
            product = self.graph.op("MatMul", x.name, other.name)
            return [x, other], [self.graph.op("Mul", product, self.graph.constant(np.float32(scale)))]
        if x.rank == 2 and self._pick(True, False):
            rows_last = self._pick(0, 1)
            shape = (columns, inner) if rows_last else (inner, columns)
            inputs = [x.name, self.graph.normal(shape, scale)]
            if self._pick(True, False):
                inputs.append(self.graph.normal(self._pick((columns,), (1, columns), (x.shape[0], 1), ()), 0.5))
            return [x], [self.graph.op("Gemm", *inputs, transB=rows_last, alpha=0.5, beta=2.0)]
        return [x], [self.graph.op("MatMul", x.name, self.graph.normal((inner, columns), scale))]

    def self_attention(self):
        x = self._value(3)
        if x is None:
            return None
        width = x.shape[2]
        keys = self.graph.op("Transpose", self.graph.op("MatMul", x.name, self.graph.normal((width, 8), width**-0.5)),
                             perm=[0, 2, 1])
        queries = self.graph.op("MatMul", x.name, self.graph.normal((width, 8), width**-0.5))
        weights = self.graph.op("Softmax", self.graph.op("MatMul", queries, keys), axis=-1)
        return [x], [self.graph.op("MatMul", weights, x.name)]

    def convolution(self):
        x = self._value(3, 4, 5)
        if x is None:
            return None
        spatial = x.shape[2:]
        kernel = [int(self._pick(1, 1, 2, 3, 3, 5)) for _ in spatial]
        dilations = [int(self._pick(1, 1, 1, 2)) for _ in spatial]
        pads = [int(self.random.integers(0, k)) for k in kernel + kernel]
        channels = x.shape[1]
        groups = int(self._pick(1, 1, 1, channels, *(d for d in (2, 3, 4) if channels % d == 0)))
        each = int(self._pick(1, 2, 3, 8, 16)) if groups > 1 else self._extent()
        transposed = self._pick(False, False, False, True)
        if not transposed and any((k - 1) * d >= n + a + b for k, d, n, a, b in
                                  zip(kernel, dilations, spatial, pads, pads[len(kernel):])):
            return None  # a window beyond the padded image
        strides = [int(self._pick(1, 1, 2, 3)) for _ in spatial]
        fan_in = channels // groups * np.prod(kernel)
        shape = (channels, each) if transposed else (each * groups, channels // groups)
        inputs = [x.name, self.graph.normal((*shape, *kernel), np.sqrt(1 / fan_in))]
        if self._pick(True, False):
            inputs.append(self.graph.normal((each * groups,), 0.3))
        return [x], [self.graph.op("ConvTranspose" if transposed else "Conv", *inputs, kernel_shape=kernel, pads=pads,
                                   strides=strides, dilations=dilations, group=groups)]

    def pool(self):
        x = self._value(3, 4, 5)
        if x is None:
            return None
        if self._pick(False, False, True):
            return [x], [self.graph.op(self._pick("GlobalAveragePool", "GlobalMaxPool"), x.name)]
        kernel = [int(self._pick(1, 2, 3)) for _ in x.shape[2:]]
        pads = [int(self.random.integers(0, k)) for k in kernel + kernel]
        if any(k > n + a + b for k, n, a, b in zip(kernel, x.shape[2:], pads, pads[len(kernel):])):
            return None
        attributes = {"kernel_shape": kernel, "pads": pads,
                      "strides": [int(self._pick(1, 2)) for _ in kernel]}
        if self._pick(True, False):
            return [x], [self.graph.op("MaxPool", x.name, **attributes)]
        return [x], [self.graph.op("AveragePool", x.name, count_include_pad=int(self._pick(0, 1)), **attributes)]

    def resize(self):
        x = self._value(4)
        if x is None:
            return None
        if self._pick(True, False):  # integer factors: with others rounding decides which element is nearest
            mode, sizes = "nearest", [extent * int(self._pick(1, 2, 3)) for extent in x.shape[2:]]
            coordinates = self._pick("asymmetric", "half_pixel")
        else:
            mode, sizes = "linear", [int(self._pick(1, 2, 5, 9)) for _ in range(2)]
            coordinates = self._pick("asymmetric", "half_pixel", "align_corners")
        sizes = self.graph.constant([*x.shape[:2], *sizes], dtype=np.int64)
        return [x], [self.graph.op("Resize", x.name, "", "", sizes, mode=mode, nearest_mode="floor",
                                   coordinate_transformation_mode=coordinates)]

    def rearrange(self):
        x = self._value(4)
        if x is None:
            return None
        if x.shape[1] % 4 == 0 and self._pick(True, False):
            return [x], [self.graph.op("DepthToSpace", x.name, blocksize=2, mode=self._pick("DCR", "CRD"))]
        if x.shape[2] % 2 == 0 and x.shape[3] % 2 == 0:
            return [x], [self.graph.op("SpaceToDepth", x.name, blocksize=2)]
        return None

    def repeat(self):
        x = self._value()
        if self._pick(True, False):
            return [x], [self.graph.op("Tile", x.name, self.graph.constant(
                [int(self._pick(1, 1, 2, 3)) for _ in x.shape], dtype=np.int64))]
        axis = int(self.random.integers(x.rank))
        return [x], [self.graph.op("CumSum", x.name, self.graph.constant(axis, dtype=np.int64),
                                   reverse=int(self._pick(0, 1)), exclusive=int(self._pick(0, 1)))]


OPERATORS = (RandomGraph.unary, RandomGraph.unary, RandomGraph.unary, RandomGraph.binary, RandomGraph.binary,
             RandomGraph.binary, RandomGraph.where, RandomGraph.transpose, RandomGraph.transpose, RandomGraph.reshape,
             RandomGraph.reshape, RandomGraph.cut, RandomGraph.split, RandomGraph.concat, RandomGraph.pad,
             RandomGraph.gather, RandomGraph.reduce, RandomGraph.normalize, RandomGraph.normalize, RandomGraph.matmul,
             RandomGraph.matmul, RandomGraph.matmul, RandomGraph.self_attention, RandomGraph.convolution,
             RandomGraph.convolution, RandomGraph.convolution, RandomGraph.pool, RandomGraph.resize,
             RandomGraph.rearrange, RandomGraph.repeat)
