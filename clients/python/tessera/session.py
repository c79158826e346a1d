"""Sessions: check arrays and pass their memory to the C interface."""

from __future__ import annotations

import ctypes
import dataclasses
import math
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tessera import _c_api, _fast_call, dtypes, errors

if TYPE_CHECKING:
    from tessera.model import Model
    from tessera.state import State

Array = np.ndarray[Any, Any]

_IN_PLACE = 0x101  # C_CONTIGUOUS and ALIGNED of ndarray.flags.num


@dataclasses.dataclass(frozen=True)
class Memory:
    """Bytes. All sessions share the mapped weights; the rest belongs to one session."""
    weights_bytes: int
    arena_bytes: int  #: intermediates
    workspace_bytes: int
    scratch_bytes: int  #: per thread


@dataclasses.dataclass(frozen=True)
class Tensor:
    """An input or output."""
    name: str
    dtype: str  #: "float32"; "bfloat16" is held by arrays of uint16
    shape: tuple[int, ...]
    size_bytes: int
    #: dimensions whose size each run decides (data-dependent outputs, ranges of inputs); `shape` has the upper bounds
    bounded_dims: tuple[int, ...] = ()
    bounded_by: tuple[str, ...] = ()  #: for an input: the names of the ranges that bounded_dims refer to
    numpy_dtype: np.dtype[Any] = dataclasses.field(default=np.dtype("f4"), repr=False)
    value: Array | None = dataclasses.field(default=None, repr=False)
    """The value that the input was fixed to when compiling: a run may omit it, and must not pass another value."""
    default: Array | None = dataclasses.field(default=None, repr=False)
    """The value of an omitted input: the model's default, or the fixed value."""

    def __str__(self) -> str:
        return f"{self.name}: {dtypes.describe(self.dtype, self.shape)}"


class Signature:
    """Inputs and outputs of one variant, prepared for quick checks."""

    def __init__(self, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...], steps: int) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self.steps = steps
        self.input_names = tuple(tensor.name for tensor in inputs)
        self.bounded = any(tensor.bounded_dims for tensor in outputs)
        # Variants for ranges have inputs with the names of their dimensions, which hold the run's sizes.
        self.rooms: dict[str, Array] = {name: np.array(tensor.shape[d], np.int64) for tensor in inputs
                                        for d, name in zip(tensor.bounded_dims, tensor.bounded_by)}
        # Precomputed for each run, to avoid attribute lookups.
        self.checks = [(t.name, t.numpy_dtype, t.shape, t) for t in inputs]
        self.results = [(t.name, t.numpy_dtype, t.shape) for t in outputs]


class Session:
    """Memory and threads for one run at a time; created by ``Model.session()``. Concurrent threads need a session each."""

    def __init__(self, handle: ctypes.c_void_p, signatures: list[Signature]) -> None:
        self._api = _c_api.functions()
        self._handle: int = handle.value or 0
        self._finalizer = weakref.finalize(self, self._api.session_destroy, handle)
        self._signatures = signatures
        self._signature = signatures[0]

    def __call__(self, *arrays: Any, **named: Any) -> dict[str, Array]:
        if arrays:
            if len(arrays) == 1 and isinstance(arrays[0], Mapping) and not named:
                return self.run(arrays[0])
            names = self._signature.input_names
            if len(arrays) > len(names):
                raise errors.InvalidInput(f"{len(arrays)} arrays were given", accepted=self._described())
            for name, array in zip(names, arrays):
                if name in named:
                    raise errors.InvalidInput(f"input '{name}' is given twice", attribute=name)
                named[name] = array
        return self.run(named)

    def run(self, inputs: Mapping[str, Any], outputs: Mapping[str, Array] | None = None, state: State | None = None) -> dict[str, Array]:
        """Runs once; returns results by name. Results are written to arrays in `outputs`, otherwise to new ones. With a `state`
        its inputs are left out, and its outputs are stored in it instead of returned; it keeps its values if the run fails."""
        if state is not None:
            return self._run_stated(inputs, outputs or {}, state)
        given = self._take(inputs)
        signature = self._signature
        if outputs is None:
            results = {name: np.empty(shape, dtype) for name, dtype, shape in signature.results}
        else:
            results = _into(outputs, signature)
        status = _fast_call.run(self._api.run_address, self._handle, given, list(results.values()))
        if status:
            _c_api.check(status)
        if signature.bounded:
            self._cut(results)
        return results

    def _run_stated(self, inputs: Mapping[str, Any], outputs: Mapping[str, Array], state: State) -> dict[str, Array]:
        given = self._take_stated({name: as_array(value, name) for name, value in inputs.items()}, state)
        for name in outputs:
            if name in state.outputs:
                raise errors.InvalidInput(f"output '{name}' belongs to the state", reason="INVALID_INPUT", attribute=name)
        results = _into(outputs, self._signature)
        for name in state.outputs:
            results.pop(name, None)
        places = [results.get(tensor.name) for tensor in self._signature.outputs]
        status = _fast_call.run(self._api.run_state_address, self._handle, given, places, state._handle)
        if status:
            _c_api.check(status)
        if self._signature.bounded:
            self._cut(results)
        return results

    def _take_stated(self, arrays: dict[str, Array], state: State) -> list[Array | None]:
        """The arrays of a run with a state, after the selection of the variant that fits them and the state. None for tensors of
        the state, and for sizes that no array has: they follow from the state."""
        _refuse_unknown(arrays, self._signature.input_names, "input")
        shapes: list[tuple[int, ...] | None] = []
        for each in self._signature.inputs:
            if each.name in state:
                if each.name in arrays:
                    raise errors.InvalidInput(f"input '{each.name}' belongs to the state", reason="INVALID_INPUT",
                                              attribute=each.name, fix=f"leave it out, or set it before: state['{each.name}'] = ...")
                extents = state.shape(each.name)
                shapes.append(None if None in extents else extents)  # type: ignore[arg-type]
            elif each.name in arrays:
                shapes.append(arrays[each.name].shape)
            elif each.name in self._signature.rooms or each.default is not None:
                shapes.append(each.shape)
            else:
                raise self._missing(each.name, arrays)
        if len(self._signatures) > 1:
            _c_api.check(self._api.session_set_input_shapes(self._handle, _c_api.shape_array(shapes), len(shapes)))
            self._signature = self._signatures[self._api.session_variant(self._handle)]
        sizes = self._sizes(arrays)
        taken: list[Array | None] = []
        for tensor in self._signature.inputs:
            array = arrays.get(tensor.name, sizes.get(tensor.name, tensor.default))
            taken.append(None if array is None or tensor.name in state else _fitting(array, tensor))
        return taken

    def replace(self, model: Model) -> None:
        """Replaces the artifact by another one of the same model, with equal inputs and outputs. Any thread may call it at any
        time: a run in progress ends with the artifact that it started with, and later runs use the new one."""
        _c_api.check(self._api.session_replace(self._handle, model._handle))
        self._signatures = model._signatures
        self._signature = self._signatures[self._api.session_variant(self._handle)]

    def profile(self, inputs: Mapping[str, Any]) -> list[int]:
        """Runs once; returns the wall time of each step of the selected variant in nanoseconds, in the order of
        ``Variant.steps``."""
        given = self._take(inputs)
        results = [np.empty(shape, dtype) for _, dtype, shape in self._signature.results]
        times = (ctypes.c_int64 * self._signature.steps)()
        _c_api.check(self._api.session_profile(self._handle, _c_api.buffers(given), len(given),
                                               _c_api.buffers(results), len(results), times, len(times)))
        return list(times)

    @property
    def memory(self) -> Memory:
        """Memory of the latest run. With ranges, intermediates take the memory of the largest run so far."""
        info = _c_api.MemoryInfo()
        _c_api.check(self._api.session_memory(self._handle, ctypes.byref(info)))
        return Memory(info.weights_bytes, info.arena_bytes, info.workspace_bytes, info.scratch_bytes)

    def _take(self, inputs: Mapping[str, Any]) -> list[Array]:
        """The arrays in the order of the artifact's inputs, checked to be readable in place."""
        taken = []
        given = 0
        for name, dtype, shape, tensor in self._signature.checks:
            array = inputs.get(name)
            if array is None:
                if name in self._signature.rooms and name not in inputs:
                    taken.append(self._signature.rooms[name])
                    continue
                if name in inputs or tensor.default is None:
                    raise self._missing(name, inputs)
                taken.append(tensor.default)
                continue
            given += 1
            if type(array) is not np.ndarray:
                array = as_array(array, name)
            if array.shape != shape:
                return self._take_variant(inputs, array, tensor)
            if array.dtype is not dtype and array.dtype != dtype or array.flags.num & _IN_PLACE != _IN_PLACE:
                raise _unfit(array, tensor)
            taken.append(array)
        if given != len(inputs):
            _refuse_unknown(inputs, self._signature.input_names, "input")
        return taken

    def _take_variant(self, inputs: Mapping[str, Any], array: Array, tensor: Tensor) -> list[Array]:
        """Called if the shapes do not match the current variant: selects the matching one."""
        if len(self._signatures) == 1 and not self._signature.rooms:
            raise _unfit(array, tensor)
        arrays = {name: as_array(value, name) for name, value in inputs.items()}
        _refuse_unknown(arrays, self._signature.input_names, "input")
        shapes = []
        for each in self._signature.inputs:
            if each.name not in arrays and each.default is None and each.name not in self._signature.rooms:
                raise self._missing(each.name, inputs)
            shapes.append(arrays[each.name].shape if each.name in arrays else each.shape)
        _c_api.check(self._api.session_set_input_shapes(self._handle, _c_api.shape_array(shapes), len(shapes)))
        self._signature = self._signatures[self._api.session_variant(self._handle)]
        return self._counted(arrays) if self._signature.rooms else self._take(arrays)

    def _counted(self, arrays: dict[str, Array]) -> list[Array]:
        """Handles ranges: passes arrays of the run's sizes, with the inputs that hold these sizes."""
        sizes = self._sizes(arrays)
        taken: list[Array] = []
        for tensor in self._signature.inputs:
            array = arrays.get(tensor.name, sizes.get(tensor.name, self._signature.rooms.get(tensor.name, tensor.default)))
            assert array is not None  # _take_variant has checked it
            taken.append(_fitting(array, tensor))
        return taken

    def _sizes(self, arrays: dict[str, Array]) -> dict[str, Array]:
        """The sizes of ranges that the arrays have."""
        sizes: dict[str, Array] = {}
        for tensor in self._signature.inputs:
            if tensor.name not in arrays:
                continue
            for dim, name in zip(tensor.bounded_dims, tensor.bounded_by):
                if dim >= arrays[tensor.name].ndim:
                    continue  # _fitting() refuses the array
                size = np.array(arrays[tensor.name].shape[dim], np.int64)
                if arrays.get(name, size) != size or sizes.setdefault(name, size) != size:
                    raise errors.InvalidInput(f"input '{name}' contradicts the shapes of the others",
                                              reason="INVALID_INPUT", attribute=name, accepted=str(size))
        return sizes

    def _cut(self, results: dict[str, Array]) -> None:
        """Cuts results with data-dependent extents to the shape of this run; their elements are contiguous."""
        for index, tensor in enumerate(self._signature.outputs):
            if not tensor.bounded_dims or tensor.name not in results:
                continue
            extents = (ctypes.c_int64 * max(1, len(tensor.shape)))()
            _c_api.check(self._api.session_output_shape(self._handle, index, extents))
            shape = tuple(extents[:len(tensor.shape)])
            results[tensor.name] = results[tensor.name].reshape(-1)[:math.prod(shape)].reshape(shape)

    def _missing(self, name: str, inputs: Mapping[str, Any]) -> errors.InvalidInput:
        return errors.InvalidInput(f"input '{name}' is missing", reason="INVALID_INPUT", attribute=name,
                                   found=", ".join(given for given in inputs if inputs[given] is not None) or "none", accepted=self._described())

    def _described(self) -> str:
        return ", ".join(map(str, self._signature.inputs))


def as_array(value: Any, name: str) -> Array:
    """An array that shares the value's memory."""
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, np.generic):
        return np.asarray(value)
    if hasattr(value, "__dlpack__"):
        try:
            return np.from_dlpack(value)
        except (RuntimeError, TypeError, BufferError, AttributeError) as error:
            raise errors.InvalidInput(f"input '{name}' cannot be read through DLPack: {error}", reason="INVALID_INPUT",
                                      attribute=name, fix="give a NumPy array") from error
    raise errors.InvalidInput(f"input '{name}' is no array", reason="INVALID_INPUT", attribute=name,
                              found=type(value).__name__, accepted="a NumPy array, or anything with __dlpack__",
                              fix=f"numpy.asarray({name}, dtype=...)")


def _fitting(array: Array, tensor: Tensor) -> Array:
    """The array, dense in memory, if it has the tensor's type and a shape within its bounds."""
    if tensor.bounded_dims:
        array = np.ascontiguousarray(array)
    own = tuple(array.shape[d] if d in tensor.bounded_dims and d < array.ndim else size for d, size in enumerate(tensor.shape))
    if array.shape != own or array.dtype != tensor.numpy_dtype or array.flags.num & _IN_PLACE != _IN_PLACE:
        raise _unfit(array, tensor, own)
    return array


def _unfit(array: Array, tensor: Tensor, shape: tuple[int, ...] | None = None) -> errors.InvalidInput:
    """The error for an array that does not fit a tensor, or a given shape of it."""
    accepted = dtypes.describe(tensor.dtype, tensor.shape if shape is None else shape)
    found = dtypes.describe(str(array.dtype), array.shape)
    fix = ""
    if array.shape != (tensor.shape if shape is None else shape):
        what = "has another shape"
    elif array.dtype != tensor.numpy_dtype:
        what = "has another element type"
        fix = "give the bits as uint16" if tensor.dtype == "bfloat16" else f"{tensor.name}.astype('{tensor.dtype}')"
    else:
        what = "does not lie densely in memory"
        fix = f"numpy.ascontiguousarray({tensor.name})"
    return errors.InvalidInput(f"'{tensor.name}' {what}", reason="INVALID_INPUT", attribute=tensor.name, found=found,
                               accepted=accepted, fix=fix)


def _into(outputs: Mapping[str, Array], signature: Signature) -> dict[str, Array]:
    """The given arrays, and new ones for the other outputs."""
    results = {}
    for tensor in signature.outputs:
        array: Any = outputs.get(tensor.name)
        if array is None:
            array = np.empty(tensor.shape, tensor.numpy_dtype)
        elif not isinstance(array, np.ndarray):
            raise errors.InvalidInput(f"output '{tensor.name}' is to be written to a NumPy array",
                                      reason="INVALID_INPUT", attribute=tensor.name, found=type(array).__name__)
        elif (array.shape != tensor.shape or array.dtype != tensor.numpy_dtype
              or array.flags.num & _IN_PLACE != _IN_PLACE):
            raise _unfit(array, tensor)
        elif not array.flags.writeable:
            raise errors.InvalidInput(f"the array for output '{tensor.name}' is read-only", reason="INVALID_INPUT",
                                      attribute=tensor.name)
        results[tensor.name] = array
    _refuse_unknown(outputs, results, "output")
    return results


def _refuse_unknown(given: Any, known: Any, what: str) -> None:
    for name in given:
        if name not in known:
            raise errors.InvalidInput(f"there is no {what} '{name}'", reason="INVALID_INPUT", attribute=name,
                                      accepted=", ".join(known) or "none")
