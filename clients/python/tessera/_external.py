"""Tensors that an ONNX model stores in separate files: the locations that it refers to, and the files in its folder."""

from __future__ import annotations

import mmap
import pathlib
from collections.abc import Iterator

from tessera import errors

_DEEPEST = 100  # nesting of graphs in attributes

# The messages of onnx.proto on the paths to TensorProto.external_data: for each, the message type by field number.
_CHILDREN = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node", 11: "attribute"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {13: "entry"},
}


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise ValueError("a number that does not end")


def _fields(data: memoryview) -> Iterator[tuple[int, memoryview]]:
    """The length-delimited fields of a message: number and content. ValueError or IndexError if the data is not a message."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        wire = tag & 7
        if wire == 0:
            _, at = _varint(data, at)
        elif wire in (1, 5):
            at += 8 if wire == 1 else 4
        elif wire == 2:
            size, at = _varint(data, at)
            if at + size > len(data):
                raise ValueError("a field that is longer than its message")
            yield tag >> 3, data[at:at + size]
            at += size
        else:
            raise ValueError(f"a field of kind {wire}")


def _walk(data: memoryview, message: str, depth: int, found: set[str]) -> None:
    if message == "entry":
        entry = {number: bytes(content) for number, content in _fields(data) if number <= 2}
        if entry.get(1) == b"location":
            found.add(entry.get(2, b"").decode("utf-8", "surrogateescape"))
        return
    children = _CHILDREN[message]
    for number, content in _fields(data):
        if number in children and depth < _DEEPEST:
            _walk(content, children[number], depth + 1, found)


def locations(model: pathlib.Path) -> set[str]:
    """The locations that the model refers to, including those in its functions and in graphs of operators' attributes. Does not
    read weights. For a file that is not an ONNX model the result is arbitrary; the service reports the error."""
    found: set[str] = set()
    try:
        with open(model, "rb") as file:
            _walk(memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)), "model", 0, found)
    except (OSError, ValueError, IndexError):
        pass
    return found


def _blobs_of_snapshot(folder: pathlib.Path) -> pathlib.Path | None:
    """The blob folder of a snapshot in Hugging Face's cache: REPOSITORY/blobs for a folder in REPOSITORY/snapshots/REVISION,
    where REPOSITORY is models--ORG--NAME (or of a data set or a space)."""
    for revision in (folder, *folder.parents):
        repository = revision.parent.parent
        if revision.parent.name == "snapshots" and repository.name.startswith(("models--", "datasets--", "spaces--")):
            return repository / "blobs"
    return None


def beside(model: pathlib.Path, location: str) -> pathlib.Path | None:
    """Resolves a location, which is relative to the model's folder, to a path without symbolic links. None if there is no such
    file, or if the location itself leaves the folder ("..", an absolute path).

    Symbolic links may lead to files in the folder and, from a snapshot of Hugging Face's cache, to the blobs of the same
    repository. Any other link raises an exception: a downloaded model could otherwise make its user upload any file of the
    machine.
    """
    relative = pathlib.PurePosixPath(location)
    if not location or "\0" in location or relative.is_absolute() or ".." in relative.parts:
        return None
    try:
        folder = model.absolute().parent.resolve(strict=True)
        file = (folder / relative).resolve(strict=True)
    except (OSError, RuntimeError):  # missing, or circular links
        return None
    if not file.is_file():
        return None
    blobs = _blobs_of_snapshot(folder)
    if file.is_relative_to(folder) or (blobs is not None and file.is_relative_to(blobs)):
        return file
    raise errors.InvalidModel(
        f"external data '{location}' of {model}: a symbolic link leads out of the model's folder", reason="INVALID_MODEL",
        attribute=location, found=str(file),
        accepted=f"files in {folder}, and links from a snapshot of Hugging Face's cache to its own blobs",
        fix="if that file holds the model's weights, copy it into the folder or name it with external_data={location: file}")
