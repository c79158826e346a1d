"""Softmax and the normalizations."""

import numpy as np

from fuzz.cases.table import operator, within
from fuzz.cases.types import FLOATS


def empty(x):
    return 0 in x.shape


def squares_overflow(x, terms):
    """Whether the sum of this many squares overflows f32 (in which 16-bit floats are summed) or f64. Some
    implementations divide before they add, or add in a wider type."""
    numbers = x.array.astype("f8")
    with np.errstate(over="ignore", invalid="ignore"):
        largest = np.max(np.where(np.isfinite(numbers), numbers, 0) ** 2, initial=0) * terms
    return largest > np.finfo("f8" if x.type == "f64" else "f4").max


for _name in ("Softmax", "LogSoftmax"):
    def _softmax(c, x, name=_name):
        axis = c.axis(x.rank)
        c.sums(x.size if c.opset < 13 else x.shape[axis])
        if empty(x):
            return None
        return c.node(name, within(c, x, -60, 60), kind=x.type, **({"axis": axis} if c.chance(0.85) or x.rank == 1 else {}))
    operator(_name, FLOATS, range(1, 6), since=11)(_softmax)


@operator("LayerNormalization", FLOATS, range(1, 6), since=17)
def layer_normalization(c, x):
    axis = c.axis(x.rank)
    shape = x.shape[axis:]
    if empty(x) or squares_overflow(x, np.prod(shape)):
        return None
    c.sums(np.prod(shape))
    inputs = [x.name, c.operand(x.type, shape, 0.3, 2)] + ([c.operand(x.type, shape)] if c.chance(0.6) else [])
    attributes = {"axis": axis} if axis != -1 or c.chance(0.5) else {}
    attributes |= {"epsilon": c.pick(1e-3, 1e-2, 0.1)}
    if x.type in ("f32",) and c.chance(0.2):
        return c.node("LayerNormalization", *inputs, kind=[x.type] * 3, outputs=3, **attributes)
    return c.node("LayerNormalization", *inputs, kind=x.type, **attributes)


@operator("BatchNormalization", FLOATS, range(2, 6), since=9)
def batch_normalization(c, x):
    channels = (x.shape[1],)
    kinds = x.type
    inputs = [c.operand(kinds, channels), c.operand(kinds, channels), c.operand(kinds, channels),
              c.operand(kinds, channels, 0.3, 2)]
    attributes = {key: value for key, value in (("epsilon", c.pick(1e-5, 1e-3, 0.1)), ("momentum", 0.8)) if c.chance(0.6)}
    c.sums(2)  # scaled, then shifted by a term that may cancel it
    return c.node("BatchNormalization", x.name, *inputs, kind=kinds, **attributes)


@operator("InstanceNormalization", FLOATS, (3, 4, 5), since=6)
def instance_normalization(c, x):
    if empty(x) or squares_overflow(x, np.prod(x.shape[2:])):
        return None
    c.sums(np.prod(x.shape[2:]))
    channels = (x.shape[1],)
    return c.node("InstanceNormalization", x.name, c.operand(x.type, channels), c.operand(x.type, channels), kind=x.type,
                  epsilon=c.pick(1e-3, 1e-2, 0.1))


@operator("MeanVarianceNormalization", FLOATS, (4,), since=9)
def mean_variance_normalization(c, x):
    axes = sorted(int(a) for a in c.random.permutation(4)[:c.integer(1, 3)]) if c.chance(0.7) else [0, 2, 3]
    extent = int(np.prod([x.shape[a] for a in axes]))
    # With few elements the variance may be zero, and the result is rounding noise.
    if extent < 6 or squares_overflow(x, extent):
        return None
    c.sums(extent)
    return c.node("MeanVarianceNormalization", x.name, kind=x.type, **({"axes": axes} if axes != [0, 2, 3] else {}))


@operator("LpNormalization", FLOATS, range(1, 6))
def lp_normalization(c, x):
    axis = c.axis(x.rank)
    if empty(x):
        return None
    c.sums(x.shape[axis])
    attributes = {key: value for key, value in (("axis", axis), ("p", c.pick(1, 2))) if c.chance(0.8)}
    return c.node("LpNormalization", x.name, kind=x.type, **attributes)


@operator("LRN", FLOATS, (4,))
def lrn(c, x):
    """Moderate values only: the oracle keeps a running sum, which retains the rounding error of large values."""
    if x.size and not (np.isfinite(x.array.astype("f8")).all() and abs(x.array.astype("f8")).max() < 8):
        return None
    attributes = {"alpha": c.real(1e-4, 0.5), "beta": c.real(0.3, 1), "bias": c.real(0.5, 2)}
    attributes = {key: value for key, value in attributes.items() if c.chance(0.7)}
    return c.node("LRN", x.name, kind=x.type, size=c.pick(1, 3, 5, 7), **attributes)


@operator("NegativeLogLikelihoodLoss", FLOATS, (2, 3, 4), since=12)
def negative_log_likelihood(c, x):
    return loss(c, x, "NegativeLogLikelihoodLoss", 1)


@operator("SoftmaxCrossEntropyLoss", FLOATS, (2, 3, 4), since=12)
def softmax_cross_entropy(c, x):
    return loss(c, x, "SoftmaxCrossEntropyLoss", c.pick(1, 1, 2))


def loss(c, x, name, outputs):
    classes = x.shape[1]
    if empty(x):
        return None
    c.sums(x.size)
    labels = c.operand(c.pick("i64", "i32"), (x.shape[0], *x.shape[2:]), 0, classes - 1)
    weights = [c.operand(x.type, (classes,), 0.2, 2)] if c.chance(0.5) else []
    attributes = {"reduction": c.pick("none", "sum", "mean")} if c.chance(0.8) else {}
    attributes |= {"ignore_index": c.integer(-1, classes)} if c.chance(0.3) else {}
    return c.node(name, within(c, x, -40, 40, 0), labels, *weights, kind=[x.type] * outputs, outputs=outputs, **attributes)
