"""Random chains: consecutive products or convolutions with operations between them, on odd shapes, fused into one step
wherever possible, whatever the cost (--pin). Compared with ONNX Runtime, which runs single steps.

    pytest tests/e2e/random_chains_suite.py --seeds FIRST:COUNT [--target NAME]     runs other seeds than CI's
"""

import re

import numpy as np
import pytest

from checks import check
from e2e.chains_suite import Model, results_agree

EXTENTS = (1, 2, 5, 7, 16, 17, 31, 32, 33, 48, 64, 67, 96, 131)
OPSET = 17


class Chain:
    """One random chain in a model: two to five products or convolutions."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.model = Model()
        self.seen = []  # (value, shape) pairs that a residual may read
        self.results = [self.pick(self.rows, self.heads, self.planes)()]

    def pick(self, *choices):
        return choices[self.random.integers(len(choices))]

    def sometimes(self, share=0.5):
        return self.random.random() < share

    def between(self, value, shape, last=False):
        """Operations that may follow a product of this shape: elementwise, a residual, a normalization, a softmax."""
        model, axis = self.model, 1 if len(shape) == 4 else -1
        if self.sometimes():
            value = model.op("Add", value, model.weight(*((shape[1], 1, 1) if axis == 1 else (shape[-1],))))
        if self.sometimes():
            value = model.op(self.pick("Relu", "Tanh", "Sigmoid", "Erf"), value)
        same = [earlier for earlier, other in self.seen if other == shape]
        if same and self.sometimes():
            value = model.op("Add", value, self.pick(*same))
        if axis == -1 and shape[-1] > 1 and self.sometimes(0.25):
            value = model.op("LayerNormalization", value, model.weight(shape[-1]), model.weight(shape[-1]))
        elif axis == -1 and (last or self.sometimes(0.3)) and self.sometimes(0.3):
            value = model.op("Softmax", value, axis=-1)
        self.seen.append((value, shape))
        return value

    def layers(self, value, shape, count):
        for i in range(count):
            width = shape[-1] if self.sometimes(0.4) else int(self.pick(*EXTENTS))
            value = self.model.op("MatMul", value, self.model.weight(shape[-1], width))
            shape = (*shape[:-1], width)
            value = self.between(value, shape, i == count - 1)
        return value

    def rows(self):
        shape = (int(self.pick(1, 7, 63, 129, 517, 1031)), int(self.pick(*EXTENTS)))
        value = self.model.input(*shape)
        self.seen.append((value, shape))
        return self.layers(value, shape, int(self.random.integers(2, 6)))

    def heads(self):
        model = self.model
        batch, rows, depth, keys, width = (int(self.pick(*choices)) for choices in ((1, 3, 6), (1, 37, 129, 257), EXTENTS,
                                                                                   (1, 33, 67, 131, 197), EXTENTS))
        query = model.input(batch, rows, depth)
        scores = model.op("MatMul", query, model.input(batch, depth, keys))
        if self.sometimes():
            scores = model.op("Mul", scores, model.constant(np.float32(depth**-0.5)))
        if self.sometimes():
            scores = model.op("Add", scores, model.input(1, rows if self.sometimes() else 1, keys))
        if self.sometimes(0.8):
            scores = model.op("Softmax", scores, axis=-1)
        value = model.op("MatMul", scores, model.input(batch, keys, width))
        self.seen = [(query, (batch, rows, depth))]
        return self.layers(self.between(value, (batch, rows, width)), (batch, rows, width), int(self.random.integers(0, 3)))

    def planes(self):
        model = self.model
        shape = (1, int(self.pick(1, 3, 16, 31, 48)), int(self.pick(7, 23, 40, 57)), int(self.pick(5, 16, 33, 61)))
        value = model.input(*shape)
        for _ in range(self.random.integers(2, 5)):
            kernel, channels = int(self.pick(1, 1, 3, 3, 5)), int(self.pick(8, 16, 23, 32, 48))
            stride = 2 if min(shape[2:]) > 8 and self.sometimes(0.25) else 1
            if kernel > 1 and shape[1] > 1 and self.sometimes(0.3):
                weight, channels, groups = model.weight(shape[1], 1, kernel, kernel), shape[1], shape[1]
            else:
                weight, groups = model.weight(channels, shape[1], kernel, kernel), 1
            value = model.op("Conv", value, weight, pads=[kernel // 2] * 4, strides=[stride] * 2, group=groups)
            shape = (1, channels, *((extent - 1) // stride + 1 for extent in shape[2:]))
            value = self.between(value, shape)
        if min(shape[2:]) > 2 and self.sometimes(0.3):
            value = model.op(self.pick("MaxPool", "AveragePool"), value, kernel_shape=[2, 2], strides=[2, 2])
        return value


def offered_fusions(service, path, target):
    """Kinds and places of as many candidates as possible, longest first, without overlaps."""
    plan = service.scratch("plan.txt")
    service.cli("explain", path, "--target", target, "--plan-out", plan)
    offered = re.findall(r'^choice (fuse-chain|tile-region) "((?:[^"\\]|\\.)*)" ', plan.read_text(), re.M)
    chosen, used = [], set()
    for kind, place in sorted(offered, key=lambda offer: -len(offer[1])):
        nodes = set(place.split(" + "))
        if not nodes & used:
            chosen.append((kind, place))
            used |= nodes
    return chosen


def fused_pins(service, path, target):
    """A file of pins that fuse these, and their number. Candidates that cannot be sliced are rejected by name and left out."""
    fusions, pins = offered_fusions(service, path, target), service.scratch("fused.pins")
    while True:
        pins.write_text("".join(f'choice {kind} "{place}" fused\n' for kind, place in fusions))
        answer = service.cli("explain", path, "--target", target, "--pin", pins, "--json", expect=None)
        if answer.code == 0:
            return pins, len(fusions)
        refused = (answer.failure["attribute"], answer.failure["node"])
        check(answer.failure["reason"] == "INVALID_SCHEDULE" and refused in fusions, f"refused: {answer.failure}")
        print(f"   {answer.failure['message']}")
        fusions.remove(refused)


def fused_is_right(service, oracle, seed, target, counts):
    chain = Chain(seed)
    path = chain.model.save(service, chain.results, OPSET)
    pins, count = fused_pins(service, path, target)
    counts.append(count)
    print(f"   {', '.join(node.op_type for node in chain.model.nodes)}: {count} fused")
    results_agree(service, oracle, path, chain.model.arrays, *(("--pin", pins) if count else ()), target=target)


def enough_were_fused(counts):
    check(2 * sum(count > 0 for count in counts) >= len(counts), f"fused in each: {counts}")


@pytest.fixture(scope="module")
def counts():
    """The number of fused steps of each chain so far."""
    return []


@pytest.mark.seeds(range(12))
def test_fused_is_right(service, oracle, seed, chosen_target, counts):
    fused_is_right(service, oracle, seed, chosen_target or "host", counts)


def test_most_were_fused(counts):
    enough_were_fused(counts)
