"""Element types: the API's numbers, NumPy's types, and common names.

NumPy has no bfloat16: such tensors are arrays of uint16 that hold the bits, the upper half of a float32.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from tessera import errors


@dataclasses.dataclass(frozen=True)
class DType:
    number: int  #: in ``v1.DataType`` and ``tessera_dtype``
    name: str  #: "float32"
    numpy: np.dtype[Any]  #: of arrays that hold the type
    onnx: str  #: "tensor(float)", as ONNX Runtime spells it


_ROWS = [
    ("float32", "f4", "float"), ("float64", "f8", "double"), ("float16", "f2", "float16"), ("bfloat16", "u2", "bfloat16"),
    ("int8", "i1", "int8"), ("int16", "i2", "int16"), ("int32", "i4", "int32"), ("int64", "i8", "int64"),
    ("uint8", "u1", "uint8"), ("uint16", "u2", "uint16"), ("uint32", "u4", "uint32"), ("uint64", "u8", "uint64"),
    ("bool", "?", "bool"),
]  # in the order of v1.DataType, from 1
_ALL = [DType(number, name, np.dtype(code), f"tensor({onnx})") for number, (name, code, onnx) in enumerate(_ROWS, 1)]


def of_number(number: int) -> DType:
    if not 1 <= number <= len(_ALL):
        raise errors.InternalError(f"element type {number} is not known to this version of the package")
    return _ALL[number - 1]


def of_array(array: np.ndarray[Any, Any]) -> DType:
    """The type of an array's elements; uint16 is uint16, even if it holds bits of bfloat16."""
    native = array.dtype.newbyteorder("=")
    for dtype in _ALL:
        if dtype.numpy == native and dtype.name != "bfloat16":
            return dtype
    raise errors.InvalidInput("no tensor has elements of this type", found=str(array.dtype),
                              accepted=", ".join(dtype.name for dtype in _ALL))


def describe(dtype: str, shape: Any) -> str:
    """ "float32 [1, 3, 224, 224]" """
    return f"{dtype} [{', '.join(map(str, shape))}]"
