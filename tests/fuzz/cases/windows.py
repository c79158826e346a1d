"""Convolutions and pools in one to three dimensions."""

import numpy as np

from fuzz.cases.table import operator
from fuzz.cases.numpy_oracle import windows_of
from fuzz.cases.types import FLOATS

IMAGES = (3, 4, 4, 4, 5)
HEAVY = ("f32",) * 8 + ("f64", "f16", "bf16")


def window(c, spatial, dilated=True, most=5, ceil=False):
    """Attributes of a window that fits, and its kernel; None if no window fits."""
    kernel = [c.pick(1, 1, 2, 3, 3, *range(1, most + 1)) for _ in spatial]
    strides = [c.pick(1, 1, 1, 2, 2, 3) for _ in spatial]
    dilations = [c.pick(1, 1, 1, 2, 3) if dilated else 1 for _ in spatial]
    attributes = {"kernel_shape": kernel}
    if strides != [1] * len(spatial) or c.chance(0.3):
        attributes["strides"] = strides
    if dilations != [1] * len(spatial) or dilated and c.chance(0.3):
        attributes["dilations"] = dilations
    pads = [0] * (2 * len(spatial))
    if c.chance(0.25) and dilations == [1] * len(spatial):
        attributes["auto_pad"] = c.pick("SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET")
        if attributes["auto_pad"] in ("SAME_UPPER", "SAME_LOWER"):
            return attributes, kernel
    elif c.chance(0.7):
        pads = [c.integer(0, k - 1) for k in kernel + kernel]
        attributes["pads"] = pads
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
    if any(r > n + a + b for r, n, a, b in zip(reach, spatial, pads, pads[len(spatial):])):
        return None
    if ceil and c.chance(0.3):
        attributes["ceil_mode"] = c.integer(0, 1)
    return attributes, kernel


def groups_of(c, channels):
    return c.pick(1, 1, 1, channels, *(d for d in (2, 3, 4, 5) if channels % d == 0))


def is_finite(x):
    return np.isfinite(x.array.astype("f8")).all()


@operator("Conv", HEAVY, IMAGES, since=1)
def conv(c, x):
    found = window(c, x.shape[2:]) if 0 not in x.shape else None
    if found is None:
        return None
    attributes, kernel = found
    if set(kernel) == {3} and not is_finite(x):
        return None  # Winograd blocks sum all of their inputs (clients/docs/design/fuzzing.md)
    channels = x.shape[1]
    group = groups_of(c, channels)
    each = c.pick(1, 1, 2, 3, 5, 8, 16, 17, 32) if group < 4 else c.pick(1, 1, 2, 3)
    c.sums(channels // group * np.prod(kernel))
    scale = 3 / np.sqrt(channels // group * np.prod(kernel))
    inputs = [x.name, c.operand(x.type, (each * group, channels // group, *kernel), -scale, scale, fixed=0.85)]
    if c.chance(0.5):
        inputs.append(c.operand(x.type, (each * group,)))
    if group > 1 or c.chance(0.3):
        attributes["group"] = group
    if c.chance(0.2):
        del attributes["kernel_shape"]
    return c.node("Conv", *inputs, kind=x.type, **attributes)


@operator("ConvTranspose", HEAVY, IMAGES, since=1)
def conv_transpose(c, x):
    spatial = x.shape[2:]
    if 0 in x.shape or not is_finite(x):  # missing taps are zeros, and zero times NaN is NaN (clients/docs/design/fuzzing.md)
        return None
    kernel = [c.pick(1, 2, 3, 3, 4, 5) for _ in spatial]
    strides = [c.pick(1, 1, 2, 2, 3) for _ in spatial]
    dilations = [c.pick(1, 1, 1, 2) for _ in spatial]
    channels = x.shape[1]
    group = groups_of(c, channels)
    each = c.pick(1, 2, 3, 5, 8, 16)
    attributes = {"kernel_shape": kernel, "strides": strides, "dilations": dilations, "group": group}
    attributes = {key: value for key, value in attributes.items() if set(np.ravel(value)) != {1} or c.chance(0.3)}
    reach = [(n - 1) * s + (k - 1) * d + 1 for n, k, s, d in zip(spatial, kernel, strides, dilations)]
    style = c.pick("pads", "pads", "none", "auto", "shape")
    if style == "pads":
        attributes["pads"] = [c.integer(0, min(k - 1, (r - 1) // 2)) for k, r in zip(kernel + kernel, reach + reach)]
    elif style == "auto":
        attributes["auto_pad"] = c.pick("SAME_UPPER", "SAME_LOWER", "VALID")
        if attributes["auto_pad"] != "VALID" and any(s > (k - 1) * d + 1 for s, k, d in zip(strides, kernel, dilations)):
            return None
    elif style == "shape":
        attributes["output_shape"] = [max(1, r - c.integer(0, 2)) for r in reach]
        attributes |= {"auto_pad": c.pick("SAME_UPPER", "SAME_LOWER")} if c.chance(0.5) else {}
    if style in ("pads", "none") and c.chance(0.4):
        extra = [c.integer(0, max(s, d) - 1) for s, d in zip(strides, dilations)]
        attributes["output_padding"] = extra
    c.sums(channels // group * np.prod(kernel))
    scale = 3 / np.sqrt(channels // group * np.prod(kernel))
    inputs = [x.name, c.operand(x.type, (channels, each, *kernel), -scale, scale, fixed=0.85)]
    if c.chance(0.5):
        inputs.append(c.operand(x.type, (each * group,)))
    return c.node("ConvTranspose", *inputs, kind=x.type, **attributes)


@operator("MaxPool", FLOATS + ("i8", "u8"), IMAGES, since=1, exact=True)
def max_pool(c, x):
    found = window(c, x.shape[2:], dilated=c.opset >= 10, ceil=c.opset >= 10) if 0 not in x.shape else None
    if found is None:
        return None
    attributes, _ = found
    placed = c.opset >= 8 and c.chance(0.2) and x.exact and x.type in ("f32", "f64")
    taps = windows_of(x.shape[2:], **attributes).of(np.ones(x.shape), 0)
    if placed and np.any(taps, axis=0).all():  # position of a window's largest element, if it has one
        attributes |= {"storage_order": c.integer(0, 1)} if c.chance(0.3) else {}
        return c.node("MaxPool", x.name, outputs=2, kind=[x.type, "i64"], **attributes)
    return c.node("MaxPool", x.name, kind=x.type, **attributes)


@operator("AveragePool", FLOATS, IMAGES, since=7)
def average_pool(c, x):
    found = window(c, x.shape[2:], dilated=c.opset >= 19, ceil=c.opset >= 10) if 0 not in x.shape else None
    if found is None:
        return None
    attributes, kernel = found
    c.sums(np.prod(kernel))
    attributes |= {"count_include_pad": c.integer(0, 1)} if c.chance(0.6) else {}
    return c.node("AveragePool", x.name, kind=x.type, **attributes)


@operator("LpPool", FLOATS, IMAGES, since=2)
def lp_pool(c, x):
    found = window(c, x.shape[2:], dilated=c.opset >= 18, ceil=c.opset >= 18) if 0 not in x.shape else None
    if found is None:
        return None
    attributes, kernel = found
    c.sums(np.prod(kernel))
    return c.node("LpPool", x.name, kind=x.type, **attributes, **({"p": c.pick(1, 2, 3)} if c.chance(0.8) else {}))


for _name, _exact in (("GlobalAveragePool", False), ("GlobalMaxPool", True)):
    def _global_pool(c, x, name=_name):
        if 0 in x.shape:
            return None
        c.sums(np.prod(x.shape[2:]))
        return c.node(name, x.name, kind=x.type)
    operator(_name, FLOATS, IMAGES, exact=_exact)(_global_pool)


@operator("MaxUnpool", ("f32", "f32", "f64"), IMAGES, since=9, exact=True)
def max_unpool(c, x):
    if 0 in x.shape or not x.exact:
        return None
    kernel = [c.pick(1, 2, 3) for _ in x.shape[2:]]
    if any(n % k for k, n in zip(kernel, x.shape[2:])):  # the oracle and ONNX interpret the indices in different shapes
        return None
    pooled, places = c.node("MaxPool", x.name, outputs=2, kind=[x.type, "i64"], kernel_shape=kernel, strides=kernel)
    return c.node("MaxUnpool", pooled, places, kind=x.type, kernel_shape=kernel, strides=kernel)
