"""Convolutions, transposed convolutions and pools of random shapes, strides, paddings, dilations and groups, in one to
three dimensions and in models' layouts, compared with ONNX Runtime; rotates over the targets that run here, with
guarded memory."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from checks import check, check_equal
from e2e.data_dependent_suite import model_of
from e2e.tessera_e2e import runnable_targets, rotating_target, target_name
from oracle.oracle import difference

LAYERS = 6  # layers in one model
TOLERANCE = 2e-5  # of the output's largest magnitude; the order of sums differs, and some use Winograd


class Layers:
    """Independent layers in one model, each with its own input and output."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.nodes, self.inputs, self.outputs, self.constants = [], {}, {}, {}

    def pick(self, *values):
        return values[self.random.integers(len(values))]

    def values(self, *shape):
        return self.random.standard_normal(shape).astype(np.float32)

    def add(self, operator, x, weights, **attributes):
        i = len(self.nodes)
        names = [f"x{i}"]
        self.inputs[names[0]] = x
        for letter, value in zip("wb", weights):
            names.append(f"{letter}{i}")
            self.constants[names[-1]] = value
        self.nodes.append(helper.make_node(operator, names, [f"v{i}"], **attributes))
        self.nodes.append(helper.make_node("Relu", [f"v{i}"], [f"y{i}"]))
        self.outputs[f"y{i}"] = (TensorProto.FLOAT, x.ndim)

    def geometry(self):
        rank = self.pick(1, 2, 2, 2, 3)
        kernel = [int(self.pick(1, 2, 3, 4, 5)) for _ in range(rank)]
        strides = [int(self.pick(1, 2, 2, 3)) for _ in range(rank)]
        size = [int(self.pick(5, 7, 8, 14, 17, 28) if rank < 3 else self.pick(5, 6)) for _ in range(rank)]
        return rank, kernel, strides, size

    def convolution(self):
        rank, kernel, strides, size = self.geometry()
        dilations = [int(self.pick(1, 1, 2)) for _ in range(rank)]
        groups = int(self.pick(1, 1, 1, 2, 3, 16))
        c, k = groups * int(self.pick(1, 3, 8, 20)), groups * int(self.pick(1, 4, 16, 19))
        size = [max(s, (e - 1) * d + 1) for s, e, d in zip(size, kernel, dilations)]
        pads = [int(self.random.integers(0, e)) for e in kernel + kernel]
        self.add("Conv", self.values(int(self.pick(1, 2)), c, *size), [self.values(k, c // groups, *kernel), self.values(k)],
                 kernel_shape=kernel, strides=strides, dilations=dilations, pads=pads, group=groups)

    def square(self):
        """3x3 with stride 1, candidates for Winograd: channels in one block and in several, also odd counts."""
        dilation = int(self.pick(1, 1, 1, 2, 3))
        c, k = (int(self.pick(8, 12, 16, 17, 20, 24, 32, 40, 48, 100)) for _ in range(2))
        size = [max(int(self.pick(5, 7, 13, 14, 28, 31)), 2 * dilation + 1) for _ in range(2)]
        pad = int(self.pick(dilation, dilation, 0))
        self.add("Conv", self.values(int(self.pick(1, 2)), c, *size), [self.values(k, c, 3, 3), self.values(k)],
                 kernel_shape=[3, 3], dilations=[dilation] * 2, pads=[pad] * 4)

    def transposed(self):
        rank, kernel, strides, size = self.geometry()
        dilations = [int(self.pick(1, 1, 1, 2))] * rank
        groups = int(self.pick(1, 1, 2, 4))
        c, k = groups * int(self.pick(1, 3, 16)), int(self.pick(1, 5, 16))
        extra = [int(self.random.integers(0, s)) for s in strides]
        pads = [int(self.random.integers(0, (e + 1) // 2)) for e in kernel + kernel]
        self.add("ConvTranspose", self.values(int(self.pick(1, 2)), c, *size),
                 [self.values(c, k, *kernel), self.values(k * groups)], kernel_shape=kernel, strides=strides,
                 dilations=dilations, pads=pads, output_padding=extra, group=groups)

    def decoder(self):
        """Consecutive upsampling layers, transposed convolutions and pixel shuffles of both modes, as in image
        generators: channels in full blocks and not, with and without cropping."""
        i = len(self.nodes)
        rank, channels = int(self.pick(1, 2, 2, 3)), int(self.pick(16, 32, 48))
        size = [int(self.pick(3, 5, 6) if rank < 3 else 3) for _ in range(rank)]
        chain = [f"x{i}"]
        self.inputs[chain[0]] = self.values(int(self.pick(1, 1, 2)), channels, *size)

        def layer(operator, *weights, **attributes):
            # Unit gain at most: a tanh of large sums magnifies small differences.
            weights = [value / np.float32(np.sqrt(channels * np.prod(value.shape[2:]))) for value in weights]
            names = [f"{letter}{i}_{len(chain)}" for letter, _ in zip("wb", weights)]
            self.constants.update(zip(names, weights))
            chain.append(f"y{i}" if len(chain) == 6 else f"v{i}_{len(chain)}")
            self.nodes.append(helper.make_node(operator, [chain[-2], *names], [chain[-1]], **attributes))

        for outputs in (int(self.pick(16, 32, 24)), int(self.pick(16, 3, 8)), 4):
            if rank == 2 and self.pick(0, 0, 1):
                layer("Conv", self.values(4 * outputs, channels, 3, 3), self.values(4 * outputs), pads=[1] * 4)
                layer("DepthToSpace", blocksize=2, mode=self.pick("DCR", "CRD"))
            else:
                kernel = [int(self.pick(2, 3, 3, 4, 5)) for _ in range(rank)]
                strides = [int(self.pick(2, 2, 2, 3) if rank < 3 else 2) for _ in range(rank)]
                layer("ConvTranspose", self.values(channels, outputs, *kernel), self.values(outputs),
                      kernel_shape=kernel, strides=strides,
                      pads=[int(self.random.integers(0, (e + 1) // 2)) for e in kernel + kernel],
                      output_padding=[int(self.random.integers(0, s)) for s in strides])
                layer(self.pick("Relu", "Tanh"))
            channels = outputs
        self.outputs[f"y{i}"] = (TensorProto.FLOAT, rank + 2)

    def pool(self):
        rank, kernel, strides, size = self.geometry()
        pads = [int(self.random.integers(0, (e + 1) // 2)) for e in kernel + kernel]
        self.add(self.pick("MaxPool", "AveragePool"), self.values(1, int(self.pick(1, 3, 16, 20)), *size), [],
                 kernel_shape=kernel, strides=strides, pads=pads)


def models():
    """name -> nodes, inputs, outputs, constants"""
    found = {}
    for kind, count in (("convolution", 6), ("square", 6), ("transposed", 6), ("decoder", 4), ("pool", 3)):
        for seed in range(count):
            layers = Layers(seed)
            for _ in range(LAYERS):
                getattr(layers, kind)()
            found[f"{kind} {seed}"] = (layers.nodes, layers.inputs, layers.outputs, layers.constants)
    return found


def agrees(service, oracle, target, name, nodes, inputs, outputs, constants, *arguments):
    path = model_of(service, name.replace(" ", "-"), nodes, inputs, outputs, constants)
    session = oracle.load(path)
    expected, _ = session.run(inputs)
    session.close()
    found, _ = service.run(service.compile(path, None, *arguments, target=target).artifact, inputs, "--guard")
    for key in outputs:
        check_equal(found[key].shape, expected[key].shape, f"{name}: shape of {key}")
        relative = difference(found[key], expected[key])[1]
        layer = next(node for node in nodes if key in node.output)
        check(relative <= TOLERANCE, f"{name} for {target_name(target)}: {key} is off by {relative:.3g}: {layer}")


@pytest.mark.parametrize("target", runnable_targets(), ids=target_name)
def test_between_planes(service, oracle, target):
    """Layers of few channels in Winograd's domain on images that exceed the near cache. Layout changes before and after
    them run in the slices of their stages. Odd extents, padded blocks, one channel block and several, rows that are no
    whole vectors."""
    layers = Layers(0)
    for batch, c, k, height, width, pad in ((1, 16, 16, 129, 131, 1), (2, 17, 40, 131, 61, 0), (1, 32, 24, 97, 160, 1)):
        layers.add("Conv", layers.values(batch, c, height, width), [layers.values(k, c, 3, 3), layers.values(k)],
                   kernel_shape=[3, 3], pads=[pad] * 4)
    path = model_of(service, "between-planes", layers.nodes, layers.inputs, layers.outputs, layers.constants)
    plan, pins = service.scratch("plan.txt"), service.scratch("pins.txt")
    service.cli("explain", path, "--target", target, "--plan-out", plan)
    chosen = [line.replace('"direct"', '"winograd-4x4"') for line in plan.read_text().splitlines()
              if line.startswith("choice algorithm")]
    check_equal(len(chosen), len(layers.nodes) // 2, "choices of algorithms")
    pins.write_text("\n".join(chosen) + "\n")
    explained = service.cli("explain", path, "--target", target, "--pin", pins, "--nodes").out
    moved = [line for line in explained.splitlines() if "what is moved" in line]
    # On chips with more cores than slices the stages have none.
    check(any(line.startswith("taken") for line in moved) or "not cut into slices" in explained,
          f"nothing rides for {target_name(target)}: {moved}")
    agrees(service, oracle, target, "between-planes", layers.nodes, layers.inputs, layers.outputs, layers.constants,
           "--pin", pins)


MADE = models()


@pytest.mark.parametrize("name", MADE)
def test_layers(service, oracle, name):
    agrees(service, oracle, rotating_target(list(MADE).index(name)), name, *MADE[name])
