"""Tessera for Python: compile models on a service, run them in this process.

   import tessera

   with tessera.local() as client:                     # or tessera.connect("host:7400")
       compilation = client.compile("resnet18.onnx", shapes={"x": (1, 3, 224, 224)})
       model = compilation.artifact.load(threads=2)
   logits = model(x=image)["logits"]

``tessera.compile(...)`` uses the default service (TESSERA_SERVER), ``tessera.aio`` is the same API for asyncio, and
``tessera.load("resnet18.tsra")`` needs no service.
"""

from __future__ import annotations

from typing import Any

from tessera import aio, errors
from tessera._request import DimsLike, ModelLike, ShapesLike
from tessera._version import __version__
from tessera.client import Client, default_client
from tessera.compilation import Artifact, Compilation
from tessera.errors import TesseraError
from tessera.following import Following
from tessera.identity import Identity
from tessera.inference_session import InferenceSession, NodeArg, SessionOptions
from tessera.local import LocalService, local
from tessera.model import Model, Step, Variant, load
from tessera.session import Memory, Session, Tensor
from tessera.state import State
from tessera.table import Table
from tessera.targets import TargetLike
from tessera.training import Training
from tessera.tuning import Tuning
from tessera.views import Check, Explanation, Job, Profile, Progress


def connect(address: str | None = None, **identity: Any) -> Client:
    """Returns a client of the service at `address`: host:port, unix:/path, or by default TESSERA_SERVER or localhost:7400.
    `identity` are fields of :class:`Identity` (``token_file=``, ``tls_ca=``, ...); without any, the environment's are used."""
    return Client(address, Identity(**identity) if identity else None)


def compile(model: ModelLike, target: TargetLike = "host", *, shapes: ShapesLike | None = None,
            dims: DimsLike | None = None, client: Client | None = None, **options: Any) -> Compilation:
    """``Client.compile`` on the default service; `options` are its further arguments."""
    return (client or default_client()).compile(model, target, shapes=shapes, dims=dims, **options)


def tune(model: ModelLike, target: TargetLike = "host", *, shapes: ShapesLike | None = None,
         dims: DimsLike | None = None, client: Client | None = None, **options: Any) -> Tuning:
    """``Client.tune`` on the default service."""
    return (client or default_client()).tune(model, target, shapes=shapes, dims=dims, **options)


def follow(job_id: str, threads: int = 1, *, client: Client | None = None, **options: Any) -> Following:
    """``Client.follow`` on the default service."""
    return (client or default_client()).follow(job_id, threads, **options)


def check(model: ModelLike, target: TargetLike = "host", *, shapes: ShapesLike | None = None,
          dims: DimsLike | None = None, client: Client | None = None, **options: Any) -> Check:
    """``Client.check`` on the default service."""
    return (client or default_client()).check(model, target, shapes=shapes, dims=dims, **options)


def explain(model: ModelLike, target: TargetLike = "host", *, shapes: ShapesLike | None = None,
            dims: DimsLike | None = None, client: Client | None = None, **options: Any) -> Explanation:
    """``Client.explain`` on the default service."""
    return (client or default_client()).explain(model, target, shapes=shapes, dims=dims, **options)


__all__ = [
    "Artifact", "Check", "Client", "Compilation", "Explanation", "Following", "Identity", "InferenceSession", "Job", "LocalService",
    "Memory", "Model", "NodeArg", "Profile", "Progress", "Session", "SessionOptions", "State", "Step", "Table", "Tensor",
    "TesseraError", "Training", "Tuning", "Variant", "__version__", "aio", "check", "compile", "connect", "default_client", "errors",
    "explain", "follow", "load", "local", "tune",
]
