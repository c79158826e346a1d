"""SHA-256 of files, in the same persistent cache as the command line client's."""

from __future__ import annotations

import hashlib
import os
import pathlib
import time

from tessera.v1 import tensor_pb2

_RACY_S = 2  # a file changed this recently is not cached, because a later write could leave the same times
_CHUNK = 1 << 20


def of_bytes(data: bytes | memoryview) -> tensor_pb2.Digest:
    return tensor_pb2.Digest(sha256=hashlib.sha256(data).hexdigest(), size_bytes=len(data))


def of_open_file(file: int) -> tensor_pb2.Digest:
    """Digest of an open file, read from its beginning; the file's position does not change."""
    hasher = hashlib.sha256()
    done = 0
    while chunk := os.pread(file, _CHUNK, done):
        hasher.update(chunk)
        done += len(chunk)
    return tensor_pb2.Digest(sha256=hasher.hexdigest(), size_bytes=done)


def _of_path(path: pathlib.Path) -> tensor_pb2.Digest:
    with open(path, "rb") as file:
        return of_open_file(file.fileno())


def cache_folder() -> pathlib.Path | None:
    if cache := os.environ.get("XDG_CACHE_HOME"):
        return pathlib.Path(cache) / "tessera" / "digests"
    if home := os.environ.get("HOME"):
        return pathlib.Path(home) / ".cache" / "tessera" / "digests"
    return None


def _fingerprint(info: os.stat_result) -> str:
    """The file attributes that must be unchanged for a cached digest to be valid, formatted as in clients/cpp/digest.cpp."""
    def seconds(ns: int) -> str:
        return f"{ns // 10**9}.{ns % 10**9}"
    return f"{info.st_dev} {info.st_ino} {info.st_size} {seconds(info.st_mtime_ns)} {seconds(info.st_ctime_ns)}"


def of_file(path: pathlib.Path) -> tensor_pb2.Digest:
    """Digest of a file, cached while its inode, size and times are unchanged."""
    folder = cache_folder()
    if folder is None:
        return _of_path(path)
    real = path.resolve()
    before = os.stat(real)
    entry = folder / hashlib.sha256(os.fsencode(real)).hexdigest()[:32]
    try:
        seen, sha256 = entry.read_text().splitlines()
        if seen == _fingerprint(before) and len(sha256) == 64:
            return tensor_pb2.Digest(sha256=sha256, size_bytes=before.st_size)
    except (OSError, ValueError):
        pass  # no cached digest
    digest = _of_path(real)
    after = os.stat(real)
    if _fingerprint(before) == _fingerprint(after) and time.time() - after.st_mtime > _RACY_S:
        try:  # written to a temporary file and renamed, so that readers never see half an entry
            folder.mkdir(parents=True, exist_ok=True)
            aside = entry.with_name(f"{entry.name}.{os.getpid()}")
            aside.write_text(f"{_fingerprint(before)}\n{digest.sha256}\n")
            aside.rename(entry)
        except OSError:
            pass  # a failure to cache is ignored
    return digest
