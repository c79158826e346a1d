"""The table of operators: accepted types and versions, and how operands and attributes are drawn."""

import dataclasses
import importlib
from typing import Callable



FAMILIES = ("elementwise", "activations", "views", "selection", "scattering", "reductions", "normalizations", "products",
            "windows", "sampling", "quantized", "recurrent", "signals", "sequences", "control", "tensor_creation")
NEWEST = 99


@dataclasses.dataclass(frozen=True)
class Spec:
    name: str
    make: Callable  # (case, x) -> names of the results, or None if x does not suit
    types: tuple  # of x
    ranks: tuple
    since: int = 1
    until: int = NEWEST
    low: float | None = None  # bounds of x if it is an input of the case
    high: float | None = None
    exact: bool | str = False  # whether exact operands give exact results; "integers": for integer types
    jumps: bool = False  # whether rounding of x may decide the result
    chooses: bool = False  # whether rounding of x may decide which of many elements is chosen: a few runs with noise miss most cases
    promote: bool = False  # see Step.promote


TABLE = []


def operator(name, kinds, ranks=range(0, 6), **constraints):
    """Decorates a lowering `make(case, x)` and adds it to the table."""
    def add(make):
        TABLE.append(Spec(name, make, tuple(kinds), tuple(ranks), **constraints))
        return make
    return add


def operators():
    """All Specs, in a fixed order."""
    if not TABLE:
        for family in FAMILIES:
            importlib.import_module(f"fuzz.cases.{family}")
    return TABLE


def within(c, x, low, high, leave=0.08):
    """The name of x, brought into [low, high] if it is outside; sometimes unchanged."""
    import numpy as np
    array = x.array.astype(np.float64)
    if array.size == 0 or (np.isfinite(array).all() and array.min() >= low and array.max() <= high) or c.chance(leave):
        return x.name
    if low >= 0 and high > 100 and c.chance(0.5):
        return c.node("Add", c.node("Abs", x.name, kind=x.type), c.scalar(x.type, low), kind=x.type)
    if c.opset < 11:
        return c.node("Clip", x.name, kind=x.type, min=float(low), max=float(high))
    return c.node("Clip", x.name, c.scalar(x.type, low), c.scalar(x.type, high), kind=x.type)


