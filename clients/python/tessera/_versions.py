"""Conversations about tune jobs and the versions of their artifacts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tessera import errors, views
from tessera._jobs import received, seconds_to_us
from tessera._lists import items_of
from tessera._steps import Steps, call
from tessera.table import Table
from tessera.v1 import artifact_versions_pb2

Version = artifact_versions_pb2.ArtifactVersion

_MODES = {"async": artifact_versions_pb2.ASYNC, "sync": artifact_versions_pb2.SYNC, "static": artifact_versions_pb2.STATIC}


def tuning(mode: str, method: str, trials: int, budget: float | None, threads: int, seed: int, workloads: Sequence[str],
           top: int, cold: bool, records: bool, choices: int | None) -> artifact_versions_pb2.CreateTuningRequest:
    """The parameters of a search, without the model."""
    if mode not in _MODES:
        raise errors.InvalidInput("there is no such mode", attribute="mode", found=mode, accepted=", ".join(_MODES))
    request = artifact_versions_pb2.CreateTuningRequest(mode=_MODES[mode])
    spec = request.job.tune
    spec.method, spec.trials, spec.threads, spec.seed = method, trials, threads, seed
    spec.budget_us = seconds_to_us("budget", budget)
    spec.top, spec.cold, spec.ignore_records = top, cold, not records
    if choices is not None:
        spec.choices = choices
    spec.workloads.extend([workloads] if isinstance(workloads, str) else workloads)
    return request


def versions(job_id: str) -> Steps[Table[Version]]:
    request = artifact_versions_pb2.ListArtifactVersionsRequest(job_id=job_id)
    items, token = yield from items_of("ArtifactVersionService.ListArtifactVersions", request, "versions", 0)
    return views.versions_table(items, token)


def choose(job_id: str, number: int) -> Steps[Version]:
    request = artifact_versions_pb2.ChooseArtifactVersionRequest(job_id=job_id, number=number)
    return (yield from call("ArtifactVersionService.ChooseArtifactVersion", request)).version


def watch(job_id: str, on_version: Callable[[Version], None], stopping: Callable[[], bool]) -> Steps[None]:
    """Calls `on_version` with the version that programs should run, until the job ends; skips held and superseded versions."""
    request = artifact_versions_pb2.WatchArtifactRequest(job_id=job_id, newest_only=True)

    def use(message: Any) -> int:
        on_version(message.version)
        return int(message.version.number)

    yield from received("ArtifactVersionService.WatchArtifact", request, job_id, use, stopping)

