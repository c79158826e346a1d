"""Conversations with the service, written once for blocking and asyncio clients.

A conversation is a generator: it yields what it wants done (a call, a pause, some work), is sent the answer or thrown
the error, and returns its result. `drive` performs the wishes on a blocking channel, `drive_async` on an asyncio one.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any, TypeVar, Union

import grpc

from tessera import errors

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Call:
    """One unary call, once."""
    method: str  # "JobService.GetJob"
    request: Any
    timeout_s: float


@dataclasses.dataclass(frozen=True)
class Receive:
    """A stream of answers, each given to `use` as it comes."""
    method: str
    request: Any
    use: Callable[[Any], None]
    timeout_s: float | None = None


@dataclasses.dataclass(frozen=True)
class Send:
    """A stream of requests and one answer. Making a request may read files."""
    method: str
    requests: Iterator[Any]


@dataclasses.dataclass(frozen=True)
class Pause:
    seconds: float


@dataclasses.dataclass(frozen=True)
class Work:
    """Something that blocks (hashing a file), kept off the event loop."""
    function: Callable[[], Any]


Step = Union[Call, Receive, Send, Pause, Work]
Steps = Generator[Step, Any, T]

CALL_TIMEOUT_S = 30.0
CALL_ATTEMPTS = 4
FIRST_PAUSE_S = 0.1


def call(method: str, request: Any, timeout_s: float = CALL_TIMEOUT_S, attempts: int = CALL_ATTEMPTS) -> Steps[Any]:
    """A call that is tried again, with growing pauses, while the server is UNAVAILABLE."""
    deadline = time.monotonic() + timeout_s
    pause = FIRST_PAUSE_S
    for attempt in range(1, attempts + 1):
        try:
            return (yield Call(method, request, max(0.0, deadline - time.monotonic())))
        except errors.Unreachable as error:
            typed = error.reason != ""  # the server did answer: it has no worker
            if typed or attempt == attempts or time.monotonic() + pause >= deadline:
                raise
        yield Pause(pause)
        pause *= 2
    raise AssertionError("the last attempt returns or raises")


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
            error = errors.of_rpc(refused, connection.address)
            if isinstance(error, errors.Unreachable):
                error = connection.ended() or error
        except BaseException as other:  # its `finally` clauses are to run
            error = other


def _perform(step: Step, connection: Any) -> Any:
    if isinstance(step, Call):
        return connection.method(step.method)(step.request, timeout=step.timeout_s)
    if isinstance(step, Send):
        return connection.method(step.method)(step.requests)
    if isinstance(step, Receive):
        stream = connection.method(step.method)(step.request, timeout=step.timeout_s)
        try:
            for message in stream:
                step.use(message)
        finally:
            stream.cancel()
        return None
    if isinstance(step, Pause):
        return time.sleep(step.seconds)
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
            error = errors.of_rpc(refused, connection.address)
        except BaseException as other:
            error = other


async def _perform_async(step: Step, connection: Any) -> Any:
    if isinstance(step, Call):
        return await connection.method(step.method)(step.request, timeout=step.timeout_s)
    if isinstance(step, Send):
        return await connection.method(step.method)(_each_in_thread(step.requests))
    if isinstance(step, Receive):
        stream = connection.method(step.method)(step.request, timeout=step.timeout_s)
        try:
            async for message in stream:
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
