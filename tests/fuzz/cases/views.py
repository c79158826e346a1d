"""Operators that move elements without reading their values."""

import numpy as np

from fuzz.cases.table import operator
from fuzz.cases.types import ALL, FLOATS

MOVES = {"exact": True, "promote": True}
SOME = range(1, 6)


@operator("Transpose", ALL, **MOVES)
def transpose(c, x):
    order = [int(p) for p in c.random.permutation(x.rank)]
    return c.node("Transpose", x.name, kind=x.type, **({"perm": order} if c.chance(0.85) else {}))


@operator("Reshape", ALL, since=5, **MOVES)
def reshape(c, x):
    shape = list(x.shape)
    for _ in range(c.integer(1, 3)):
        if shape and c.chance(0.5):
            at = c.integer(0, len(shape) - 1)
            divisors = [d for d in range(1, shape[at] + 1) if shape[at] % d == 0] or [1]
            part = c.pick(*divisors)
            shape[at:at + 1] = [part, shape[at] // part]
        elif len(shape) > 1:
            at = c.integer(0, len(shape) - 2)
            shape[at:at + 2] = [shape[at] * shape[at + 1]]
        elif not shape:
            shape = [1]
    if len(shape) > 6 or 0 in x.shape and c.opset < 14:
        return None
    attributes, target = {}, list(shape)
    if 0 in shape:
        attributes = {"allowzero": 1}
    else:
        target = [0 if i < x.rank and extent == x.shape[i] and c.chance(0.2) else extent for i, extent in enumerate(shape)]
        if target and c.chance(0.3):
            target[c.integer(0, len(target) - 1)] = -1
    return c.node("Reshape", x.name, c.integers(target), kind=x.type, **attributes)


@operator("Flatten", ALL, since=9, **MOVES)
def flatten(c, x):
    axis = c.integer(-x.rank if c.opset >= 11 else 0, x.rank)
    return c.node("Flatten", x.name, kind=x.type, **({"axis": axis} if c.chance(0.8) else {}))


def axes_operand(c, axes):
    """Inputs and attributes of `axes`, an input since version 13."""
    return ([c.integers(axes)], {}) if c.opset >= 13 else ([], {"axes": axes})


@operator("Squeeze", ALL, range(1, 6), **MOVES)
def squeeze(c, x):
    ones = [axis for axis in range(x.rank) if x.shape[axis] == 1]
    axes = [axis - x.rank if c.opset >= 11 and c.chance(0.3) else axis for axis in ones if c.chance(0.6)]
    inputs, attributes = axes_operand(c, axes) if axes else ([], {})
    return c.node("Squeeze", x.name, *inputs, kind=x.type, **attributes)


@operator("Unsqueeze", ALL, range(0, 5), **MOVES)
def unsqueeze(c, x):
    rank = x.rank + c.pick(1, 1, 2)
    axes = [int(axis) for axis in c.random.permutation(rank)[:rank - x.rank]]
    inputs, attributes = axes_operand(c, [a - rank if c.opset >= 11 and c.chance(0.3) else a for a in axes])
    return c.node("Unsqueeze", x.name, *inputs, kind=x.type, **attributes)


@operator("Expand", ALL, since=8, **MOVES)
def expand(c, x):
    shape = [c.pick(1, 2, 3, 5) if extent == 1 else c.pick(extent, 1) for extent in x.shape]
    lead = [c.pick(1, 2, 3) for _ in range(c.pick(0, 0, 1, 2))]
    return c.node("Expand", x.name, c.integers(lead + shape), kind=x.type)


@operator("Tile", ALL, range(1, 6), since=6, **MOVES)
def tile(c, x):
    return c.node("Tile", x.name, c.integers([c.pick(1, 1, 2, 3) for _ in x.shape]), kind=x.type)


@operator("Concat", ALL, SOME, since=4, **MOVES)
def concat(c, x):
    axis = c.axis(x.rank)
    names = [x.name]
    for _ in range(c.pick(0, 1, 1, 2, 3)):
        shape = list(x.shape)
        shape[axis] = c.pick(1, 2, 3, shape[axis])
        names.insert(c.integer(0, len(names)), c.operand(x.type, shape))
    return c.node("Concat", *names, kind=x.type, axis=axis)


def some_range(c, extent):
    """(start, end, step) as models contain them: from the end, beyond it, backwards."""
    step = c.pick(1, 1, 1, 2, 3, -1, -1, -2, -3)
    start, end = c.integer(-extent - 1, extent + 1), c.integer(-extent - 1, extent + 1)
    if c.chance(0.3):
        start, end = (0, 2**31 - 1) if step > 0 else (-1, -2**31)
    elif c.chance(0.7):  # not empty
        low = c.integer(0, max(0, extent - 1))
        high = c.integer(low + 1, max(extent, low + 1))
        start, end = (low, high) if step > 0 else (high - 1, low - 1 - (extent if low == 0 else 0))
    return start, end, step


@operator("Slice", ALL * 2, SOME, **MOVES)
def cut(c, x):
    axes = [int(a) for a in c.random.permutation(x.rank)[:c.integer(1, x.rank)]]
    ranges = [some_range(c, x.shape[axis]) for axis in axes]
    axes = [axis - x.rank if c.opset >= 10 and c.chance(0.3) else axis for axis in axes]
    starts, ends, steps = map(list, zip(*ranges))
    if c.opset < 10:
        if min(steps) < 1 or max(steps) > 1:
            return None
        return c.node("Slice", x.name, kind=x.type, starts=starts, ends=ends, axes=axes)
    kind = np.int64 if c.chance(0.8) else np.int32
    inputs = [c.constant(np.asarray(v, kind)) for v in (starts, ends, axes, steps)]
    if all(step == 1 for step in steps) and c.chance(0.5):
        inputs.pop()
    return c.node("Slice", x.name, *inputs, kind=x.type)


@operator("Split", ALL, SOME, since=2, **MOVES)
def split(c, x):
    axis = c.axis(x.rank)
    extent = x.shape[axis]
    parts = c.pick(1, 2, 2, 3)
    attributes = {"axis": axis}
    if extent % parts == 0 and c.chance(0.5) or c.opset >= 18 and extent > parts * parts and c.chance(0.3):
        inputs = [x.name]
        attributes |= {"num_outputs": parts} if c.opset >= 18 else {}
    else:
        cuts = sorted(c.integer(0, extent) for _ in range(parts - 1))
        sizes = [int(size) for size in np.diff([0, *cuts, extent])]
        inputs = [x.name, c.integers(sizes)] if c.opset >= 13 else [x.name]
        attributes |= {} if c.opset >= 13 else {"split": sizes}
    return c.node("Split", *inputs, kind=x.type, outputs=parts, **attributes)


@operator("Pad", ALL * 2, SOME, since=2, **MOVES)
def pad(c, x):
    modes = ("constant", "constant", "reflect", "edge") + (("wrap",) if c.opset >= 19 else ())
    mode = c.pick(*modes)
    axes = list(range(x.rank))
    if c.opset >= 18 and c.chance(0.3):
        axes = [int(a) for a in c.random.permutation(x.rank)[:c.integer(1, x.rank)]]
    extents = [x.shape[axis] for axis in axes]
    most = [min(3, extent - 1) if mode == "reflect" else min(3, extent) if mode == "wrap" else 3 for extent in extents]
    if min(most) < 0 or mode == "edge" and 0 in extents:
        return None
    pads = [c.integer(0, m) if c.chance(0.6) else 0 for m in most + most]
    if mode == "constant" and c.chance(0.15):
        pads = [-1 if extent > 2 and c.chance(0.4) else p for p, extent in zip(pads, extents + extents)]
        if c.chance(0.2):  # removes more than there is, of the elements that the other side pads
            pads[0], pads[len(axes)] = -extents[0] - 1, c.integer(1, 4)
    value = c.pick(0, 1, 3, 0)
    if c.opset < 11:
        return c.node("Pad", x.name, kind=x.type, pads=pads, mode=mode, value=float(value))
    inputs = [x.name, c.integers(pads)]
    if mode == "constant" and c.chance(0.7):
        inputs.append(c.scalar(x.type, value))
    if c.opset >= 18 and axes != list(range(x.rank)):
        inputs += [""] * (3 - len(inputs)) + [c.integers([a - x.rank if c.chance(0.3) else a for a in axes])]
    return c.node("Pad", *inputs, kind=x.type, **({"mode": mode} if mode != "constant" or c.chance(0.3) else {}))


@operator("DepthToSpace", ALL, (4,), since=1, **MOVES)
def depth_to_space(c, x):
    block = c.pick(*[b for b in (1, 2, 3) if x.shape[1] % (b * b) == 0])
    mode = {"mode": c.pick("DCR", "CRD")} if c.opset >= 11 and c.chance(0.8) else {}
    return c.node("DepthToSpace", x.name, kind=x.type, blocksize=block, **mode)


@operator("SpaceToDepth", FLOATS, (4,), since=1, **MOVES)
def space_to_depth(c, x):
    block = c.pick(*[b for b in (1, 2, 3, 5) if x.shape[2] % b == 0 and x.shape[3] % b == 0])
    return c.node("SpaceToDepth", x.name, kind=x.type, blocksize=block)


@operator("Trilu", ALL, (2, 3, 4), since=14, **MOVES)
def trilu(c, x):
    inputs = [x.name] + ([c.constant(np.asarray(c.integer(-4, 4), np.int64))] if c.chance(0.6) else [])
    return c.node("Trilu", *inputs, kind=x.type, **({"upper": c.integer(0, 1)} if c.chance(0.7) else {}))


@operator("Shape", ALL, exact=True)
def shape_of(c, x):
    bounds = {}
    if c.opset >= 15:
        bounds = {key: c.integer(-x.rank - 1, x.rank + 1) for key in ("start", "end") if c.chance(0.4)}
    return c.node("Shape", x.name, kind="i64", **bounds)


@operator("Size", ALL, exact=True)
def size_of(c, x):
    return c.node("Size", x.name, kind="i64")
