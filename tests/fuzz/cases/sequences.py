"""Sequences and optionals. They begin and end within the case, because compiled models may have none as inputs or outputs."""

import numpy as np

from fuzz.cases.table import operator
from fuzz.cases.types import ALL

SOME = range(1, 5)
LIST = "sequence"


def listed(c, x):
    """A sequence of x and other tensors of its shape."""
    others = [c.operand(x.type, x.shape) for _ in range(c.pick(0, 1, 2))]
    names = [x.name] + others
    c.random.shuffle(names)
    return c.node("SequenceConstruct", *names, kind=LIST), len(names)


def at(c, count):
    return c.constant(np.asarray(c.integer(-count, count - 1), c.pick(np.int64, np.int32)))


@operator("SequenceConstruct", ALL, SOME, since=11, exact=True)
def construct(c, x):
    made, _ = listed(c, x)
    stacked = {"new_axis": 1} if c.chance(0.5) else {}
    axis = c.integer(-x.rank - 1, x.rank) if stacked else c.axis(x.rank)
    return c.node("ConcatFromSequence", made, kind=x.type, axis=axis, **stacked)


@operator("SequenceAt", ALL, SOME, since=11, exact=True)
def element(c, x):
    made, count = listed(c, x)
    return c.node("SequenceAt", made, at(c, count), kind=x.type)


@operator("SequenceInsert", ALL, SOME, since=11, exact=True)
def insert(c, x):
    made, count = listed(c, x)
    position = [at(c, count)] if c.chance(0.6) else []
    longer = c.node("SequenceInsert", made, c.operand(x.type, x.shape), *position, kind=LIST)
    return c.node("ConcatFromSequence", longer, kind=x.type, axis=c.axis(x.rank))


@operator("SequenceErase", ALL, SOME, since=11, exact=True)
def erase(c, x):
    made, count = listed(c, x)
    longer = c.node("SequenceInsert", made, c.operand(x.type, x.shape), kind=LIST)
    position = [at(c, count)] if c.chance(0.6) else []
    return c.node("ConcatFromSequence", c.node("SequenceErase", longer, *position, kind=LIST), kind=x.type, axis=c.axis(x.rank))


@operator("SequenceLength", ALL, SOME, since=11, exact=True)
def length(c, x):
    made, _ = listed(c, x)
    return c.node("SequenceLength", made, kind="i64")


@operator("SplitToSequence", ("f32", "f64", "i32", "i64", "bool"), SOME, since=11, exact=True)
def split_to_sequence(c, x):
    axis = c.axis(x.rank)
    extent = x.shape[axis]
    if extent == 0:
        return None
    if c.chance(0.4):
        parts = c.node("SplitToSequence", x.name, c.constant(np.asarray(c.integer(1, extent), np.int64)), kind=LIST, axis=axis)
        count = 1
    elif c.chance(0.5):
        count = extent
        parts = c.node("SplitToSequence", x.name, kind=LIST, axis=axis, keepdims=c.integer(0, 1))
    else:
        cut = c.integer(1, extent)
        sizes = [size for size in (cut, extent - cut) if size]
        count = len(sizes)
        parts = c.node("SplitToSequence", x.name, c.integers(sizes), kind=LIST, axis=axis)
    return c.node("SequenceAt", parts, at(c, count), kind=x.type)


@operator("SequenceEmpty", ("f32", "i64"), SOME, since=11, exact=True)
def empty(c, x):
    from fuzz.cases.types import PROTO
    made = c.node("SequenceEmpty", kind=LIST, dtype=PROTO[x.type])
    return c.node("SequenceAt", c.node("SequenceInsert", made, x.name, kind=LIST), at(c, 1), kind=x.type)


@operator("OptionalGetElement", ("f32", "i64", "bool"), SOME, since=15, exact=True)
def optional(c, x):
    made = c.node("Optional", x.name, kind="optional")
    if c.chance(0.3):
        return c.node("OptionalHasElement", made, kind="bool")
    return c.node("OptionalGetElement", made, kind=x.type)
