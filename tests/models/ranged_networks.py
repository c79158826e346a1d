"""Random networks whose dimensions are ranges: images with symbolic height and width, sequences with symbolic length.
From a seed; the smallest sizes may be too small for a window."""

import dataclasses

import numpy as np
from onnx import TensorProto, helper, numpy_helper


@dataclasses.dataclass(frozen=True)
class Image:
    name: str
    channels: int
    size: tuple  # operations on height and width so far: equal lists mean equal sizes


class RangedNetwork:
    """`model`; `dims` for `--dim`; `largest` by name; `arrays(**sizes)`; `kinds` of operations in it."""

    def __init__(self, seed):
        self.random = np.random.default_rng([71, seed])
        self.nodes, self.constants, self.outputs, self.kinds = [], [], [], []
        self.is_image = seed % 4 != 3
        if self.is_image:
            self._image()
        else:
            self._sequence()
        graph = helper.make_graph(
            self.nodes, f"ranged_{seed}", [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)],
            [helper.make_tensor_value_info(name, kind, None) for name, kind in self.outputs],
            [numpy_helper.from_array(array, name) for name, array in self.constants])
        self.model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)

    def arrays(self, **sizes):
        shape = [sizes.get(dim, dim) for dim in self.shape]
        return {"x": np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)}

    def sizes(self, count):
        """Both ends, and odd sizes between."""
        greatest = {name: size for name, size in self.largest.items()}
        yield greatest
        yield {name: 1 for name in greatest}
        for _ in range(count - 2):
            yield {name: int(self.random.integers(1, size + 1)) for name, size in greatest.items()}

    # Parts.

    def const(self, array):
        self.constants.append((f"c{len(self.constants)}", np.asarray(array)))
        return self.constants[-1][0]

    def floats(self, *shape, scale=1.0):
        return self.const((self.random.standard_normal(shape) * scale).astype(np.float32))

    def op(self, kind, inputs, **attributes):
        self.nodes.append(helper.make_node(kind, inputs, [f"t{len(self.nodes)}"], f"{kind}_{len(self.nodes)}", **attributes))
        return self.nodes[-1].output[0]

    def choose(self, *choices):
        return choices[int(self.random.integers(len(choices)))]

    def part(self, *dims):
        """Elements [first, first + count) of the shape of a value."""
        name, first, count = dims
        return self.op("Slice", [self.op("Shape", [name]), self.const([first]), self.const([first + count])])

    def output(self, name, kind=TensorProto.FLOAT):
        self.outputs.append((self.op("Identity", [name]), kind))

    # Images.

    def _image(self):
        self.opset = self.choose(13, 17, 18, 21)
        self.largest = {"n": self.choose(1, 3), "h": int(self.random.integers(12, 49)), "w": int(self.random.integers(12, 49))}
        self.shape = ["n", 3, "h", "w"]
        last = Image("x", 3, ())
        images = [last]
        for _ in range(int(self.random.integers(4, 10))):
            step = self.choose(*(getattr(self, name) for name in dir(self) if name.startswith("step_")))
            made = step(last, images)
            if made is None:
                continue
            self.kinds.append(step.__name__[5:])
            last = made
            images.append(last)
        self.output(last.name)
        self._head(last)

    def _head(self, x):
        kind = self.choose("pool", "boxes", "rows", "best", "softmax")
        self.kinds.append(kind)
        if kind == "pool":
            self.output(self.op("Flatten", [self.op("GlobalAveragePool", [x.name])]))
        elif kind == "boxes":
            moved = self.op("Transpose", [x.name], perm=[0, 2, 3, 1])
            self.output(self.op("Reshape", [moved, self.const([0, -1, x.channels])]))
        elif kind == "rows":
            self.output(self.op("ReduceMax", [x.name], axes=[2], keepdims=0) if self.opset < 18 else
                        self.op("ReduceMax", [x.name, self.const([2])], keepdims=0))
        elif kind == "best":
            flat = self.op("Reshape", [x.name, self.const([0, -1])])
            self.output(self.op("ArgMax", [flat], axis=1), TensorProto.INT64)
        else:
            self.output(self.op("Softmax", [x.name], axis=3))

    def step_conv(self, x, _):
        kernel, stride, group = self.choose(1, 3, 3, 5), self.choose(1, 1, 2), self.choose(1, 1, x.channels)
        filters = group * self.choose(1, 2) if group > 1 else self.choose(4, 8, 12)
        dilation = self.choose(1, 1, 2)
        how = {"strides": [stride, stride], "dilations": [dilation, dilation], "group": group}
        padding = self.choose("same", "same", "none", "auto") if dilation == 1 else "same"
        if padding == "auto":
            how["auto_pad"] = self.choose("SAME_UPPER", "SAME_LOWER")
        else:
            how["pads"] = [(kernel - 1) * dilation // 2 if padding == "same" else 0] * 4
        weights = self.floats(filters, x.channels // group, kernel, kernel, scale=1 / (kernel * np.sqrt(x.channels / group)))
        y = self.op("Conv", [x.name, weights, self.floats(filters)], **how)
        y = self.op(self.choose("Relu", "Sigmoid", "HardSigmoid"), [y])
        keeps = stride == 1 and padding != "none" or kernel == stride == 1
        return Image(y, filters, x.size if keeps else (*x.size, ("conv", kernel, stride, dilation, padding)))

    def step_pool(self, x, _):
        kernel, stride, ceil = self.choose(2, 3), self.choose(1, 2, 2), self.choose(0, 0, 1)
        pads = self.choose(0, 1)
        kind = self.choose("MaxPool", "MaxPool", "AveragePool")
        if kind == "AveragePool" and ceil and self.opset < 19:
            ceil = 0  # before opset 19 ONNX Runtime divides by the number of elements outside too
        y = self.op(kind, [x.name], kernel_shape=[kernel, kernel], strides=[stride, stride], pads=[pads] * 4, ceil_mode=ceil)
        return Image(y, x.channels, (*x.size, ("pool", kernel, stride, pads, ceil)))

    def step_grouped(self, x, _):
        groups = next(groups for groups in (4, 3, 2, 1) if x.channels % groups == 0)
        if self.opset >= 21 or self.opset >= 18:
            each = x.channels if self.opset >= 21 else groups
            y = self.op("GroupNormalization", [x.name, self.floats(each), self.floats(each)], num_groups=groups)
            return Image(y, x.channels, x.size)
        normal = self.op("InstanceNormalization", [self.op("Reshape", [x.name, self.const([0, groups, -1])]),
                                                   self.const(np.ones(groups, np.float32)), self.const(np.zeros(groups, np.float32))])
        return Image(self.op("Reshape", [normal, self.op("Shape", [x.name])]), x.channels, x.size)

    def step_layer_norm(self, x, _):
        moved = self.op("Transpose", [x.name], perm=[0, 2, 3, 1])
        if self.opset >= 17:
            moved = self.op("LayerNormalization", [moved, self.floats(x.channels)], axis=-1)
        return Image(self.op("Transpose", [moved], perm=[0, 3, 1, 2]), x.channels, x.size)

    def step_add(self, x, images):
        others = [each for each in images if each.size == x.size and each.channels == x.channels and each.name != x.name]
        return Image(self.op("Add", [x.name, self.choose(*others).name]), x.channels, x.size) if others else None

    def step_concat(self, x, images):
        others = [each for each in images if each.size == x.size and each.name != x.name]
        if not others:
            return None
        other = self.choose(*others)
        return Image(self.op("Concat", [x.name, other.name], axis=1), x.channels + other.channels, x.size)

    def step_skip(self, x, images):
        """An image of another size, resized to this one's."""
        others = [each for each in images if each.size != x.size]
        if not others:
            return None
        other = self.choose(*others)
        size = self.op("Concat", [self.part(other.name, 0, 2), self.part(x.name, 2, 2)], axis=0)
        # Not nearest: coordinates that are integers for the ratio of two sizes are rounded differently.
        y = self.op("Resize", [other.name, "", "", size], mode="linear")
        return Image(self.op("Concat", [x.name, y], axis=1), x.channels + other.channels, x.size)

    def step_double(self, x, _):
        y = self.op("Resize", [x.name, "", self.const(np.array([1, 1, 2, 2], np.float32))], mode=self.choose("nearest", "linear"))
        return Image(y, x.channels, (*x.size, "double")) if len([part for part in x.size if part == "double"]) < 1 else None

    def step_transposed(self, x, _):
        if "double" in x.size:
            return None
        kernel = self.choose(2, 3, 4)
        pads = (kernel - 2) // 2
        y = self.op("ConvTranspose", [x.name, self.floats(x.channels, 6, kernel, kernel, scale=1 / (kernel * np.sqrt(x.channels)))],
                    strides=[2, 2], pads=[pads] * 4)
        return Image(y, 6, (*x.size, ("transposed", kernel, pads), "double"))

    def step_pad(self, x, _):
        mode = self.choose("constant", "edge")
        return Image(self.op("Pad", [x.name, self.const([0, 0, 1, 0, 0, 0, 2, 1])], mode=mode), x.channels, (*x.size, "pad"))

    def step_squeeze(self, x, _):
        y = self.op("Conv", [self.op("GlobalAveragePool", [x.name]), self.floats(x.channels, x.channels, 1, 1, scale=0.3)])
        return Image(self.op("Mul", [x.name, self.op("Sigmoid", [y])]), x.channels, x.size)

    def step_attention(self, x, _):
        """Attention of all pixels to all."""
        if len(x.size) < 2 and self.largest["h"] * self.largest["w"] > 900:
            return None
        pixels = self.op("Transpose", [self.op("Reshape", [x.name, self.const([0, x.channels, -1])])], perm=[0, 2, 1])
        scores = self.op("Softmax", [self.op("MatMul", [pixels, self.op("Transpose", [pixels], perm=[0, 2, 1])])], axis=-1)
        mixed = self.op("Transpose", [self.op("MatMul", [scores, pixels])], perm=[0, 2, 1])
        return Image(self.op("Reshape", [mixed, self.op("Shape", [x.name])]), x.channels, x.size)

    def step_windows(self, x, _):
        """Windowed attention as in Swin, on an image padded to multiples of the window; possibly shifted."""
        window, shifted = self.choose(2, 3, 4), self.choose(False, True)
        c = x.channels
        y = self.op("Transpose", [x.name], perm=[0, 2, 3, 1])
        none = self.const([0])
        sides = []
        for d in (1, 2):
            size = self.part(y, d, 1)
            rest = self.op("Mod", [size, self.const([window])])
            sides.append(self.op("Mod", [self.op("Sub", [self.const([window]), rest]), self.const([window])]))
        pads = self.op("Concat", [none, none, none, none, none, *sides, none], axis=0)
        padded = self.op("Pad", [y, pads])
        if shifted:
            padded = self.roll(padded, -(window // 2))
        n, h, w = (self.part(padded, d, 1) for d in (0, 1, 2))
        rows, columns = (self.op("Div", [each, self.const([window])]) for each in (h, w))
        cut = self.op("Reshape", [padded, self.op("Concat", [n, rows, self.const([window]), columns, self.const([window, c])], axis=0)])
        cut = self.op("Reshape", [self.op("Transpose", [cut], perm=[0, 1, 3, 2, 4, 5]), self.const([-1, window * window, c])])
        scores = self.op("Softmax", [self.op("MatMul", [cut, self.op("Transpose", [cut], perm=[0, 2, 1])])], axis=-1)
        mixed = self.op("MatMul", [self.op("MatMul", [scores, cut]), self.floats(c, c, scale=1 / np.sqrt(c))])
        back = self.op("Reshape", [mixed, self.op("Concat", [n, rows, columns, self.const([window, window, c])], axis=0)])
        back = self.op("Reshape", [self.op("Transpose", [back], perm=[0, 1, 3, 2, 4, 5]), self.op("Concat", [n, h, w, self.const([c])], axis=0)])
        if shifted:
            back = self.roll(back, window // 2)
        back = self.op("Slice", [back, self.const([0, 0]), self.part(y, 1, 2), self.const([1, 2])])
        return Image(self.op("Transpose", [self.op("Add", [y, back])], perm=[0, 3, 1, 2]), c, x.size)

    def roll(self, x, by):
        """torch.roll along height and width, as exported."""
        if by == 0:
            return x
        end = self.const([2**62])
        for axis in (1, 2):
            front = self.op("Slice", [x, self.const([-by]), end, self.const([axis])])
            behind = self.op("Slice", [x, self.const([0]), self.const([-by]), self.const([axis])])
            x = self.op("Concat", [front, behind], axis=axis)
        return x

    # Sequences.

    def _sequence(self):
        self.opset = self.choose(13, 17, 21)
        width = self.choose(8, 12)
        self.largest = {"n": self.choose(1, 3), "t": int(self.random.integers(12, 70))}
        self.shape = ["n", "t", width]
        x, steps = "x", True
        for _ in range(int(self.random.integers(2, 6))):
            kind = self.choose("attention", "mlp", "conv", "lstm", "cumsum", "norm", "positions", "stride")
            self.kinds.append(kind)
            if kind == "attention":
                heads = 4
                n, t = self.part(x, 0, 1), self.part(x, 1, 1)
                split = self.op("Concat", [n, t, self.const([heads, width // heads])], axis=0)
                q, k, v = (self.op("Transpose", [self.op("Reshape", [self.op("MatMul", [x, self.floats(width, width, scale=0.3)]), split])],
                                   perm=[0, 2, 1, 3]) for _ in range(3))
                scores = self.op("Softmax", [self.op("MatMul", [q, self.op("Transpose", [k], perm=[0, 1, 3, 2])])], axis=-1)
                mixed = self.op("Transpose", [self.op("MatMul", [scores, v])], perm=[0, 2, 1, 3])
                x = self.op("Add", [x, self.op("Reshape", [mixed, self.op("Concat", [n, t, self.const([width])], axis=0)])])
            elif kind == "mlp":
                x = self.op("Add", [x, self.op("MatMul", [self.op("Relu", [self.op("MatMul", [x, self.floats(width, 16, scale=0.3)])]),
                                                          self.floats(16, width, scale=0.3)])])
            elif kind in ("conv", "stride"):
                kernel, stride = self.choose(1, 3, 5), 2 if kind == "stride" else 1
                y = self.op("Conv", [self.op("Transpose", [x], perm=[0, 2, 1]), self.floats(width, width, kernel, scale=1 / np.sqrt(width * kernel))],
                            strides=[stride], pads=self.choose([kernel // 2] * 2, [kernel - 1, 0], [0, 0]))
                x = self.op("Transpose", [self.op("Relu", [y])], perm=[0, 2, 1])
            elif kind == "lstm":
                both = self.choose("bidirectional", "forward", "reverse")
                d = 2 if both == "bidirectional" else 1
                y = self.op("LSTM", [self.op("Transpose", [x], perm=[1, 0, 2]), self.floats(d, 4 * width, width, scale=0.3),
                                     self.floats(d, 4 * width, width, scale=0.3)], hidden_size=width, direction=both)
                x = self.op("Transpose", [self.op("ReduceSum", [y, self.const([1])], keepdims=0)], perm=[1, 0, 2])
            elif kind == "cumsum":
                x = self.op("Tanh", [self.op("CumSum", [x, self.const(np.array(1))])])
            elif kind == "norm" and self.opset >= 17:
                x = self.op("LayerNormalization", [x, self.floats(width), self.floats(width)], axis=-1)
            elif kind == "positions":
                places = self.op("Range", [self.const(np.array(0)), self.op("Squeeze", [self.part(x, 1, 1)]), self.const(np.array(1))])
                table = self.floats(80, width)
                x = self.op("Add", [x, self.op("Gather", [table, places])])
        self.output(x)
        end = self.choose("last", "mean", "rows", "greatest")
        self.kinds.append(end)
        if end == "last":
            self.output(self.op("Gather", [x, self.const(np.array(-1))], axis=1))
        elif end == "mean":
            self.output(self.op("ReduceMean", [x], axes=[1]) if self.opset < 18 else self.op("ReduceMean", [x, self.const([1])]))
        elif end == "rows":
            self.output(self.op("Reshape", [x, self.const([-1, width])]))
        else:
            self.output(self.op("ReduceMax", [x], axes=[1]) if self.opset < 18 else self.op("ReduceMax", [x, self.const([1])]))
