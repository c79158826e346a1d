"""Element types under the names of `tessera ops`, and how their values are drawn.

bf16, which NumPy lacks, is stored in f32 arrays that hold only bf16 values.
"""

import numpy as np
from onnx import TensorProto

PROTO = {"f32": TensorProto.FLOAT, "f64": TensorProto.DOUBLE, "f16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16,
         "i8": TensorProto.INT8, "i16": TensorProto.INT16, "i32": TensorProto.INT32, "i64": TensorProto.INT64,
         "u8": TensorProto.UINT8, "u16": TensorProto.UINT16, "u32": TensorProto.UINT32, "u64": TensorProto.UINT64,
         "bool": TensorProto.BOOL}
ARRAYS = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": np.float32, "i8": np.int8, "i16": np.int16,
          "i32": np.int32, "i64": np.int64, "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
          "bool": np.bool_}
# Frequency in drawing equals frequency in this list: f32 is most common in models.
FLOATS = ("f32",) * 7 + ("f16", "bf16", "f64")
SIGNED = ("i8", "i16", "i32", "i64")
UNSIGNED = ("u8", "u16", "u32", "u64")
INTEGERS = ("i8", "u8", "i32", "i64") * 2 + ("i16", "u16", "u32", "u64")
NUMBERS = FLOATS * 2 + INTEGERS
ALL = NUMBERS + ("bool",) * 2
HALVES = ("f16", "bf16")
# The distance of 1 to its neighbour.
ULP = {"f32": 2.0**-23, "f64": 2.0**-52, "f16": 2.0**-10, "bf16": 2.0**-7}


def of(dtype):
    """The type of a NumPy array that is not bf16."""
    return next(kind for kind, array in ARRAYS.items() if np.dtype(array) == dtype)


def is_float(kind):
    return kind in ULP


def rounded_to_bf16(array):
    """f32 to the nearest bf16, ties to even, in f32."""
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    rounded = ((bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000).astype(np.uint32).view(np.float32)
    return np.where(np.isnan(array), np.float32(np.nan), rounded).astype(np.float32).reshape(np.shape(array))


def stored(kind, array):
    """The array as values of this type: rounded for 16-bit floats, wrapped for integers."""
    with np.errstate(over="ignore", invalid="ignore"):
        if kind == "bf16":
            return rounded_to_bf16(np.asarray(array, np.float32))
        return np.asarray(array).astype(ARRAYS[kind])


def bits_of(kind, array):
    """The bytes of an initializer."""
    if kind == "bf16":
        return (np.ascontiguousarray(array, np.float32).view(np.uint32) >> 16).astype(np.uint16).tobytes()
    return np.ascontiguousarray(array, ARRAYS[kind]).tobytes()


def drawn(draw, kind, shape, low=None, high=None):
    """Values in [low, high]. Without bounds, floats about a unit wide and small integers, sometimes the full range."""
    random = draw.random
    if kind == "bool":
        return random.random(shape) < 0.5
    if not is_float(kind):
        limits = np.iinfo(ARRAYS[kind])
        least, most = (0 if limits.min == 0 else -9, 9) if not draw.chance(0.15) else (limits.min, limits.max)
        least = least if low is None else max(limits.min, int(np.ceil(low)))
        most = most if high is None else min(limits.max, int(np.floor(high)))
        return random.integers(least, max(least, most), size=shape, dtype=ARRAYS[kind], endpoint=True)
    if low is not None or high is not None:
        least, most = -8.0 if low is None else low, 8.0 if high is None else high
        return stored(kind, random.uniform(least, max(least, most), size=shape))
    values = random.standard_normal(shape)
    style = draw.integer(0, 19)
    if style < 5:  # sums of these are exact, and equal ones are frequent
        values = np.round(values * 4) / 4
    elif style == 5:
        values = values * np.exp(random.uniform(-9, 6, size=shape))
    elif style == 6:
        values = np.where(random.random(shape) < 0.4, np.copysign(0.0, values), values)
    elif style == 7:
        values = np.abs(values)
    return stored(kind, values)
