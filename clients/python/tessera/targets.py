"""Descriptions of chips: this machine, a file, or a name that the service knows."""

from __future__ import annotations

import functools
import os
import pathlib
import subprocess
from typing import Union

from google.protobuf import text_format

from tessera import errors
from tessera.v1 import failure_pb2, target_pb2

#: "host", a name that the service knows, the path of a ``.textproto`` file, or a description.
TargetLike = Union[str, "os.PathLike[str]", target_pb2.Target]

_DESCRIBE_HOST = pathlib.Path(__file__).parent / "_native" / "tessera-describe-host"


@functools.lru_cache(maxsize=1)
def _host_bytes() -> bytes:
    # A separate program applies the compiler's rules, since protobuf's C++ library cannot be loaded twice into a process.
    try:
        done = subprocess.run([_DESCRIBE_HOST], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except OSError as error:
        raise errors.IncompatibleHost(f"this machine cannot be described: {error}",
                                      fix="name the target to compile for instead of 'host'") from error
    if done.returncode == 0:
        return done.stdout
    failure = failure_pb2.Failure()
    if done.returncode == 1 and done.stdout:
        failure.ParseFromString(done.stdout)
        raise errors.of_failure(failure)
    raise errors.IncompatibleHost(
        f"this machine cannot be described: {done.stderr.decode(errors='replace').strip() or done.returncode}",
        fix="name the target to compile for instead of 'host'")


def host() -> target_pb2.Target:
    """This machine, as ``tessera targets --show host`` prints it."""
    target = target_pb2.Target()
    target.ParseFromString(_host_bytes())
    return target


def parse(text: str, where: str = "the target description") -> target_pb2.Target:
    """Parses the text form of a description."""
    try:
        return text_format.Parse(text, target_pb2.Target())
    except text_format.ParseError as error:
        raise errors.InvalidTarget(f"{where}: {error}") from error


def read(path: str | os.PathLike[str]) -> target_pb2.Target:
    """Reads a description from a ``.textproto`` file."""
    try:
        text = pathlib.Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise errors.of_os(error) from error
    return parse(text, str(path))


def resolve(target: TargetLike) -> target_pb2.TargetRef:
    """Resolves the target of a compilation, by the command line's rules: a text with a slash is a path."""
    if isinstance(target, target_pb2.Target):
        return target_pb2.TargetRef(inline=target)
    if target == "host":
        return target_pb2.TargetRef(inline=host())
    name = os.fspath(target)
    if not isinstance(target, str) or "/" in name or name.endswith(".textproto"):
        return target_pb2.TargetRef(inline=read(name))
    return target_pb2.TargetRef(name=name)
