"""Quantized products and convolutions in all combinations of signs, zero points and shapes, and whole quantized
networks, compared with ONNX Runtime; exact where ONNX defines integers. Rotates over the targets that this machine can
run."""

import pathlib
import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from checks import check, check_equal
from e2e.data_dependent_suite import model_of
from e2e.tessera_e2e import model_inputs, model_path, runnable_targets, shapes_of, rotating_target, target_name
from models import quantize
from oracle.oracle import difference

KINDS = {"u": (np.uint8, TensorProto.UINT8), "s": (np.int8, TensorProto.INT8)}
# Of a network's largest result. Products of dequantized values are summed exactly here and step by step there; one
# value that rounds to another step changes all later ones.
NETWORK_TOLERANCE = 0.02
# Without VNNI the oracle adds pairs of u8 * s8 in 16 bits, which saturate: it is exact only for s8 of 7 bits.
ORACLE_IS_EXACT = "vnni" in pathlib.Path("/proc/cpuinfo").read_text()


class Layers:
    """Independent layers in one model, each with its own input and output."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.nodes, self.inputs, self.outputs, self.constants = [], {}, {}, {}

    def bytes(self, kind, *shape):
        low = 0 if kind == "u" else -128
        return self.random.integers(low, low + 256, shape).astype(KINDS[kind][0])

    def weights(self, kind, *shape):
        if kind == "u" or ORACLE_IS_EXACT:
            return self.bytes(kind, *shape)
        return self.random.integers(-64, 64, shape).astype(np.int8)

    def add(self, operator, kind, rank, operands, **attributes):
        """`operands`: (array, whether it is an input), or None for an absent one."""
        i, names = len(self.nodes), []
        for position, operand in enumerate(operands):
            names.append("" if operand is None else f"v{i}_{position}")
            if operand is not None:
                (self.inputs if operand[1] else self.constants)[names[-1]] = operand[0]
        self.nodes.append(helper.make_node(operator, names, [f"y{i}"], **attributes))
        self.outputs[f"y{i}"] = (kind, rank)

    def zero(self, kind, value, given):
        return None if value is None else (np.array(value).astype(KINDS[kind][0]), given)

    def product(self, m, k, n, kinds, zeros, constant=True, batch=()):
        """zeros: of both operands, None for absent; "dynamic" is an input, "columns" one for each column."""
        a, b = self.bytes(kinds[0], *batch, m, k), self.weights(kinds[1], *(() if constant else batch), k, n)
        points = [self.zero(kind, 77 if zero == "dynamic" else self.bytes(kind, n) if zero == "columns" else zero,
                            zero == "dynamic") for kind, zero in zip(kinds, zeros)]
        self.add("MatMulInteger", TensorProto.INT32, 2 + len(batch), [(a, True), (b, not constant), *points])

    def convolution(self, channels, size, filters, kernel, stride, pad, group, kinds, zeros):
        weight = self.weights(kinds[1], filters, channels // group, kernel, kernel)
        self.add("QLinearConv", KINDS[kinds[0]][1], 4, [
            (self.bytes(kinds[0], 1, channels, *size), True), (np.float32(0.02), False), self.zero(kinds[0], zeros[0], False),
            (weight, False), (self.random.uniform(0.001, 0.01, filters).astype(np.float32), False),
            (np.full(filters, zeros[1], KINDS[kinds[1]][0]), False), (np.float32(0.5), False),
            self.zero(kinds[0], 100 if kinds[0] == "u" else 3, False),
            (self.random.integers(-1000, 1000, filters).astype(np.int32), False)],
            kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4, group=group)

    def padded_integers(self, channels, size, filters, kernel, stride, pads, group, kinds, zeros):
        """ConvInteger, whose border is the zero point of the image; "dynamic": computed at run time."""
        weight = self.weights(kinds[1], filters, channels // group, kernel, kernel)
        points = [self.zero(kind, 201 if zero == "dynamic" else zero, zero == "dynamic") for kind, zero in zip(kinds, zeros)]
        self.add("ConvInteger", TensorProto.INT32, 4, [(self.bytes(kinds[0], 1, channels, *size), True), (weight, False), *points],
                 kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=pads, group=group)


def products():
    layers = Layers(1)
    for kinds in ("uu", "us", "su", "ss"):
        half = 128 if kinds[1] == "u" else 0
        for zeros in ((None, None), (37, half), ("dynamic", None), (5, 11), ("dynamic", "columns"), (None, "columns")):
            layers.product(7, 64, 50, kinds, zeros)
    return layers


def odd_products():
    layers = Layers(2)
    for m, k, n in ((1, 4, 1), (3, 1, 5), (5, 63, 33), (1, 256, 40), (64, 100, 3), (17, 31, 130)):
        layers.product(m, k, n, "us", (9, None))
        layers.product(m, k, n, "uu", (9, 200))
        layers.product(m, k, n, "ss", (None, None))
    layers.product(9, 32, 17, "us", (3, None), constant=False, batch=(2, 3))
    layers.product(9, 32, 16, "ss", (None, 4), constant=False)
    layers.product(33, 70, 20, "us", ("dynamic", None), batch=(2,))
    return layers


def convolutions(seed):
    layers = Layers(seed)
    for kinds, zeros in (("us", (120, 0)), ("uu", (3, 128)), ("ss", (-7, 0)), ("uu", (9, 50))):
        layers.convolution(3, (15, 13), 16, 3, 2, 1, 1, kinds, zeros)
        layers.convolution(32, (9, 14), 48, 3, 1, 1, 1, kinds, zeros)
        layers.convolution(64, (7, 7), 30, 1, 1, 0, 1, kinds, zeros)
        layers.convolution(24, (9, 9), 24, 3, 1, 1, 24, kinds, zeros)
        layers.convolution(32, (9, 9), 64, 3, 1, 1, 4, kinds, zeros)
    return layers


def large_convolutions():
    """Large enough that 16-bit operands pay off on chips without an 8-bit dot product."""
    layers = Layers(21)
    for kinds, zeros in (("us", (120, 0)), ("uu", (3, 128)), ("ss", (-7, 0)), ("uu", (9, 50))):
        layers.convolution(64, (29, 31), 72, 3, 1, 1, 1, kinds, zeros)
        layers.convolution(128, (17, 19), 100, 1, 1, 0, 1, kinds, zeros)
        layers.convolution(101, (27, 33), 40, 3, 2, 1, 1, kinds, zeros)
        layers.convolution(3, (97, 61), 32, 7, 2, 3, 1, kinds, zeros)
        layers.convolution(64, (33, 31), 64, 3, 1, 1, 2, kinds, zeros)
    return layers


def padded_integers():
    layers = Layers(10)
    for kinds, zeros in (("us", ("dynamic", None)), ("uu", ("dynamic", 128)), ("uu", ("dynamic", 50)), ("us", (77, None))):
        layers.padded_integers(32, (9, 14), 48, 3, 1, [1, 1, 1, 1], 1, kinds, zeros)
        layers.padded_integers(16, (7, 11), 17, 5, 2, [2, 1, 0, 3], 1, kinds, zeros)
        layers.padded_integers(3, (13, 12), 16, 3, 2, [1, 1, 1, 1], 1, kinds, zeros)
        layers.padded_integers(24, (9, 9), 24, 3, 1, [1, 1, 1, 1], 24, kinds, zeros)
    return layers


def few_channels():
    """First layers of networks: fewer channels than a dot product instruction takes, padded to full groups."""
    layers = Layers(8)
    for channels in (1, 2, 3, 5, 7):
        for kinds, zeros in (("us", (120, 0)), ("uu", (3, 128)), ("ss", (-7, 0))):
            layers.convolution(channels, (23, 18), 16, 7, 2, 3, 1, kinds, zeros)
            layers.convolution(channels, (9, 11), 19, 3, 1, 1, 1, kinds, zeros)
            layers.convolution(channels, (8, 8), 32, 1, 1, 0, 1, kinds, zeros)
    return layers


def test_widened_convolutions(service, oracle):
    layers = large_convolutions()
    path = model_of(service, "large", layers.nodes, layers.inputs, layers.outputs, layers.constants)
    rewrites = service.cli("explain", path, "--target", "x86-64-v3").out
    widened = re.search(r"widen-products +(\d+)", rewrites)
    # 7-bit weights, for oracles without VNNI, have no wide pairs.
    check(not ORACLE_IS_EXACT or (widened and int(widened.group(1)) >= 12), f"few products read 16 bits: {rewrites[:3000]}")
    exact(service, oracle, "x86-64-v3", "large convolutions", layers)


def test_images_are_grouped(service):
    """A first layer of three channels uses the chip's dot product of four."""
    layers = Layers(9)
    layers.convolution(3, (64, 64), 64, 7, 2, 3, 1, "us", (120, 0))
    path = model_of(service, "image", layers.nodes, layers.inputs, layers.outputs, layers.constants)
    plan = service.scratch("image.plan")
    service.cli("explain", path, "--target", "cascadelake", "--plan-out", plan)
    check("vpdpbusd.512" in plan.read_text(), f"no dot product in {plan.read_text()[:2000]}")


def test_pairs_follow_the_weights(service):
    """Narrow weights use the instruction with saturating pair sums; wide pairs among them are multiplied exactly."""
    random = np.random.default_rng(11)
    for most, share, instruction in ((63, 0, "vpmaddubsw.256"), (40, 0.0005, "vpmaddubsw.256"), (127, 1, "vpmaddwd.256")):
        layers = Layers(11)
        weights = random.integers(-most, most + 1, (512, 96)).astype(np.int8)
        wide = random.random(weights.shape) < share
        weights[wide] = random.choice(np.array([-128, 127], np.int8), wide.sum())
        rows = layers.bytes("u", 33, 512)
        rows[::2] = 255
        layers.add("MatMulInteger", TensorProto.INT32, 2, [(rows, True), (weights, False)])
        path = model_of(service, f"pairs-{most}", layers.nodes, layers.inputs, layers.outputs, layers.constants)
        plan = service.scratch("pairs.plan")
        service.cli("explain", path, "--target", "x86-64-v3", "--plan-out", plan)
        check(instruction in plan.read_text(), f"no {instruction} for weights up to {most} in {plan.read_text()[:2000]}")
        found, _ = service.run(service.compile(path, None, target="x86-64-v3").artifact, layers.inputs, "--guard")
        check_equal(found["y0"].tolist(), (rows.astype(np.int32) @ weights.astype(np.int32)).tolist(), "sums")


def exact(service, oracle, target, name, layers, *flags):
    path = model_of(service, name.replace(" ", "-"), layers.nodes, layers.inputs, layers.outputs, layers.constants)
    session = oracle.load(path)
    expected, _ = session.run(layers.inputs)
    session.close()
    found, _ = service.run(service.compile(path, None, *flags, target=target).artifact, layers.inputs, "--guard")
    for i, (key, wanted) in enumerate(expected.items()):
        wrong = np.count_nonzero(found[key] != wanted)
        check(found[key].shape == wanted.shape and wrong == 0,
              f"{name} for {target_name(target)}: {wrong} of {wanted.size} elements of {key} differ: {layers.nodes[i]}")


def network(service, oracle, spec, form, *flags):
    """The quantized network is as small as its weights, and agrees."""
    arrays = model_inputs(spec, 1)
    model = quantize.prepare(onnx.load(model_path(spec)))
    ranges = {}
    if form != "dynamic":
        values = quantize.observed_values(quantize.Network(model))
        wider = service.scratch("wider.onnx")
        onnx.save(quantize.with_outputs(model, values), wider)
        session = oracle.load(wider)
        measured, _ = session.run(arrays)
        session.close()
        ranges = {v: (a.min(), a.max()) for v in values for a in [measured.get(v, arrays.get(v))]}
    path = service.scratch("quantized.onnx")
    onnx.save(quantize.quantize(model, ranges, form, reduce_range=True), path)
    session = oracle.load(path, optimize="disabled")
    expected, _ = session.run(arrays)
    session.close()
    compiled = service.compile(path, shapes_of(arrays), *flags)
    found, _ = service.run(compiled.artifact, arrays)
    for name, wanted in expected.items():
        relative = difference(found[name], wanted)[1]
        print(f"   {spec} {form} {name}: relative {relative:.3g}, tolerance {NETWORK_TOLERANCE:g}")
        check(relative <= NETWORK_TOLERANCE, f"{name} is off by {relative:.3g}")
    size, stored = compiled.artifact.stat().st_size, path.stat().st_size
    check(size < 1.5 * stored + (2 << 20), f"the artifact has {size} bytes, the model {stored}: weights were widened")


def test_weights_stay_narrow(service):
    """A product's weights are stored as 8 bits, in all forms of the model."""
    layers = Layers(7)
    layers.product(16, 1024, 1024, "us", (5, None))
    path = model_of(service, "narrow", layers.nodes, layers.inputs, layers.outputs, layers.constants)
    size = service.compile(path).artifact.stat().st_size
    check(size < 1.2 * 2 ** 20 + (1 << 18), f"{size} bytes for 2^20 weights of 8 bits")


SETS = {"products": products(), "odd products": odd_products(), "convolutions 3": convolutions(3),
        "convolutions 4": convolutions(4), "padded integers": padded_integers(), "few channels": few_channels()}


@pytest.mark.parametrize("name", SETS)
def test_exact(service, oracle, name):
    exact(service, oracle, rotating_target(list(SETS).index(name)), name, SETS[name])


@pytest.mark.parametrize("name", [name for name in SETS if name != "convolutions 4"])
def test_without_dot_products_of_8_bits(service, oracle, name):
    exact(service, oracle, "x86-64-v3", name, SETS[name])


# The stand-in for this chip on other hosts has no such instructions.
@pytest.mark.skipif("alderlake" not in runnable_targets(), reason="this machine has no dot products of 256 bits")
def test_products_with_dot_products_of_256_bits(service, oracle):
    exact(service, oracle, "alderlake", "products", SETS["products"])


@pytest.mark.parametrize("form", quantize.FORMS)
@pytest.mark.parametrize("spec, flags", (("resnet18:size=32", ()), ("bert_tiny", ("--verify",))), ids=("resnet18", "bert_tiny"))
def test_network(service, oracle, spec, form, flags):
    network(service, oracle, spec, form, *flags)
