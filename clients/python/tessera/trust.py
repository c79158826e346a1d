"""Trust in artifacts: only artifacts with a signature by a trusted key are loaded.

FILE.sig holds the signature of FILE; ``Artifact.save`` and the command ``tessera`` write it. Trusted keys are in a file, one
per line (``tessera admin signing-key --trust`` adds one), or are passed by a program.
"""

from __future__ import annotations

import dataclasses
import fcntl
import hashlib
import os
import pathlib
import re
import stat
import warnings
from collections.abc import Collection
from typing import Union

from tessera import errors

Trust = Union[bool, str, "os.PathLike[str]", Collection[str]]

_SIGNATURE = re.compile(r"tessera-signature 1\nartifact ([0-9a-f]{64})\nkey ([0-9a-f]{64})\nsignature ([0-9a-f]{128})\n")


@dataclasses.dataclass(frozen=True)
class Signature:
    artifact: str  #: SHA-256 of the file
    key: str
    signature: str

    def holds(self) -> bool:
        """Whether the signature is valid for this artifact and key."""
        try:
            from cryptography.exceptions import InvalidSignature
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        except ImportError as error:
            raise errors.InvalidInput("signatures cannot be checked without the package cryptography",
                                      fix="install python3-cryptography, or `pip install cryptography`") from error
        try:
            key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(self.key))
            key.verify(bytes.fromhex(self.signature), f"tessera artifact 1\n{self.artifact}\n".encode())
        except (InvalidSignature, ValueError):
            return False
        return True

    def __str__(self) -> str:
        return f"tessera-signature 1\nartifact {self.artifact}\nkey {self.key}\nsignature {self.signature}\n"


def default_file() -> pathlib.Path | None:
    """TESSERA_TRUST, or trusted-keys in the user's configuration folder of tessera; None without a home folder."""
    if file := os.environ.get("TESSERA_TRUST"):
        return pathlib.Path(file)
    if config := os.environ.get("XDG_CONFIG_HOME"):
        return pathlib.Path(config) / "tessera/trusted-keys"
    if home := os.environ.get("HOME"):
        return pathlib.Path(home) / ".config/tessera/trusted-keys"
    return None


def keys_of(file: pathlib.Path | None) -> set[str]:
    """The first word of each line; empty if there is no file."""
    try:
        lines = file.read_text().splitlines() if file else []
    except FileNotFoundError:
        return set()
    except OSError as error:
        raise errors.of_os(error) from error
    return {line.split()[0] for line in lines if line.split() and not line.startswith("#")}


def add_key(key: str, comment: str) -> None:
    """Adds a key to the default file; warns if that fails."""
    file = default_file()
    try:
        if file is None:
            raise OSError("there is no home folder to keep trusted keys in; set TESSERA_TRUST to a file")
        file.parent.mkdir(parents=True, exist_ok=True)
        with open(os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "r+") as text:
            fcntl.flock(text, fcntl.LOCK_EX)
            before = text.read()
            if key not in keys_of(file):
                text.write(("" if not before or before.endswith("\n") else "\n") + f"{key} {comment}\n")
    except OSError as error:
        warnings.warn(f"the service's key is not trusted: {error}", stacklevel=2)


def keep(signature: Signature, path: pathlib.Path) -> None:
    """Writes the signature file of the artifact."""
    if not signature.holds():
        raise errors.InternalError(f"the service's signature of artifact {signature.artifact} does not verify")
    part = path.with_name(path.name + ".sig.part")
    try:
        part.write_text(str(signature))
        part.rename(path.with_name(path.name + ".sig"))
    except OSError as error:
        raise errors.of_os(error) from error


def check(file: int, path: str | os.PathLike[str], trust: Trust) -> None:
    """Reads the whole open file, which was opened as `path`, and raises InvalidInput unless a trusted key signed it."""
    file_of_keys = default_file() if trust is True else pathlib.Path(trust) if isinstance(trust, (str, os.PathLike)) else None
    if trust is True:
        trusted, where = keys_of(file_of_keys), str(file_of_keys or "no file")
    elif isinstance(trust, (str, os.PathLike)):
        trusted, where = keys_of(file_of_keys), os.fspath(trust)
    else:
        trusted, where = set(trust or ()), "the program"
    name = os.fspath(path)

    def refuse(what: str, found: str, accepted: str, fix: str) -> errors.InvalidInput:
        return errors.InvalidInput(f"{name}: {what}", attribute="trust", found=found, accepted=accepted,
                                   fix=f"{fix}; or, if you know its origin, pass trust=False")

    # A model file is reported as such before the signature check, since nobody signs models.
    if not stat.S_ISREG(os.fstat(file).st_mode) or os.pread(file, 2, 0) != b"PK":
        raise errors.InvalidInput(f"{name} is not an artifact (.tsra)", attribute="path",
                                  fix="compile the model: `tessera compile`, Client.compile")
    beside = pathlib.Path(f"{name}.sig")
    match = _SIGNATURE.fullmatch(beside.read_text(errors="replace")) if beside.is_file() else None
    if match is None:
        raise refuse(f"its native code has no trusted signature: {beside} "
                     + ("is no signature" if beside.exists() else "is not there"), "no signature",
                     "an artifact with the signature of a service whose key is trusted",
                     "fetch it again (`tessera fetch`, Artifact.save), and keep the two files together")
    signature = Signature(*match.groups())
    digest = hashlib.sha256()
    offset = 0
    while chunk := os.pread(file, 1 << 20, offset):
        digest.update(chunk)
        offset += len(chunk)
    if digest.hexdigest() != signature.artifact or not signature.holds():
        raise refuse("the signature does not match: the file or its signature was changed", digest.hexdigest(),
                     signature.artifact, "fetch it again")
    if signature.key not in trusted:
        absent = isinstance(file_of_keys, pathlib.Path) and not file_of_keys.exists()
        raise refuse(f"it is signed by a key, but there is no file {where} of trusted ones" if absent
                     else f"it is signed by a key that {where} does not hold", signature.key, "a key that is trusted",
                     "compare it with what `tessera admin signing-key` of the service says, which --trust adds")
