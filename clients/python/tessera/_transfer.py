"""Transfers of blobs to and from the service, by digest; interrupted transfers resume."""

from __future__ import annotations

import os
import pathlib
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Union

from tessera import _digests, errors
from tessera._steps import Patience, Pause, Receive, Send, Steps, Work, call
from tessera.v1 import blob_service_pb2 as blobs
from tessera.v1 import tensor_pb2

Progress = Callable[[int, int], None]  # bytes transferred, total bytes
Source = Union[pathlib.Path, bytes]
Sources = dict[str, tuple[Source, tensor_pb2.Digest]]  # by SHA-256

_CHUNK = 1 << 20
_ATTEMPTS = 5
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0
_OTHERS_UPLOAD_S = 600.0  # limit of another client's upload of the same blob


class KnownBlobs:
    """A set of blobs, by SHA-256, that a service is known to have had. Clients skip the question for these; if the service has
    collected one since, it answers MISSING_BLOB."""

    _MOST = 10_000

    def __init__(self) -> None:
        self._known: set[str] = set()

    def all(self, digests: Iterable[str]) -> bool:
        return self._known.issuperset(digests)

    def add(self, digests: Iterable[str]) -> None:
        if len(self._known) >= self._MOST:
            self._known.clear()
        self._known.update(digests)

    def forget(self, digests: Iterable[str]) -> None:
        self._known.difference_update(digests)


def _ignore(done: int, total: int) -> None:
    pass


def _worth_another_try(error: errors.TesseraError) -> bool:
    return error.code in ("UNAVAILABLE", "ABORTED", "DEADLINE_EXCEEDED")


def _chunks(source: Source, digest: tensor_pb2.Digest, offset: int, progress: Progress,
            trouble: list[errors.TesseraError]) -> Iterator[Any]:
    """The messages of an upload. gRPC discards exceptions of an iterator, so they are also appended to `trouble`."""
    yield blobs.UploadBlobRequest(digest=digest, offset=offset)
    total = digest.size_bytes
    file = None
    try:
        file = os.open(source, os.O_RDONLY | os.O_CLOEXEC) if isinstance(source, pathlib.Path) else None
        done = offset
        while done < total:
            size = min(_CHUNK, total - done)
            data = os.pread(file, size, done) if file is not None else source[done:done + size]  # type: ignore[index]
            if not data:
                raise errors.InvalidInput("the file became shorter while it was being sent; send it again")
            yield blobs.UploadBlobRequest(data=data)
            done += len(data)
            progress(done, total)
    except OSError as error:
        trouble.append(errors.of_os(error))
        raise
    except errors.TesseraError as error:
        trouble.append(error)
        raise
    finally:
        if file is not None:
            os.close(file)


def upload(source: Source, digest: tensor_pb2.Digest, progress: Progress = _ignore, missing: bool = False) -> Steps[None]:
    """Uploads a blob; does nothing if the server has it. `digest` must be the source's. `missing`: the server has just reported
    the blob as missing, so a blob that fits one message is sent without another query."""
    pause = _FIRST_PAUSE_S
    others_until = time.monotonic() + _OTHERS_UPLOAD_S
    attempt = 0
    trouble: list[errors.TesseraError] = []
    ask = not missing or digest.size_bytes > _CHUNK
    patience = Patience()
    done = 0
    while True:
        try:
            if ask:
                state = yield from call("BlobService.QueryUpload", blobs.QueryUploadRequest(digest=digest), attempts=1)
                if state.complete:
                    return
                if state.committed_bytes > done:
                    patience.answered()
                done = state.committed_bytes
            yield Send("BlobService.UploadBlob", _chunks(source, digest, done, progress, trouble))
            return
        except errors.TesseraError as error:
            if trouble:
                raise trouble[0] from error
            if isinstance(error, errors.Unreachable):
                yield from patience.wait(error)
                ask = True
                continue
            # ABORTED: another client is uploading the same blob. Its upload completes or is abandoned.
            attempt += 0 if error.code == "ABORTED" and time.monotonic() < others_until else 1
            ask = True
            # FAILED_PRECONDITION: its upload ended after the query, so its bytes cannot be continued.
            if not (_worth_another_try(error) or error.code == "FAILED_PRECONDITION") or attempt >= _ATTEMPTS:
                raise
        yield Pause(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_S)


def upload_missing(sources: Sources, progress: Progress = _ignore) -> Steps[None]:
    """Uploads those blobs that the server lacks."""
    request = blobs.FindMissingBlobsRequest(digests=[digest for _, digest in sources.values()])
    answer = yield from call("BlobService.FindMissingBlobs", request)
    for digest in answer.missing:
        yield from upload(sources[digest.sha256][0], digest, progress, missing=True)


def find(sha256: str) -> Steps[tensor_pb2.Digest]:
    """The complete digest, including the size, of a blob on the server."""
    digest = tensor_pb2.Digest(sha256=sha256)

    def use(message: Any) -> None:
        digest.size_bytes = digest.size_bytes or message.total_bytes

    yield Receive("BlobService.DownloadBlob", blobs.DownloadBlobRequest(sha256=sha256, limit=1), use, 30)
    return digest


def download(digest: tensor_pb2.Digest, file: int, have: int = 0, progress: Progress = _ignore) -> Steps[None]:
    """Downloads a blob to a descriptor whose first `have` bytes may exist already, and verifies the digest."""
    attempt = 0
    done = have
    patience = Patience()

    def use(message: Any) -> None:
        nonlocal done
        patience.answered()
        data = message.data
        while data:
            written = os.pwrite(file, data, done)
            done += written
            data = data[written:]
        progress(done, digest.size_bytes)

    while True:
        try:
            if done < digest.size_bytes:
                yield Receive("BlobService.DownloadBlob",
                              blobs.DownloadBlobRequest(sha256=digest.sha256, offset=done), use)
        except errors.TesseraError as error:
            if isinstance(error, errors.Unreachable):
                yield from patience.wait(error)
                continue
            attempt += 1
            if not _worth_another_try(error) or attempt >= _ATTEMPTS:
                raise
            yield Pause(_FIRST_PAUSE_S * 2**attempt)
            continue
        got = yield Work(lambda: _digests.of_open_file(file))
        if got.sha256 == digest.sha256:
            return
        attempt += 1
        if attempt >= _ATTEMPTS:
            raise errors.InternalError(f"the downloaded blob {digest.sha256} does not match its digest", code="DATA_LOSS")
        # The existing bytes are no prefix of this blob: start over.
        os.ftruncate(file, 0)
        done = 0


def download_file(digest: tensor_pb2.Digest, path: pathlib.Path, progress: Progress = _ignore) -> Steps[pathlib.Path]:
    """Downloads to `path`.part (resumed if present), verifies and renames. Does nothing if `path` has the content."""
    if path.exists() and not path.is_file():  # renaming would replace a device by a file
        raise errors.InvalidInput(f"cannot write {path}: it is no ordinary file", attribute="path")
    if path.exists() and (yield Work(lambda: _digests.of_file(path))).sha256 == digest.sha256:
        return path
    place = pathlib.Path(os.path.realpath(path))  # follow a link, as any other writer would
    part = place.with_name(place.name + ".part")
    try:
        file = os.open(part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise errors.of_os(error) from error
    try:
        have = os.fstat(file).st_size
        if have > digest.size_bytes:
            os.ftruncate(file, 0)
            have = 0
        yield from download(digest, file, have, progress)
    finally:
        os.close(file)
    part.rename(place)
    return path


def download_bytes(digest: tensor_pb2.Digest) -> Steps[bytes]:
    """Downloads a blob into memory."""
    file = os.memfd_create("tessera-blob", os.MFD_CLOEXEC)
    try:
        yield from download(digest, file)
        with open(file, "rb", closefd=False) as whole:
            whole.seek(0)
            return whole.read()
    finally:
        os.close(file)
