"""Lists of the service as tables, fetched page by page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tessera import errors, views
from tessera._steps import Steps, call
from tessera.table import Table
from tessera.v1 import (artifact_pb2, job_pb2, operator_service_pb2, record_pb2, target_pb2, target_service_pb2,
                        task_pb2, worker_service_pb2)

_MOST_PER_PAGE = 1000


def items_of(method: str, request: Any, field: str, limit: int) -> Steps[tuple[list[Any], str]]:
    """Returns at most `limit` items (0: all) and the token of the next page."""
    if limit < 0:
        raise errors.InvalidInput("limit is at least 0, which stands for all", attribute="limit", found=str(limit))
    items: list[Any] = []
    while True:
        request.page_size = min(limit - len(items), _MOST_PER_PAGE) if limit else _MOST_PER_PAGE
        page = yield from call(method, request)
        items += getattr(page, field)
        request.page_token = page.next_page_token
        if not page.next_page_token or (limit and len(items) >= limit):
            return items, page.next_page_token


def jobs(filter: str, order_by: str, limit: int, page_token: str) -> Steps[Table[views.Job]]:
    request = job_pb2.ListJobsRequest(filter=filter, order_by=order_by, page_token=page_token)
    items, token = yield from items_of("JobService.ListJobs", request, "jobs", limit)
    names = ("id", "state", "kind", "name", "target", "cached", "create_time", "took_ms")
    return Table([views.Job(item) for item in items], {name: _attribute(name) for name in names}, token)


def artifacts(filter: str, order_by: str, limit: int, page_token: str) -> Steps[Table[artifact_pb2.Artifact]]:
    request = artifact_pb2.ListArtifactsRequest(filter=filter, order_by=order_by, page_token=page_token)
    items, token = yield from items_of("ArtifactService.ListArtifacts", request, "artifacts", limit)
    return Table(items, {
        "id": lambda a: a.id, "name": lambda a: a.manifest.name, "target": lambda a: a.manifest.target_name,
        "size_bytes": lambda a: a.blob.size_bytes, "kernels": lambda a: a.manifest.kernels,
        "flops": lambda a: a.manifest.flops, "job_id": lambda a: a.job_id,
        "create_time": lambda a: views.time_of(a.create_time_us)}, token)


def records(filter: str, order_by: str, limit: int, page_token: str) -> Steps[Table[record_pb2.TuningRecord]]:
    request = record_pb2.ListRecordsRequest(filter=filter, order_by=order_by, page_token=page_token)
    items, token = yield from items_of("RecordService.ListRecords", request, "records", limit)
    return views.records_table(items, token)


def targets(filter: str, order_by: str, limit: int,
            page_token: str) -> Steps[Table[target_service_pb2.GetTargetResponse]]:
    request = target_service_pb2.ListTargetsRequest(filter=filter, order_by=order_by, page_token=page_token)
    items, token = yield from items_of("TargetService.ListTargets", request, "targets", limit)
    return Table(items, {
        "name": lambda t: t.target.name, "family": lambda t: target_pb2.Target.Family.Name(t.target.family),
        "cpu": lambda t: t.target.code.cpu, "vector_bits": lambda t: t.target.registers.vector_bits,
        "vector_count": lambda t: t.target.registers.vector_count, "builtin": lambda t: t.builtin,
        "summary": lambda t: t.target.summary, "hash": lambda t: t.hash}, token)


def workers(filter: str, order_by: str, limit: int, page_token: str) -> Steps[Table[worker_service_pb2.Worker]]:
    request = worker_service_pb2.ListWorkersRequest(filter=filter, order_by=order_by, page_token=page_token)
    items, token = yield from items_of("FleetService.ListWorkers", request, "workers", limit)
    return Table(items, {
        "id": lambda w: w.id, "state": lambda w: worker_service_pb2.Worker.State.Name(w.state),
        "hostname": lambda w: w.host.hostname, "cpu_model": lambda w: w.host.cpu_model, "slots": lambda w: w.slots,
        "tasks_done": lambda w: w.tasks_done, "tasks_failed": lambda w: w.tasks_failed,
        "trouble": lambda w: w.trouble}, token)


def wanted_workers(kind: str, target: str) -> Steps[Table[worker_service_pb2.WantedWorkers]]:
    if kind and kind.upper() not in task_pb2.TaskKind.keys():
        known = ", ".join(name.lower() for name in task_pb2.TaskKind.keys()[1:])
        raise errors.InvalidInput("there is no such kind of task", attribute="kind", found=kind, accepted=known)
    request = worker_service_pb2.ListWantedWorkersRequest(
        kind=task_pb2.TaskKind.Value(kind.upper()) if kind else task_pb2.TASK_KIND_UNSPECIFIED, target=target)
    answer = yield from call("FleetService.ListWantedWorkers", request)
    return Table(list(answer.wanted), {
        "kind": lambda w: task_pb2.TaskKind.Name(w.kind).lower(), "target": lambda w: w.target,
        "waiting": lambda w: w.waiting, "running": lambda w: w.running, "slots": lambda w: w.slots,
        "workers": lambda w: w.workers})


def operators(filter: str, order_by: str, limit: int,
              page_token: str) -> Steps[Table[operator_service_pb2.OperatorInfo]]:
    request = operator_service_pb2.ListOperatorsRequest(filter=filter, order_by=order_by, page_token=page_token)
    items, token = yield from items_of("OperatorService.ListOperators", request, "operators", limit)
    names = ("domain", "name", "family", "since_version", "until_version", "min_inputs", "max_inputs")
    return Table(items, {name: _attribute(name) for name in names}, token)


def _attribute(name: str) -> Callable[[Any], Any]:
    return lambda item: getattr(item, name)
