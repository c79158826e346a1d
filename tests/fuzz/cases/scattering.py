"""Writes at computed positions, with all ways to combine repeated writes."""

import numpy as np

from fuzz.cases.table import operator
from fuzz.cases.types import ALL, NUMBERS

SOME = range(1, 5)


def reduction(c, x):
    """The attribute `reduction`, since version 16; max and min since 18. With a reduction an element may be written twice."""
    if c.opset < 16 or x.type == "bool" or c.chance(0.4):
        return {}
    return {"reduction": c.pick("none", "add", "mul", *(("max", "min") if c.opset >= 18 else ()))}


def twice(attributes):
    return attributes.get("reduction", "none") != "none"


def elements(c, x, operator_name, attributes):
    axis = c.axis(x.rank)
    if 0 in x.shape:
        return None
    shape = [c.integer(1, extent) for extent in x.shape]
    index = c.random.integers(0, x.shape[axis], size=shape)
    if not twice(attributes):  # each element of a line is written at most once
        index = np.argsort(c.random.random([*shape[:axis], x.shape[axis], *shape[axis:][1:]]), axis=axis)
        index = np.take(index, range(shape[axis]), axis=axis)
    if c.chance(0.3):
        index = np.where(c.random.random(index.shape) < 0.5, index, index - x.shape[axis])
    return c.node(operator_name, x.name, c.constant(index.astype(c.pick(np.int64, np.int32))),
                  c.operand(x.type, index.shape), kind=x.type, axis=axis, **attributes)


@operator("ScatterElements", ALL, SOME, since=11, exact="integers", promote=True)
def scatter_elements(c, x):
    c.sums(8)
    return elements(c, x, "ScatterElements", reduction(c, x))


@operator("Scatter", NUMBERS, SOME, since=9, until=10, exact=True)
def scatter(c, x):
    return elements(c, x, "Scatter", {})


@operator("ScatterND", ALL, SOME, since=11, exact="integers", promote=True)
def scatter_nd(c, x):
    if 0 in x.shape:
        return None
    attributes = reduction(c, x)
    depth = c.integer(1, x.rank)
    places = int(np.prod(x.shape[:depth]))
    count = c.integer(1, min(places, 8))
    flat = c.random.integers(0, places, size=count) if twice(attributes) else c.random.permutation(places)[:count]
    index = np.stack(np.unravel_index(flat, x.shape[:depth]), axis=-1)
    if c.chance(0.3):
        index = index - np.where(c.random.random(index.shape) < 0.5, 0, np.asarray(x.shape[:depth]))
    c.sums(count)
    return c.node("ScatterND", x.name, c.integers(index), c.operand(x.type, (count, *x.shape[depth:])), kind=x.type,
                  **attributes)
