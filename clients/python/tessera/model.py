"""Artifacts in this process: load, call, look at.

    model = tessera.load("resnet18.tsra")
    outputs = model(x=array)          # {"logits": array}

Arrays are used where they lie, none is copied; results are new arrays that the generated code wrote. Whatever has
``__dlpack__`` on the CPU (a PyTorch tensor) is taken as well, and results have it (``torch.from_dlpack(result)``).
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import os
import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np

from tessera import _c_api, _html, dtypes, errors
from tessera.session import Memory, Session, Signature, Tensor
from tessera.table import Table
from tessera.trust import Trust
from tessera.trust import check as check_trust

Array = np.ndarray[Any, Any]

VERIFY_WEIGHTS = 1


@dataclasses.dataclass(frozen=True)
class Step:
    """One fused group of the model."""
    name: str  #: graph nodes it stems from
    symbol: str  #: of its kernel; equal workloads share one
    phases: int
    max_grid: int  #: in how many parts threads can share it
    flops: int


@dataclasses.dataclass(frozen=True)
class Variant:
    """One specialisation of the model."""
    dimensions: dict[str, int]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    steps: Table[Step]
    flops: int


class Model:
    """A loaded artifact. Thread-safe: threads that call at once each get a session of their own."""

    def __init__(self, handle: ctypes.c_void_p, threads: int) -> None:
        if not isinstance(threads, int) or not 1 <= threads <= 1024:
            _c_api.functions().artifact_destroy(handle)
            raise errors.InvalidInput("threads is 1 to 1024", attribute="threads", found=repr(threads))
        self._api = _c_api.functions()
        self._handle = handle
        self.threads = threads
        self._finalizer = weakref.finalize(self, self._api.artifact_destroy, handle)
        self._signatures = [self._signature(index) for index in range(self._api.artifact_num_variants(handle))]
        self._idle: list[Session] = []  # pop and append are atomic
        _models.add(self)

    @staticmethod
    def from_descriptor(file: int, threads: int = 1, verify_weights: bool = False) -> Model:
        """Of an open file, which may be closed afterwards."""
        handle = ctypes.c_void_p()
        api = _c_api.functions()
        _c_api.check(api.artifact_load_fd(file, VERIFY_WEIGHTS if verify_weights else 0, ctypes.byref(handle)))
        return Model(handle, threads)

    # What it is.

    def _tensors(self, read: Any, variant: int, count: int, results: bool) -> tuple[Tensor, ...]:
        tensors = []
        for index in range(count):
            info = _c_api.TensorInfo()
            _c_api.check(read(self._handle, variant, index, ctypes.byref(info)))
            dtype = dtypes.of_number(info.dtype)
            bounds = self._api.artifact_bounded_dims if results else self._api.artifact_ranged_dims
            bounded = bounds(self._handle, index)
            dims = tuple(d for d in range(info.rank) if bounded >> d & 1)
            followed = () if results else tuple(
                self._dimension(variant, self._api.artifact_range_of(self._handle, index, d)).name.decode() for d in dims)
            shape = tuple(info.shape[:info.rank])
            default = None
            if not results and (address := self._api.artifact_default_input(self._handle, index)):
                default = np.frombuffer(ctypes.string_at(address, info.size_bytes), dtype.numpy).reshape(shape)
            fixed = default is not None and self._api.artifact_fixed_input(self._handle, index)
            tensors.append(Tensor(info.name.decode(), dtype.name, shape, info.size_bytes, dims, followed, dtype.numpy,
                                  default if fixed else None, default))
        return tuple(tensors)

    def _signature(self, variant: int) -> Signature:
        api = self._api
        inputs = self._tensors(api.artifact_variant_input, variant, api.artifact_num_inputs(self._handle), False)
        outputs = self._tensors(api.artifact_variant_output, variant, api.artifact_num_outputs(self._handle), True)
        return Signature(inputs, outputs, self._variant_info(variant).num_steps)

    def _dimension(self, variant: int, position: int) -> _c_api.Dimension:
        dimension = _c_api.Dimension()
        _c_api.check(self._api.artifact_variant_dimension(self._handle, variant, position, ctypes.byref(dimension)))
        return dimension

    def _variant_info(self, variant: int) -> _c_api.VariantInfo:
        info = _c_api.VariantInfo()
        _c_api.check(self._api.artifact_variant(self._handle, variant, ctypes.byref(info)))
        return info

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """Of the first variant, the only one of most artifacts."""
        return self._signatures[0].inputs

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return self._signatures[0].outputs

    @functools.cached_property
    def variants(self) -> tuple[Variant, ...]:
        """All specialisations; shapes of the inputs choose the one that runs."""
        return tuple(self._variant(index, signature) for index, signature in enumerate(self._signatures))

    def _variant(self, index: int, signature: Signature) -> Variant:
        info = self._variant_info(index)
        dimensions, steps = {}, []
        for position in range(info.num_dimensions):
            dimension = self._dimension(index, position)
            dimensions[dimension.name.decode()] = dimension.size
        for position in range(info.num_steps):
            step = _c_api.StepInfo()
            _c_api.check(self._api.artifact_variant_step(self._handle, index, position, ctypes.byref(step)))
            steps.append(Step(step.name.decode(), step.symbol.decode(), step.num_phases, step.max_grid, step.flops))
        columns = {field.name: _reader(field.name) for field in dataclasses.fields(Step)}
        return Variant(dimensions, signature.inputs, signature.outputs, Table(steps, columns), info.flops)

    @property
    def steps(self) -> Table[Step]:
        """Of the first variant, in the order in which they run."""
        return self.variants[0].steps

    @property
    def memory(self) -> Memory:
        """What any run takes at most, whatever the sizes of ranges."""
        info = _c_api.MemoryInfo()
        _c_api.check(self._api.artifact_memory(self._handle, ctypes.byref(info)))
        return Memory(info.weights_bytes, info.arena_bytes, info.workspace_bytes, info.scratch_bytes)

    @property
    def prepared_bytes(self) -> int:
        """Bytes of weights that take more room in memory than in the file: the first session computes them for all."""
        return int(self._api.artifact_prepared_bytes(self._handle))

    # Running.

    def session(self, threads: int | None = None) -> Session:
        """A session to keep: one run at a time, with memory and threads of its own."""
        handle = ctypes.c_void_p()
        _c_api.check(self._api.session_create(self._handle, threads or self.threads, ctypes.byref(handle)))
        return Session(handle, self._signatures)

    def __call__(self, *arrays: Any, **named: Any) -> dict[str, Array]:
        """Runs once. Arrays by name; a mapping for names that are no identifiers; or in the order of ``inputs``."""
        try:
            session = self._idle.pop()
        except IndexError:
            session = self.session()
        try:
            return session(*arrays, **named)
        finally:
            self._idle.append(session)

    def run(self, inputs: Mapping[str, Any], outputs: Mapping[str, Array] | None = None) -> dict[str, Array]:
        """The same for a mapping, into given arrays where there are some."""
        try:
            session = self._idle.pop()
        except IndexError:
            session = self.session()
        try:
            return session.run(inputs, outputs)
        finally:
            self._idle.append(session)

    def __repr__(self) -> str:
        def border(tensors: tuple[Tensor, ...]) -> str:
            return ", ".join(map(str, tensors))
        more = f", {len(self._signatures)} variants" if len(self._signatures) > 1 else ""
        return f"<tessera.Model {border(self.inputs)} -> {border(self.outputs)}{more}>"

    def _repr_html_(self) -> str:
        rows = [("input", t.name, t.dtype, list(t.shape), _note(t)) for t in self.inputs]
        rows += [("output", t.name, t.dtype, list(t.shape), "") for t in self.outputs]
        memory = self.memory
        note = (f"{len(self.steps)} steps, {len(self._signatures)} variants, weights {memory.weights_bytes} bytes, "
                f"arena {memory.arena_bytes} bytes, {self.threads} threads")
        return _html.table(["", "name", "type", "shape", ""], rows, note)


def _note(tensor: Tensor) -> str:
    return "" if tensor.default is None else "optional" if tensor.value is None else "fixed"


def _reader(name: str) -> Any:
    return lambda item: getattr(item, name)


_models: weakref.WeakSet[Model] = weakref.WeakSet()


def _forget_sessions() -> None:
    """In a forked child the threads of sessions are gone: they can be neither used nor ended there."""
    for model in _models:
        for session in model._idle:
            session._finalizer.detach()
        model._idle.clear()


os.register_at_fork(after_in_child=_forget_sessions)


def load(artifact: str | os.PathLike[str] | Any, threads: int = 1, *, verify_weights: bool = False,
         trust: Trust | None = None) -> Model:
    """A ``.tsra`` file, or an artifact of the service, ready to be called.

    It holds native code. So a file is loaded only when it is, byte for byte, what a trusted key has signed (``FILE.sig``
    beside it): with `trust` True, which it is unless given, a key that the command ``tessera`` trusts, else one of a file of keys, or of keys. False
    loads it as it is: say so where you know whence it comes. The file must not change while it is loaded. `threads` is
    that of each run; `verify_weights` also checks the weights' checksum, which reads them all.
    """
    if not isinstance(artifact, (str, os.PathLike)):
        if not hasattr(artifact, "load"):
            raise errors.InvalidInput("this cannot be loaded", found=type(artifact).__name__,
                                      accepted="the path of a .tsra file, or an artifact")
        if trust not in (None, False) or verify_weights:
            raise errors.InvalidInput("only a file is checked before it is loaded", found="an artifact of the service",
                                      fix="save() it, and load the file")
        return artifact.load(threads)
    if not os.path.exists(artifact):
        raise errors.NotFound(f"there is no file {os.fspath(artifact)}")
    if trust is not False:
        try:
            file = os.open(artifact, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise errors.of_os(error) from error
        try:  # the file that was checked, whatever has its name by then
            check_trust(file, artifact, True if trust is None else trust)
            return Model.from_descriptor(file, threads, verify_weights)
        finally:
            os.close(file)
    handle = ctypes.c_void_p()
    flags = VERIFY_WEIGHTS if verify_weights else 0
    _c_api.check(_c_api.functions().artifact_load(os.fsencode(artifact), flags, ctypes.byref(handle)))
    return Model(handle, threads)
