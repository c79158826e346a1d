"""Runs the artifact of a tune job during its search: newer versions replace it between two runs."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tessera import _transfer, _versions, errors
from tessera._steps import Steps, Work
from tessera._versions import Version
from tessera.model import Model
from tessera.session import Session, Tensor

if TYPE_CHECKING:
    from tessera.client import Client

Array = np.ndarray[Any, Any]
OnVersion = Callable[[Version], None]


def download_model(version: Version, threads: int) -> Steps[Model]:
    file = os.memfd_create("tessera-artifact", os.MFD_CLOEXEC)
    try:
        yield from _transfer.download(version.artifact, file)
        return (yield Work(lambda: Model.from_descriptor(file, threads)))
    finally:
        os.close(file)


class FollowingState:
    """The current model of a job, called like a :class:`tessera.Model`. Thread-safe. A run in progress ends with the version
    that it started with; versions are downloaded while the model runs."""

    def __init__(self, job_id: str, on_version: OnVersion | None) -> None:
        self.job_id = job_id
        self.version: Version | None = None  #: the running version
        self.error: errors.TesseraError | None = None  #: why no newer versions will come; the current one still runs
        self._on_version = on_version
        self._model: Model | None = None
        self._lock = threading.Lock()
        self._sessions: list[Session] = []  # all sessions
        self._idle: list[Session] = []  # pop and append are atomic
        self._stopping = False

    @property
    def model(self) -> Model:
        """The version that runs."""
        if self._model is None:
            raise errors.NotFound(f"job {self.job_id} has no version yet", job_id=self.job_id)
        return self._model

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return self.model.inputs

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return self.model.outputs

    def _replace(self, version: Version, model: Model) -> None:
        with self._lock:
            for session in self._sessions:
                session.replace(model)
            self._model, self.version = model, version
        if self._on_version:
            self._on_version(version)

    def _session(self) -> Session:
        try:
            return self._idle.pop()
        except IndexError:
            with self._lock:  # no session is created for a model that is being replaced
                session = self.model.session()
                self._sessions.append(session)
                return session

    def __call__(self, *arrays: Any, **named: Any) -> dict[str, Array]:
        """Runs once, like ``Model``."""
        session = self._session()
        try:
            return session(*arrays, **named)
        finally:
            self._idle.append(session)

    def run(self, inputs: Mapping[str, Any], outputs: Mapping[str, Array] | None = None) -> dict[str, Array]:
        session = self._session()
        try:
            return session.run(inputs, outputs)
        finally:
            self._idle.append(session)

    def _lost(self, error: errors.TesseraError) -> None:
        self.error = error
        if self._model is not None and not self._stopping:
            warnings.warn(f"job {self.job_id} is followed no longer, version {self.version.number if self.version else 0} "
                          f"stays: {error}", RuntimeWarning, stacklevel=2)

    def __repr__(self) -> str:
        now = f"version {self.version.number}" if self.version else "no version yet"
        return f"<tessera.{type(self).__name__} of {self.job_id}: {now}{f', {self.error}' if self.error else ''}>"

    def _repr_html_(self) -> str:
        return self.model._repr_html_() if self._model else f"<p>{self.job_id}: no version yet</p>"


class Following(FollowingState):
    """The result of ``Client.follow``. A context manager; ``close()`` stops following, but does not end the job."""

    def __init__(self, client: Client, job_id: str, threads: int, on_version: OnVersion | None,
                 timeout: float | None) -> None:
        super().__init__(job_id, on_version)
        self._client = client
        self._threads = threads
        self._ready = threading.Event()
        threading.Thread(target=self._watch, name="tessera-follow", daemon=True).start()
        if not self._ready.wait(timeout):
            self.close()
            raise TimeoutError(f"job {job_id} has no version after {timeout} s")
        if self._model is None:
            raise self.error or errors.NotFound(f"job {job_id} ended without a version", job_id=job_id)

    def _watch(self) -> None:
        try:
            self._client._drive(_versions.watch(self.job_id, self._fetch, lambda: self._stopping))
        except errors.TesseraError as error:
            self._lost(error)
        finally:
            self._ready.set()

    def _fetch(self, version: Version) -> None:
        if self._stopping:
            return
        try:
            model = self._client._drive(download_model(version, self._threads))
        except errors.NotFound as error:  # collected, because a later version exists: use that one
            self.error = error
            return
        self.error = None
        self._replace(version, model)
        self._ready.set()

    def close(self) -> None:
        self._stopping = True

    def __enter__(self) -> Following:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
