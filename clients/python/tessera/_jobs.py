"""Conversations about jobs: create, follow, analyze."""

from __future__ import annotations

import math
import numbers
import pathlib
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tessera import _digests, dtypes, errors
from tessera._request import CompileRequest, tensor_value
from tessera._steps import Pause, Receive, Steps, Work, call
from tessera._transfer import KnownBlobs, Sources, download_bytes, upload, upload_missing
from tessera.v1 import artifact_versions_pb2, execution_service_pb2, job_pb2, tensor_pb2
from tessera.views import TERMINAL, Progress

_WATCH_S = 60.0  # limit of one event stream, so that a stream that hangs costs at most this much time
_PATIENCE_S = 120.0  # how long to wait for a server that does not answer
_AGAIN_S = 0.2
_INLINE_BYTES = 1 << 20  # the limit of TensorValue.data
# Limits for enclosed files: the extra bytes cost no more than asking whether the server has them.
_MOST_ENCLOSED, _ENCLOSED_BYTES = 64, 64 << 10
_EXECUTE_S = 1800.0

OnProgress = Callable[[Progress], None]


def seconds_to_us(what: str, seconds: float | None) -> int:
    """Converts seconds; None becomes 0, the server's default."""
    if seconds is None:
        return 0
    if not isinstance(seconds, numbers.Real) or not seconds > 0 or math.isinf(seconds):
        raise errors.InvalidInput(f"{what} is more than 0 seconds", attribute=what, found=repr(seconds))
    return max(1, round(seconds * 1e6))


def _small(blobs: Sources) -> bool:
    return len(blobs) <= _MOST_ENCLOSED and sum(digest.size_bytes for _, digest in blobs.values()) <= _ENCLOSED_BYTES


def _enclosed(blobs: Sources) -> list[job_pb2.EnclosedFile]:
    files = []
    for source, digest in blobs.values():
        data = source.read_bytes() if isinstance(source, pathlib.Path) else bytes(source)
        if len(data) != digest.size_bytes:
            what = source if isinstance(source, pathlib.Path) else "the model"
            raise errors.InvalidInput(f"{what}: the file changed while it was being sent; send it again")
        files.append(job_pb2.EnclosedFile(digest=digest, data=data))
    return files


def submit(request: CompileRequest, options: Mapping[str, Any], on_progress: OnProgress, known: KnownBlobs,
           question: Any = None, tuning: artifact_versions_pb2.CreateTuningRequest | None = None) -> Steps[job_pb2.Job]:
    """Uploads files that the server lacks, or encloses small ones, and creates the job. Does not ask about files that the
    server is known to have had. With a question the job analyzes the model; with a tuning it searches schedules."""
    spec, blobs = yield Work(request.prepare)

    def upload_all() -> Steps[None]:
        yield from upload_missing(blobs, lambda done, total: on_progress(Progress("upload", done, total)))
        known.add(blobs)

    # A repeated CreateJob must be recognised as the same request.
    fields: dict[str, Any] = {"request_id": f"python-{time.time_ns() // 1_000_000:012x}-{secrets.token_hex(12)}", **options}
    create = job_pb2.CreateJobRequest(**fields)
    assumed = known.all(blobs)
    enclosed = not assumed and _small(blobs)
    if enclosed:
        create.files.extend((yield Work(lambda: _enclosed(blobs))))
    elif not assumed:
        yield from upload_all()
    if tuning is not None:
        create.tune.CopyFrom(tuning.job.tune)
        create.tune.compile.CopyFrom(spec)
        method = "ArtifactVersionService.CreateTuning"
        words: Any = artifact_versions_pb2.CreateTuningRequest(job=create, mode=tuning.mode)
    else:
        method, words = "JobService.CreateJob", create
        if question is None:
            create.compile.CopyFrom(spec)
        else:
            create.analyze.compile.CopyFrom(spec)
            create.analyze.question = question
    try:
        job = (yield from call(method, words)).job
        if enclosed:
            known.add(blobs)
            sent = sum(file.digest.size_bytes for file in create.files)
            on_progress(Progress("upload", sent, sent))
        return job
    except errors.TesseraError as error:
        # The server has collected a blob since, or does not accept files within a request.
        if not (assumed or enclosed) or error.reason != "MISSING_BLOB":
            raise
    known.forget(blobs)
    yield from upload_all()
    return (yield from call(method, words)).job


def get(job_id: str) -> Steps[job_pb2.Job]:
    return (yield from call("JobService.GetJob", job_pb2.GetJobRequest(id=job_id))).job


def cancel(job_id: str) -> Steps[job_pb2.Job]:
    return (yield from call("JobService.CancelJob", job_pb2.CancelJobRequest(id=job_id))).job


def received(method: str, request: Any, job_id: str, on_message: Callable[[Any], int],
             stopping: Callable[[], bool] = lambda: False) -> Steps[None]:
    """Receives a stream of growing data of a job, until its end or until `stopping`. Survives restarts of the server: resumes
    after the number that `on_message` returned last."""
    def use(message: Any) -> None:
        request.cursor = on_message(message)

    while not stopping():
        try:
            yield Receive(method, request, use, _WATCH_S)
            return
        except errors.TesseraError as error:
            if error.code == "DEADLINE_EXCEEDED":
                continue
            if error.code not in ("UNAVAILABLE", "CANCELLED"):  # a service that ended for good has no code
                raise
        try:  # this call waits until the server answers
            yield from call("JobService.GetJob", job_pb2.GetJobRequest(id=job_id), patience_s=_PATIENCE_S)
        except errors.Unreachable as error:
            if error.for_good:
                raise
            raise errors.Unreachable("the server has been away for too long; the job goes on there", job_id=job_id,
                                     code=error.code) from error
        yield Pause(_AGAIN_S)


def follow(job_id: str, on_event: Callable[[job_pb2.JobEvent], None]) -> Steps[job_pb2.Job]:
    """Follows a job to its end."""
    request = job_pb2.WatchJobRequest(id=job_id)

    def use(message: Any) -> int:
        on_event(message.event)
        return int(message.event.sequence)

    while True:
        yield from received("JobService.WatchJob", request, job_id, use)
        job = yield from get(job_id)
        if job.state in TERMINAL:
            return job
        yield Pause(_AGAIN_S)


def finished(job: job_pb2.Job, on_event: Callable[[job_pb2.JobEvent], None]) -> Steps[job_pb2.Job]:
    """Waits until the job has SUCCEEDED; raises its failure otherwise."""
    if job.state not in TERMINAL:
        job = yield from follow(job.id, on_event)
    if job.state != job_pb2.Job.SUCCEEDED:
        raise errors.of_failure(job.failure, job_id=job.id)
    return job


def ask(request: CompileRequest, question: Any, report: Any, on_progress: OnProgress, known: KnownBlobs) -> Steps[Any]:
    """Fills `report`, a message of analysis.proto, with the service's analysis of a model."""
    job = yield from submit(request, {}, on_progress, known, question)
    job = yield from finished(job, lambda event: None)
    report.ParseFromString((yield from download_bytes(job.analyze_result.report)))
    return report


def _add_inputs(spec: Any, inputs: Mapping[str, Any]) -> Steps[None]:
    """Adds input tensors: small ones inside the message, large ones as blobs."""
    for name, given in inputs.items():
        value = tensor_value(name, np.asarray(given))
        if len(value.data) > _INLINE_BYTES:
            data = value.data
            digest = _digests.of_bytes(data)
            yield from upload(data, digest)
            value.blob.CopyFrom(digest)
        spec.inputs.append(value)


def execute(artifact_id: str, inputs: Mapping[str, Any], threads: int, deadlines: Mapping[str, int]) -> Steps[Any]:
    """Runs an artifact once on a worker; returns its outputs by name."""
    request = execution_service_pb2.ExecuteRequest(
        spec=job_pb2.ExecuteSpec(artifact_id=artifact_id, threads=threads), **deadlines)  # type: ignore[arg-type]
    yield from _add_inputs(request.spec, inputs)
    answer = yield from call("ExecutionService.Execute", request, _EXECUTE_S, attempts=1)
    outputs = {}
    for value in answer.result.outputs:
        outputs[value.spec.name] = yield from _array_of(value)
    return outputs


def _array_of(value: tensor_pb2.TensorValue) -> Steps[np.ndarray[Any, Any]]:
    data = (yield from download_bytes(value.blob)) if value.HasField("blob") else value.data
    return np.frombuffer(bytearray(data), dtypes.of_number(value.spec.dtype).numpy).reshape(tuple(value.spec.shape))


def profile(artifact_id: str, inputs: Mapping[str, Any], options: Mapping[str, int],
            deadlines: Mapping[str, int]) -> Steps[Any]:
    request = execution_service_pb2.ProfileRequest(
        spec=job_pb2.ProfileSpec(artifact_id=artifact_id, **options), **deadlines)  # type: ignore[arg-type]
    yield from _add_inputs(request.spec, inputs)
    return (yield from call("ExecutionService.Profile", request, _EXECUTE_S, attempts=1))
