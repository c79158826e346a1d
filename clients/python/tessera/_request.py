"""Converts Python values that describe a compilation to a ``v1.CompileSpec``."""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, Union, runtime_checkable

import numpy as np

from tessera import _digests, _external, dtypes, errors, targets
from tessera._transfer import Source
from tessera.training import Training
from tessera.v1 import job_pb2, tensor_pb2

MOST_VARIANTS = 64  # of one artifact; equals TESSERA_MAX_VARIANTS
MOST_OF_RANGES = 16  # limit of variants for several ranges

Shape = Sequence[int]


@runtime_checkable
class Serializable(Protocol):
    """An ``onnx.ModelProto`` or a similar message."""

    def SerializeToString(self) -> bytes: ...


#: A file's path, a model's bytes, or an ``onnx.ModelProto``.
ModelLike = Union[str, "os.PathLike[str]", bytes, Serializable]
#: Of each input one shape, or several, which make one variant each (the i-th of all inputs together).
ShapesLike = Mapping[str, Union[Shape, Sequence[Shape]]]
#: Of each symbolic dimension one size, or several: every combination is a variant. "1..64" and "..64": ranges.
DimsLike = Mapping[str, Union[int, str, Iterable[int]]]

_PRECISIONS = {"model": job_pb2.CompileOptions.PRECISION_UNSPECIFIED, "bf16": job_pb2.CompileOptions.BF16}
_FORMATS = {"onnx": job_pb2.ONNX, "mlir": job_pb2.MLIR_TEXT, "te": job_pb2.TENSOR_EXPRESSION}


@dataclasses.dataclass
class CompileRequest:
    """The arguments of ``compile``, unchecked."""
    model: ModelLike
    target: targets.TargetLike = "host"
    shapes: ShapesLike | None = None
    dims: DimsLike | None = None
    fixed: Mapping[str, Any] | None = None
    external_data: Mapping[str, str | os.PathLike[str]] | None = None
    format: str | None = None
    name: str | None = None
    opt_level: int = 0
    verify: bool = False
    precision: str = "model"
    state: str | Mapping[str, str] | None = None
    training: Training | None = None

    def prepare(self) -> tuple[job_pb2.CompileSpec, dict[str, tuple[Source, tensor_pb2.Digest]]]:
        """Returns the specification, and the blobs it refers to by their SHA-256. Reads files."""
        spec = job_pb2.CompileSpec()
        source, digest = _source(self.model)
        blobs = {digest.sha256: (source, digest)}
        spec.model.CopyFrom(digest)
        spec.format = self._format(source)
        spec.name = self.name or (source.stem if isinstance(source, pathlib.Path) else "model")
        spec.target.CopyFrom(targets.resolve(self.target))
        _bind(spec, self.shapes or {}, self.dims or {})
        for name, value in (self.fixed or {}).items():
            spec.fixed_inputs.append(tensor_value(name, np.asarray(value)))
        if self.state == "auto":
            spec.state.automatic = True
        elif isinstance(self.state, str):
            raise errors.InvalidInput("state is a mapping of inputs to outputs", attribute="state", found=self.state,
                                      accepted='"auto", or a mapping such as {"past": "present"}')
        else:
            for before, after in (self.state or {}).items():
                spec.state.pairs.add(input=before, output=after)
        if self.training is not None:
            self.training.fill(spec.training)
        for location, path in self._external(source, spec.format).items():
            outside, digest = _source(path)
            blobs[digest.sha256] = (outside, digest)
            spec.external_data[location].CopyFrom(digest)
        spec.options.opt_level = self.opt_level
        spec.options.verify = self.verify
        if self.precision not in _PRECISIONS:
            raise errors.InvalidInput(f"precision '{self.precision}' is not known", attribute="precision",
                                      found=self.precision, accepted=", ".join(_PRECISIONS))
        spec.options.precision = _PRECISIONS[self.precision]
        return spec, blobs

    def _external(self, source: Source, format_: Any) -> dict[str, str | os.PathLike[str]]:
        """Local files by location: those that were named, then those in the model's folder."""
        files: dict[str, str | os.PathLike[str]] = {}
        if isinstance(source, pathlib.Path) and format_ in (job_pb2.MODEL_FORMAT_UNSPECIFIED, job_pb2.ONNX):
            for location in _external.locations(source) - set(self.external_data or {}):
                if (file := _external.beside(source, location)) is not None:
                    files[location] = file
        return {**files, **(self.external_data or {})}

    def _format(self, source: Source) -> Any:
        if self.format is not None:
            if self.format not in _FORMATS:
                raise errors.InvalidInput(f"format '{self.format}' is not known", attribute="format",
                                          found=self.format, accepted=", ".join(_FORMATS))
            return _FORMATS[self.format]
        # A text may start with a comment, so the content does not determine the format.
        ending = source.suffix if isinstance(source, pathlib.Path) else ""
        return _FORMATS[ending[1:]] if ending in (".mlir", ".te") else job_pb2.MODEL_FORMAT_UNSPECIFIED


def _source(model: ModelLike) -> tuple[Source, tensor_pb2.Digest]:
    if isinstance(model, (str, os.PathLike)):
        path = pathlib.Path(model)
        try:
            return path, _digests.of_file(path)
        except OSError as error:
            raise errors.of_os(error) from error
    data = model if isinstance(model, bytes) else None
    if data is None and isinstance(model, Serializable):
        data = model.SerializeToString()
    if data is None:
        raise errors.InvalidInput("this is no model", found=type(model).__name__,
                                  accepted="a path, bytes, or an onnx.ModelProto")
    return data, _digests.of_bytes(data)


def tensor_value(name: str, array: np.ndarray[Any, Any]) -> tensor_pb2.TensorValue:
    """A tensor with inline data."""
    dtype = dtypes.of_array(array)
    spec = tensor_pb2.TensorSpec(name=name, dtype=dtype.number, shape=array.shape)  # type: ignore[arg-type]
    return tensor_pb2.TensorValue(spec=spec, data=np.ascontiguousarray(array, dtype.numpy).tobytes())


def _extent(what: str, value: Any) -> int:
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= 0:
        return int(value)
    raise errors.InvalidInput(f"{what}: an extent is a whole number of at least 0", attribute=what, found=repr(value))


def _shapes_of(name: str, given: Any) -> list[list[int]]:
    """The shapes of one input; several shapes make variants."""
    items = list(given) if isinstance(given, Iterable) and not isinstance(given, (str, bytes)) else None
    if items is None:
        raise errors.InvalidInput(f"the shape of input '{name}' is a list of extents", attribute=name,
                                  found=repr(given), accepted="e.g. (1, 3, 224, 224), or several of them")
    if items and all(isinstance(item, (list, tuple)) for item in items):
        return [[_extent(name, extent) for extent in item] for item in items]
    return [[_extent(name, extent) for extent in items]]


def _sizes_of_range(name: str, text: str) -> list[int]:
    """The sizes of a range: both ends and the repeated doubles of the first one between them, or for "..8,..64" exactly those.
    Negative sizes stand for all sizes up to their absolute value."""
    if _is_chosen(text):
        chosen = sorted(int(part[2:]) for part in text.split(","))
        if chosen[0] < 1 or len(set(chosen)) < len(chosen):
            raise errors.InvalidInput(f"dimension '{name}': no range", attribute=name, found=repr(text),
                                      accepted="e.g. '..8,..64'")
        return [-size for size in chosen]
    # Size 0 needs no variant: the variant for 2 runs it.
    ends = [max(int(end), 1) if end.isdecimal() else 0 for end in text.split("..")]
    if len(ends) != 2 or not 1 <= ends[0] < ends[1]:
        raise errors.InvalidInput(f"dimension '{name}': no range", attribute=name, found=repr(text),
                                  accepted="e.g. '1..64' or '..64'")
    doubles = (ends[0] << power for power in range(ends[1].bit_length()))
    return [-size for size in sorted({*ends, *(size for size in doubles if size < ends[1])})]


def _is_chosen(text: str) -> bool:
    """Whether the sizes of a range are listed explicitly: "..8,..64"."""
    return all(part.startswith("..") and part[2:].isdecimal() for part in text.split(","))


def _is_formula(text: str) -> bool:
    """Whether the text derives a dimension from others, such as "past + tokens": arithmetic that contains a name."""
    return ".." not in text and any(map(str.isalpha, text)) and any(sign in text for sign in "+-*/(")


def _thinned(ranges: dict[str, list[int]], chosen: set[str]) -> dict[str, list[int]]:
    """Limits the variants of several ranges to 16. Keeps of each range every second, third, ... size from the greatest down,
    and the least, with the smallest stride that suffices. If two sizes per range are still too many, the last ranges keep
    only their greatest size. Sizes of `chosen` ranges all stay."""
    thin = ranges
    apart = 2
    long = [name for name in ranges if name not in chosen] if len(ranges) > 1 else []
    while long and math.prod(map(len, thin.values())) > MOST_OF_RANGES and max(len(thin[name]) for name in long) > 2:
        thin = {name: sizes if name in chosen else
                [size for i, size in enumerate(sizes) if i == 0 or (len(sizes) - 1 - i) % apart == 0]
                for name, sizes in ranges.items()}
        apart += 1
    for name in reversed(long):
        if math.prod(map(len, thin.values())) > MOST_OF_RANGES:
            thin = {**thin, name: thin[name][-1:]}
    return thin


def _sizes_of(name: str, given: Any) -> list[int]:
    if isinstance(given, str):
        return _sizes_of_range(name, given)
    if isinstance(given, Iterable) and not isinstance(given, (str, bytes)):
        sizes = [_extent(name, size) for size in itertools.islice(given, MOST_VARIANTS + 1)]
    else:
        sizes = [_extent(name, given)]
    if not sizes or len(set(sizes)) < len(sizes):
        raise errors.InvalidInput(f"dimension '{name}' takes at least one size, and each once", attribute=name,
                                  found=repr(sizes))
    return sizes


def _bind(spec: job_pb2.CompileSpec, shapes: ShapesLike, dims: DimsLike) -> None:
    """Stores single values in the specification itself; several values become variants, one for each combination."""
    variants = [job_pb2.Specialization()]
    for name, given in dims.items():
        if isinstance(given, str) and _is_formula(given):
            spec.dimensions.add(name=f"{name}={given}")
    dims = {name: given for name, given in dims.items() if not (isinstance(given, str) and _is_formula(given))}
    texts = {name: given for name, given in dims.items() if isinstance(given, str)}
    ranges = _thinned({name: _sizes_of(name, given) for name, given in texts.items()},
                      {name for name, given in texts.items() if _is_chosen(given)})
    for name, given in dims.items():
        sizes = ranges.get(name) or _sizes_of(name, given)
        if len(sizes) == 1:
            spec.dimensions.add(name=name, size=sizes[0])
            continue
        _refuse_too_many(len(variants) * len(sizes))
        variants = [_extended(variant, name, size) for variant in variants for size in sizes]
    several: dict[str, list[list[int]]] = {}
    for name, given_shapes in shapes.items():
        each = _shapes_of(name, given_shapes)
        if len(each) == 1:
            spec.input_shapes.add(name=name, shape=each[0])
        else:
            several[name] = each
    counts = {len(each) for each in several.values()}
    if len(counts) > 1:
        raise errors.InvalidInput(
            "the i-th shapes of all inputs are one variant, so give as many for each", attribute="shapes",
            found=", ".join(f"{name}: {len(each)}" for name, each in several.items()))
    if counts:
        count = counts.pop()
        _refuse_too_many(len(variants) * count)
        product = []
        for variant, position in itertools.product(variants, range(count)):
            extended = job_pb2.Specialization()
            extended.CopyFrom(variant)
            for name, each in several.items():
                extended.input_shapes.add(name=name, shape=each[position])
            product.append(extended)
        variants = product
    if len(variants) > 1:
        spec.specializations.extend(variants)


def _extended(variant: job_pb2.Specialization, name: str, size: int) -> job_pb2.Specialization:
    extended = job_pb2.Specialization()
    extended.CopyFrom(variant)
    extended.dimensions.add(name=name, size=size)
    return extended


def _refuse_too_many(count: int) -> None:
    if count > MOST_VARIANTS:
        raise errors.InvalidInput(f"these make {count} variants; an artifact holds at most {MOST_VARIANTS}",
                                  fix="compile the others into another artifact")
