"""The C interface of libtessera_rt (compiler/runtime/tessera.h) through ctypes, which releases the GIL in every call."""

from __future__ import annotations

import ctypes
import pathlib
from collections.abc import Sequence
from ctypes import POINTER, Structure, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any

import numpy as np

from tessera import errors

LIBRARY = pathlib.Path(__file__).parent / "_native" / "libtessera_rt.so.0"


class TensorInfo(Structure):
    _fields_ = [("name", c_char_p), ("dtype", c_int32), ("rank", c_int32), ("shape", POINTER(c_int64)),
                ("size_bytes", c_int64)]


class StepInfo(Structure):
    _fields_ = [("name", c_char_p), ("symbol", c_char_p), ("num_phases", c_int32), ("max_grid", c_int64),
                ("flops", c_int64)]


class MemoryInfo(Structure):
    _fields_ = [("weights_bytes", c_int64), ("arena_bytes", c_int64), ("workspace_bytes", c_int64),
                ("scratch_bytes", c_int64)]


class VariantInfo(Structure):
    _fields_ = [("num_dimensions", c_size_t), ("num_steps", c_size_t), ("arena_bytes", c_int64), ("flops", c_int64)]


class Dimension(Structure):
    _fields_ = [("name", c_char_p), ("size", c_int64)]


class Shape(Structure):
    _fields_ = [("extents", POINTER(c_int64)), ("rank", c_int32)]


class StateInfo(Structure):
    _fields_ = [("name", c_char_p), ("input", c_size_t), ("output", c_size_t), ("growing_dim", c_int32), ("appends", c_int32),
                ("capacity", c_int64)]


class Buffer(Structure):
    """tessera_buffer and tessera_const_buffer."""
    _fields_ = [("data", c_void_p), ("size_bytes", c_size_t)]


_STATUS_FUNCTIONS: dict[str, list[Any]] = {
    "artifact_load": [c_char_p, c_uint32, POINTER(c_void_p)],
    "artifact_load_fd": [c_int, c_uint32, POINTER(c_void_p)],
    "artifact_memory": [c_void_p, POINTER(MemoryInfo)],
    "artifact_variant": [c_void_p, c_size_t, POINTER(VariantInfo)],
    "artifact_variant_dimension": [c_void_p, c_size_t, c_size_t, POINTER(Dimension)],
    "artifact_variant_input": [c_void_p, c_size_t, c_size_t, POINTER(TensorInfo)],
    "artifact_variant_output": [c_void_p, c_size_t, c_size_t, POINTER(TensorInfo)],
    "artifact_variant_step": [c_void_p, c_size_t, c_size_t, POINTER(StepInfo)],
    "session_create": [c_void_p, c_int, POINTER(c_void_p)],
    "session_replace": [c_void_p, c_void_p],
    "session_set_input_shapes": [c_void_p, POINTER(Shape), c_size_t],
    "session_profile": [c_void_p, POINTER(Buffer), c_size_t, POINTER(Buffer), c_size_t, POINTER(c_int64), c_size_t],
    "session_memory": [c_void_p, POINTER(MemoryInfo)],
    "session_output_shape": [c_void_p, c_size_t, POINTER(c_int64)],
    "artifact_state": [c_void_p, c_size_t, POINTER(StateInfo)],
    "state_create": [c_void_p, POINTER(c_void_p)],
    "state_reset": [c_void_p],
    "state_shape": [c_void_p, c_size_t, POINTER(c_int64)],
    "state_get": [c_void_p, c_size_t, c_void_p, c_size_t],
    "state_set": [c_void_p, c_size_t, POINTER(c_int64), c_int32, c_void_p, c_size_t],
    "state_save": [c_void_p, c_char_p],
    "state_load": [c_void_p, c_char_p],
}
_OTHER_FUNCTIONS: dict[str, tuple[list[Any], Any]] = {
    "last_error": ([], c_char_p),
    "version": ([], c_char_p),
    "artifact_destroy": ([c_void_p], None),
    "artifact_num_inputs": ([c_void_p], c_size_t),
    "artifact_num_outputs": ([c_void_p], c_size_t),
    "artifact_num_variants": ([c_void_p], c_size_t),
    "artifact_prepared_bytes": ([c_void_p], c_int64),
    "artifact_fixed_input": ([c_void_p, c_size_t], c_void_p),
    "artifact_default_input": ([c_void_p, c_size_t], c_void_p),
    "artifact_bounded_dims": ([c_void_p, c_size_t], c_uint64),
    "artifact_ranged_dims": ([c_void_p, c_size_t], c_uint64),
    "artifact_range_of": ([c_void_p, c_size_t, c_size_t], c_int32),
    "artifact_num_states": ([c_void_p], c_size_t),
    "state_destroy": ([c_void_p], None),
    "session_destroy": ([c_void_p], None),
    "session_variant": ([c_void_p], c_size_t),
}
# By tessera_status.
_ERRORS = {1: errors.InvalidInput, 2: errors.InvalidInput, 3: errors.CorruptArtifact, 4: errors.IncompatibleHost,
           5: errors.OutOfMemory, 6: errors.Busy, 7: errors.InternalError, 8: errors.InvalidInput}
_BUSY = 6
_REASONS = {1: "INVALID_INPUT", 4: "INCOMPATIBLE_HOST", 5: "OUT_OF_MEMORY", 8: "INVALID_INPUT"}


class _Functions:
    """The library's functions with their types, by their names without "tessera_"."""

    def __init__(self) -> None:
        library = ctypes.CDLL(str(LIBRARY))
        for name, arguments in _STATUS_FUNCTIONS.items():
            self._add(library, name, arguments, c_int)
        for name, (arguments, result) in _OTHER_FUNCTIONS.items():
            self._add(library, name, arguments, result)
        # for tessera._fast_call
        self.run_address = ctypes.cast(library.tessera_session_run, c_void_p).value or 0
        self.run_state_address = ctypes.cast(library.tessera_session_run_state, c_void_p).value or 0

    def _add(self, library: ctypes.CDLL, name: str, arguments: list[Any], result: Any) -> None:
        function = getattr(library, f"tessera_{name}")
        function.argtypes, function.restype = arguments, result
        setattr(self, name, function)

    def __getattr__(self, name: str) -> Any:  # for type checkers; all attributes are set above
        raise AttributeError(name)


_loaded: _Functions | None = None


def functions() -> _Functions:
    """Returns the library, loaded on first use: a program that only uses the service does not need it."""
    global _loaded
    if _loaded is None:
        try:
            _loaded = _Functions()
        except OSError as error:
            raise errors.IncompatibleHost(f"libtessera_rt cannot be loaded: {error}") from error
    return _loaded


def check(status: int) -> None:
    """Raises the error of this thread's latest call."""
    if status:
        text = functions().last_error().decode(errors="replace")
        fix = "make a session for each thread, or call the model" if status == _BUSY else ""
        raise _ERRORS.get(status, errors.InternalError)(text, reason=_REASONS.get(status, ""), fix=fix)


def buffers(arrays: list[np.ndarray[Any, Any]]) -> Any:
    """The C structures for arrays, which must outlive their use."""
    return (Buffer * len(arrays))(*[Buffer(array.ctypes.data, array.nbytes) for array in arrays])


def shape_array(shapes: Sequence[tuple[int, ...] | None]) -> Any:
    """An array of Shape that keeps the extents alive; None: unknown."""
    array = (Shape * len(shapes))()
    for item, shape in zip(array, shapes):
        if shape is None:
            item.rank = -1
            continue
        item.extents = (c_int64 * max(1, len(shape)))(*shape)
        item.rank = len(shape)
    return array

