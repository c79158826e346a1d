"""Activations with all their attributes."""

from fuzz.cases.table import operator, within
from fuzz.cases.types import FLOATS, NUMBERS, UNSIGNED

# name, first version, attributes with their ranges
ACTIVATIONS = (("Relu", 6, {}), ("Sigmoid", 6, {}), ("Tanh", 6, {}), ("Softsign", 1, {}), ("Softplus", 1, {}),
               ("HardSwish", 14, {}), ("Mish", 18, {}), ("Elu", 6, {"alpha": (0.1, 2)}), ("Celu", 12, {"alpha": (0.3, 2)}),
               ("LeakyRelu", 6, {"alpha": (-0.5, 1.5)}), ("Selu", 6, {"alpha": (0.5, 2), "gamma": (0.5, 2)}),
               ("HardSigmoid", 6, {"alpha": (0.1, 0.6), "beta": (0.1, 0.9)}), ("ThresholdedRelu", 10, {"alpha": (-0.5, 1)}))

for _name, _since, _attributes in ACTIVATIONS:
    def _activation(c, x, name=_name, ranges=_attributes):
        attributes = {key: c.real(*bounds) for key, bounds in ranges.items() if c.chance(0.7)}
        y = within(c, x, -40, 40) if name not in ("Relu", "LeakyRelu") else x.name
        return c.node(name, y, kind=x.type, **attributes)
    # HardSwish in f64: the oracle uses 1/6 as an f32.
    _kinds = tuple(kind for kind in FLOATS if kind != "f64") if _name == "HardSwish" else FLOATS
    operator(_name, _kinds, since=_since, exact=_name == "Relu", jumps=_name == "ThresholdedRelu")(_activation)


@operator("Relu", ("i8", "i16", "i32", "i64"), since=14, exact=True, promote=True)
def relu(c, x):
    return c.node("Relu", x.name, kind=x.type)


@operator("Gelu", FLOATS, since=20)
def gelu(c, x):
    return c.node("Gelu", x.name, kind=x.type, **({"approximate": c.pick("none", "tanh")} if c.chance(0.7) else {}))


@operator("PRelu", FLOATS, since=9)
def prelu(c, x):
    shape = tuple(extent if c.chance(0.6) else 1 for extent in x.shape)
    return c.node("PRelu", x.name, c.operand(x.type, shape[c.integer(0, len(shape)):]), kind=x.type)


@operator("Shrink", tuple(kind for kind in NUMBERS if kind != "f64"), since=9, jumps=True)
def shrink(c, x):
    """Excludes f64, which the oracle computes in f32, and unsigned results below zero, which are undefined in C++."""
    if x.type in FLOATS:
        attributes = {"bias": c.real(-0.5, 0.5), "lambd": c.real(0, 1)}
    else:
        attributes = {"bias": float(c.integer(0, 2)), "lambd": float(c.integer(0, 3))}
        if x.array.size and abs(x.array.astype("f8")).max() > 100:
            return None
    kept = {key: value for key, value in attributes.items() if c.chance(0.8)}
    if x.type in UNSIGNED and "bias" in kept:
        kept["bias"] = min(kept["bias"], kept.get("lambd", 0) + 1)
    return c.node("Shrink", x.name, kind=x.type, **kept)


@operator("Dropout", FLOATS, since=12, exact=True)
def dropout(c, x):
    inputs = [x.name] + ([c.scalar("f32", c.real(0, 0.9))] if c.chance(0.5) else [])
    if len(inputs) == 2 and c.chance(0.5):
        inputs.append(c.constant(False))
    if c.chance(0.4):
        return c.node("Dropout", *inputs, kind=[x.type, "bool"], outputs=2)
    return c.node("Dropout", *inputs, kind=x.type)
