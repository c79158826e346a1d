"""Post-training quantization of the catalog's models: activations u8 by tensor, weights s8 by output channel.

Three forms, as exporters write them:
  qdq        QuantizeLinear and DequantizeLinear around Conv, Gemm, MatMul and Add
  qoperator  QLinearConv and QLinearMatMul between QuantizeLinear and DequantizeLinear
  dynamic    DynamicQuantizeLinear with MatMulInteger and ConvInteger, ranges found at run time
Batch normalization is folded into the convolution before it. Ranges come from one run of the float model.
"""

import numpy as np
import onnx
from onnx import helper, numpy_helper

FORMS = ("qdq", "qoperator", "dynamic")


class Network:
    """A float model taken apart: weights as arrays, nodes in order, readers by value."""

    def __init__(self, model):
        self.model = onnx.ModelProto.FromString(model.SerializeToString())
        graph = self.model.graph
        self.weights = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
        self.nodes = list(graph.node)
        self.results = {o.name for o in graph.output}
        self._count = 0

    def readers(self, value):
        return [n for n in self.nodes if value in n.input]

    def constant(self, array, stem):
        name = self.unique(stem)
        self.weights[name] = np.ascontiguousarray(array).reshape(np.shape(array))
        return name

    def unique(self, stem):
        taken = True
        while taken:
            self._count += 1
            name = f"{stem}_{self._count}"
            taken = name in self.weights or any(name in node.output for node in self.nodes)
        return name

    def fold_batch_norms(self):
        for conv in [n for n in self.nodes if n.op_type == "Conv"]:
            readers = self.readers(conv.output[0])
            if len(readers) != 1 or readers[0].op_type != "BatchNormalization" or conv.output[0] in self.results:
                continue
            norm = readers[0]
            scale, shift, mean, variance = (self.weights[name] for name in norm.input[1:5])
            epsilon = next((a.f for a in norm.attribute if a.name == "epsilon"), 1e-5)
            factor = scale / np.sqrt(variance + epsilon)
            weight = self.weights[conv.input[1]]
            bias = self.weights[conv.input[2]] if len(conv.input) > 2 else np.zeros(len(weight), np.float32)
            folded = weight * factor.reshape(-1, *[1] * (weight.ndim - 1))
            conv.input[:] = [conv.input[0], self.constant(folded.astype(np.float32), "folded"),
                             self.constant(((bias - mean) * factor + shift).astype(np.float32), "bias")]
            conv.output[0] = norm.output[0]
            self.nodes.remove(norm)

    def finish(self, opset=13, microsoft=False):
        graph = self.model.graph
        del graph.node[:]
        graph.node.extend(self.nodes)
        used = {name for node in self.nodes for name in node.input} | self.results
        del graph.initializer[:]
        graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in self.weights.items() if n in used)
        return self.model


def _symmetric(weight, axis, most):
    """s8 within [-most, most], and a scale for each slice along `axis`."""
    others = tuple(d for d in range(weight.ndim) if d != axis)
    largest = np.maximum(np.abs(weight).max(axis=others), 1e-8)
    scale = (largest / most).astype(np.float32)
    shape = [1] * weight.ndim
    shape[axis] = -1
    return np.clip(np.rint(weight / scale.reshape(shape)), -most, most).astype(np.int8), scale


def _range(low, high):
    """The scale and zero point of u8 for values in [low, high]."""
    low, high = min(float(low), 0.0), max(float(high), 0.0)
    scale = np.float32(max((high - low) / 255, 1e-8))
    return scale, np.uint8(np.clip(round(-low / scale), 0, 255))


def _is_product(network, node):
    if node.op_type == "Conv":
        return node.input[1] in network.weights
    if node.op_type == "MatMul":
        return node.input[1] in network.weights and network.weights[node.input[1]].ndim == 2
    return node.op_type == "Gemm" and node.input[1] in network.weights


def observed_values(network):
    """Values whose ranges static quantization needs."""
    values = []
    for node in network.nodes:
        if _is_product(network, node):
            values += [node.input[0], node.output[0]]
        elif node.op_type == "Add" and not any(i in network.weights for i in node.input):
            values += list(node.input) + [node.output[0]]
    return list(dict.fromkeys(values))


def with_outputs(model, values):
    """The model with these values as further outputs, for calibration."""
    wider = onnx.ModelProto.FromString(model.SerializeToString())
    known = {o.name for o in wider.graph.output}
    wider.graph.output.extend(helper.make_empty_tensor_value_info(v) for v in values if v not in known)
    return wider


class _Writer:
    def __init__(self, network, ranges, most):
        self.network, self.ranges, self.most, self.nodes = network, ranges, most, []
        self.stored = {}

    def op(self, kind, inputs, stem, domain="", **attributes):
        name = self.network.unique(stem)
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, domain=domain, **attributes))
        return name

    def parameters(self, value):
        """Names of the scale and zero point of a value."""
        if value not in self.stored:
            scale, zero = _range(*self.ranges[value])
            self.stored[value] = [self.network.constant(scale, "scale"), self.network.constant(zero, "zero")]
        return self.stored[value][:2]

    def quantized(self, value):
        parameters = self.parameters(value)
        if len(self.stored[value]) == 2:
            self.stored[value].append(self.op("QuantizeLinear", [value, *parameters], "quantized"))
        return self.stored[value][2]

    def dequantized(self, value):
        return self.op("DequantizeLinear", [self.quantized(value), *self.parameters(value)], "dequantized")

    def weight(self, node):
        """Names of the s8 weights and their scales, with the axis of the output channel."""
        weight = self.network.weights[node.input[1]]
        transposed = any(a.name == "transB" and a.i for a in node.attribute)
        axis = 0 if node.op_type == "Conv" or transposed else weight.ndim - 1
        narrow, scale = _symmetric(weight, axis, self.most)
        return self.network.constant(narrow, "weight"), self.network.constant(scale, "scale"), axis, scale

    def qdq(self, node):
        if _is_product(self.network, node):
            name, scale, axis, values = self.weight(node)
            zero = self.network.constant(np.zeros(values.shape, np.int8), "zero")
            node.input[0] = self.dequantized(node.input[0])
            node.input[1] = self.op("DequantizeLinear", [name, scale, zero], "weight", axis=axis)
        elif node.op_type == "Add" and all(i in self.ranges for i in node.input):
            node.input[:] = [self.dequantized(i) for i in node.input]
        self.nodes.append(node)

    def qoperator(self, node):
        if not _is_product(self.network, node) or node.op_type == "Gemm":
            self.nodes.append(node)
            return
        name, scale, _, values = self.weight(node)
        zero = self.network.constant(np.zeros(values.shape, np.int8), "zero")
        x, result = node.input[0], node.output[0]
        inputs = [self.quantized(x), *self.parameters(x), name, scale, zero, *self.parameters(result)]
        if node.op_type == "Conv":
            if len(node.input) > 2:
                steps = _range(*self.ranges[x])[0] * values
                bias = np.rint(self.network.weights[node.input[2]] / steps)
                inputs.append(self.network.constant(bias.astype(np.int32), "bias"))
            product = helper.make_node("QLinearConv", inputs, [self.network.unique("product")], name=node.name)
            product.attribute.extend(node.attribute)
        else:
            product = helper.make_node("QLinearMatMul", inputs, [self.network.unique("product")], name=node.name)
        self.nodes.append(product)
        self.stored[result].append(product.output[0])
        self.nodes.append(helper.make_node("DequantizeLinear", [product.output[0], *self.parameters(result)], [result],
                                           name=self.network.unique("real")))

    def dynamic(self, node):
        if not _is_product(self.network, node) or node.op_type == "Gemm":
            self.nodes.append(node)
            return
        weight = self.network.weights[node.input[1]]
        narrow, scale = _symmetric(weight.reshape(1, -1), 0, self.most)
        names = [self.network.unique(stem) for stem in ("u8", "scale", "zero")]
        self.nodes.append(helper.make_node("DynamicQuantizeLinear", [node.input[0]], names, name=names[0]))
        kind = "ConvInteger" if node.op_type == "Conv" else "MatMulInteger"
        product = helper.make_node(kind, [names[0], self.network.constant(narrow.reshape(weight.shape), "weight"),
                                          names[2]], [self.network.unique("sum")], name=node.name)
        product.attribute.extend(node.attribute)
        self.nodes.append(product)
        real = self.op("Cast", [product.output[0]], "real", to=onnx.TensorProto.FLOAT)
        both = self.op("Mul", [names[1], self.network.constant(scale[0], "scale")], "scales")
        value = self.op("Mul", [real, both], "scaled")
        if node.op_type == "Conv" and len(node.input) > 2:
            bias = self.network.weights[node.input[2]]
            value = self.op("Add", [value, self.network.constant(bias.reshape(-1, *[1] * (weight.ndim - 2)), "bias")],
                            "biased")
        self.nodes[-1].output[0] = node.output[0]


def prepare(model):
    """The float model with batch normalizations folded, to be measured and then quantized."""
    network = Network(model)
    network.fold_batch_norms()
    return network.finish()


def quantize(model, ranges, form, reduce_range=False):
    """`model` from prepare(); `ranges`: (lowest, highest) of each of observed_values(), none for dynamic.
    `reduce_range`: weights of 7 bits, so that the sum of two products fits in 16 bits. On x86-64 without VNNI, ONNX
    Runtime saturates otherwise."""
    if form not in FORMS:
        raise ValueError(f"no form {form}; there are {', '.join(FORMS)}")
    network = Network(model)
    writer = _Writer(network, ranges, 63 if reduce_range else 127)
    for node in list(network.nodes):
        getattr(writer, form)(node)
    network.nodes = writer.nodes
    return network.finish()
