"""The asyncio client, with the methods of :mod:`tessera.client`.

   async with tessera.aio.Client() as client:
       artifact = await client.compile("resnet18.onnx", shapes={"x": (1, 3, 224, 224)})
       model = await artifact.load()
"""

from __future__ import annotations

import asyncio
import os
import pathlib
from collections.abc import AsyncIterator, Generator, Mapping, Sequence
from typing import Any, TypeVar

from tessera import _jobs, _lists, _requests, _transfer, _versions, errors, targets
from tessera._connection import AsyncConnection, address_or_default
from tessera._request import CompileRequest, DimsLike, ModelLike, ShapesLike
from tessera._steps import Steps, drive_async
from tessera._versions import Version
from tessera.compilation import CompilationState, OnProgress, get_artifact, save_signed
from tessera.following import FollowingState, OnVersion, download_model
from tessera.identity import Identity
from tessera.model import Model
from tessera.table import Table
from tessera.targets import TargetLike
from tessera.training import Training
from tessera.tuning import TuningState
from tessera.v1 import (analysis_pb2, artifact_pb2, artifact_versions_pb2, job_pb2, operator_service_pb2, record_pb2, target_pb2,
                        target_service_pb2, tensor_pb2, worker_service_pb2)
from tessera.views import Check, Explanation, Job, Profile, Progress

T = TypeVar("T")


class Client:
    """A connection to a service. It belongs to the event loop in which it is created. The arguments are those of
    :class:`tessera.Client`."""

    def __init__(self, address: str | None = None, identity: Identity | None = None) -> None:
        self._connection = AsyncConnection(address_or_default(address), identity or Identity.of_environment())

    @property
    def address(self) -> str:
        return self._connection.address

    async def close(self) -> None:
        await self._connection.close()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<tessera.aio.Client of {self.address}>"

    async def _drive(self, steps: Steps[T]) -> T:
        return await drive_async(steps, self._connection)

    def compile(self, model: ModelLike, target: TargetLike = "host", *, shapes: ShapesLike | None = None,
                dims: DimsLike | None = None, fixed: Mapping[str, Any] | None = None,
                external_data: Mapping[str, str | os.PathLike[str]] | None = None, format: str | None = None,
                name: str | None = None, opt_level: int = 0, verify: bool = False, precision: str = "model",
                state: str | Mapping[str, str] | None = None, training: Training | None = None,
                cache: bool = True, priority: int = 0, request_id: str | None = None, queue_timeout: float | None = None,
                run_timeout: float | None = None, total_timeout: float | None = None,
                on_progress: OnProgress | None = None) -> Compilation:
        """Starts a compilation; await the returned object for the artifact."""
        request = CompileRequest(model, target, shapes, dims, fixed, external_data, format, name, opt_level, verify,
                                 precision, state, training)
        options = _requests.options(cache, priority, request_id, queue_timeout, run_timeout, total_timeout)
        return Compilation(self, request, options, on_progress)

    def tune(self, model: ModelLike, target: TargetLike = "host", *, shapes: ShapesLike | None = None,
             dims: DimsLike | None = None, fixed: Mapping[str, Any] | None = None,
             external_data: Mapping[str, str | os.PathLike[str]] | None = None, format: str | None = None,
             name: str | None = None, mode: str = "async", method: str = "", trials: int = 0, budget: float | None = None,
             threads: int = 1, seed: int = 1, workloads: Sequence[str] = (), top: int = 0, cold: bool = False,
             records: bool = True, choices: int | None = None, priority: int = 0, request_id: str | None = None,
             queue_timeout: float | None = None, total_timeout: float | None = None,
             on_progress: OnProgress | None = None) -> Tuning:
        """Starts a search; await the returned object for the tuned artifact."""
        request = CompileRequest(model, target, shapes, dims, fixed, external_data, format, name)
        options = _requests.options(True, priority, request_id, queue_timeout, None, total_timeout)
        search = _versions.tuning(mode, method, trials, budget, threads, seed, workloads, top, cold, records, choices)
        return Tuning(self, request, options, search, on_progress)

    async def versions(self, job_id: str) -> Table[Version]:
        return await self._drive(_versions.versions(job_id))

    async def choose_version(self, job_id: str, number: int) -> Version:
        return await self._drive(_versions.choose(job_id, number))

    async def follow(self, job_id: str, threads: int = 1, *, on_version: OnVersion | None = None) -> Following:
        """Follows the artifact of a tune job: returns a callable whose model is replaced by better versions. Waits for the
        first version. Calls of it block."""
        following = Following(self, job_id, threads, on_version)
        try:
            await following._first()
        except BaseException:
            await following.close()
            raise
        return following

    async def check(self, model: ModelLike, target: TargetLike = "host", *, shapes: ShapesLike | None = None,
                    dims: DimsLike | None = None, fixed: Mapping[str, Any] | None = None,
                    external_data: Mapping[str, str | os.PathLike[str]] | None = None,
                    format: str | None = None) -> Check:
        request = CompileRequest(model, target, shapes, dims, fixed, external_data, format)
        return Check(await self._drive(_jobs.ask(request, job_pb2.AnalyzeSpec.CHECK, analysis_pb2.CheckReport(),
                                                 lambda progress: None, self._connection.known_blobs)))

    async def explain(self, model: ModelLike, target: TargetLike = "host", *, shapes: ShapesLike | None = None,
                      dims: DimsLike | None = None, fixed: Mapping[str, Any] | None = None,
                      external_data: Mapping[str, str | os.PathLike[str]] | None = None,
                      format: str | None = None) -> Explanation:
        return await self._explain(CompileRequest(model, target, shapes, dims, fixed, external_data, format))

    async def _explain(self, request: CompileRequest) -> Explanation:
        report = analysis_pb2.Explanation()
        return Explanation(await self._drive(
            _jobs.ask(request, job_pb2.AnalyzeSpec.EXPLAIN, report, lambda progress: None,
                      self._connection.known_blobs)))

    async def explain_key(self, model: ModelLike, target: TargetLike = "host", *,
                          shapes: ShapesLike | None = None, dims: DimsLike | None = None,
                          fixed: Mapping[str, Any] | None = None) -> Any:
        return await self._drive(_requests.explain_key(CompileRequest(model, target, shapes, dims, fixed)))

    async def job(self, job_id: str) -> Job:
        return Job(await self._drive(_jobs.get(job_id)))

    async def jobs(self, filter: str = "", order_by: str = "create_time desc", limit: int = 50,
                   page_token: str = "") -> Table[Job]:
        return await self._drive(_lists.jobs(filter, order_by, limit, page_token))

    async def wait(self, job_id: str, on_event: Any = None) -> Job:
        return Job(await self._drive(_jobs.follow(job_id, on_event or (lambda event: None))))

    async def cancel(self, job_id: str) -> Job:
        return Job(await self._drive(_jobs.cancel(job_id)))

    async def artifact(self, artifact_id: str) -> Artifact:
        found = await self._drive(get_artifact(artifact_id))
        return Artifact(self, found.id, found.blob)

    async def artifacts(self, filter: str = "", order_by: str = "create_time desc", limit: int = 50,
                        page_token: str = "") -> Table[artifact_pb2.Artifact]:
        return await self._drive(_lists.artifacts(filter, order_by, limit, page_token))

    async def execute(self, artifact: Artifact | str, inputs: Mapping[str, Any], *, threads: int = 1,
                      queue_timeout: float | None = None, run_timeout: float | None = None) -> dict[str, Any]:
        deadlines = _requests.deadlines(queue_timeout, run_timeout)
        return await self._drive(_jobs.execute(_requests.id_of(artifact), inputs, threads, deadlines))

    async def profile(self, artifact: Artifact | str, inputs: Mapping[str, Any] | None = None, *, threads: int = 1,
                      warmup: int = 3, repeat: int = 10, seed: int = 1, queue_timeout: float | None = None,
                      run_timeout: float | None = None) -> Profile:
        options = {"threads": threads, "warmup": warmup, "repeat": repeat, "seed": seed}
        deadlines = _requests.deadlines(queue_timeout, run_timeout)
        return Profile.of(await self._drive(
            _jobs.profile(_requests.id_of(artifact), inputs or {}, options, deadlines)))

    async def records(self, filter: str = "", order_by: str = "create_time desc", limit: int = 50,
                      page_token: str = "") -> Table[record_pb2.TuningRecord]:
        return await self._drive(_lists.records(filter, order_by, limit, page_token))

    async def targets(self, filter: str = "", order_by: str = "name", limit: int = 0,
                      page_token: str = "") -> Table[target_service_pb2.GetTargetResponse]:
        return await self._drive(_lists.targets(filter, order_by, limit, page_token))

    async def target(self, name: str) -> target_pb2.Target:
        if name == "host":
            return await asyncio.to_thread(targets.host)
        return await self._drive(_requests.get_target(name))

    async def validate_target(self, target: TargetLike) -> list[tuple[str, str]]:
        return await self._drive(_requests.validate_target(target))

    async def register_target(self, target: TargetLike) -> bool:
        return await self._drive(_requests.register_target(target))

    async def workers(self, filter: str = "", order_by: str = "id", limit: int = 0,
                      page_token: str = "") -> Table[worker_service_pb2.Worker]:
        return await self._drive(_lists.workers(filter, order_by, limit, page_token))

    async def wanted_workers(self, kind: str = "", target: str = "") -> Table[worker_service_pb2.WantedWorkers]:
        return await self._drive(_lists.wanted_workers(kind, target))

    async def operators(self, filter: str = "", order_by: str = "name", limit: int = 0,
                        page_token: str = "") -> Table[operator_service_pb2.OperatorInfo]:
        return await self._drive(_lists.operators(filter, order_by, limit, page_token))


class Compilation(CompilationState):
    """A running compilation: ``await`` it for the artifact, ``async for`` yields its progress."""

    def __init__(self, client: Client, request: CompileRequest, options: dict[str, Any],
                 on_progress: OnProgress | None) -> None:
        super().__init__(request, options, on_progress)
        self._client = client
        self._changed = asyncio.Event()
        self._task = asyncio.ensure_future(self._run())

    async def _run(self) -> Artifact:
        return Artifact(self._client, *await self._client._drive(self._conversation()))

    def __await__(self) -> Generator[Any, None, Artifact]:
        # A caller that stops waiting (asyncio.wait_for) does not cancel the job; only cancel() does.
        return asyncio.shield(self._task).__await__()

    async def __aiter__(self) -> AsyncIterator[Progress]:
        self._task.add_done_callback(lambda _: self._changed.set())
        seen = Progress()
        while not self._task.done():
            await self._changed.wait()
            self._changed.clear()
            if self.progress != seen:
                seen = self.progress
                yield seen

    def _saw(self, progress: Progress) -> None:
        super()._saw(progress)
        self._changed.set()

    def done(self) -> bool:
        return self._task.done()

    async def cancel(self) -> None:
        """Cancels the job; awaiting the compilation then raises Cancelled, unless it had finished."""
        self._cancel_asked = True
        if self._job and not self.done():
            await self._client._drive(_jobs.cancel(self._job.id))

    async def explain(self) -> Explanation:
        return await self._client._explain(self._request)

    def __repr__(self) -> str:
        return self._describe("done" if self.done() else f"running, {self.progress}")


class Tuning(TuningState, Compilation):
    """A running search: ``await`` it for the tuned artifact, ``async for`` yields its progress."""

    def __init__(self, client: Client, request: CompileRequest, options: dict[str, Any],
                 tuning: artifact_versions_pb2.CreateTuningRequest, on_progress: OnProgress | None) -> None:
        self._tuning = tuning
        super().__init__(client, request, options, on_progress)


class Following(FollowingState):
    """The result of ``Client.follow``. An async context manager; ``close()`` stops following, but does not end the job."""

    def __init__(self, client: Client, job_id: str, threads: int, on_version: OnVersion | None) -> None:
        super().__init__(job_id, on_version)
        self._client = client
        self._threads = threads
        self._wanted: asyncio.Queue[Version | None] = asyncio.Queue()
        self._tasks = [asyncio.ensure_future(self._watch()), asyncio.ensure_future(self._fetch())]
        self._ready = asyncio.Event()

    async def _first(self) -> None:
        await self._ready.wait()
        if self._model is None:
            raise self.error or errors.NotFound(f"job {self.job_id} ended without a version", job_id=self.job_id)

    async def _watch(self) -> None:
        try:
            await self._client._drive(_versions.watch(self.job_id, self._wanted.put_nowait, lambda: self._stopping))
        except errors.TesseraError as error:
            self._lost(error)
        finally:
            self._wanted.put_nowait(None)

    async def _fetch(self) -> None:
        try:
            while (version := await self._wanted.get()) is not None:
                try:
                    model = await self._client._drive(download_model(version, self._threads))
                except errors.NotFound as error:  # collected, because a later version exists: use that one
                    self.error = error
                    continue
                self.error = None
                self._replace(version, model)
                self._ready.set()
        except errors.TesseraError as error:
            self._lost(error)
        finally:
            self._ready.set()

    async def close(self) -> None:
        self._stopping = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def __aenter__(self) -> Following:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Artifact:
    """An artifact on the service."""

    def __init__(self, client: Client, artifact_id: str, digest: tensor_pb2.Digest) -> None:
        self._client = client
        self.id = artifact_id
        self.size_bytes = digest.size_bytes
        self._digest = digest

    async def manifest(self) -> artifact_pb2.Manifest:
        return (await self._client._drive(get_artifact(self.id))).manifest

    async def save(self, path: str | os.PathLike[str]) -> pathlib.Path:
        return await self._client._drive(save_signed(self.id, self._digest, pathlib.Path(path), self._client.address))

    async def load(self, threads: int = 1) -> Model:
        file = os.memfd_create("tessera-artifact", os.MFD_CLOEXEC)
        try:
            await self._client._drive(_transfer.download(self._digest, file))
            return await asyncio.to_thread(Model.from_descriptor, file, threads)
        finally:
            os.close(file)

    def __repr__(self) -> str:
        return f"<tessera.aio.Artifact {self.id[:12]} of {self.size_bytes} bytes>"
