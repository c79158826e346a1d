"""Models that must be rejected, each with the reason that a client may rely on.

An entry lists the accepted v1.Failure.Reason values and words that the failure must contain, so that it names the
place. More than one reason is listed only if two are equally true of the same bytes.
"""

import dataclasses
import json
import pathlib
from typing import Callable

import numpy as np
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from . import catalog
from .builder import seeded

FLOAT = TensorProto.FLOAT


@dataclasses.dataclass
class Hostile:
    name: str
    what: str
    reasons: list
    mentions: list  # each must occur in the failure's text
    make: Callable[[], bytes]


TABLE = []


def hostile(reasons, mentions=""):
    """Registers a generator; its docstring says what is wrong with the model."""
    def register(function):
        TABLE.append(Hostile(function.__name__, function.__doc__, reasons.split(), mentions.split(), function))
        return function
    return register


def value(name, shape, dtype=FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def model(nodes, inputs=None, outputs=None, initializers=(), opset=13):
    graph = helper.make_graph(nodes, "hostile", inputs if inputs is not None else [value("x", [2, 4])],
                              outputs if outputs is not None else [value("y", [2, 4])], list(initializers))
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    made.ir_version = 8
    return made


def node(op_type, inputs, outputs, name="the_node", **attributes):
    return helper.make_node(op_type, inputs, outputs, name=name, **attributes)


def add_weight(weight):
    """y = x + w, with a faulty weight."""
    return model([node("Add", ["x", "w"], ["y"])], initializers=[weight]).SerializeToString()


def weight(dims, raw=None, dtype=FLOAT):
    tensor = TensorProto(name="w", data_type=dtype, dims=dims)
    if raw is not None:
        tensor.raw_data = raw
    return tensor


def external(location, **fields):
    tensor = weight([4])
    tensor.data_location = TensorProto.EXTERNAL
    for key, content in {"location": location, **fields}.items():
        tensor.external_data.add(key=key, value=str(content))
    return add_weight(tensor)


# Not a model at all.

@hostile("INVALID_MODEL")
def not_protobuf():
    """4096 random bytes"""
    return seeded("hostile").bytes(4096)


@hostile("INVALID_MODEL")
def empty():
    """no bytes"""
    return b""


@hostile("INVALID_MODEL")
def text():
    """a shell script"""
    return b"#!/bin/sh\nrm -rf /\n"


@hostile("INVALID_MODEL")
def truncated():
    """a model of which the last 40 % is missing"""
    whole = catalog.build("conv", 1).SerializeToString()
    return whole[:len(whole) * 6 // 10]


@hostile("INVALID_MODEL")
def length_overflow():
    """a protobuf field that claims 2^63 - 1 bytes"""
    return b"\x08\x08\x3a\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x0a\x00"


@hostile("INVALID_MODEL", "graph")
def no_graph():
    """a model message without a graph"""
    made = model([])
    made.ClearField("graph")
    return made.SerializeToString()


@hostile("INVALID_MODEL")
def name_is_not_utf8():
    """a value name of bytes that are no UTF-8"""
    return model([node("Relu", ["x"], ["QQQQ"])], outputs=[value("QQQQ", [2, 4])]).SerializeToString().replace(
        b"QQQQ", b"\xff\xfe\x00\x80")


# Sizes.

@hostile("LIMIT_EXCEEDED INVALID_MODEL", "w")
def initializer_of_2_40_elements():
    """a weight that claims 2^40 elements and has 16 bytes"""
    return add_weight(weight([1 << 20, 1 << 20], raw=bytes(16)))


@hostile("LIMIT_EXCEEDED", "x")
def input_of_2_40_elements():
    """an input of 2^40 elements"""
    shape = [1 << 20, 1 << 20]
    return model([node("Relu", ["x"], ["y"])], [value("x", shape)], [value("y", shape)]).SerializeToString()


@hostile("LIMIT_EXCEEDED", "x")
def element_count_overflows():
    """an input of 2^64 elements, 0 in 64-bit arithmetic"""
    shape = [1 << 32, 1 << 32]
    return model([node("Relu", ["x"], ["y"])], [value("x", shape)], [value("y", shape)]).SerializeToString()


@hostile("LIMIT_EXCEEDED", "the_node")
def outer_product_of_2_40_elements():
    """small inputs whose product has 2^40 elements"""
    n = 1 << 20
    return model([node("MatMul", ["x", "z"], ["y"])], [value("x", [n, 1]), value("z", [1, n])],
                 [value("y", [n, n])]).SerializeToString()


@hostile("LIMIT_EXCEEDED", "the_node")
def broadcast_to_2_40_elements():
    """an Expand to 2^40 elements"""
    shape = numpy_helper.from_array(np.array([1 << 20, 1 << 20]), "shape")
    return model([node("Expand", ["x", "shape"], ["y"])], [value("x", [1, 1])], [value("y", [1 << 20, 1 << 20])],
                 [shape]).SerializeToString()


@hostile("LIMIT_EXCEEDED", "the_node")
def constant_of_2_40_elements():
    """a ConstantOfShape of 2^40 elements"""
    shape = numpy_helper.from_array(np.array([1 << 40]), "shape")
    nodes = [node("ConstantOfShape", ["shape"], ["big"]), node("ReduceSum", ["big"], ["s"], "sum", keepdims=0),
             node("Add", ["x", "s"], ["y"], "add")]
    return model(nodes, initializers=[shape]).SerializeToString()


@hostile("INVALID_MODEL", "w")
def negative_dimension():
    """a weight of shape [-4]"""
    return add_weight(weight([-4], raw=bytes(16)))


@hostile("LIMIT_EXCEEDED", "x")
def rank_1000():
    """an input with 1000 dimensions"""
    return model([node("Relu", ["x"], ["y"])], [value("x", [1] * 1000)],
                 [value("y", [1] * 1000)]).SerializeToString()


@hostile("LIMIT_EXCEEDED", "nodes")
def million_nodes():
    """a chain of a million nodes"""
    count = 1_000_000
    chain = [_field(1, _string(1, f"v{i}") + _string(2, f"v{i + 1}") + _string(4, "Relu")) for i in range(count)]
    graph = b"".join(chain) + _string(2, "g")
    graph += _field(11, value("v0", [1]).SerializeToString()) + _field(12, value(f"v{count}", [1]).SerializeToString())
    return _model_bytes(graph)


# Depth. Encoded by hand, because protobuf's own writers refuse to nest this deep.

def _varint(number):
    out = bytearray()
    while True:
        out.append(number & 127 | (128 if number > 127 else 0))
        number >>= 7
        if not number:
            return bytes(out)


def _field(number, content):
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _string(number, content):
    return _field(number, content.encode())


def _model_bytes(graph):
    return b"\x08\x08" + _field(7, graph) + _field(8, b"\x10\x0d")


def _nested(depth):
    # One level: GraphProto { node { input "c", op_type "If", attribute { name, type GRAPH, g } } name }.
    # The nested graph is the last field of each message, so each level only adds a prefix.
    output = _field(12, value("y", [2, 4]).SerializeToString())
    graph_head = _string(2, "g") + output
    attribute_head = _string(1, "then_branch") + b"\xa0\x01" + bytes([AttributeProto.GRAPH])
    node_head = _string(1, "c") + _string(2, "y") + _string(3, "the_node") + _string(4, "If")
    size = len(graph_head)
    prefixes = []
    for _ in range(depth):
        attribute = attribute_head + _varint(6 << 3 | 2) + _varint(size)
        attribute_size = len(attribute) + size
        body = node_head + _varint(5 << 3 | 2) + _varint(attribute_size) + attribute
        prefix = graph_head + _varint(1 << 3 | 2) + _varint(len(body) + size) + body
        prefixes.append(prefix)
        size += len(prefix)
    return _model_bytes(b"".join(reversed(prefixes)) + graph_head)


@hostile("LIMIT_EXCEEDED INVALID_MODEL")
def nested_subgraphs_10000():
    """10,000 If nodes, each within the branch of the one before"""
    return _nested(10_000)


@hostile("INVALID_MODEL", "If the_node c")
def nested_subgraphs_20():
    """20 nested If nodes, within the limit of depth, that read a condition nothing defines"""
    return _nested(20)


# Structure.

@hostile("INVALID_MODEL", "cycle")
def cycle():
    """two nodes that need each other's result"""
    return model([node("Add", ["x", "b"], ["a"], "first"), node("Relu", ["a"], ["b"], "second"),
                  node("Relu", ["b"], ["y"], "third")]).SerializeToString()


@hostile("INVALID_MODEL", "the_node")
def self_cycle():
    """a node that needs its own result"""
    return model([node("Add", ["x", "y"], ["y"])]).SerializeToString()


@hostile("INVALID_MODEL", "nowhere the_node")
def undefined_value():
    """a node that reads a value nothing produces"""
    return model([node("Add", ["x", "nowhere"], ["y"])]).SerializeToString()


@hostile("INVALID_MODEL", "y")
def undefined_output():
    """a graph output nothing produces"""
    return model([node("Relu", ["x"], ["z"])]).SerializeToString()


@hostile("INVALID_MODEL", "y")
def value_defined_twice():
    """two nodes with the same result name"""
    return model([node("Relu", ["x"], ["y"], "first"), node("Neg", ["x"], ["y"], "second")]).SerializeToString()


@hostile("INVALID_MODEL", "output")
def no_outputs():
    """a graph without outputs"""
    return model([node("Relu", ["x"], ["y"])], outputs=[]).SerializeToString()


@hostile("UNBOUND_DIMENSION", "x rows")
def unbound_dimension():
    """a symbolic dimension that the request does not bind"""
    return model([node("Relu", ["x"], ["y"])], [value("x", ["rows", 4])], [value("y", ["rows", 4])]).SerializeToString()


# Operators and attributes.

@hostile("UNSUPPORTED_OPERATOR", "Frobnicate the_node")
def unknown_operator():
    """an operator that ONNX does not have"""
    return model([node("Frobnicate", ["x"], ["y"])]).SerializeToString()


@hostile("UNSUPPORTED_OPERATOR", "com.example the_node")
def unknown_domain():
    """an operator of a private domain"""
    made = model([node("Relu", ["x"], ["y"], domain="com.example")])
    made.opset_import.add(domain="com.example", version=1)
    return made.SerializeToString()


@hostile("INVALID_MODEL UNSUPPORTED_OPERATOR", "999")
def opset_of_the_future():
    """opset 999"""
    return model([node("Relu", ["x"], ["y"])], opset=999).SerializeToString()


def _conv(weight_shape=(8, 4, 3, 3), **attributes):
    kernel = numpy_helper.from_array(np.zeros(weight_shape, np.float32), "w")
    return model([node("Conv", ["x", "w"], ["y"], **attributes)], [value("x", [1, 4, 8, 8])],
                 [value("y", None)], [kernel]).SerializeToString()


@hostile("INVALID_MODEL", "the_node strides")
def strides_of_wrong_length():
    """a 2-D Conv with one stride"""
    return _conv(strides=[1])


@hostile("INVALID_MODEL", "the_node strides")
def zero_stride():
    """a Conv with stride 0"""
    return _conv(strides=[0, 1])


@hostile("INVALID_MODEL", "the_node group")
def groups_that_do_not_divide():
    """a Conv of 4 channels in 3 groups"""
    return _conv(group=3)


@hostile("INVALID_MODEL", "the_node")
def kernel_larger_than_image():
    """a Conv whose result would have a negative extent"""
    return _conv(weight_shape=(8, 4, 11, 11))


@hostile("INVALID_MODEL", "the_node group")
def attribute_of_wrong_type():
    """a Conv whose group is a string"""
    return _conv(group="four")


@hostile("INVALID_MODEL", "the_node")
def inner_extents_differ():
    """a MatMul of [2, 4] and [3, 5]"""
    return model([node("MatMul", ["x", "z"], ["y"])], [value("x", [2, 4]), value("z", [3, 5])],
                 [value("y", [2, 5])]).SerializeToString()


@hostile("INVALID_MODEL", "the_node")
def reshape_to_other_count():
    """a Reshape of 8 elements to 9"""
    shape = numpy_helper.from_array(np.array([3, 3]), "shape")
    return model([node("Reshape", ["x", "shape"], ["y"])], outputs=[value("y", [3, 3])],
                 initializers=[shape]).SerializeToString()


@hostile("INVALID_MODEL", "the_node")
def too_few_inputs():
    """an Add with one operand"""
    return model([node("Add", ["x"], ["y"])]).SerializeToString()


# Data.

@hostile("INVALID_MODEL", "w")
def raw_data_too_short():
    """4 floats in 15 bytes"""
    return add_weight(weight([4], raw=bytes(15)))


@hostile("INVALID_MODEL", "w")
def raw_data_too_long():
    """4 floats in 4096 bytes"""
    return add_weight(weight([4], raw=bytes(4096)))


@hostile("INVALID_MODEL", "w")
def float_data_too_short():
    """4 floats of which float_data has 3"""
    tensor = weight([4])
    tensor.float_data.extend([1, 2, 3])
    return add_weight(tensor)


@hostile("INVALID_MODEL", "w")
def undefined_element_type():
    """a weight of element type 77"""
    return add_weight(weight([4], raw=bytes(16), dtype=77))


@hostile("INVALID_MODEL MISSING_BLOB", "../../etc/passwd")
def external_data_path_traversal():
    """a weight stored in ../../etc/passwd"""
    return external("../../etc/passwd")


@hostile("INVALID_MODEL MISSING_BLOB", "/etc/passwd")
def external_data_absolute_path():
    """a weight stored in /etc/passwd"""
    return external("/etc/passwd", offset=0, length=16)


@hostile("INVALID_MODEL MISSING_BLOB", "weights.bin")
def external_data_not_sent():
    """a weight in a file that the request does not bring"""
    return external("weights.bin", offset=0, length=16)


@hostile("INVALID_MODEL MISSING_BLOB", "w")
def external_data_offset_overflows():
    """external data at an offset of 2^63 - 8"""
    return external("weights.bin", offset=(1 << 63) - 8, length=16)


def write(folder):
    """Writes `<name>.onnx` for every entry and `hostile.json`, the table; returns the table's rows."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for entry in TABLE:
        (folder / f"{entry.name}.onnx").write_bytes(entry.make())
        rows.append({"name": entry.name, "file": f"{entry.name}.onnx", "what": entry.what,
                     "reasons": entry.reasons, "mentions": entry.mentions})
    (folder / "hostile.json").write_text(json.dumps(rows, indent=1) + "\n")
    return rows
