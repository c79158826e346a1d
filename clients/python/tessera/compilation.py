"""A running compilation and its artifact, for blocking programs."""

from __future__ import annotations

import concurrent.futures
import os
import pathlib
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tessera import _html, _jobs, _transfer, errors, trust
from tessera._request import CompileRequest
from tessera._steps import Steps, Work, call
from tessera.identity import is_local
from tessera.v1 import artifact_pb2, job_pb2, signing_service_pb2, tensor_pb2
from tessera.views import Explanation, Job, Progress

if TYPE_CHECKING:
    from tessera.client import Client
    from tessera.model import Model

OnProgress = Callable[[Progress], None]


class CompilationState:
    """The state of a running compilation; shared by blocking and asyncio clients."""

    _client: Any

    def __init__(self, request: CompileRequest, options: dict[str, Any], on_progress: OnProgress | None) -> None:
        self._request = request
        self._options = options
        self._on_progress = on_progress
        self._cancel_asked = False
        self._submitted = threading.Event()  # set when the job exists, or never will
        self._job: Job | None = None
        self.progress = Progress()  #: the latest; also passed to ``on_progress``
        self.events: list[job_pb2.JobEvent] = []  #: events of the job so far

    @property
    def job(self) -> Job | None:
        """The job as last seen; None during the upload."""
        return self._job

    @property
    def job_id(self) -> str:
        return self._job.id if self._job else ""

    def _saw(self, progress: Progress) -> None:
        if self._cancel_asked and not self._job:
            raise errors.Cancelled("cancelled before there was a job")
        self.progress = progress
        if self._on_progress:
            self._on_progress(progress)

    def _event(self, event: job_pb2.JobEvent) -> None:
        self.events.append(event)
        kind = event.WhichOneof("event")
        if kind == "progress":
            now = event.progress
            self._saw(Progress(now.phase, now.done, now.total, now.detail))
        elif kind == "queue":
            self._saw(Progress("queued", detail=f"position {event.queue.position}"))

    def _submit(self) -> Steps[job_pb2.Job]:
        return (yield from _jobs.submit(self._request, self._options, self._saw, self._client._connection.known_blobs))

    def _made(self, job: job_pb2.Job) -> Steps[tuple[str, tensor_pb2.Digest]]:
        """The artifact of a successful job."""
        return job.compile_result.artifact_id, job.compile_result.artifact
        yield  # makes this function a generator

    def _conversation(self) -> Steps[tuple[str, tensor_pb2.Digest]]:
        job = yield from self._submit()
        self._job = Job(job)
        self._submitted.set()
        if self._cancel_asked:
            job = yield from _jobs.cancel(job.id)
        job = yield from _jobs.finished(job, self._event)
        self._job = Job(job)
        return (yield from self._made(job))

    def _describe(self, state: str) -> str:
        return f"<tessera.{type(self).__name__} {self.job_id or 'without a job yet'}: {state}>"

    def _describe_html(self, state: str) -> str:
        values = {"state": state, "progress": str(self.progress), "job": self.job_id}
        if self._job:
            values["phases"] = ", ".join(f"{name} {ms:.4g} ms" for name, ms in self._job.phases_ms.items())
            values["cached"] = "yes" if self._job.cached else ""
        return _html.fields(f"tessera {type(self).__name__.lower()}", values)


class Compilation(CompilationState):
    """A future. The work runs in a thread of its own; the job continues on the service if this program ends."""

    def __init__(self, client: Client, request: CompileRequest, options: dict[str, Any],
                 on_progress: OnProgress | None) -> None:
        super().__init__(request, options, on_progress)
        self._client = client
        self._future: concurrent.futures.Future[Artifact] = concurrent.futures.Future()
        self._future.set_running_or_notify_cancel()
        threading.Thread(target=self._run, name="tessera-compile", daemon=True).start()

    def _run(self) -> None:
        try:
            self._future.set_result(Artifact(self._client, *self._client._drive(self._conversation())))
        except BaseException as error:
            self._future.set_exception(error)
        finally:
            self._submitted.set()

    def done(self) -> bool:
        """Whether the compilation has ended."""
        return self._future.done()

    def result(self, timeout: float | None = None) -> Artifact:
        """Waits for the artifact. Raises the compilation's error, or TimeoutError after `timeout` seconds; the job continues
        then."""
        try:
            return self._future.result(timeout)
        except concurrent.futures.TimeoutError as error:
            if self._future.done():
                raise
            raise TimeoutError(f"no artifact within {timeout} s: {self.progress}") from error

    @property
    def artifact(self) -> Artifact:
        """The same as ``result()``."""
        return self.result()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Waits for the end; returns the error, or None after success."""
        return self._future.exception(timeout)

    def add_done_callback(self, function: Callable[[Compilation], Any]) -> None:
        """Calls ``function(self)`` at the end, or at once if it has ended."""
        self._future.add_done_callback(lambda _: function(self))

    def cancel(self) -> None:
        """Cancels the job; ``result()`` then raises Cancelled, unless the job had finished."""
        self._cancel_asked = True
        if self._job and not self.done():
            self._client._drive(_jobs.cancel(self._job.id))

    def explain(self) -> Explanation:
        """Requests an explanation of the model from the service."""
        return self._client._explain(self._request)

    def _state(self) -> str:
        if not self.done():
            return f"running, {self.progress}" if str(self.progress) else "running"
        error = self.exception()
        return f"{type(error).__name__}: {error}" if error else "done"

    def __repr__(self) -> str:
        return self._describe(self._state())

    def _repr_html_(self) -> str:
        return self._describe_html(self._state())


class Artifact:
    """An artifact on the service."""

    def __init__(self, client: Client, artifact_id: str, digest: tensor_pb2.Digest) -> None:
        self._client = client
        self.id = artifact_id
        self.size_bytes = digest.size_bytes
        self._digest = digest
        self._manifest: artifact_pb2.Manifest | None = None

    @property
    def manifest(self) -> artifact_pb2.Manifest:
        """Inputs, outputs, sizes, and requirements on a host."""
        if self._manifest is None:
            self._manifest = self._client._drive(get_artifact(self.id)).manifest
        return self._manifest

    def save(self, path: str | os.PathLike[str], progress: _transfer.Progress = _transfer._ignore) -> pathlib.Path:
        """Downloads the artifact to `path`; resumes an earlier attempt, and does nothing if the same file exists.

        Writes the signature to ``path.sig`` for later loading with `trust`. The key of a service on this machine is added to
        the trusted keys.
        """
        return self._client._drive(save_signed(self.id, self._digest, pathlib.Path(path), self._client.address, progress))

    def load(self, threads: int = 1) -> Model:
        """Downloads the artifact into memory, ready to be called. It is native code: load only artifacts that you trust."""
        from tessera.model import Model

        file = os.memfd_create("tessera-artifact", os.MFD_CLOEXEC)
        try:
            self._client._drive(_transfer.download(self._digest, file))
            return Model.from_descriptor(file, threads)
        finally:
            os.close(file)

    def __repr__(self) -> str:
        return f"<tessera.Artifact {self.id[:12]} of {self.size_bytes} bytes>"

    def _repr_html_(self) -> str:
        return manifest_html(self.id, self.size_bytes, self.manifest)


def save_signed(artifact_id: str, digest: tensor_pb2.Digest, path: pathlib.Path, address: str,
                progress: _transfer.Progress = _transfer._ignore) -> Steps[pathlib.Path]:
    saved = yield from _transfer.download_file(digest, path, progress)
    answer = yield from call("SigningService.SignArtifact",
                             signing_service_pb2.SignArtifactRequest(artifact_id=artifact_id))
    yield Work(lambda: trust.keep(trust.Signature(artifact_id, answer.public_key, answer.signature), path))
    if is_local(address):
        yield Work(lambda: trust.add_key(answer.public_key, address))
    return saved


def get_artifact(artifact_id: str) -> Steps[artifact_pb2.Artifact]:
    answer = yield from call("ArtifactService.GetArtifact", artifact_pb2.GetArtifactRequest(id=artifact_id))
    return answer.artifact


def manifest_html(artifact_id: str, size_bytes: int, manifest: artifact_pb2.Manifest) -> str:
    from tessera import dtypes

    def border(specs: Any) -> str:
        return ", ".join(f"{s.name}: {dtypes.describe(dtypes.of_number(s.dtype).name, s.shape)}" for s in specs)

    return _html.fields(f"artifact {manifest.name} for {manifest.target_name}", {
        "id": artifact_id, "bytes": size_bytes, "inputs": border(manifest.inputs), "outputs": border(manifest.outputs),
        "variants": len(manifest.variants) or "", "kernels": manifest.kernels,
        "errors of some runs": "; ".join(manifest.run_faults),
        "plain loops": ", ".join(manifest.scalar_kernels), "compiler": manifest.compiler_version})
