"""Operators that create a tensor from a shape, a number or nothing."""

import numpy as np
from onnx import numpy_helper

from fuzz.cases.table import operator
from fuzz.cases.types import FLOATS, PROTO


@operator("ConstantOfShape", ("f32", "i64", "i32", "bool"), range(1, 5), since=9, exact=True)
def constant_of_shape(c, x):
    """As large as x: by its shape, or by a constant shape. Combined with x afterwards."""
    value = numpy_helper.from_array(np.asarray([c.pick(0, 1, 3)], x.array.dtype))
    attributes = {"value": value} if x.type != "f32" or c.chance(0.7) else {}
    shape = c.node("Shape", x.name, kind="i64") if c.chance(0.5) else c.integers(x.shape)
    made = c.node("ConstantOfShape", shape, kind=x.type, **attributes)
    return c.node("Concat", made, x.name, kind=x.type, axis=0)


@operator("Constant", FLOATS[:7] + ("i64", "i32"), range(0, 5), exact=True)
def constant(c, x):
    made = c.array(x.type, c.broadcast(x.shape))
    if x.type == "f32" and c.opset >= 12 and c.chance(0.3):
        attributes = {"value_float": 0.5} if c.chance(0.5) else {"value_floats": [0.5, 1.5, -2.0][:c.pick(1, 3)]}
        if "value_floats" in attributes and len(attributes["value_floats"]) == 3 and (not x.rank or x.shape[-1] != 3):
            return None
    elif x.type == "i64" and c.opset >= 12 and c.chance(0.3):
        attributes = {"value_int": 3} if c.chance(0.5) else {"value_ints": [4]}
    else:
        attributes = {"value": numpy_helper.from_array(made)}
    return c.node("Add", x.name, c.node("Constant", kind=x.type, **attributes), kind=x.type)


@operator("EyeLike", FLOATS[:7] + ("i32", "i64", "bool"), (2,), since=9, exact=True)
def eye_like(c, x):
    to = c.pick("f32", "i64", "i32")
    attributes = {"k": c.integer(-3, 3)} if c.chance(0.6) else {}
    if c.chance(0.6) or x.type == "bool":
        return c.node("EyeLike", x.name, kind=to, dtype=PROTO[to], **attributes)
    return c.node("EyeLike", x.name, kind=x.type, **attributes)


@operator("Range", ("f32", "i64", "i32", "f64"), range(0, 4), since=11)
def arange(c, x):
    start, delta, count = c.integer(-5, 5), c.pick(1, 2, 3, -1, -2), x.shape[-1] if x.rank else c.pick(1, 4)
    numbers = [c.scalar(x.type, v) for v in (start, start + delta * count, delta)]
    return c.node("Add", x.name, c.node("Range", *numbers, kind=x.type), kind=x.type)


@operator("NonMaxSuppression", ("f32",), (3,), since=11, low=0, high=1, exact=True, jumps=True)
def non_max_suppression(c, x):
    """x: class scores."""
    batches, _, count = x.shape
    if 0 in x.shape or x.size > 400:
        return None
    corner = c.random.uniform(0, 10, size=(batches, count, 2))
    boxes = np.concatenate([corner, corner + c.random.uniform(0.5, 6, size=(batches, count, 2))], axis=2).astype("f4")
    centre = c.integer(0, 1)
    limits = [c.integers([c.integer(1, 5)]), c.constant(np.asarray([c.real(0.2, 0.7)], "f4")),
              c.constant(np.asarray([c.real(0, 0.5)], "f4"))][:c.pick(1, 2, 3)]
    return c.node("NonMaxSuppression", c.constant(boxes), x.name, *limits, kind="i64",
                  **({"center_point_box": centre} if centre else {}))


