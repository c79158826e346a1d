"""Artifacts in this process: load, call, inspect.

   model = tessera.load("resnet18.tsra")
   outputs = model(x=array)          # {"logits": array}

Input arrays are used in place without copies; results are new arrays that the generated code wrote. Objects with ``__dlpack__``
on the CPU (PyTorch tensors) are accepted, and results provide it (``torch.from_dlpack(result)``).
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
from tessera.state import State
from tessera.table import Table
from tessera.trust import Trust
from tessera.trust import check as check_trust

Array = np.ndarray[Any, Any]

VERIFY_WEIGHTS = 1


@dataclasses.dataclass(frozen=True)
class Step:
    """One fused group of the model."""
    name: str  #: the graph nodes it computes
    symbol: str  #: of the kernel; equal workloads share one
    phases: int
    max_grid: int  #: number of parts that threads can share
    flops: int


@dataclasses.dataclass(frozen=True)
class Variant:
    """One variant of the model: a set of sizes for its dimensions."""
    dimensions: dict[str, int]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    steps: Table[Step]
    flops: int


class Model:
    """A loaded artifact. Thread-safe: concurrent calls get one session each."""

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
        """Loads an open file, which may be closed afterwards."""
        handle = ctypes.c_void_p()
        api = _c_api.functions()
        _c_api.check(api.artifact_load_fd(file, VERIFY_WEIGHTS if verify_weights else 0, ctypes.byref(handle)))
        return Model(handle, threads)

    # Properties.

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
        """Inputs of the first variant; most artifacts have only one."""
        return self._signatures[0].inputs

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return self._signatures[0].outputs

    @functools.cached_property
    def variants(self) -> tuple[Variant, ...]:
        """All variants; the shapes of the inputs select the one that runs."""
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
        """Steps of the first variant, in execution order."""
        return self.variants[0].steps

    @property
    def memory(self) -> Memory:
        """Upper bound of the memory of a run, for all sizes of ranges."""
        info = _c_api.MemoryInfo()
        _c_api.check(self._api.artifact_memory(self._handle, ctypes.byref(info)))
        return Memory(info.weights_bytes, info.arena_bytes, info.workspace_bytes, info.scratch_bytes)

    @property
    def prepared_bytes(self) -> int:
        """Bytes of weights that are larger in memory than in the file; the first session computes them for all sessions."""
        return int(self._api.artifact_prepared_bytes(self._handle))

    # Running.

    def session(self, threads: int | None = None) -> Session:
        """Creates a session: one run at a time, with its own memory and threads."""
        handle = ctypes.c_void_p()
        _c_api.check(self._api.session_create(self._handle, threads or self.threads, ctypes.byref(handle)))
        return Session(handle, self._signatures)

    def __call__(self, *arrays: Any, **named: Any) -> dict[str, Array]:
        """Runs once. Pass arrays by name, as a mapping for names that are no identifiers, or in the order of ``inputs``."""
        try:
            session = self._idle.pop()
        except IndexError:
            session = self.session()
        try:
            return session(*arrays, **named)
        finally:
            self._idle.append(session)

    def state(self) -> State:
        """Creates the initial values of one stream of runs, for an artifact compiled with `state`."""
        return State(self._handle, self._signatures[0])

    def run(self, inputs: Mapping[str, Any], outputs: Mapping[str, Array] | None = None, state: State | None = None) -> dict[str, Array]:
        """Runs once with a mapping of inputs; writes outputs to the given arrays, if any. `state`: see ``Session.run``."""
        try:
            session = self._idle.pop()
        except IndexError:
            session = self.session()
        try:
            return session.run(inputs, outputs, state)
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
    """A forked child lacks the threads of the sessions, so it can neither use nor close them."""
    for model in _models:
        for session in model._idle:
            session._finalizer.detach()
        model._idle.clear()


os.register_at_fork(after_in_child=_forget_sessions)


def load(artifact: str | os.PathLike[str] | Any, threads: int = 1, *, verify_weights: bool = False,
         trust: Trust | None = None) -> Model:
    """Loads a ``.tsra`` file, or an artifact of the service.

    An artifact is native code. A file is loaded only if a trusted key signed exactly its bytes (``FILE.sig`` next to it).
    `trust` True, the default, uses the keys that the ``tessera`` command trusts; otherwise pass a file of keys, or keys. False
    skips the check: use it only for files of known origin. The file must not change during loading. `threads` is the number of
    threads of each run. `verify_weights` also checks the checksum of the weights, which reads all of them.
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
        try:  # the file that was checked, even if the name refers to another one by now
            check_trust(file, artifact, True if trust is None else trust)
            return Model.from_descriptor(file, threads, verify_weights)
        finally:
            os.close(file)
    handle = ctypes.c_void_p()
    flags = VERIFY_WEIGHTS if verify_weights else 0
    _c_api.check(_c_api.functions().artifact_load(os.fsencode(artifact), flags, ctypes.byref(handle)))
    return Model(handle, threads)
