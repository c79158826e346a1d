"""If, Loop and Scan, whose bodies read outer values, carry state and collect rows."""

import numpy as np
from onnx import helper

from fuzz.cases.table import operator
from fuzz.cases.types import PROTO

NUMBERS = ("f32", "f32", "f32", "f64", "i32", "i64")
BODIES = ("Add", "Sub", "Mul", "Max", "Min")
BODIES_OF_64_BITS = BODIES[:3]  # ONNX Runtime computes max and min of these types wrong (numpy_oracle.replaces_onnxruntime)


def info(name, kind, shape):
    return helper.make_tensor_value_info(name, PROTO[kind], shape)


def chain(c, kind, start, others):
    """A few nodes that keep the shape of `start`: (nodes, name of the last)."""
    nodes = []
    for _ in range(c.integer(1, 3)):
        name = c.unique("b")
        if c.chance(0.3):
            nodes.append(helper.make_node(c.pick("Abs", "Neg", *(("Tanh", "Sigmoid") if kind in ("f32", "f64") else ())),
                                          [start], [name], name=name))
        else:
            operands = [start, c.pick(*others)]
            c.random.shuffle(operands)
            nodes.append(helper.make_node(c.pick(*(BODIES_OF_64_BITS if kind == "i64" else BODIES)), operands, [name], name=name))
        start = name
    return nodes, start


def closed(graph_name, nodes, inputs, outputs):
    return helper.make_graph(nodes, graph_name, inputs, outputs)


@operator("If", NUMBERS, range(0, 5), since=1)
def branch(c, x):
    # A scalar if x is one: a branch may read this operand or not, and both branches must have one shape.
    outer = [x.name, c.operand(x.type, c.pick((), (1,)) if x.rank else (), -1, 1)]
    graphs = {}
    for side in ("then_branch", "else_branch"):
        nodes, last = chain(c, x.type, x.name, outer)
        graphs[side] = closed(c.unique(side), nodes, [], [info(last, x.type, None)])
    condition = c.constant(c.chance(0.5)) if c.chance(0.3) else c.operand("bool", (), fixed=0)
    made = c.node("If", condition, kind=x.type, **graphs)
    c.also_reads(*outer)
    return made


@operator("Loop", NUMBERS, range(0, 4), since=11)
def loop(c, x):
    trips = c.integer(0 if 0 not in x.shape else 1, 4)
    names = {key: c.unique(key) for key in ("i", "go", "state", "again")}
    outer = [names["state"], c.operand(x.type, c.pick((), (1,)), -1, 1)]
    nodes, last = chain(c, x.type, names["state"], outer)
    ends = c.chance(0.3)
    if ends:
        limit = c.constant(np.asarray(c.integer(0, 3), np.int64))
        nodes.append(helper.make_node("Less", [names["i"], limit], [names["again"]], name=names["again"]))
    else:
        nodes.append(helper.make_node("Identity", [names["go"]], [names["again"]], name=names["again"]))
    row = c.unique("row")
    nodes.append(helper.make_node("Neg", [last], [row], name=row))
    scanned = trips > 0 and c.chance(0.6)
    outputs = [info(names["again"], "bool", []), info(last, x.type, x.shape)]
    outputs += [info(row, x.type, x.shape)] if scanned else []
    body = closed(c.unique("body"), nodes,
                  [info(names["i"], "i64", []), info(names["go"], "bool", []), info(names["state"], x.type, x.shape)], outputs)
    count = c.constant(np.asarray(trips, np.int64))
    condition = c.constant(True) if c.chance(0.5) else ""
    made = c.node("Loop", count, condition, x.name, kind=[x.type] * (1 + scanned), outputs=1 + scanned, body=body)
    c.also_reads(*outer[1:])
    if ends:
        c.also_reads(limit)
    return made


@operator("Scan", NUMBERS, range(1, 5), since=9)
def scan(c, x):
    axis = c.integer(0, x.rank - 1)
    if x.shape[axis] == 0 or x.shape[axis] > 8:
        return None
    rest = tuple(extent for i, extent in enumerate(x.shape) if i != axis)
    state, part = c.unique("state"), c.unique("part")
    nodes, last = chain(c, x.type, state, [state, part])
    row = c.unique("row")
    nodes.append(helper.make_node(c.pick("Add", "Sub"), [last, part], [row], name=row))
    body = closed(c.unique("body"), nodes, [info(state, x.type, rest), info(part, x.type, rest)],
                  [info(last, x.type, rest), info(row, x.type, rest)])
    attributes = {"num_scan_inputs": 1}
    attributes |= {"scan_input_axes": [axis - x.rank if c.opset >= 11 and c.chance(0.3) else axis]} if axis or c.chance(0.3) else {}
    attributes |= {"scan_input_directions": [c.integer(0, 1)]} if c.chance(0.4) else {}
    attributes |= {"scan_output_directions": [c.integer(0, 1)]} if c.chance(0.4) else {}
    attributes |= {"scan_output_axes": [c.integer(0, len(rest))]} if c.chance(0.4) else {}
    return c.node("Scan", c.operand(x.type, rest, -1, 1), x.name, kind=[x.type] * 2, outputs=2, body=body, **attributes)


