"""A running search for schedules, for blocking programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tessera import _jobs, _versions
from tessera._request import CompileRequest
from tessera._steps import Steps
from tessera.compilation import Compilation, CompilationState, OnProgress, get_artifact
from tessera.table import Table
from tessera.v1 import artifact_versions_pb2, job_pb2, tensor_pb2
from tessera.views import Job, Progress

if TYPE_CHECKING:
    from tessera.client import Client
    from tessera.following import Following


class TuningState(CompilationState):
    """The state of a running search; shared by blocking and asyncio clients."""

    _tuning: artifact_versions_pb2.CreateTuningRequest

    def _submit(self) -> Steps[job_pb2.Job]:
        return (yield from _jobs.submit(self._request, self._options, self._saw, self._client._connection.known_blobs,
                                         tuning=self._tuning))

    def _made(self, job: job_pb2.Job) -> Steps[tuple[str, tensor_pb2.Digest]]:
        found = yield from get_artifact(job.tune_result.artifact_id)
        return found.id, found.blob

    def _event(self, event: job_pb2.JobEvent) -> None:
        super()._event(event)
        if event.WhichOneof("event") == "tune":
            now = event.tune
            faster = now.model_ms / now.model_best_ms if now.model_best_ms else 1.0
            self._saw(Progress("search", now.done, now.total, f"{faster:.3f} times as fast as by default"))


class Tuning(TuningState, Compilation):
    """A future of the tuned artifact; its versions can be run before the end."""

    def __init__(self, client: Client, request: CompileRequest, options: dict[str, Any],
                 tuning: artifact_versions_pb2.CreateTuningRequest, on_progress: OnProgress | None) -> None:
        self._tuning = tuning
        super().__init__(client, request, options, on_progress)

    @property
    def found(self) -> Table[job_pb2.TuneResult.Workload]:
        """The result for each workload; for a cancelled search, the results so far."""
        return self._there(lambda job_id: Job(self._client._drive(_jobs.get(job_id)))).found

    def versions(self) -> Table[_versions.Version]:
        """The versions published so far."""
        return self._there(self._client.versions)

    def choose(self, number: int) -> _versions.Version:
        """Chooses the version that following programs run; 0: the newest."""
        return self._there(lambda job_id: self._client.choose_version(job_id, number))

    def follow(self, threads: int = 1, **options: Any) -> Following:
        """Returns a callable whose model is replaced by better versions, see ``Client.follow``."""
        return self._there(lambda job_id: self._client.follow(job_id, threads, **options))

    def _there(self, ask: Callable[[str], Any]) -> Any:
        """Waits until the model is uploaded and the job exists, then calls `ask` with its id."""
        self._submitted.wait()
        if not self.job_id:
            self.result()  # raises why there is no job
        return ask(self.job_id)
