"""A session with ONNX Runtime's interface.

   session = tessera.InferenceSession("resnet18.onnx")     # or a .tsra
   logits, = session.run(None, {"x": array})
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tessera import dtypes, errors
from tessera._request import DimsLike, ModelLike, ShapesLike
from tessera.client import Client, default_client
from tessera.model import Model, load
from tessera.session import Tensor, as_array
from tessera.targets import TargetLike
from tessera.trust import Trust

PROVIDER = "TesseraExecutionProvider"


@dataclasses.dataclass(frozen=True)
class NodeArg:
    """An input or output, with ONNX Runtime's attributes."""
    name: str
    type: str  #: "tensor(float)"
    shape: list[int]


@dataclasses.dataclass
class SessionOptions:
    """The options of ONNX Runtime that have a meaning here."""
    intra_op_num_threads: int = 0  #: of a run; 0: one


class InferenceSession:
    """A session for a ``.tsra`` file, or for a model, which the service compiles.

    A model with only bound dimensions is compiled at once. Otherwise each new set of input shapes is compiled at its first run
    (or bind the dimensions with `shapes` or `dims`); the service answers repeated ones from its cache. Non-contiguous inputs
    are copied, as ONNX Runtime does; ``tessera.load`` rejects them instead.
    """

    def __init__(self, path_or_bytes: ModelLike, sess_options: SessionOptions | None = None,
                 providers: Sequence[Any] | None = None, provider_options: Sequence[Any] | None = None, *,
                 client: Client | None = None, target: TargetLike = "host", shapes: ShapesLike | None = None,
                 dims: DimsLike | None = None, fixed: Mapping[str, Any] | None = None, trust: Trust = True) -> None:
        """`trust` has the meaning of ``tessera.load``. `providers` and `provider_options` are accepted and ignored: this
        package is the only provider."""
        self._threads = max(1, getattr(sess_options, "intra_op_num_threads", 0) or 1)
        self._model = path_or_bytes
        self._client = client
        self._target = target
        self._fixed = fixed
        self._lock = threading.Lock()
        self._by_shapes: dict[tuple[tuple[str, tuple[int, ...]], ...], Model] = {}
        self._loaded: Model | None = None
        if isinstance(path_or_bytes, (str, os.PathLike)) and pathlib.Path(path_or_bytes).suffix == ".tsra":
            self._loaded = load(path_or_bytes, self._threads, trust=trust)
            return
        try:
            self._loaded = self._compile(shapes, dims)
        except errors.UnboundDimension:
            if shapes or dims:
                raise

    def _compile(self, shapes: ShapesLike | None, dims: DimsLike | None) -> Model:
        client = self._client or default_client()
        compilation = client.compile(self._model, self._target, shapes=shapes, dims=dims, fixed=self._fixed)
        return compilation.result().load(self._threads)

    def _model_for(self, feeds: Mapping[str, np.ndarray[Any, Any]]) -> Model:
        if self._loaded is not None:
            return self._loaded
        key = tuple(sorted((name, array.shape) for name, array in feeds.items()))
        with self._lock:  # concurrent threads with the same shapes compile once
            if key not in self._by_shapes:
                self._by_shapes[key] = self._compile({name: array.shape for name, array in feeds.items()}, None)
            return self._by_shapes[key]

    def run(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any],
            run_options: Any = None) -> list[np.ndarray[Any, Any]]:
        """Returns the named outputs in their order, or all for None. `run_options` is accepted and ignored."""
        feeds = {name: np.require(as_array(value, name), requirements=["C", "A"]) for name, value in input_feed.items()}
        model = self._model_for(feeds)
        results = model.run(feeds)
        names = output_names or [tensor.name for tensor in model.outputs]
        for name in names:
            if name not in results:
                raise errors.InvalidInput(f"there is no output '{name}'", reason="INVALID_INPUT", attribute=name,
                                          accepted=", ".join(results))
        return [results[name] for name in names]

    def get_inputs(self) -> list[NodeArg]:
        return [_node_arg(tensor) for tensor in self._known().inputs]

    def get_outputs(self) -> list[NodeArg]:
        return [_node_arg(tensor) for tensor in self._known().outputs]

    def get_providers(self) -> list[str]:
        return [PROVIDER]

    def _known(self) -> Model:
        model = self._loaded or next(iter(self._by_shapes.values()), None)
        if model is None:
            raise errors.UnboundDimension("inputs and outputs are known once the model's dimensions are bound",
                                          reason="UNBOUND_DIMENSION", fix="give shapes= or dims=, or run it first")
        return model


def _node_arg(tensor: Tensor) -> NodeArg:
    number = next(n for n in range(1, 14) if dtypes.of_number(n).name == tensor.dtype)
    return NodeArg(tensor.name, dtypes.of_number(number).onnx, list(tensor.shape))
