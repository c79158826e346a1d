"""Matrix products in all forms that models use."""

import string

import numpy as np

from fuzz.cases.table import operator
from fuzz.cases.types import FLOATS, is_float

PRODUCTS = FLOATS * 2 + ("i32", "i64")


@operator("MatMul", PRODUCTS * 2, range(1, 5), since=9, exact="integers")
def matmul(c, x):
    inner = x.shape[-1]
    c.sums(inner)
    columns = [] if c.chance(0.1) else [c.extent()]
    lead = list(c.broadcast(x.shape[:-2])) if c.chance(0.4) and columns else []
    low = 0.5 / np.sqrt(max(1, inner)) if is_float(x.type) else None
    other = c.operand(x.type, (*lead, inner, *columns), *((-4 * low, 4 * low) if low else (None, None)))
    return c.node("MatMul", x.name, other, kind=x.type)


@operator("MatMul", PRODUCTS, range(2, 5), since=9, exact="integers")
def matmul_right(c, x):
    c.sums(x.shape[-2])
    rows = [] if c.chance(0.1) else [c.extent()]
    lead = list(c.broadcast(x.shape[:-2])) if c.chance(0.4) and rows else []
    return c.node("MatMul", c.operand(x.type, (*lead, *rows, x.shape[-2])), x.name, kind=x.type)


@operator("Gemm", PRODUCTS * 2, (2,), since=7, exact="integers")
def gemm(c, x):
    left, right = c.integer(0, 1), c.integer(0, 1)
    inner, rows = (x.shape[0], x.shape[1]) if left else (x.shape[1], x.shape[0])
    columns = c.extent()
    c.sums(inner)
    inputs = [x.name, c.operand(x.type, (columns, inner) if right else (inner, columns))]
    if c.opset < 11 or c.chance(0.7):
        inputs.append(c.operand(x.type, c.pick((rows, columns), (1, columns), (rows, 1), (columns,), (1, 1), (), (1,))))
    whole = not is_float(x.type)
    attributes = {key: float(c.pick(1, 2, 3)) if whole else c.real(-1, 2) for key in ("alpha", "beta") if c.chance(0.5)}
    attributes |= {key: value for key, value in (("transA", left), ("transB", right)) if value or c.chance(0.5)}
    return c.node("Gemm", *inputs, kind=x.type, **attributes)


@operator("Einsum", ("f32",) * 4 + ("f64", "f16", "bf16", "i32", "i64"), range(1, 5), since=12, exact="integers")
def einsum(c, x):
    letters = string.ascii_lowercase
    subscripts = list(letters[:x.rank])
    if x.rank > 1 and x.shape[0] == x.shape[-1] and c.chance(0.3):
        subscripts[-1] = subscripts[0]  # a diagonal
    extents = dict(zip(subscripts, x.shape))
    terms, inputs = ["".join(subscripts)], [x.name]
    for number in range(c.pick(0, 1, 1, 1, 2)):
        shared = [s for s in extents if c.chance(0.5)]
        fresh = [letters[10 + 3 * number + i] for i in range(c.pick(0, 1, 1))]
        extents |= {letter: c.pick(1, 2, 3, 5) for letter in fresh}
        term = shared + fresh
        c.random.shuffle(term)
        if not term or len(term) > 4:
            continue
        inputs.append(c.operand(x.type, tuple(extents[s] for s in term)))
        terms.append("".join(term))
    kept = [s for s in extents if c.chance(0.55)]
    c.random.shuffle(kept)
    if np.prod([extents[s] for s in extents]) > 100_000 or np.prod([extents[s] for s in kept]) > c.largest:
        return None
    c.sums(np.prod([extents[s] for s in extents if s not in kept]))
    text = ",".join(terms)
    if c.chance(0.85):
        text += "->" + "".join(kept)
    if c.chance(0.2):
        text = text.replace(",", " , ").replace("->", " -> ")
    return c.node("Einsum", *inputs, kind=x.type, equation=text)


@operator("Det", ("f32", "f32", "f64"), (2, 3, 4), since=11)
def determinant(c, x):
    side = c.pick(1, 2, 3, 4)
    if x.shape[-1] >= side <= x.shape[-2]:
        ends = [c.integers([0, 0]), c.integers([side, side]), c.integers([-2, -1])]
        square = c.node("Slice", x.name, *ends, kind=x.type) if x.shape[-2:] != (side, side) else x.name
        c.sums(side)
        return c.node("Det", square, kind=x.type)
    return None
