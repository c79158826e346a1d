"""Cases as ONNX models: many independent ones in one model for the compiler, single steps for the oracle."""

import copy

import numpy as np
from onnx import AttributeProto, TensorProto, helper

from fuzz.cases import types

IR_VERSION = 8


def tensor(name, kind, array):
    array = np.asarray(array)
    return TensorProto(name=name, data_type=types.PROTO[kind], dims=array.shape, raw_data=types.bits_of(kind, array))


def info(name, kind, shape):
    return helper.make_tensor_value_info(name, types.PROTO[kind], shape)


def _model(nodes, inputs, outputs, initializers, opset):
    graph = helper.make_graph(nodes, "cases", inputs, outputs, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=IR_VERSION,
                             producer_name="tessera-tests")


def of_cases(cases, names=()):
    """(model, arrays, {output name: value}) of the results, or of the values with these names. All cases have one
    operator set version. bf16 values, which NumPy lacks, are model inputs and outputs in f32."""
    nodes, inputs, outputs, initializers, arrays, results = [], [], [], [], {}, {}
    for case in cases:
        for value in case.inputs.values():
            name = value.name
            if value.type == "bf16":
                name = f"{name}_f32"
                nodes.append(helper.make_node("Cast", [name], [value.name], name=name, to=TensorProto.BFLOAT16))
            arrays[name] = value.array
            inputs.append(info(name, "f32" if value.type == "bf16" else value.type, value.shape))
        initializers += [tensor(value.name, value.type, value.array) for value in case.constants.values()]
        nodes += [node.proto for node in case.nodes]
        for value in [case.value_named(name) for name in sorted(names)] or case.results:
            name = value.name
            if value.type == "bf16":
                name = f"{name}_f32"
                nodes.append(helper.make_node("Cast", [value.name], [name], name=name, to=TensorProto.FLOAT))
            outputs.append(info(name, "f32" if value.type == "bf16" else value.type, [f"{name}_{i}" for i in range(value.rank)]))
            results[name] = value
    opset = cases[0].opset
    return _model(nodes, inputs, outputs, initializers, opset), arrays, results


def _widened(node, wide):
    """The node with its types replaced according to `wide`."""
    node = copy.deepcopy(node)
    for attribute in node.attribute:
        if attribute.name in ("to", "dtype") and attribute.type == AttributeProto.INT:
            attribute.i = wide.get(attribute.i, attribute.i)
    return node


HALVES_AS_F32 = {types.PROTO["f16"]: types.PROTO["f32"], types.PROTO["bf16"]: types.PROTO["f32"]}


def in_i64(kind, integers):
    """The type in which the oracle computes: f32 for 16-bit floats, and i64 for integers if requested."""
    if kind in types.HALVES:
        return "f32"
    return "i64" if integers and not types.is_float(kind) and kind != "bool" else kind


# Operators that round floats, among those in steps of several nodes and in bodies of control flow.
ROUND = frozenset(("Add", "Sub", "Mul", "Div", "Tanh", "Sigmoid", "Exp", "Log", "Sqrt", "Reciprocal"))


def with_rounding_noise(nodes, kinds, noise, keep=()):
    """The nodes, with a factor after each one that rounds, in bodies too: `noise(kind)` is a number near 1. `kinds`:
    name -> type of a result, or the one type of all arithmetic (in bodies). `keep`: results that get no factor."""
    made = []
    for node in nodes:
        node = copy.deepcopy(node)
        kind = kinds if isinstance(kinds, str) else kinds[node.output[0]]
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                body = with_rounding_noise(attribute.g.node, kind, noise)
                del attribute.g.node[:]
                attribute.g.node.extend(body)
        made.append(node)
        if node.op_type not in ROUND or not types.is_float(kind) or node.output[0] in keep:
            continue
        name, kind = node.output[0], in_i64(kind, False)
        node.output[0], factor = f"{name}_exactly", f"{name}_factor"
        made.append(helper.make_node("Constant", [], [factor], name=factor, value=tensor(factor, kind, noise(kind))))
        made.append(helper.make_node("Mul", [node.output[0], factor], [name], name=f"{name}_shaken"))
    return made


def of_steps(steps, values, opset, integers=False, noise=None):
    """(model, arrays) that compute the outputs of independent steps. `values`: name -> Value. `noise`: perturbs values
    within steps (see `with_rounding_noise`)."""
    nodes, inputs, outputs, initializers, arrays = [], {}, [], {}, {}
    for step, constants in steps:
        own = [_widened(node.proto, HALVES_AS_F32) for node in step.nodes]
        if noise:
            kinds = {name: kind for node in step.nodes for name, kind in zip(node.output, node.kinds)}
            own = with_rounding_noise(own, kinds, noise, {name for name, _ in step.outputs})
        nodes += own
        for name in step.needs:
            value = values[name]
            kind = in_i64(value.type, integers and name in step.in_i64(values))
            array = value.array.astype(types.ARRAYS[kind])
            if name in constants:
                initializers[name] = tensor(name, kind, array)
            else:
                inputs[name] = info(name, kind, value.shape)
                arrays[name] = array
        outputs += [helper.make_empty_tensor_value_info(name) for name, _ in step.outputs]
    return _model(nodes, list(inputs.values()), outputs, list(initializers.values()), opset), arrays
