"""Elementwise arithmetic, comparisons and logic."""

import numpy as np

from fuzz.cases.table import operator, within
from fuzz.cases.types import ALL, FLOATS, INTEGERS, NUMBERS, SIGNED, UNSIGNED, is_float

FAR = 1e30
# name, types, first version, domain, exact, whether rounding may decide
UNARY = (("Abs", NUMBERS, 6, None, True, False), ("Neg", FLOATS + SIGNED, 6, None, True, False),
         ("Sign", NUMBERS, 9, None, True, True), ("Ceil", FLOATS, 6, None, True, True),
         ("Floor", FLOATS, 6, None, True, True), ("Round", FLOATS, 11, None, True, True),
         ("Not", ("bool",), 1, None, True, False), ("BitwiseNot", INTEGERS, 18, None, True, False),
         ("IsNaN", FLOATS, 9, None, True, False), ("Sqrt", FLOATS, 6, (0.01, FAR), False, False),
         ("Reciprocal", FLOATS, 6, (0.1, FAR), False, False), ("Exp", FLOATS, 6, (-8, 6), False, False),
         ("Log", FLOATS, 6, (0.05, FAR), False, False), ("Erf", FLOATS, 9, None, False, False),
         ("Sin", FLOATS, 7, (-20, 20), False, False), ("Cos", FLOATS, 7, (-20, 20), False, False),
         ("Tan", FLOATS, 7, (-1.4, 1.4), False, False), ("Asin", FLOATS, 7, (-1, 1), False, False),
         ("Acos", FLOATS, 7, (-1, 1), False, False), ("Atan", FLOATS, 7, None, False, False),
         ("Sinh", FLOATS, 9, (-6, 6), False, False), ("Cosh", FLOATS, 9, (-6, 6), False, False),
         ("Asinh", FLOATS, 9, None, False, False), ("Acosh", FLOATS, 9, (1, FAR), False, False),
         ("Atanh", FLOATS, 9, (-0.95, 0.95), False, False), ("Identity", ALL, 1, None, True, False))
BOOLEANS = ("IsNaN",)

for _name, _types, _since, _domain, _exact, _jumps in UNARY:
    def _unary(c, x, name=_name, domain=_domain):
        y = within(c, x, *domain) if domain else x.name
        return c.node(name, y, kind="bool" if name in BOOLEANS else x.type)
    operator(_name, _types, since=_since, exact=_exact, jumps=_jumps)(_unary)


@operator("IsInf", ("f32", "f32", "f64"), since=10, exact=True)
def is_inf(c, x):
    flags = {name: c.integer(0, 1) for name in ("detect_negative", "detect_positive") if c.chance(0.5)}
    y = c.node("Div", x.name, c.operand(x.type, c.broadcast(x.shape), 0, 0), kind=x.type) if c.chance(0.5) else x.name
    return c.node("IsInf", y, kind="bool", **flags)


def other(c, x, low=None, high=None):
    """An operand that broadcasts with x."""
    return c.operand(x.type, c.broadcast(x.shape), low, high)


def either_way(c, a, b):
    return (b, a) if c.chance(0.4) else (a, b)


# name, types, first version, exact, result is bool, rounding decides, how to compute integers that the oracle lacks
BINARY = (("Add", NUMBERS, True, False, False), ("Sub", NUMBERS, True, False, False),
          ("Mul", NUMBERS, "integers", False, False), ("Equal", ALL, True, True, True),
          ("Greater", NUMBERS, True, True, True), ("Less", NUMBERS, True, True, True),
          ("GreaterOrEqual", NUMBERS, True, True, True), ("LessOrEqual", NUMBERS, True, True, True),
          ("And", ("bool",), True, True, False), ("Or", ("bool",), True, True, False), ("Xor", ("bool",), True, True, False),
          ("BitwiseAnd", INTEGERS, True, False, False), ("BitwiseOr", INTEGERS, True, False, False),
          ("BitwiseXor", INTEGERS, True, False, False))

for _name, _types, _exact, _bool, _jumps in BINARY:
    def _binary(c, x, name=_name, boolean=_bool):
        return c.node(name, *either_way(c, x.name, other(c, x)), kind="bool" if boolean else x.type)
    operator(_name, _types, since=18 if _name.startswith("Bitwise") else 12 if _name.endswith("OrEqual") else 7,
             exact=_exact, jumps=_jumps, promote=_types != ("bool",))(_binary)


@operator("Div", NUMBERS, since=7, exact="integers", promote=True)
def div(c, x):
    if is_float(x.type):
        if c.chance(0.7):
            low, high = c.pick((0.5, 3), (-4, -0.25))
            return c.node("Div", x.name, other(c, x, low, high), kind=x.type)
        return c.node("Div", other(c, x), within(c, x, 0.2, FAR), kind=x.type)
    return c.node("Div", x.name, other(c, x, 1, 7), kind=x.type)


@operator("Mod", NUMBERS, since=10, exact="integers", jumps=True, promote=True)
def mod(c, x):
    divisor = other(c, x, *(c.pick((0.5, 3), (-4, -0.5)) if is_float(x.type) else (1, 7)))
    flags = {"fmod": 1} if is_float(x.type) else {"fmod": c.integer(0, 1)} if c.chance(0.5) else {}
    return c.node("Mod", x.name, divisor, kind=x.type, **flags)


@operator("Pow", FLOATS + ("i32", "i64"), since=7, exact="integers")
def power(c, x):
    kind = c.pick(x.type, x.type, "f32", "i32", "i64") if c.opset >= 12 else x.type
    shape = c.broadcast(x.shape)
    if is_float(x.type) and is_float(kind) and c.chance(0.5):
        return c.node("Pow", within(c, x, 0.1, 8), c.operand(kind, shape, -2, 3), kind=x.type)
    if is_float(x.type):
        whole = c.array(kind if not is_float(kind) else "i64", shape, 0, 3)
        return c.node("Pow", within(c, x, -8, 8), c.constant(whole.astype("f4") if is_float(kind) else whole, kind),
                      kind=x.type)
    return c.node("Pow", within(c, x, -9, 9, 0), c.constant(c.array("i64", shape, 0, 3), "i64"), kind=x.type)


for _name, _types in (("Max", NUMBERS), ("Min", NUMBERS), ("Sum", FLOATS), ("Mean", FLOATS)):
    def _several(c, x, name=_name):
        names = [x.name] + [other(c, x) for _ in range(c.pick(0, 1, 1, 1, 2, 3))]
        c.random.shuffle(names)
        return c.node(name, *names, kind=x.type)
    operator(_name, _types, since=8, exact=_name in ("Max", "Min"), promote=True)(_several)


@operator("BitShift", UNSIGNED, since=11, exact=True)
def bit_shift(c, x):
    return c.node("BitShift", x.name, other(c, x, 0, 7), kind=x.type, direction=c.pick("LEFT", "RIGHT"))


@operator("Where", ALL, since=9, exact=True, promote=True)
def where(c, x):
    mask = c.operand("bool", c.broadcast(x.shape))
    return c.node("Where", mask, *either_way(c, x.name, other(c, x)), kind=x.type)


@operator("Clip", NUMBERS, since=11, exact=True, promote=True)
def clip(c, x):
    low, high = (c.real(-1.5, 0.5), c.real(-0.2, 2)) if is_float(x.type) else (c.integer(0, 3), c.integer(2, 9))
    bounds = [c.operand(x.type, (), b, b) if c.chance(0.8) else "" for b in (low, high)]
    return c.node("Clip", x.name, *(bounds if bounds[1] else bounds[:1] if bounds[0] else []), kind=x.type)


def castable(c, x, to):
    """The name of x, limited to the range of `to`."""
    if not is_float(x.type) or is_float(to) or to == "bool":
        return within(c, x, -6e4, 6e4, 0) if is_float(x.type) and to == "f16" else x.name
    return within(c, x, 0 if to[0] == "u" else -100, 100, 0)


def is_nan_to_integer(x, to):
    """The processor decides which integer NaN becomes (clients/docs/design/fuzzing.md)."""
    return to != "bool" and not is_float(to) and is_float(x.type) and bool(np.isnan(x.array.astype("f4")).any())


@operator("Cast", ALL * 2, since=9, exact=True, jumps=True)
def cast(c, x):
    from fuzz.cases.types import PROTO
    to = c.pick(*ALL)
    if "bool" in (to, x.type) or not is_float(x.type) and is_float(to) and abs(x.array.astype("f8")).max(initial=0) > 6e4:
        to = c.pick("bool", "f32", "i64")
    if is_nan_to_integer(x, to):
        return None
    return c.node("Cast", castable(c, x, to), kind=to, to=PROTO[to])


@operator("CastLike", ALL, since=15, exact=True, jumps=True)
def cast_like(c, x):
    to = c.pick("f32", "f64", "i32", "i64", "u8", "i8", "bool")
    if is_nan_to_integer(x, to):
        return None
    return c.node("CastLike", castable(c, x, to), c.operand(to, c.pick((), (1,), (2, 3))), kind=to)


