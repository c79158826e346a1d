"""Reductions over any axes, given as attribute or operand, or omitted."""

import numpy as np

from fuzz.cases.table import operator, within
from fuzz.cases.types import FLOATS, is_float

SMALL_NUMBERS = FLOATS * 2 + ("i32", "i64", "i8", "u8")
# name, types, exact, domain
REDUCTIONS = (("ReduceSum", SMALL_NUMBERS, "integers", None), ("ReduceMean", SMALL_NUMBERS, False, None),
              ("ReduceMax", SMALL_NUMBERS, True, None), ("ReduceMin", SMALL_NUMBERS, True, None),
              ("ReduceProd", SMALL_NUMBERS, "integers", (-1.5, 1.5)), ("ReduceL1", FLOATS + ("i32",), "integers", None),
              ("ReduceL2", FLOATS, False, None), ("ReduceSumSquare", FLOATS + ("i32", "i64"), "integers", (-50, 50)),
              ("ReduceLogSum", FLOATS, False, (0.1, 1e30)), ("ReduceLogSumExp", FLOATS, False, (-40, 40)))


def as_input(c, name):
    return c.opset >= 18 or name == "ReduceSum" and c.opset >= 13


for _name, _types, _exact, _domain in REDUCTIONS:
    def _reduction(c, x, name=_name, domain=_domain):
        if 0 in x.shape or not is_float(x.type) and x.size and abs(x.array.astype("f8")).max() > 1e5:
            return None
        axes = [axis for axis in range(x.rank) if c.chance(0.5)]
        reduced = int(np.prod([x.shape[axis] for axis in axes or range(x.rank)]))
        if name == "ReduceProd" and reduced > 64:
            return None
        c.sums(reduced)
        axes = [axis - x.rank if c.opset >= 11 and c.chance(0.3) else axis for axis in axes]
        attributes = {"keepdims": c.integer(0, 1)} if c.chance(0.8) else {}
        inputs = [within(c, x, *domain, leave=0) if domain and is_float(x.type) else x.name]
        if as_input(c, name):
            if axes or c.chance(0.3):
                inputs.append(c.integers(np.asarray(axes, np.int64)))
            # Implementations disagree on whether values are squared without axes.
            whole = name in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd")
            attributes |= {"noop_with_empty_axes": c.integer(0, 1) if whole or axes else 0} if c.chance(0.3) else {}
        elif axes:
            attributes["axes"] = axes
        return c.node(name, *inputs, kind=x.type, **attributes)
    operator(_name, _types, range(0, 6), since=1, exact=_exact)(_reduction)

