"""Gathers, sorts and selections: elements found by index or by value."""

import numpy as np

from fuzz.cases.table import operator
from fuzz.cases.types import ALL, FLOATS, NUMBERS, is_float

MOVES = {"exact": True, "promote": True}
SOME = range(1, 6)


def indices(c, shape, extent, backwards=True):
    """Indices into `extent` elements: an initializer or an input, i32 or i64."""
    kind = c.pick("i64", "i64", "i32")
    return c.operand(kind, shape, -extent if backwards and c.chance(0.6) else 0, extent - 1)


@operator("Gather", ALL, SOME, **MOVES)
def gather(c, x):
    axis = c.axis(x.rank)
    if x.shape[axis] == 0:
        return None
    shape = c.pick((), (1,), (3,), (5,), (2, 3), (1, 4))
    return c.node("Gather", x.name, indices(c, shape, x.shape[axis], c.opset >= 11), kind=x.type,
                  **({"axis": axis} if axis or c.chance(0.5) else {}))


@operator("GatherElements", ALL, SOME, since=11, **MOVES)
def gather_elements(c, x):
    axis = c.axis(x.rank)
    if x.shape[axis] == 0:
        return None
    shape = [c.integer(1, max(1, extent)) if c.chance(0.5) and extent else extent for extent in x.shape]
    shape[axis] = c.pick(1, 2, 5, x.shape[axis])
    return c.node("GatherElements", x.name, indices(c, shape, x.shape[axis]), kind=x.type, axis=axis)


@operator("GatherND", ALL, SOME, since=11, **MOVES)
def gather_nd(c, x):
    batch = c.integer(0, min(2, x.rank - 1)) if c.opset >= 12 and c.chance(0.5) else 0
    if 0 in x.shape:
        return None
    depth = c.integer(1, x.rank - batch)
    lead = x.shape[:batch] + c.pick((1,), (4,), (2, 3))
    index = np.stack([c.random.integers(-extent, extent, size=lead) for extent in x.shape[batch:batch + depth]], axis=-1)
    return c.node("GatherND", x.name, c.integers(index), kind=x.type, **({"batch_dims": batch} if batch else {}))


@operator("Compress", ALL, SOME, since=9, exact=True)
def compress(c, x):
    if c.chance(0.4) or 0 in x.shape:
        mask = c.random.random(max(1, x.size - c.integer(0, 2))) < 0.5
        return c.node("Compress", x.name, c.constant(mask), kind=x.type)
    axis = c.axis(x.rank)
    mask = c.random.random(x.shape[axis]) < c.pick(0, 0.5, 1)
    return c.node("Compress", x.name, c.operand("bool", mask.shape) if c.chance(0.4) else c.constant(mask), kind=x.type,
                  axis=axis)


@operator("NonZero", ALL, SOME, since=9, exact=True, jumps=True)
def non_zero(c, x):
    return c.node("NonZero", x.name, kind="i64")


@operator("Unique", NUMBERS, SOME, since=11, exact=True, chooses=True)
def unique(c, x):
    if x.size > 300 or not np.isfinite(x.array.astype("f8")).all():
        return None
    attributes = {"sorted": c.integer(0, 1)} if c.chance(0.6) else {}
    attributes |= {"axis": c.axis(x.rank)} if c.chance(0.4) else {}
    return c.node("Unique", x.name, outputs=4, kind=[x.type, "i64", "i64", "i64"], **attributes)


@operator("TopK", NUMBERS, SOME, since=10, exact=True, chooses=True)
def top_k(c, x):
    axis = c.axis(x.rank)
    if x.shape[axis] == 0 or not np.isfinite(x.array.astype("f8")).all():
        return None
    attributes = {"axis": axis}
    attributes |= {key: c.integer(0, 1) for key in ("largest",) if c.opset >= 11 and c.chance(0.6)}
    attributes |= {"sorted": 1} if c.opset >= 11 and c.chance(0.3) else {}
    return c.node("TopK", x.name, c.integers([c.integer(1, x.shape[axis])]), outputs=2, kind=[x.type, "i64"], **attributes)


for _name in ("ArgMax", "ArgMin"):
    def _arg(c, x, name=_name):
        axis = c.axis(x.rank) if c.opset >= 11 else c.integer(0, x.rank - 1)
        if x.shape[axis] == 0 or not np.isfinite(x.array.astype("f8")).all():
            return None
        attributes = {key: value for key, value in (("axis", axis), ("keepdims", c.integer(0, 1))) if c.chance(0.8)}
        if "axis" not in attributes and x.shape[0] == 0:
            return None
        attributes |= {"select_last_index": c.integer(0, 1)} if c.opset >= 12 and c.chance(0.5) else {}
        return c.node(name, x.name, kind="i64", **attributes)
    operator(_name, NUMBERS, SOME, since=1, exact=True, chooses=True)(_arg)


@operator("Hardmax", FLOATS, SOME, exact=True, chooses=True)
def hardmax(c, x):
    if not np.isfinite(x.array.astype("f8")).all() or 0 in x.shape:
        return None
    return c.node("Hardmax", x.name, kind=x.type, **({"axis": c.axis(x.rank)} if c.chance(0.8) and c.opset >= 13 or x.rank == 1 else {}))


@operator("OneHot", ("i32", "i64", "f32", "u8"), range(1, 4), since=9, low=0, high=4, exact=True, jumps=True)
def one_hot(c, x):
    kind = c.pick("f32", "i32", "i64", "u8")
    y = x.name
    if x.size and (x.array.min() < -5 or x.array.max() > 5 or is_float(x.type)):
        y = c.node("Cast", c.node("Clip", x.name, c.scalar(x.type, 0), c.scalar(x.type, 5), kind=x.type), kind="i64", to=7)
    depth = c.constant(np.asarray(c.pick(5, 6, 7), np.int64))
    return c.node("OneHot", y, depth, c.operand(kind, (2,)), kind=kind,
                  **({"axis": c.integer(-1 - x.rank, x.rank)} if c.chance(0.7) else {}))


@operator("ReverseSequence", ALL, range(2, 6), since=10, **MOVES)
def reverse_sequence(c, x):
    batch = c.integer(0, 1)
    if x.shape[1 - batch] == 0:
        return None
    lengths = c.operand("i64", (x.shape[batch],), 1, x.shape[1 - batch])
    return c.node("ReverseSequence", x.name, lengths, kind=x.type, batch_axis=batch, time_axis=1 - batch)


@operator("CumSum", FLOATS + ("i32", "i64"), SOME, since=11, exact="integers")
def cum_sum(c, x):
    axis = c.axis(x.rank)
    c.sums(x.shape[axis])
    flags = {key: c.integer(0, 1) for key in ("exclusive", "reverse") if c.chance(0.6)}
    return c.node("CumSum", x.name, c.constant(np.asarray(axis, c.pick(np.int32, np.int64))), kind=x.type, **flags)
