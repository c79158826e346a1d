"""Converts float models to f16 or bf16: all float weights, constants and values become 16-bit floats.

Inputs and outputs stay f32 with casts next to them, so that a model is fed and compared like its original.
"""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

KINDS = {"f16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16}


def half_tensor(array, kind, name):
    """`array`, rounded to nearest even, as an ONNX tensor."""
    array = np.asarray(array, np.float32)
    if kind == "f16":
        return numpy_helper.from_array(array.astype(np.float16), name)
    bits = np.ascontiguousarray(array).reshape(-1).view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return helper.make_tensor(name, TensorProto.BFLOAT16, array.shape, rounded.tobytes(), raw=True)


def convert(model, kind):
    """A copy of `model` that computes in `kind`, "f16" or "bf16"."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    graph, half = model.graph, KINDS[kind]
    weights = {i.name for i in graph.initializer}
    for tensor in graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            tensor.CopyFrom(half_tensor(numpy_helper.to_array(tensor), kind, tensor.name))
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t") and attribute.t.data_type == TensorProto.FLOAT:
                attribute.t.CopyFrom(half_tensor(numpy_helper.to_array(attribute.t), kind, attribute.t.name))
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == TensorProto.FLOAT:
                attribute.i = half
    before, after, renamed = [], [], {}
    for value in graph.input:
        if value.name not in weights and value.type.tensor_type.elem_type == TensorProto.FLOAT:
            renamed[value.name] = value.name + "_half"
            before.append(helper.make_node("Cast", [value.name], [value.name + "_half"], to=half))
    for value in graph.output:
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            renamed[value.name] = value.name + "_half"
            after.append(helper.make_node("Cast", [value.name + "_half"], [value.name], to=TensorProto.FLOAT))
    for node in graph.node:
        for names in (node.input, node.output):
            names[:] = [renamed.get(name, name) for name in names]
    nodes = [*before, *graph.node, *after]
    del graph.node[:], graph.value_info[:]
    graph.node.extend(nodes)
    return model
