"""Quantized arithmetic: results are exact, except that rounding ties may differ by one."""

import numpy as np

from fuzz.cases.table import operator, within
from fuzz.cases.windows import groups_of, window

BYTES = ("i8", "u8")


def zero(c, kind, shape=(), skip=0.2):
    """A zero point, or none."""
    return "" if c.chance(skip) else c.operand(kind, shape, *((100, 150) if kind == "u8" else (-20, 20)), fixed=0.8)


@operator("QuantizeLinear", ("f32",) * 4 + ("i32",), range(0, 5), since=10, jumps=True)
def quantize(c, x):
    if not x.type == "f32" and abs(x.array.astype("f8")).max(initial=0) > 1e5:
        return None
    y = within(c, x, -1e6, 1e6, 0) if x.type == "f32" else x.name
    kind = c.pick(*BYTES)
    attributes, shape = {}, ()
    if c.opset >= 13 and x.rank and c.chance(0.4):
        axis = c.axis(x.rank)
        attributes, shape = {"axis": axis}, (x.shape[axis],)
    scale = c.operand("f32", shape, 0.01, 0.3)
    inputs = [y, scale, c.operand(kind, shape)] if kind == "i8" or c.chance(0.8) else [y, scale]
    return c.node("QuantizeLinear", *inputs, kind=kind, **attributes)


@operator("DequantizeLinear", BYTES * 3 + ("i32",), range(0, 5), since=10)
def dequantize(c, x):
    attributes, shape = {}, ()
    if c.opset >= 13 and x.rank and c.chance(0.4):
        axis = c.axis(x.rank)
        attributes, shape = {"axis": axis}, (x.shape[axis],)
    inputs = [x.name, c.operand("f32", shape, 0.01, 0.3)]
    if x.type != "i32" and c.chance(0.7):
        inputs.append(c.operand(x.type, shape))
    return c.node("DequantizeLinear", *inputs, kind="f32", **attributes)


@operator("DynamicQuantizeLinear", ("f32",), range(1, 5), since=11, jumps=True)
def dynamic_quantize(c, x):
    if x.size == 0 or not np.isfinite(x.array).all():
        return None
    return c.node("DynamicQuantizeLinear", x.name, outputs=3, kind=["u8", "f32", "u8"])


@operator("MatMulInteger", BYTES, range(1, 5), since=10, exact=True)
def matmul_integer(c, x):
    kind, columns = c.pick(*BYTES), c.extent()
    other = c.operand(kind, (x.shape[-1], columns))
    points = [zero(c, x.type), zero(c, kind, c.pick((), (columns,)) if columns else ())]
    while points and not points[-1]:
        points.pop()
    return c.node("MatMulInteger", x.name, other, *points, kind="i32")


@operator("QLinearMatMul", BYTES * 2, range(2, 5), since=10, jumps=True)
def qlinear_matmul(c, x):
    kind, columns = c.pick("i8", x.type) if x.type == "u8" else "i8", c.extent()
    per_column = (columns,) if columns and c.chance(0.3) else ()
    return c.node("QLinearMatMul", x.name, c.operand("f32", (), 0.01, 0.1), zero(c, x.type, skip=0),
                  c.operand(kind, (x.shape[-1], columns)), c.operand("f32", per_column, 0.01, 0.1),
                  zero(c, kind, per_column, skip=0), c.operand("f32", (), 0.05, 0.5), zero(c, x.type, skip=0), kind=x.type)


def weights(c, x):
    found = window(c, x.shape[2:], most=3) if 0 not in x.shape else None
    if found is None:
        return None
    attributes, kernel = found
    group = groups_of(c, x.shape[1])
    each = c.pick(1, 2, 3, 8, 16)
    attributes |= {"group": group}
    kind = c.pick(*BYTES) if x.type == "u8" else "i8"
    return attributes, kind, (each * group, x.shape[1] // group, *kernel)


@operator("ConvInteger", BYTES, (3, 4, 4), since=10, exact=True)
def conv_integer(c, x):
    drawn = weights(c, x)
    if drawn is None:
        return None
    attributes, kind, shape = drawn
    points = [zero(c, x.type), zero(c, kind, skip=0.5)]
    while points and not points[-1]:
        points.pop()
    return c.node("ConvInteger", x.name, c.operand(kind, shape), *points, kind="i32", **attributes)


@operator("QLinearConv", BYTES * 2, (3, 4, 4), since=10, jumps=True)
def qlinear_conv(c, x):
    drawn = weights(c, x)
    if drawn is None:
        return None
    attributes, kind, shape = drawn
    per_channel = (shape[0],) if c.chance(0.4) else ()
    inputs = [x.name, c.operand("f32", (), 0.01, 0.1), zero(c, x.type, skip=0), c.operand(kind, shape, fixed=0.9),
              c.operand("f32", per_channel, 0.01, 0.1, fixed=1),
              c.constant(np.zeros(per_channel, np.int8 if kind == "i8" else np.uint8)) if per_channel
              else zero(c, kind, skip=0), c.operand("f32", (), 0.05, 0.5), zero(c, x.type, skip=0)]
    if c.chance(0.5):
        inputs.append(c.constant(c.random.integers(-200, 200, size=shape[:1]).astype(np.int32)))
    return c.node("QLinearConv", *inputs, kind=x.type, **attributes)
