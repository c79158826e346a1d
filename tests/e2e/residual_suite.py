"""The residual block of a ResNet on several images, with all tensors larger than the cache: consecutive convolutions
with batch normalization and the sum with the block's input run slice by slice, and give ONNX Runtime's results.

The block planned with its true sizes ([32, 256, 1024, 1024]) is RegionPlanner.PlansTheLargeResidualBlock.
"""

import math

import numpy as np
import pytest

from checks import check, check_equal
from e2e.chains_suite import CHIP, Model, results_agree


def normalized(model, value, channels, kernel, fan_in, relu=True):
    value = model.op("Conv", value, model.weight(channels, fan_in, kernel, kernel), pads=[kernel // 2] * 4)
    parameters = [model.weight(channels) for _ in range(4)]
    variance = model.weights[-1]
    variance.raw_data = (np.abs(np.frombuffer(variance.raw_data, np.float32)) + 0.5).astype(np.float32).tobytes()
    value = model.op("BatchNormalization", value, *parameters)
    return model.op("Relu", value) if relu else value


def bottleneck(model, batch, channels, height, width, inner):
    """1x1 to `inner` channels, 3x3, 1x1 back, plus the input."""
    x = model.input(batch, channels, height, width)
    value = normalized(model, x, inner, 1, channels)
    value = normalized(model, value, inner, 3, inner)
    value = normalized(model, value, channels, 1, inner, relu=False)
    return [model.op("Relu", model.op("Add", value, x))]


def runs_in_slices(service, oracle, batch, channels, height, width, inner):
    model = Model()
    path = model.save(service, bottleneck(model, batch, channels, height, width, inner))
    pins = service.scratch("pins.txt")  # as a Winograd convolution the 3x3 has its own slices
    pins.write_text('choice algorithm "conv3" direct\n')
    plan = service.cli("explain", path, "--target", CHIP, "--pin", pins, "--json").json["plan"]
    decisions = [decision for decision in plan["report"]["decisions"]
                 if decision["kind"] in ("fuse-chain", "tile-region") and decision.get("taken")]
    for decision in decisions:
        print(f"   {decision['kind']}: {decision['reason']}")
    output = next(i for i, buffer in enumerate(plan["buffers"]) if buffer["kind"] == "OUTPUT")
    shape = [int(extent) for extent in plan["buffers"][output]["spec"]["shape"]]
    check_equal(shape, [batch, channels, height, width], "shape of the result")

    # The region: both convolutions and the sum in one step, in slices of single images and some of their rows.
    writers = [step for step in plan["steps"] if output in step["operands"]]
    check_equal(len(writers), 1, "steps that touch the result")
    last = plan["workloads"][writers[0]["workload"]]
    check(last["summary"].count("conv2d") >= 2, f"the last step is {last['summary']}")
    region = last["schedule"]["phases"][-1]
    check_equal(region.get("join"), "SHAR", "what the slices do with what lies between")
    tiles = {loop["dimension"]: int(loop["step"]) for loop in region["loops"]}
    slices = math.prod(math.ceil(shape[int(name[1:])] / tile) for name, tile in tiles.items())
    check(slices >= 2 * batch, f"{slices} slices: {tiles}")
    check_equal(tiles.get("d0"), 1, "images in a slice")
    check(tiles.get("d2", height) < height, f"rows are not cut: {tiles}")
    check(decisions and any("slices" in decision["reason"] for decision in decisions), "no region was decided")

    # Written in place: the result is one buffer that no step assembles, and the output of the 3x3 convolution exists
    # only in slices.
    # in slices only.
    check(not any("concat" in workload["summary"] for workload in plan["workloads"]), "something is put together")
    pixels = batch * height * width * inner
    between = [buffer for step in plan["steps"] for buffer in step["operands"][-1:]
               if plan["buffers"][buffer]["kind"] == "ARENA"
               and math.prod(map(int, plan["buffers"][buffer]["spec"]["shape"])) == pixels]
    check(len(between) <= 1, f"{len(between)} intermediates of the block are in memory: the first convolution's may be")

    results_agree(service, oracle, path, model.arrays, "--pin", pins)


# batch, channels, height, width, inner channels
BLOCKS = ((3, 64, 129, 131, 16), (2, 64, 192, 192, 16), (5, 72, 97, 61, 24))


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: "x".join(map(str, block)))
def test_bottleneck(service, oracle, block):
    runs_in_slices(service, oracle, *block)
