"""Exceptions that carry the fields of the API's ``Failure``.

Catch :class:`TesseraError` for everything, a subclass for one kind, or the corresponding builtin exception (``InvalidInput`` is
a ``ValueError``, ``NotFound`` a ``LookupError``, ``Unreachable`` a ``ConnectionError``, ...).
"""

from __future__ import annotations

import builtins
from typing import Any

import grpc

from tessera.v1 import failure_pb2

_FIELDS = ("node", "op_type", "attribute", "found", "accepted", "fix")


class TesseraError(Exception):
    """One failure. Text fields that do not apply are empty."""

    def __init__(self, message: str, *, reason: str = "", node: str = "", op_type: str = "", attribute: str = "",
                 found: str = "", accepted: str = "", fix: str = "", signal: int = 0, reproducer: str = "",
                 job_id: str = "", code: str = "") -> None:
        super().__init__(message)
        self.message = message  #: one sentence: the fault, its place, accepted values
        self.reason = reason  #: of ``v1.Failure.Reason``, e.g. "UNSUPPORTED_OPERATOR"; empty if the API gave none
        self.node = node  #: name or index of the graph node
        self.op_type = op_type  #: operator of that node
        self.attribute = attribute  #: attribute, input or field at fault
        self.found = found
        self.accepted = accepted
        self.fix = fix  #: what to do
        self.signal = signal  #: signal of a task that crashed
        self.reproducer = reproducer  #: SHA-256 of a blob with everything needed to repeat the failing task
        self.job_id = job_id  #: the job that failed
        self.code = code  #: gRPC status, e.g. "INVALID_ARGUMENT", if a call returned one

    def __str__(self) -> str:
        lines = [self.message]
        lines += [f"  {field}: {text}" for field in _FIELDS if (text := getattr(self, field))]
        if self.reproducer:
            lines.append(f"  reproducer: {self.reproducer}")
        return "\n".join(lines)


class InvalidModel(TesseraError, ValueError):
    """The model cannot be parsed or contradicts itself."""


class UnsupportedOperator(TesseraError, NotImplementedError):
    """The model is valid, but uses something that is not supported yet."""


class UnboundDimension(TesseraError, ValueError):
    """A symbolic dimension has no value: bind it with ``shapes`` or ``dims``."""


class InvalidTarget(TesseraError, ValueError):
    """The description of a chip is invalid."""


class InvalidInput(TesseraError, ValueError):
    """Tensors or arguments are invalid."""


class InvalidSchedule(TesseraError, ValueError):
    """The workload or the chip cannot apply a schedule."""


class LimitExceeded(TesseraError, ValueError):
    """More elements, nodes or bytes than a stated limit."""


class NotFound(TesseraError, LookupError):
    """No such job, artifact, target or blob."""


class AlreadyExists(TesseraError, ValueError):
    """The name or request id is used with other content."""


class IncompatibleHost(TesseraError):
    """This machine lacks something that the artifact requires."""


class CorruptArtifact(TesseraError, ValueError):
    """Not an artifact, or a damaged one."""


class Crashed(TesseraError):
    """The task crashed, was stopped by its sandbox, or is quarantined after repeated crashes."""


class OutOfMemory(TesseraError, MemoryError):
    """The task or session could not get more memory."""


class DeadlineExceeded(TesseraError, TimeoutError):
    """A queue, run or total deadline passed."""


class Cancelled(TesseraError):
    """The job was cancelled."""


class Unreachable(TesseraError, ConnectionError):
    """No server answers, or no worker can run the task."""

    answered_before = False  #: the server has answered this client before
    for_good = False  #: a local service that has ended and will not come back


class Closed(TesseraError, ValueError):
    """The client has been closed."""


class Busy(TesseraError):
    """The session is already running."""


class InternalError(TesseraError):
    """A fault of Tessera."""


_OF_REASON: dict[str, type[TesseraError]] = {
    "INVALID_MODEL": InvalidModel,
    "UNSUPPORTED_OPERATOR": UnsupportedOperator,
    "UNBOUND_DIMENSION": UnboundDimension,
    "INVALID_TARGET": InvalidTarget,
    "INVALID_INPUT": InvalidInput,
    "LIMIT_EXCEEDED": LimitExceeded,
    "MISSING_BLOB": NotFound,
    "INCOMPATIBLE_HOST": IncompatibleHost,
    "INVALID_SCHEDULE": InvalidSchedule,
    "CRASHED": Crashed,
    "OUT_OF_MEMORY": OutOfMemory,
    "RUN_DEADLINE_EXCEEDED": DeadlineExceeded,
    "SANDBOX_VIOLATION": Crashed,
    "QUEUE_DEADLINE_EXCEEDED": DeadlineExceeded,
    "JOB_DEADLINE_EXCEEDED": DeadlineExceeded,
    "CANCELLED": Cancelled,
    "QUARANTINED": Crashed,
    "NO_WORKER": Unreachable,
}
_OF_CODE: dict[str, type[TesseraError]] = {
    "INVALID_ARGUMENT": InvalidInput,
    "OUT_OF_RANGE": InvalidInput,
    "RESOURCE_EXHAUSTED": LimitExceeded,
    "NOT_FOUND": NotFound,
    "ALREADY_EXISTS": AlreadyExists,
    "UNIMPLEMENTED": UnsupportedOperator,
    "DEADLINE_EXCEEDED": DeadlineExceeded,
    "CANCELLED": Cancelled,
    "UNAVAILABLE": Unreachable,
}


def of_failure(failure: Any, *, job_id: str = "", code: str = "") -> TesseraError:
    """The exception for a ``v1.Failure``."""
    values = failure_pb2.Failure.Reason.DESCRIPTOR.values_by_number
    reason = values[failure.reason].name if failure.reason in values else ""
    fields = {field: getattr(failure, field) for field in _FIELDS}
    return _OF_REASON.get(reason, InternalError)(
        failure.message, reason=reason, signal=failure.signal, reproducer=failure.reproducer.sha256, job_id=job_id,
        code=code, **fields)


def of_rpc(error: grpc.RpcError, address: str) -> TesseraError:
    """The exception for a failed call: the server's Failure if the status carries one."""
    code = error.code().name
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            failure = failure_pb2.Failure()
            try:
                details = failure_pb2.RpcStatus.FromString(value).details
                found = any(detail.Unpack(failure) for detail in details)
            except Exception:  # details of a proxy: the status is all there is
                continue
            if found and failure.reason:
                return of_failure(failure, code=code)
    text = error.details() or code
    if code == "UNAVAILABLE":
        return Unreachable(f"the server at {address} does not answer: {text}", code=code,
                           fix="start one with `tesserad`, name another with TESSERA_SERVER, or use tessera.local()")
    return _OF_CODE.get(code, InternalError)(text, code=code)


def of_os(error: builtins.OSError) -> TesseraError:
    """The exception for an unreadable file, a fault of the caller's input."""
    kind = NotFound if isinstance(error, FileNotFoundError) else InvalidInput
    return kind(f"{error.strerror or error}: {error.filename}" if error.filename else str(error))
