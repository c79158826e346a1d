"""Short conversations and values of requests, shared by both clients."""

from __future__ import annotations

from typing import Any

from tessera import targets
from tessera._jobs import seconds_to_us
from tessera._request import CompileRequest
from tessera._steps import Steps, Work, call
from tessera.v1 import job_pb2, target_pb2, target_service_pb2


def options(cache: bool, priority: int, request_id: str | None, queue_timeout: float | None,
            run_timeout: float | None, total_timeout: float | None) -> dict[str, Any]:
    """Fields of a CreateJobRequest."""
    given: dict[str, Any] = deadlines(queue_timeout, run_timeout)
    given.update(skip_cache=not cache, priority=priority, total_timeout_us=seconds_to_us("total_timeout", total_timeout))
    if request_id is not None:
        given["request_id"] = request_id
    return given


def deadlines(queue_timeout: float | None, run_timeout: float | None) -> dict[str, int]:
    return {"queue_timeout_us": seconds_to_us("queue_timeout", queue_timeout),
            "run_timeout_us": seconds_to_us("run_timeout", run_timeout)}


def id_of(artifact: Any) -> str:
    """The id of an artifact, or the given text as an id."""
    return artifact if isinstance(artifact, str) else str(artifact.id)


def explain_key(request: CompileRequest) -> Steps[job_pb2.ExplainKeyResponse]:
    spec, _ = yield Work(request.prepare)
    return (yield from call("JobService.ExplainKey", job_pb2.ExplainKeyRequest(compile=spec)))


def get_target(name: str) -> Steps[target_pb2.Target]:
    return (yield from call("TargetService.GetTarget", target_service_pb2.GetTargetRequest(name=name))).target


def _description(target: targets.TargetLike) -> Steps[target_pb2.Target]:
    ref = yield Work(lambda: targets.resolve(target))
    return ref.inline if ref.HasField("inline") else (yield from get_target(ref.name))


def validate_target(target: targets.TargetLike) -> Steps[list[tuple[str, str]]]:
    request = target_service_pb2.ValidateTargetRequest(target=(yield from _description(target)))
    answer = yield from call("TargetService.ValidateTarget", request)
    return [(problem.field, problem.message) for problem in answer.problems]


def register_target(target: targets.TargetLike) -> Steps[bool]:
    request = target_service_pb2.RegisterTargetRequest(target=(yield from _description(target)))
    return bool((yield from call("TargetService.RegisterTarget", request)).created)
