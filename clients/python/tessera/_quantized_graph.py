"""Graphs of quantized models: which products can be quantized, and the model with chosen ones quantized.

A product is a Conv, Gemm or MatMul with constant weights. Two forms: "int8" puts QuantizeLinear and DequantizeLinear around the
activation (u8, one scale) and stores the weights as s8 with a scale for each output channel; "int4" stores the weights of MatMul
and Gemm in groups of 4 bits (MatMulNBits), rounded to nearest or with compensation of errors.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from tessera import errors

Array = np.ndarray[Any, Any]

MICROSOFT = "com.microsoft"
MIN_OPSET = 13  # scales for each channel
MOST = 127  # of s8 weights: the range is symmetric


def onnx_module() -> Any:
    try:
        import onnx
        import onnx.helper
        import onnx.numpy_helper
    except ImportError as error:
        raise ImportError("tessera.quantize needs the package onnx (Debian: python3-onnx)") from error
    return onnx


@dataclasses.dataclass
class Layer:
    """A product that can be quantized."""
    name: str
    op_type: str
    position: int  #: of its node
    activation: str
    weight: Array
    axis: int  #: of the weights: the output channel
    range: tuple[float, float] = (0.0, 0.0)  #: of the activation, from calibration
    moments: Array | None = None  #: sum of the products of the activation's elements (K, K); None: round to nearest
    _groups: tuple[Array, Array] | None = None

    def groups(self, block: int) -> tuple[Array, Array]:
        """The weights in groups of 4 bits, computed once."""
        if self._groups is None:
            rows = self.weight if self.axis == 0 else self.weight.T
            self._groups = (groups_of_4_bits(rows, block) if self.moments is None
                            else compensated_groups(rows, block, self.moments))
        return self._groups


def s8_weights(weight: Array, axis: int) -> tuple[Array, Array]:
    """Weights as s8, and a scale for each slice along `axis`."""
    others = tuple(d for d in range(weight.ndim) if d != axis)
    scale = (np.maximum(np.abs(weight).max(axis=others), 1e-8) / MOST).astype(np.float32)
    shape = [1] * weight.ndim
    shape[axis] = -1
    return np.clip(np.rint(weight / scale.reshape(shape)), -MOST, MOST).astype(np.int8), scale


def u8_range(low: float, high: float) -> tuple[np.float32, np.uint8]:
    """Scale and zero point of u8 for values in [low, high]. Zero is exact: paddings and rectified values are zeros."""
    low, high = min(low, 0.0), max(high, 0.0)
    scale = np.float32(max((high - low) / 255, 1e-8))
    return scale, np.uint8(np.clip(round(-low / float(scale)), 0, 255))


def groups_of_4_bits(weight: Array, block: int) -> tuple[Array, Array]:
    """Rows of weights (N, K) as values of 0 to 15 with the zero point 8, (N, groups, block), and their scales (N, groups)."""
    rows, columns = weight.shape
    groups = -(-columns // block)
    padded = np.zeros((rows, groups * block), np.float32)
    padded[:, :columns] = weight
    padded = padded.reshape(rows, groups, block)
    scale = (np.maximum(np.abs(padded).max(axis=2), 1e-8) / 7).astype(np.float32)
    values = np.clip(np.rint(padded / scale[:, :, None]), -8, 7) + 8
    return values.astype(np.uint8), scale


def compensated_groups(weight: Array, block: int, moments: Array, panel: int = 128) -> tuple[Array, Array]:
    """Like groups_of_4_bits, but the columns that are not rounded yet take over the error of each rounded one, so that the
    products with activations of these moments change least (Frantar et al., "GPTQ", algorithm 1)."""
    rows, columns = weight.shape
    groups = -(-columns // block)
    left = np.array(weight, np.float64)
    matrix = np.array(moments, np.float64)
    unread = np.diag(matrix) == 0
    matrix[unread, unread] = 1
    left[:, unread] = 0
    matrix[np.diag_indices(columns)] += 0.01 * np.mean(np.diag(matrix))  # few samples leave the matrix singular
    upper = np.linalg.cholesky(np.linalg.inv(matrix)).T
    values = np.full((rows, groups * block), 8, np.uint8)
    scales = np.empty((rows, groups), np.float32)
    for first in range(0, columns, panel):
        last = min(first + panel, columns)
        errors_of_panel = np.zeros((rows, last - first))
        for column in range(first, last):
            group = column // block
            if column % block == 0:
                part = left[:, column:min(column + block, columns)]
                scales[:, group] = np.maximum(np.abs(part).max(axis=1), 1e-8) / 7
            scale = scales[:, group].astype(np.float64)
            rounded = np.clip(np.rint(left[:, column] / scale), -8, 7)
            values[:, column] = (rounded + 8).astype(np.uint8)
            error = (left[:, column] - rounded * scale) / upper[column, column]
            left[:, column + 1:last] -= np.outer(error, upper[column, column + 1:last])
            errors_of_panel[:, column - first] = error
        left[:, last:] -= errors_of_panel @ upper[first:last, last:]
    return values.reshape(rows, groups, block), scales


class Network:
    """A float model taken apart: constants as arrays, nodes in order. Batch normalizations are folded into the
    convolutions before them."""

    def __init__(self, model: Any) -> None:
        onnx = onnx_module()
        self._onnx = onnx
        self.model = onnx.ModelProto.FromString(model.SerializeToString())
        versions = {entry.domain: entry.version for entry in self.model.opset_import}
        if versions.get("", versions.get("ai.onnx", 0)) < MIN_OPSET:
            raise errors.InvalidInput(f"quantization needs opset {MIN_OPSET} or later", reason="INVALID_MODEL",
                                      fix="convert the model: onnx.version_converter.convert_version(model, 13)")
        graph = self.model.graph
        self.constants: dict[str, Array] = {i.name: onnx.numpy_helper.to_array(i) for i in graph.initializer}
        self.nodes: list[Any] = []
        for node in graph.node:
            if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
                self.constants[node.output[0]] = onnx.numpy_helper.to_array(node.attribute[0].t)
            else:
                self.nodes.append(node)
        self._results = {output.name for output in graph.output}
        self._taken = {name for node in self.nodes for name in (*node.input, *node.output)} | set(self.constants)
        self._fold_batch_norms()
        self.layers = [layer for i, node in enumerate(self.nodes) if (layer := self._layer(i, node)) is not None]

    def _unique(self, stem: str) -> str:
        count = 0
        while (name := f"{stem}_{count}" if count else stem) in self._taken:
            count += 1
        self._taken.add(name)
        return name

    def _constant(self, constants: dict[str, Array], array: Any, stem: str) -> str:
        name = self._unique(stem)
        constants[name] = np.asarray(array)
        return name

    def _fold_batch_norms(self) -> None:
        readers: dict[str, list[Any]] = {}
        for node in self.nodes:
            for name in node.input:
                readers.setdefault(name, []).append(node)
        for conv in [node for node in self.nodes if node.op_type == "Conv"]:
            after = readers.get(conv.output[0], [])
            if len(after) != 1 or after[0].op_type != "BatchNormalization" or conv.output[0] in self._results:
                continue
            norm = after[0]
            if not all(name in self.constants for name in (conv.input[1], *conv.input[2:], *norm.input[1:])):
                continue
            scale, shift, mean, variance = (self.constants[name] for name in norm.input[1:5])
            epsilon = next((a.f for a in norm.attribute if a.name == "epsilon"), 1e-5)
            factor = scale / np.sqrt(variance + epsilon)
            weight = self.constants[conv.input[1]]
            bias = self.constants[conv.input[2]] if len(conv.input) > 2 else np.zeros(len(weight), np.float32)
            folded = weight * factor.reshape(-1, *[1] * (weight.ndim - 1))
            conv.input[:] = [conv.input[0],
                             self._constant(self.constants, folded.astype(np.float32), f"{conv.input[1]}_folded"),
                             self._constant(self.constants, ((bias - mean) * factor + shift).astype(np.float32),
                                            f"{conv.input[1]}_bias")]
            conv.output[0] = norm.output[0]
            self.nodes.remove(norm)

    def _layer(self, position: int, node: Any) -> Layer | None:
        if node.op_type not in ("Conv", "Gemm", "MatMul") or node.input[0] in self.constants:
            return None
        weight = self.constants.get(node.input[1])
        if weight is None or weight.dtype != np.float32 or (weight.ndim != 2 and node.op_type != "Conv"):
            return None
        attributes = {a.name: a for a in node.attribute}
        if node.op_type == "Gemm" and "transA" in attributes and attributes["transA"].i:
            return None
        transposed = node.op_type == "Gemm" and "transB" in attributes and bool(attributes["transB"].i)
        axis = 0 if node.op_type == "Conv" or transposed else 1
        return Layer(node.name or node.output[0], node.op_type, position, node.input[0], weight, axis)

    def _finish(self, nodes: Iterable[Any], constants: Mapping[str, Array], inputs: Iterable[Any] = (),
                outputs: Iterable[Any] = (), microsoft: bool = False) -> bytes:
        model = self._onnx.ModelProto.FromString(self.model.SerializeToString())
        graph = model.graph
        del graph.node[:]
        graph.node.extend(nodes)
        graph.input.extend(inputs)
        graph.output.extend(outputs)
        used = {name for node in graph.node for name in _names_read(node)} | {output.name for output in graph.output}
        del graph.initializer[:]
        graph.initializer.extend(self._onnx.numpy_helper.from_array(np.ascontiguousarray(array).reshape(np.shape(array)), name)
                                 for name, array in constants.items() if name in used)
        if microsoft and all(entry.domain != MICROSOFT for entry in model.opset_import):
            model.opset_import.append(self._onnx.helper.make_opsetid(MICROSOFT, 1))
        return bytes(model.SerializeToString())

    def observed(self) -> list[str]:
        """The activations whose ranges "int8" needs."""
        return list(dict.fromkeys(layer.activation for layer in self.layers))

    def with_activations(self) -> bytes:
        """The float model with the observed activations as further outputs; those that are inputs are left out."""
        known = self._results | {value.name for value in self.model.graph.input}
        return self._finish(self.nodes, self.constants,
                            outputs=[self._onnx.helper.make_empty_tensor_value_info(name) for name in self.observed()
                                     if name not in known])

    def with_switches(self, form: str, block: int) -> tuple[bytes, list[str]]:
        """A model that computes each layer quantized or not by an input, in floats: the names of these inputs in the order
        of the layers. One compilation serves every choice of layers."""
        helper, types = self._onnx.helper, self._onnx.TensorProto
        constants = dict(self.constants)
        nodes: list[Any] = []
        switches: list[str] = []
        by_position = {layer.position: layer for layer in self.layers}
        for position, node in enumerate(self.nodes):
            layer = by_position.get(position)
            if layer is None:
                nodes.append(node)
                continue
            switch = self._unique(f"quantize_{len(switches)}")
            switches.append(switch)
            copy = type(node).FromString(node.SerializeToString())
            if form == "int8":
                rounded = self._rounded_activation(layer, constants, nodes)
                copy.input[0] = self._unique("chosen")
                nodes.append(helper.make_node("Where", [switch, rounded, layer.activation], [copy.input[0]]))
            weight = self._constant(constants, rounded_weight(layer, form, block), "rounded")
            copy.input[1] = self._unique("chosen")
            nodes.append(helper.make_node("Where", [switch, weight, node.input[1]], [copy.input[1]]))
            nodes.append(copy)
        inputs = [helper.make_tensor_value_info(name, types.BOOL, []) for name in switches]
        return self._finish(nodes, constants, inputs), switches

    def _rounded_activation(self, layer: Layer, constants: dict[str, Array], nodes: list[Any]) -> str:
        scale, zero = u8_range(*layer.range)
        parameters = [self._constant(constants, scale, "scale"), self._constant(constants, zero, "zero")]
        narrow, wide = self._unique("narrow"), self._unique("wide")
        nodes.append(self._onnx.helper.make_node("QuantizeLinear", [layer.activation, *parameters], [narrow], name=narrow))
        nodes.append(self._onnx.helper.make_node("DequantizeLinear", [narrow, *parameters], [wide], name=wide))
        return wide

    def quantized(self, chosen: Collection[int], form: str, block: int) -> bytes:
        """The model in which the layers at these positions of `layers` are quantized."""
        constants = dict(self.constants)
        nodes: list[Any] = []
        by_position = {self.layers[i].position: self.layers[i] for i in chosen}
        activations: dict[str, str] = {}
        for position, node in enumerate(self.nodes):
            layer = by_position.get(position)
            if layer is None:
                nodes.append(node)
            elif form == "int8":
                if layer.activation not in activations:
                    activations[layer.activation] = self._rounded_activation(layer, constants, nodes)
                self._int8(node, layer, activations[layer.activation], constants, nodes)
            else:
                self._int4(node, layer, block, constants, nodes)
        return self._finish(nodes, constants, microsoft=form == "int4")

    def _int8(self, node: Any, layer: Layer, activation: str, constants: dict[str, Array], nodes: list[Any]) -> None:
        narrow, scale = s8_weights(layer.weight, layer.axis)
        weight = self._unique("weight")
        nodes.append(self._onnx.helper.make_node(
            "DequantizeLinear", [self._constant(constants, narrow, f"{node.input[1]}_s8"),
                                 self._constant(constants, scale, "scale"),
                                 self._constant(constants, np.zeros(scale.shape, np.int8), "zero")],
            [weight], name=weight, axis=layer.axis))
        copy = type(node).FromString(node.SerializeToString())
        copy.input[0], copy.input[1] = activation, weight
        nodes.append(copy)

    def _int4(self, node: Any, layer: Layer, block: int, constants: dict[str, Array], nodes: list[Any]) -> None:
        weight = layer.weight if layer.axis == 0 else layer.weight.T
        values, scale = layer.groups(block)
        packed = values[:, :, 0::2] | values[:, :, 1::2] << 4
        bias = node.input[2] if len(node.input) > 2 and node.input[2] else ""
        result = self._unique("product") if bias else node.output[0]
        nodes.append(self._onnx.helper.make_node(
            "MatMulNBits", [layer.activation, self._constant(constants, packed, f"{node.input[1]}_4_bits"),
                            self._constant(constants, scale.reshape(-1), "scale")], [result], name=node.name,
            domain=MICROSOFT, K=weight.shape[1], N=weight.shape[0], bits=4, block_size=block))
        if bias:
            nodes.append(self._onnx.helper.make_node("Add", [result, bias], [node.output[0]], name=self._unique("bias")))


def is_plain_gemm(node: Any) -> bool:
    """Whether MatMulNBits and an addition can replace it."""
    return all(a.f == 1.0 for a in node.attribute if a.name in ("alpha", "beta"))


def rounded_weight(layer: Layer, form: str, block: int) -> Array:
    """The weights as floats, as the quantized model has them."""
    if form == "int8":
        narrow, scale = s8_weights(layer.weight, layer.axis)
        shape = [1] * layer.weight.ndim
        shape[layer.axis] = -1
        return narrow.astype(np.float32) * scale.reshape(shape)
    weight = layer.weight if layer.axis == 0 else layer.weight.T
    values, scale = layer.groups(block)
    wide = ((values.astype(np.float32) - 8) * scale[:, :, None]).reshape(weight.shape[0], -1)[:, :weight.shape[1]]
    return wide if layer.axis == 0 else np.ascontiguousarray(wide.T)


def _names_read(node: Any) -> Iterable[str]:
    yield from node.input
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                yield from _names_read(inner)
            yield from (output.name for output in graph.output)
