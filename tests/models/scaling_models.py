"""Families of graphs with any number of nodes, to measure what compiling costs as models grow.

Each function makes a model of about `nodes` nodes (`parts` operands, results or layers) of small tensors.
"""

import numpy as np
from onnx import helper

from .builder import GraphBuilder

ROWS, COLUMNS = 4, 16


def _start(name, nodes):
    g = GraphBuilder(f"{name}_{nodes}")
    return g, g.input("x", (ROWS, COLUMNS))


def _finish(g, *results):
    """Declares results of the common shape; others are given as (value, shape)."""
    for number, result in enumerate(results):
        value, shape = result if isinstance(result, tuple) else (result, (ROWS, COLUMNS))
        # Not GraphBuilder.output, which searches all nodes to rename one.
        name = f"y{number}"
        g.nodes.append(helper.make_node("Identity", [value], [name], name=f"result_{number}"))
        g.outputs.append(helper.make_tensor_value_info(name, 1, shape))
    return g.model()


def _step(g, x, number):
    """One small node of a chain; constants differ from node to node."""
    kind = number % 5
    if kind == 0:
        return g.op("Add", x, g.constant(np.float32(0.01 * (number % 97) + 0.001 * (number % 13))))
    if kind == 1:
        return g.op("Mul", x, g.constant(np.float32(0.9 + 0.0007 * (number % 89))))
    return g.op({2: "Relu", 3: "Tanh", 4: "Neg"}[kind], x)


def chain(nodes):
    """Consecutive elementwise operations."""
    g, x = _start("chain", nodes)
    for number in range(nodes):
        x = _step(g, x, number)
    return _finish(g, x)


def chain_sum(nodes):
    """A chain; a Sum reads every fifth of its values."""
    g, x = _start("chain_sum", nodes)
    kept = []
    for number in range(nodes):
        x = _step(g, x, number)
        if number % 5 == 4:
            kept.append(x)
    return _finish(g, g.op("Sum", *kept))


def concat_rows(parts):
    """A Concat of many operands along the first dimension."""
    g = GraphBuilder(f"concat_rows_{parts}")
    given = [g.input(f"part{number}", (2, 5)) for number in range(parts)]
    return _finish(g, (g.op("Concat", *given, axis=0), (2 * parts, 5)))


def concat_columns(parts):
    """A Concat of many operands along the last dimension."""
    g = GraphBuilder(f"concat_columns_{parts}")
    given = [g.input(f"part{number}", (4, 5)) for number in range(parts)]
    return _finish(g, (g.op("Concat", *given, axis=1), (4, 5 * parts)))


def split(parts):
    """A Split into many results."""
    g = GraphBuilder(f"split_{parts}")
    x = g.input("x", (3, 7 * parts))
    return _finish(g, *((piece, (3, 7)) for piece in g.op("Split", x, outputs=parts, axis=1)))


def split_work_concat(parts):
    """A Split, a Softmax of each part, and a Concat."""
    g = GraphBuilder(f"split_work_concat_{parts}")
    x = g.input("x", (parts * 2, 9))
    pieces = g.op("Split", x, outputs=parts, axis=0)
    done = [g.op("Softmax", piece, axis=1) for piece in pieces]
    return _finish(g, (g.op("Concat", *done, axis=0), (parts * 2, 9)))


def outputs(parts):
    """Many results x + constant, each with a different constant."""
    g, x = _start("outputs", parts)
    return _finish(g, *(g.op("Add", x, g.constant(np.float32(0.37 * number))) for number in range(parts)))


def layers(nodes):
    """Equal layers of four nodes each, with different weights."""
    g, x = _start("layers", nodes)
    for _ in range(nodes // 4):
        y = g.op("MatMul", x, g.normal((COLUMNS, COLUMNS), 0.2))
        y = g.op("Add", y, g.normal((COLUMNS,), 0.1))
        x = g.op("Relu", y)
        x = g.op("Softmax", x, axis=1)
    return _finish(g, x)


def residual(nodes):
    """Blocks of two convolutions, normalized, with a shortcut."""
    g = GraphBuilder(f"residual_{nodes}")
    x = g.input("x", (1, 8, 6, 6))
    for _ in range(nodes // 7):
        y = g.op("Relu", g.batch_norm(g.conv(x, 8, 8, 3, pad=1, bias=False), 8))
        y = g.batch_norm(g.conv(y, 8, 8, 3, pad=1, bias=False), 8, gain=0.3)
        x = g.op("Relu", g.op("Add", x, y))
    return _finish(g, (x, (1, 8, 6, 6)))


def constants(nodes):
    """Arithmetic on constants in all nodes but the last."""
    g, x = _start("constants", nodes)
    c = g.normal((ROWS, COLUMNS), 1.0)
    for number in range(nodes - 1):
        c = g.op("Tanh" if number % 3 == 2 else "Add", *([c] if number % 3 == 2 else [c, g.normal((COLUMNS,), 0.1)]))
    return _finish(g, g.op("Add", x, c))


def constant_product(extent):
    """A product of two constants of `extent` by `extent`."""
    g = GraphBuilder(f"constant_product_{extent}")
    x = g.input("x", (extent, extent))
    scale = 1 / np.sqrt(extent)
    product = g.op("MatMul", g.normal((extent, extent), 1.0), g.normal((extent, extent), scale))
    return _finish(g, (g.op("Add", x, product), (extent, extent)))


def constant_of_shape(extent):
    """A constant of `extent` by `extent`; the model reads four of its elements."""
    g = GraphBuilder(f"constant_of_shape_{extent}")
    x = g.input("x", (2, 2))
    whole = g.op("ConstantOfShape", g.constant([extent, extent], dtype=np.int64),
                 value=helper.make_tensor("value", 1, [1], [2.5]))
    bounds = [g.constant(bound, dtype=np.int64) for bound in ([0, 0], [2, 2], [0, 1])]
    return _finish(g, (g.op("Add", x, g.op("Slice", whole, *bounds)), (2, 2)))


FAMILIES = {
    "chain": chain,
    "chain_sum": chain_sum,
    "concat_rows": concat_rows,
    "concat_columns": concat_columns,
    "split": split,
    "split_work_concat": split_work_concat,
    "outputs": outputs,
    "layers": layers,
    "residual": residual,
    "constants": constants,
    "constant_product": constant_product,
    "constant_of_shape": constant_of_shape,
}
