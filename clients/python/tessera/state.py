"""States: values that an artifact keeps from one run to the next."""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tessera import _c_api, errors

if TYPE_CHECKING:
    from tessera.session import Signature

Array = np.ndarray[Any, Any]


class State(Mapping[str, Array]):
    """The values of one stream of runs, by the names of the model's inputs; created by ``Model.state()``. Pass it to ``run``:
    the run reads these inputs from it, and stores the outputs that belong to them. Any number of states may be used with one
    session in turn. A growing value, such as a decoder's cache, has no rows at first.

    ``state[name]`` is a copy of a value, ``state[name] = array`` replaces it.
    """

    def __init__(self, artifact: ctypes.c_void_p, signature: Signature) -> None:
        self._api = _c_api.functions()
        handle = ctypes.c_void_p()
        _c_api.check(self._api.state_create(artifact, ctypes.byref(handle)))
        self._handle: int = handle.value or 0
        self._finalizer = weakref.finalize(self, self._api.state_destroy, handle)
        self._tensors = {}
        #: the outputs of the model that are the next values, in the order of the state's names
        self.outputs: list[str] = []
        self._growing: dict[str, int] = {}
        #: whether runs move only the new rows of growing values, rather than all rows
        self.appends = True
        for index in range(self._api.artifact_num_states(artifact)):
            info = _c_api.StateInfo()
            _c_api.check(self._api.artifact_state(artifact, index, ctypes.byref(info)))
            tensor = signature.inputs[info.input]
            self._tensors[tensor.name] = (index, tensor)
            self.outputs.append(signature.outputs[info.output].name)
            if info.growing_dim >= 0:
                self._growing[tensor.name] = info.growing_dim
                self.appends &= bool(info.appends)

    def shape(self, name: str) -> tuple[int | None, ...]:
        """The shape of a value; None for the size of a range before the first run."""
        index, tensor = self._find(name)
        extents = (ctypes.c_int64 * max(1, len(tensor.shape)))()
        _c_api.check(self._api.state_shape(self._handle, index, extents))
        return tuple(None if extent < 0 else extent for extent in extents[:len(tensor.shape)])

    @property
    def rows(self) -> int:
        """Rows of the growing values along their growing dimension, e.g. tokens in a cache; 0 if no value grows."""
        return max((self.shape(name)[dim] or 0 for name, dim in self._growing.items()), default=0)

    def __getitem__(self, name: str) -> Array:
        index, tensor = self._find(name)
        shape = self.shape(name)
        array = np.empty([0 if extent is None else extent for extent in shape], tensor.numpy_dtype)
        _c_api.check(self._api.state_get(self._handle, index, array.ctypes.data, array.nbytes))
        return array

    def __setitem__(self, name: str, value: Any) -> None:
        index, tensor = self._find(name)
        array = np.ascontiguousarray(value)
        if array.dtype != tensor.numpy_dtype:
            raise errors.InvalidInput(f"state '{name}' has another element type", reason="INVALID_INPUT", attribute=name,
                                      found=str(array.dtype), accepted=tensor.dtype)
        shape = np.shape(value)  # ascontiguousarray makes a scalar an array of one element
        extents = (ctypes.c_int64 * max(1, len(shape)))(*shape)
        _c_api.check(self._api.state_set(self._handle, index, extents, len(shape), array.ctypes.data, array.nbytes))

    def __contains__(self, name: object) -> bool:
        return name in self._tensors

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def reset(self) -> None:
        """Sets the initial values again: the model's defaults or zeros, and no rows of growing values."""
        _c_api.check(self._api.state_reset(self._handle))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes all values to a file in the safetensors format."""
        _c_api.check(self._api.state_save(self._handle, os.fsencode(path)))

    def load(self, path: str | os.PathLike[str]) -> None:
        """Replaces all values by those of a file that `save` wrote, or another safetensors file with the same tensors."""
        _c_api.check(self._api.state_load(self._handle, os.fsencode(path)))

    def __repr__(self) -> str:
        return f"<tessera.State {', '.join(f'{name}: {list(self.shape(name))}' for name in self)}>"

    def _find(self, name: str) -> Any:
        try:
            return self._tensors[name]
        except KeyError:
            raise errors.InvalidInput(f"there is no state '{name}'", reason="INVALID_INPUT", attribute=name,
                                      accepted=", ".join(self._tensors)) from None
