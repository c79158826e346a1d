"""Post-training quantization until a bound on the loss holds.

    from tessera import quantize
    result = quantize.quantize("resnet18.onnx", {"x": images}, accept="cosine>=0.999")
    result.save("resnet18_int8.onnx")                    # an ordinary ONNX model
    print(result.report())

The same as a command: ``python3 -m tessera.quantize MODEL.onnx --calibration FILE.npz --accept "top1>=99%" -o OUT.onnx``.

The service compiles the model with its activations as outputs, for calibration, and once more with a switch for each layer. Every
choice of layers is then measured by runs of that artifact in this process. Layers that lose most stay in float until the bound
holds on samples that calibration has not seen. The last step compiles the quantized model and measures it again.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from tessera import errors
from tessera._quantized_graph import Array, Layer, Network, is_plain_gemm, onnx_module
from tessera.client import Client, default_client
from tessera.model import Model

FORMS = ("int8", "int4")
ROUNDINGS = ("nearest", "compensated")
BATCH = 8  # samples of a run, where the model leaves the batch open
HELD_OUT = 4  # each fourth sample judges the result
BOUND = re.compile(r"\s*(cosine|top1)\s*>=\s*([0-9.]+)\s*(%?)\s*")

Arrays = Mapping[str, Array]


@dataclasses.dataclass(frozen=True)
class Bounds:
    """Bounds on the distance between a quantized model and the float model, on the same samples."""
    cosine: float | None = None  #: the least cosine between the outputs of any sample
    top1: float | None = None  #: the share of positions with the same largest element in the last dimension

    @classmethod
    def parse(cls, text: str) -> Bounds:
        """``"cosine>=0.999"``, ``"top1>=99%"``, or both with a comma."""
        given: dict[str, float] = {}
        for part in text.split(","):
            found = BOUND.fullmatch(part)
            value = float(found[2]) / (100 if found[3] else 1) if found and found[2].count(".") <= 1 else 2.0
            if not found or value > 1 or found[1] in given:
                raise errors.InvalidInput(f"accept: found '{part}'", reason="INVALID_INPUT", attribute="accept",
                                          accepted="cosine>=0.999, top1>=99%, or both with a comma")
            given[found[1]] = value
        return cls(**given)

    def hold(self, quality: Quality) -> bool:
        return ((self.cosine is None or quality.cosine >= self.cosine) and
                (self.top1 is None or quality.top1 >= self.top1))


@dataclasses.dataclass(frozen=True)
class Quality:
    """The distance between outputs and those of the float model."""
    cosine: float
    top1: float

    def loss(self, bounds: Bounds) -> tuple[float, float]:
        """For sorting: the larger, the worse; first by the measure that the bounds name."""
        by_cosine, by_top1 = 1 - self.cosine, 1 - self.top1
        return (by_top1, by_cosine) if bounds.cosine is None else (by_cosine, by_top1)


def compare(expected: Sequence[Arrays], found: Sequence[Arrays]) -> Quality:
    """Compares the outputs of runs. Only float outputs count; the first one decides top1."""
    cosine, equal, positions = 1.0, 0, 0
    for wanted, got in zip(expected, found, strict=True):
        floats = [name for name, array in wanted.items() if array.dtype.kind == "f"]
        if not floats:
            raise errors.InvalidInput("the model has no float output to compare", reason="INVALID_MODEL")
        for name in floats:
            a, b = (np.asarray(each[name], np.float64) for each in (wanted, got))
            rows = a.shape[0] if a.ndim > 1 else 1
            for x, y in zip(a.reshape(rows, -1), b.reshape(rows, -1), strict=True):
                norms = float(np.linalg.norm(x) * np.linalg.norm(y))
                cosine = min(cosine, float(x @ y) / norms if norms > 0 else float(np.array_equal(x, y)))
        first = wanted[floats[0]]
        same = np.argmax(np.atleast_1d(first), -1) == np.argmax(np.atleast_1d(got[floats[0]]), -1)
        equal, positions = equal + int(np.sum(same)), positions + int(np.size(same))
    return Quality(cosine, equal / positions)


@dataclasses.dataclass
class LayerResult:
    name: str
    op_type: str
    weights: int  #: number of elements
    alone: Quality  #: of the model in which this layer alone is quantized
    quantized: bool


@dataclasses.dataclass
class Quantization:
    """A quantized model, and how it was found."""
    model: bytes
    form: str
    bounds: Bounds
    quality: Quality  #: of the compiled model, on samples that calibration has not seen
    held_out: int  #: number of these samples; 0: too few were given, and calibration's own are used
    layers: list[LayerResult]  #: those that can be quantized, in the model's order
    runs: int  #: choices of layers that were measured

    def save(self, path: str | pathlib.Path) -> pathlib.Path:
        """Writes the ONNX model."""
        pathlib.Path(path).write_bytes(self.model)
        return pathlib.Path(path)

    def worst(self) -> LayerResult | None:
        """The layer that loses most when it alone is quantized; the first of equals."""
        return max(self.layers, key=lambda layer: layer.alone.loss(self.bounds)) if self.layers else None

    def to_json(self) -> dict[str, Any]:
        worst = self.worst()
        return {"form": self.form, "accept": dataclasses.asdict(self.bounds), "quality": dataclasses.asdict(self.quality),
                "held_out_samples": self.held_out, "choices_measured": self.runs, "loses_most": worst and worst.name,
                "kept_in_float": [layer.name for layer in self.layers if not layer.quantized],
                "layers": [dataclasses.asdict(layer) for layer in self.layers]}

    def report(self) -> str:
        """A table of the layers, those that lose most first."""
        kept = [layer for layer in self.layers if not layer.quantized]
        lines = [f"{self.form}: {len(self.layers) - len(kept)} of {len(self.layers)} layers quantized; cosine "
                 f"{self.quality.cosine:.6f}, top1 {self.quality.top1:.2%} on "
                 + (f"{self.held_out} held-out samples" if self.held_out else "the samples of calibration"),
                 f"{'cosine alone':>12}  {'top1 alone':>10}  {'weights':>10}  {'kept as':<7}  layer"]
        for layer in sorted(self.layers, key=lambda each: each.alone.loss(self.bounds), reverse=True):
            lines.append(f"{layer.alone.cosine:12.6f}  {layer.alone.top1:10.2%}  {layer.weights:10d}  "
                         f"{self.form if layer.quantized else 'float':<7}  {layer.name} ({layer.op_type})")
        return "\n".join(lines)


def _batches(samples: Arrays, model: Any) -> list[dict[str, Array]]:
    """Cuts stacked samples into inputs of runs: of the model's batch, or of BATCH samples where it is open."""
    inputs = {value.name: value.type.tensor_type for value in model.graph.input
              if value.name not in {i.name for i in model.graph.initializer}}
    if set(samples) != set(inputs):
        raise errors.InvalidInput(f"calibration has {sorted(samples)}, the model's inputs are {sorted(inputs)}",
                                  reason="INVALID_INPUT", attribute="calibration")
    counts = {len(array) if array.ndim else 0 for array in samples.values()}
    if len(counts) != 1 or 0 in counts:
        raise errors.InvalidInput("calibration: the arrays have different numbers of samples, or none",
                                  reason="INVALID_INPUT", attribute="calibration",
                                  accepted="arrays that stack the same number of samples along the first dimension")
    total = counts.pop()
    fixed = {kind.shape.dim[0].dim_value for kind in inputs.values() if kind.shape.dim and kind.shape.dim[0].dim_value}
    size = min(fixed.pop() if fixed else BATCH, total)
    if fixed or total < size:
        raise errors.InvalidInput("calibration: the inputs have different batches", reason="INVALID_INPUT",
                                  attribute="calibration")
    # Samples beyond the last whole batch are left out: every run has the same shapes.
    return [{name: np.ascontiguousarray(array[first:first + size]) for name, array in samples.items()}
            for first in range(0, total - size + 1, size)]


def _split(batches: list[dict[str, Array]]) -> tuple[list[dict[str, Array]], list[dict[str, Array]]]:
    """Batches for calibration, and those that judge."""
    judges = batches[HELD_OUT - 1::HELD_OUT] or batches[1:2]
    used = [batch for batch in batches if not any(batch is judge for judge in judges)]
    return used, judges


class _Search:
    """Measures choices of layers, and finds one that meets the bounds."""

    def __init__(self, measure: Callable[[Collection[int]], Quality], bounds: Bounds, layers: int) -> None:
        self._measure, self.bounds, self._all = measure, bounds, set(range(layers))
        self.runs = 0

    def measure(self, chosen: Collection[int]) -> Quality:
        self.runs += 1
        return self._measure(chosen)

    def find(self, order: Sequence[int]) -> set[int]:
        """`order`: layers, those that lose most first. Returns the layers that can be quantized together."""
        low, high = 0, len(order)  # keeping the first `high` in float meets the bounds
        while low < high:
            middle = (low + high) // 2
            if self.bounds.hold(self.measure(self._all - set(order[:middle]))):
                high = middle
            else:
                low = middle + 1
        chosen = self._all - set(order[:high])
        # The losses of layers add up in no order: those that lose least may fit nevertheless.
        for layer in reversed(order[:max(high - 1, 0)]):
            if self.bounds.hold(self.measure(chosen | {layer})):
                chosen.add(layer)
        return chosen


def _observe(model: Model, batches: Sequence[Arrays], layers: Sequence[Layer], percentile: float) -> None:
    """Sets the range of each layer's activation."""
    ranges: dict[str, tuple[float, float]] = {}
    for batch in batches:
        values = {**batch, **model.run(batch)}
        for name in {layer.activation for layer in layers}:
            array = np.asarray(values[name], np.float32)
            if percentile >= 100:
                low, high = float(array.min()), float(array.max())
            else:
                low, high = (float(each) for each in np.percentile(array, (100 - percentile, percentile)))
            before = ranges.get(name, (low, high))
            ranges[name] = min(low, before[0]), max(high, before[1])
    for layer in layers:
        layer.range = ranges[layer.activation]


def _add_moments(model: Model, batches: Sequence[Arrays], layers: Sequence[Layer]) -> None:
    """Sets the moments of each layer's activation."""
    sums: dict[str, Array] = {}
    for batch in batches:
        values = {**batch, **model.run(batch)}
        for name in {layer.activation for layer in layers}:
            rows = np.asarray(values[name], np.float64)
            rows = rows.reshape(-1, rows.shape[-1])
            sums[name] = sums.get(name, 0) + rows.T @ rows
    for layer in layers:
        layer.moments = sums[layer.activation]


def quantize(model: Any, calibration: Arrays, *, accept: str = "cosine>=0.999", form: str = "int8",
             percentile: float = 100.0, block: int = 32, rounding: str = "nearest", client: Client | None = None, threads: int = 1,
             on_progress: Callable[[str], None] = lambda text: None) -> Quantization:
    """Quantizes the products of a model until `accept` holds.

    :param model: a path of an ONNX file, its bytes, or an ``onnx.ModelProto``; opset 13 or later.
    :param calibration: an array for each input, with the samples along its first dimension. Each fourth batch judges the result
        and is not used for ranges.
    :param accept: "cosine>=0.999", "top1>=99%", or both with a comma: bounds on the distance to the float model.
    :param form: "int8": activations of u8 with one scale, weights of s8 with a scale for each output channel. "int4": weights of
        MatMul and Gemm in groups of 4 bits, activations in float.
    :param percentile: the share of an activation's values, in percent, that its range covers on either side; 100: all of them.
    :param block: for "int4", elements of a group: a power of two of at least 16.
    :param rounding: for "int4", of weights: "nearest", or "compensated": later weights of a row take over the errors of earlier
        ones, by the activations of calibration (GPTQ). Fewer samples than a product has inputs can lose more than "nearest".
    :param client: the service that compiles; default: TESSERA_SERVER.
    :param threads: of the runs in this process.
    :param on_progress: called with a sentence before each step.
    """
    onnx = onnx_module()
    if (form not in FORMS or rounding not in ROUNDINGS or block < 16 or block & (block - 1) or not 50 < percentile <= 100):
        raise errors.InvalidInput(f"found form={form!r}, rounding={rounding!r}, block={block}, percentile={percentile}",
                                  reason="INVALID_INPUT",
                                  accepted=f"form {' or '.join(FORMS)}, rounding {' or '.join(ROUNDINGS)}, block 16, 32, "
                                           "64, ..., percentile above 50")
    bounds = Bounds.parse(accept)
    service = client or default_client()
    if isinstance(model, bytes):
        model = onnx.ModelProto.FromString(model)
    elif not isinstance(model, onnx.ModelProto):
        model = onnx.load(model)
    batches = _batches(calibration, model)
    used, judges = _split(batches)
    network = Network(model)
    if form == "int4":
        network.layers = [layer for layer in network.layers
                          if layer.op_type != "Conv" and is_plain_gemm(network.nodes[layer.position])]
    layers = network.layers
    if not layers:
        raise errors.InvalidInput("the model has no Conv, Gemm or MatMul with constant float weights that this form can take",
                                  reason="INVALID_MODEL")
    shapes = {name: array.shape for name, array in batches[0].items()}

    def compiled(content: bytes, name: str) -> Model:
        on_progress(f"compiling the {name}")
        return service.compile(content, shapes=shapes, name=name.replace(" ", "-")).result().load(threads)

    outputs = [output.name for output in model.graph.output]
    plain = compiled(network.with_activations(), "float model")
    on_progress(f"calibrating on {len(used)} runs")
    if form == "int8":
        _observe(plain, used or batches, layers, percentile)
    elif rounding == "compensated":
        _add_moments(plain, used or batches, layers)
    judges = judges or batches

    def results(of: Model, more: Arrays) -> list[dict[str, Array]]:
        found = [of.run({**batch, **more}) for batch in judges]
        return [{name: np.array(each[name]) for name in outputs} for each in found]

    expected = results(plain, {})
    content, names = network.with_switches(form, block)
    switched = compiled(content, "switched model")

    def measure(chosen: Collection[int]) -> Quality:
        return compare(expected, results(switched, {name: np.array(i in chosen) for i, name in enumerate(names)}))

    search = _Search(measure, bounds, len(layers))
    on_progress(f"measuring {len(layers)} layers alone")
    alone = [search.measure({i}) for i in range(len(layers))]
    order = sorted(range(len(layers)), key=lambda i: alone[i].loss(bounds), reverse=True)
    on_progress("choosing layers")
    chosen = search.find(order)
    # Kernels on integers may round otherwise than the switched model: the compiled model has the last word.
    while True:
        final = network.quantized(chosen, form, block)
        quality = compare(expected, results(compiled(final, "quantized model"), {}))
        if bounds.hold(quality) or not chosen:
            break
        chosen -= set([i for i in order if i in chosen][:max(1, len(layers) // 16)])
    per_batch = len(next(iter(batches[0].values())))
    return Quantization(final, form, bounds, quality, per_batch * len(judges) if used and len(batches) > 1 else 0,
                        [LayerResult(layer.name, layer.op_type, int(layer.weight.size), alone[i], i in chosen)
                         for i, layer in enumerate(layers)], search.runs)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python3 -m tessera.quantize",
                                     description="Quantizes an ONNX model until a bound on the loss holds.")
    parser.add_argument("model", help="an ONNX file, opset 13 or later")
    parser.add_argument("--calibration", required=True, metavar="FILE.npz",
                        help="an array for each input, with the samples along the first dimension")
    parser.add_argument("--accept", default="cosine>=0.999", help='"cosine>=0.999", "top1>=99%%", or both with a comma')
    parser.add_argument("--form", choices=FORMS, default="int8",
                        help="int8: activations u8, weights s8 by channel; int4: weights in groups of 4 bits")
    parser.add_argument("--percentile", type=float, default=100.0, help="share of an activation's values in its range")
    parser.add_argument("--block", type=int, default=32, help="elements of a group of 4-bit weights")
    parser.add_argument("--rounding", choices=ROUNDINGS, default="nearest",
                        help="of 4-bit weights; compensated: later weights take over the errors of earlier ones (GPTQ)")
    parser.add_argument("--threads", type=int, default=1, help="threads of the runs in this process")
    parser.add_argument("--server", help="host:port or unix:/path of the service (TESSERA_SERVER)")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("-o", "--output", required=True, help="the quantized ONNX file")
    options = parser.parse_args(arguments)
    try:
        with np.load(options.calibration) as stored:
            samples = {name: stored[name] for name in stored.files}
        with Client(options.server) as client:
            result = quantize(options.model, samples, accept=options.accept, form=options.form,
                              percentile=options.percentile, block=options.block, rounding=options.rounding, client=client,
                              threads=options.threads,
                              on_progress=lambda text: print(text, file=sys.stderr))
        result.save(options.output)
    except (errors.TesseraError, OSError, ValueError) as error:
        print(f"tessera.quantize: {error}", file=sys.stderr)
        return 1
    print(json.dumps(result.to_json()) if options.json else result.report())
    return 0


if __name__ == "__main__":
    sys.exit(main())
