"""A thin writer of ONNX graphs: seeded weights, unique names, no shape bookkeeping."""

import hashlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 13
IR_VERSION = 8

ONNX_TYPES = {
    np.dtype(np.float32): TensorProto.FLOAT,
    np.dtype(np.float64): TensorProto.DOUBLE,
    np.dtype(np.int64): TensorProto.INT64,
    np.dtype(np.int32): TensorProto.INT32,
    np.dtype(np.uint8): TensorProto.UINT8,
    np.dtype(np.bool_): TensorProto.BOOL,
}


def seeded(*key):
    """A random generator that depends on `key` alone, on every machine and in every run."""
    digest = hashlib.sha256("/".join(map(str, key)).encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "little")))


class GraphBuilder:
    """Collects nodes and weights. Each emitting method returns the name of its result.

    Weights are scaled so that activations stay O(1) through the depth of a network (He initialisation before a Relu):
    with plain normal weights a 50-layer network overflows or vanishes, and comparing its outputs would show nothing.
    """

    def __init__(self, name, opset=OPSET, prefix=""):
        """`prefix` begins each name: names in the body of a loop must differ from the outer graph's."""
        self.name = name
        self.prefix = prefix
        self.opset = opset
        self.random = seeded("weights", name)
        self.nodes = []
        self.initializers = []
        self.inputs = []
        self.outputs = []
        self._counts = {}

    def unique(self, stem):
        """`stem_0`, `stem_1`, ... in order of use, with the prefix."""
        number = self._counts.get(stem, 0)
        self._counts[stem] = number + 1
        return f"{self.prefix}{stem}_{number}"

    def input(self, name, shape, dtype=np.float32):
        """Declares a graph input; a string in `shape` is a symbolic dimension."""
        self.inputs.append(helper.make_tensor_value_info(name, ONNX_TYPES[np.dtype(dtype)], shape))
        return name

    def output(self, value, name, shape, dtype=np.float32):
        """Declares `value` as the graph output `name`."""
        for node in self.nodes:
            node.output[:] = [name if out == value else out for out in node.output]
            node.input[:] = [name if used == value else used for used in node.input]
        self.outputs.append(helper.make_tensor_value_info(name, ONNX_TYPES[np.dtype(dtype)], shape))

    def constant(self, value, stem="const", dtype=None):
        """An initializer with the given value."""
        array = np.ascontiguousarray(value, dtype=dtype)
        name = self.unique(stem)
        # ascontiguousarray makes a scalar one-dimensional; the reshape undoes that.
        self.initializers.append(numpy_helper.from_array(array.reshape(np.shape(value)), name))
        return name

    def normal(self, shape, scale, stem="weight", mean=0.0):
        values = self.random.standard_normal(shape, dtype=np.float32)
        return self.constant(values * np.float32(scale) + np.float32(mean), stem)

    def uniform(self, shape, low, high, stem):
        values = self.random.random(shape, dtype=np.float32)
        return self.constant(values * np.float32(high - low) + np.float32(low), stem)

    def op(self, op_type, *inputs, outputs=1, **attributes):
        """Appends a node; returns its output name, or a list of them when outputs > 1."""
        name = self.unique(op_type)
        names = [f"{name}_out{i}" if outputs > 1 else f"{name}_out" for i in range(outputs)]
        self.nodes.append(helper.make_node(op_type, list(inputs), names, name=name, **attributes))
        return names[0] if outputs == 1 else names

    def conv(self, x, cin, cout, kernel, stride=1, pad=0, group=1, dilation=1, bias=True, gain=2.0):
        """2-D convolution, NCHW; `kernel` is an extent or a pair. `gain` 2 keeps the scale through a Relu."""
        kh, kw = kernel if isinstance(kernel, tuple) else (kernel, kernel)
        fan_in = cin // group * kh * kw
        inputs = [x, self.normal((cout, cin // group, kh, kw), np.sqrt(gain / fan_in), "conv_weight")]
        if bias:
            inputs.append(self.normal((cout,), 0.1, "conv_bias"))
        pads = list(pad) if isinstance(pad, tuple) else [pad] * 4
        return self.op("Conv", *inputs, kernel_shape=[kh, kw], strides=[stride, stride], pads=pads,
                       dilations=[dilation, dilation], group=group)

    def batch_norm(self, x, channels, gain=1.0):
        """Inference batch normalisation with statistics far from mean 0 and variance 1."""
        scale = self.uniform((channels,), 0.7 * gain, 1.3 * gain, "bn_scale")
        bias = self.normal((channels,), 0.1, "bn_bias")
        mean = self.normal((channels,), 0.2, "bn_mean")
        var = self.uniform((channels,), 0.6, 1.6, "bn_var")
        return self.op("BatchNormalization", x, scale, bias, mean, var, epsilon=1e-5)

    def linear(self, x, fan_in, fan_out, gain=1.0, bias=True):
        """Gemm with a transposed weight, as exporters write a fully connected layer. x: [rows, fan_in]."""
        inputs = [x, self.normal((fan_out, fan_in), np.sqrt(gain / fan_in), "fc_weight")]
        if bias:
            inputs.append(self.normal((fan_out,), 0.1, "fc_bias"))
        return self.op("Gemm", *inputs, transB=1)

    def model(self):
        graph = helper.make_graph(self.nodes, self.name, self.inputs, self.outputs, self.initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)],
                                  producer_name="tessera-tests")
        model.ir_version = IR_VERSION
        return model


def check(model):
    """Raises unless ONNX's own checker accepts the model (models over 2 GiB cannot be checked in memory)."""
    onnx.checker.check_model(model)
