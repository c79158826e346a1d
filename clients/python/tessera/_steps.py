"""Conversations with the service, written once for blocking and asyncio clients.

A conversation is a generator. It yields steps (a call, a pause, some work), receives the result or the error of each, and
returns its own result. `drive` performs the steps on a blocking channel, `drive_async` on an asyncio one.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any, TypeVar, Union

import grpc

from tessera import errors

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Call:
    """One attempt of a unary call."""
    method: str  # "JobService.GetJob"
    request: Any
    timeout_s: float


@dataclasses.dataclass(frozen=True)
class Receive:
    """A stream of responses, each passed to `use` on arrival."""
    method: str
    request: Any
    use: Callable[[Any], None]
    timeout_s: float | None = None


@dataclasses.dataclass(frozen=True)
class Send:
    """A stream of requests with one response. Producing a request may read files."""
    method: str
    requests: Iterator[Any]


@dataclasses.dataclass(frozen=True)
class Pause:
    seconds: float
    connecting: bool = False  # ends early when a connection is established


@dataclasses.dataclass(frozen=True)
class Work:
    """Blocking work (hashing a file) that must not run on the event loop."""
    function: Callable[[], Any]


Step = Union[Call, Receive, Send, Pause, Work]
Steps = Generator[Step, Any, T]

CALL_TIMEOUT_S = 30.0
CALL_ATTEMPTS = 4  # for a server that has never answered
PATIENCE_S = 60.0  # for a server that answered before: a restart with a drain takes about half of it
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 1.0

_log = logging.getLogger("tessera")


class Patience:
    """Decides whether and when one operation repeats an unanswered call."""

    def __init__(self, seconds: float = PATIENCE_S, attempts: int = CALL_ATTEMPTS,
                 timeout_s: float = CALL_TIMEOUT_S) -> None:
        self._seconds, self._attempts, self._timeout_s = seconds, attempts, timeout_s
        self.answered()

    def answered(self) -> None:
        """The server answered: the wait restarts."""
        self._since: float | None = None
        self._tries = 0
        self._told = False
        self._pause = _FIRST_PAUSE_S

    def wait(self, error: errors.Unreachable) -> Steps[None]:
        """Pauses; raises the error if there is no further attempt."""
        if error.for_good:
            raise error
        now = time.monotonic()
        if self._since is None:
            self._since = now
        self._tries += 1
        away = now - self._since
        known = error.answered_before
        bound = self._seconds if known else self._timeout_s
        if away + self._pause > bound or (not known and self._tries >= self._attempts):
            raise error
        if known and not self._told and away >= 1:
            self._told = True
            _log.warning("%s; waiting for it, %.0f s at most", error.message, self._seconds)
        yield Pause(self._pause, connecting=True)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE_S)


def call(method: str, request: Any, timeout_s: float = CALL_TIMEOUT_S, attempts: int = CALL_ATTEMPTS,
         patience_s: float = PATIENCE_S) -> Steps[Any]:
    """A unary call. While the server does not answer, it is repeated with growing pauses: a few times if the server has never
    answered, for `patience_s` if it has. With `attempts` 1 it is not repeated."""
    deadline = time.monotonic() + timeout_s
    patience = Patience(patience_s, attempts, timeout_s)
    left = timeout_s
    while True:
        try:
            return (yield Call(method, request, left))
        except errors.Unreachable as error:
            if error.reason or attempts == 1:  # with a reason, the server did answer: it has no worker
                raise
            yield from patience.wait(error)
            left = timeout_s if error.answered_before else max(0.0, deadline - time.monotonic())


def _failed(refused: grpc.RpcError, connection: Any) -> errors.TesseraError:
    """The exception for a failed call, with the information whether the server has ever answered."""
    error = errors.of_rpc(refused, connection.address)
    if isinstance(error, errors.Unreachable) and not error.reason:
        error.answered_before = connection.answered
    elif error.code not in ("CANCELLED", "DEADLINE_EXCEEDED"):
        connection.answered = True
    return error


def drive(steps: Steps[T], connection: Any) -> T:
    """Runs a conversation to its end on a blocking `Connection`."""
    answer: Any = None
    error: BaseException | None = None
    while True:
        try:
            step = steps.throw(error) if error is not None else steps.send(answer)
        except StopIteration as end:
            return end.value
        answer = error = None
        try:
            answer = _perform(step, connection)
        except grpc.RpcError as refused:
            error = _failed(refused, connection)
            if isinstance(error, errors.Unreachable) and (ended := connection.ended()) is not None:
                error = ended
                if isinstance(ended, errors.Unreachable):
                    ended.for_good = True
        except BaseException as other:  # run the generator's `finally` clauses
            error = other


def _perform(step: Step, connection: Any) -> Any:
    if isinstance(step, Call):
        answer = connection.method(step.method)(step.request, timeout=step.timeout_s)
        connection.answered = True
        return answer
    if isinstance(step, Send):
        return connection.method(step.method)(step.requests)
    if isinstance(step, Receive):
        stream = connection.method(step.method)(step.request, timeout=step.timeout_s)
        try:
            for message in stream:
                connection.answered = True
                step.use(message)
        finally:
            stream.cancel()
        return None
    if isinstance(step, Pause):
        return connection.connect_within(step.seconds) if step.connecting else time.sleep(step.seconds)
    return step.function()


async def drive_async(steps: Steps[T], connection: Any) -> T:
    """Runs a conversation to its end on an `AsyncConnection`."""
    answer: Any = None
    error: BaseException | None = None
    while True:
        try:
            step = steps.throw(error) if error is not None else steps.send(answer)
        except StopIteration as end:
            return end.value
        answer = error = None
        try:
            answer = await _perform_async(step, connection)
        except grpc.RpcError as refused:
            error = _failed(refused, connection)
        except BaseException as other:
            error = other


async def _perform_async(step: Step, connection: Any) -> Any:
    if isinstance(step, Call):
        answer = await connection.method(step.method)(step.request, timeout=step.timeout_s)
        connection.answered = True
        return answer
    if isinstance(step, Send):
        return await connection.method(step.method)(_each_in_thread(step.requests))
    if isinstance(step, Receive):
        stream = connection.method(step.method)(step.request, timeout=step.timeout_s)
        try:
            async for message in stream:
                connection.answered = True
                step.use(message)
        finally:
            stream.cancel()
        return None
    if isinstance(step, Pause):
        return await asyncio.sleep(step.seconds)
    return await asyncio.to_thread(step.function)


async def _each_in_thread(items: Iterator[Any]) -> Any:
    end = object()
    while (item := await asyncio.to_thread(lambda: next(items, end))) is not end:
        yield item
