"""Channels to the service, blocking and asyncio, with the C++ client's settings."""

from __future__ import annotations

import functools
import os
import random
import time
from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio

from tessera import errors
from tessera._transfer import KnownBlobs
from tessera.identity import Identity
from tessera.v1 import (artifact_pb2_grpc, artifact_versions_pb2_grpc, blob_service_pb2_grpc, execution_service_pb2_grpc,
                        job_pb2_grpc, operator_service_pb2_grpc, record_pb2_grpc, signing_service_pb2_grpc,
                        target_service_pb2_grpc, worker_service_pb2_grpc)

_CONNECTED_PAUSE_S = 0.1  # before repeating a call that got no answer although the connection stood
DEFAULT_ADDRESS = "localhost:7400"

_STUBS: dict[str, Any] = {
    "ArtifactService": artifact_pb2_grpc.ArtifactServiceStub,
    "ArtifactVersionService": artifact_versions_pb2_grpc.ArtifactVersionServiceStub,
    "BlobService": blob_service_pb2_grpc.BlobServiceStub,
    "ExecutionService": execution_service_pb2_grpc.ExecutionServiceStub,
    "FleetService": worker_service_pb2_grpc.FleetServiceStub,
    "JobService": job_pb2_grpc.JobServiceStub,
    "OperatorService": operator_service_pb2_grpc.OperatorServiceStub,
    "RecordService": record_pb2_grpc.RecordServiceStub,
    "SigningService": signing_service_pb2_grpc.SigningServiceStub,
    "TargetService": target_service_pb2_grpc.TargetServiceStub,
}
# Blob chunks and inline tensors have at most 1 MiB; other messages are small. A host or network that disappears sends no reset:
# without keepalive pings a watch would wait forever.
_OPTIONS = [
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.max_send_message_length", 64 << 20),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    # Only grpc_proxy is honoured. http_proxy is meant for web traffic, not for a service of the own network.
    ("grpc.enable_http_proxy", int(bool(os.environ.get("grpc_proxy")))),
]


def address_or_default(address: str | None) -> str:
    """Returns `address`, or by default TESSERA_SERVER or localhost:7400, like the command line client."""
    return address or os.environ.get("TESSERA_SERVER") or DEFAULT_ADDRESS


class _Methods:
    def __init__(self, channel: Any, identity: Identity) -> None:
        self.identity = identity
        self.known_blobs = KnownBlobs()
        self._stubs = {name: stub(channel) for name, stub in _STUBS.items()}
        self._closed = False
        #: whether the server has ever answered here
        self.answered = False

    def method(self, name: str) -> Any:
        """The callable for a name such as "JobService.GetJob", with the caller's identity."""
        if self._closed:
            raise errors.Closed("the client is closed", fix="make another with tessera.connect")
        service, _, method = name.partition(".")
        return functools.partial(getattr(self._stubs[service], method), metadata=self.identity.metadata())


def _target(address: str) -> str:
    """gRPC's name for the address. A list "10.0.0.1:7400,10.0.0.2:7400" is used in random order, so that callers spread over
    the servers."""
    if "," not in address:
        return address
    servers = address.removeprefix("ipv4:").split(",")
    random.shuffle(servers)
    return f"ipv4:{','.join(servers)}"


def _channel(kind: Any, address: str, identity: Identity) -> Any:
    """A channel; `kind` is gRPC's blocking or asyncio module."""
    identity.metadata()  # reports a faulty identity now instead of at the first call
    credentials = identity.credentials(address)
    target = _target(address)
    options: list[tuple[str, Any]] = list(_OPTIONS)
    if credentials is None:
        return kind.insecure_channel(target, options=options)
    if target != address:  # the certificate of each server names the first one of the list
        options.append(("grpc.ssl_target_name_override", address.removeprefix("ipv4:").split(":")[0]))
    return kind.secure_channel(target, credentials, options=options)


class Connection(_Methods):
    """A blocking connection. Thread-safe; connects on first use."""

    def __init__(self, address: str, identity: Identity) -> None:
        self.address = address
        #: asked when no server answers: why none ever will again; None while it may come back
        self.ended: Callable[[], errors.TesseraError | None] = lambda: None
        self._channel = _channel(grpc, address, identity)
        super().__init__(self._channel, identity)

    def connect_within(self, seconds: float) -> None:
        """Sleeps for `seconds`, or until a connection is established. gRPC hardly makes progress on connections between calls.
        """
        ready = grpc.channel_ready_future(self._channel)
        start = time.monotonic()
        try:
            ready.result(timeout=seconds)
        except grpc.FutureTimeoutError:
            return
        finally:
            ready.cancel()
        time.sleep(max(0.0, min(_CONNECTED_PAUSE_S, seconds - (time.monotonic() - start))))

    def close(self) -> None:
        self._closed = True
        self._channel.close()


class AsyncConnection(_Methods):
    """An asyncio connection. It belongs to the event loop in which it is created."""

    def __init__(self, address: str, identity: Identity) -> None:
        self.address = address
        self._channel = _channel(grpc.aio, address, identity)
        super().__init__(self._channel, identity)

    async def close(self) -> None:
        self._closed = True
        await self._channel.close()
