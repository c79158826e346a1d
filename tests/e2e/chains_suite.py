"""Chains of products run slice by slice or are declined. Results equal ONNX Runtime's, and the decision is reported."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from checks import check
from e2e.tessera_e2e import runnable_targets
from oracle.oracle import difference

TOLERANCE = 1e-4  # of the output's largest magnitude
CHIP = "cascadelake"  # decisions are checked for one chip, whichever host this is; runs use this host


class Model:
    """Consecutive nodes with one result; weights and inputs from one seed."""

    def __init__(self):
        self.random = np.random.default_rng(7)
        self.nodes, self.inputs, self.weights, self.arrays = [], [], [], {}

    def input(self, *shape):
        name = f"x{len(self.inputs)}"
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        self.arrays[name] = self.random.standard_normal(shape, np.float32)
        return name

    def weight(self, *shape):
        name = f"w{len(self.weights)}"
        fan_in = np.prod(shape[1:]) if len(shape) == 4 else shape[0]
        values = self.random.standard_normal(shape, np.float32) / np.float32(np.sqrt(fan_in))
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def constant(self, values):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def op(self, kind, *inputs, **attributes):
        name = f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def save(self, service, results, opset=13):
        outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in results]
        graph = helper.make_graph(self.nodes, "chain", self.inputs, outputs, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
        path = service.scratch("chain.onnx")
        onnx.save(onnx.shape_inference.infer_shapes(model), path)
        return path


def attention(model, batch, rows, depth, keys, width):
    scaled = model.op("MatMul", model.input(batch, rows, depth), model.input(batch, depth, keys))
    masked = model.op("Add", scaled, model.input(1, 1, keys))
    return [model.op("MatMul", model.op("Softmax", masked, axis=-1), model.input(batch, keys, width))]


def products(model, batch, rows, depth, keys, width):
    first = model.op("MatMul", model.input(batch, rows, depth), model.input(batch, depth, keys))
    return [model.op("MatMul", first, model.input(batch, keys, width))]


def perceptron(model, rows, inputs, hidden, outputs):
    first = model.op("Add", model.op("MatMul", model.input(rows, inputs), model.weight(inputs, hidden)),
                     model.weight(hidden))
    return [model.op("MatMul", model.op("Relu", first), model.weight(hidden, outputs))]


def convolutions(model, channels, height, width, middle, outputs, first, second, stride):
    pads = [first // 2] * 4
    x = model.op("Conv", model.input(1, channels, height, width), model.weight(middle, channels, first, first),
                 pads=pads, strides=[stride, stride])
    return [model.op("Conv", model.op("Relu", x), model.weight(outputs, middle, second, second),
                     pads=[second // 2] * 4)]


def decisions_of(service, path):
    """Decisions about chains, a longer one after its own prefix, and the workloads that run slice by slice."""
    explained = service.cli("explain", path, "--target", CHIP, "--json").json
    found = explained["plan"]["report"].get("decisions", [])
    chains = [decision for decision in found if decision["kind"] == "fuse-chain"]
    text = service.cli("explain", path, "--target", CHIP).out
    for decision in chains:
        check(decision["reason"] in text, f"the text does not give the reason {decision['reason']!r}")
    # A Winograd convolution has its own slices.
    sliced = [workload["schedule"]["phases"][-1] for workload in explained["plan"]["workloads"]
              if workload.get("slices") and not workload.get("algorithm", "").startswith("winograd")]
    return chains, [tile for tile in sliced if tile.get("join") == "SHAR"]


def results_agree(service, oracle, path, arrays, *arguments, target="host"):
    """Results equal ONNX Runtime's with one thread and with two."""
    session = oracle.load(path)
    expected, _ = session.run(arrays)
    session.close()
    compiled = service.compile(path, None, *arguments, target=target)
    for threads in ("1", "2"):
        outputs, _ = service.run(compiled.artifact, arrays, "--threads", threads)
        for name, wanted in expected.items():
            _, relative = difference(outputs[name], wanted)
            check(relative <= TOLERANCE, f"{name} is off by {relative:.3g} with {threads} threads")


def agrees(service, oracle, build, arguments, taken):
    """Results equal ONNX Runtime's with one thread and with two. `taken`: the required decision, None for either."""
    model = Model()
    path = model.save(service, build(model, *arguments))
    chains, sliced = decisions_of(service, path)
    check(chains, "no decision")
    decided = chains[-1].get("taken", False)
    print(f"   {chains[-1]['reason']}")
    check(taken is None or decided == taken, f"taken is {decided}: {chains[-1]['reason']}")
    check(bool(sliced) == any(chain.get("taken") for chain in chains), "a workload has slices where the chain was taken, and only there")
    results_agree(service, oracle, path, model.arrays)


def running_softmax(service, oracle, batch, rows, depth, keys, width, masked):
    """Rows of scores that exceed the cache are computed in blocks of keys. The first `masked` keys are masked, so that
    whole blocks are. The full score matrix is never stored."""
    model = Model()
    path = model.save(service, attention(model, batch, rows, depth, keys, width))
    model.arrays["x2"][..., :masked] = -np.inf
    chains, sliced = decisions_of(service, path)
    check(chains and chains[-1].get("taken"), f"decisions: {chains}")
    print(f"   {chains[-1]['reason']}")
    check(len(sliced) == 1 and sliced[0]["loops"][-1]["dimension"] == "r0", str(sliced))
    check("running maximum" in chains[-1]["reason"] and "whole rows" in chains[-1]["reason"], chains[-1]["reason"])
    plan = service.cli("explain", path, "--target", CHIP, "--json").json["plan"]
    check(int(plan["arena_bytes"]) < 4 * batch * rows * keys, "the scores have a buffer")
    results_agree(service, oracle, path, model.arrays)


LOWEST = np.finfo(np.float32).min


def added_mask(model, scores, rows, keys, window):
    """A buffer of 0 and -infinity."""
    seen = np.tril(np.ones((rows, keys), bool), keys - rows)
    if window:
        seen &= ~np.tril(np.ones((rows, keys), bool), keys - rows - window)
    return model.op("Add", scores, model.constant(np.where(seen, np.float32(0), np.float32(-np.inf))[None]))


def chosen_mask(model, scores, rows, keys, strict):
    """The export of torch.tril: a triangle of ones selects the score or the lowest number. `strict`: the first row sees
    no key, and is the mean of all values."""
    ones = model.op("ConstantOfShape", model.constant(np.array([1, rows, keys])),
                    value=numpy_helper.from_array(np.ones(1, np.float32)))
    triangle = model.op("Trilu", ones, model.constant(np.array(keys - rows - strict)), upper=0)
    seen = model.op("Cast", triangle, to=TensorProto.BOOL)
    return model.op("Where", seen, scores, model.constant(LOWEST))


def masked_keys_are_skipped(service, oracle, mask, batch, rows, depth, keys, width, argument):
    """Keys that a constant mask removes from whole slices are skipped; the results do not change."""
    model = Model()
    scores = model.op("Mul", model.op("MatMul", model.input(batch, rows, depth), model.input(batch, depth, keys)),
                      model.constant(np.float32(depth ** -0.5)))
    weights = model.op("Softmax", mask(model, scores, rows, keys, argument), axis=-1)
    path = model.save(service, [model.op("MatMul", weights, model.input(batch, keys, width))], opset=14)
    chains, sliced = decisions_of(service, path)
    check(chains and chains[-1].get("taken") and sliced, f"decisions: {chains}")
    print(f"   {chains[-1]['reason']}")
    check("masked and skipped" in chains[-1]["reason"], chains[-1]["reason"])
    results_agree(service, oracle, path, model.arrays)


def causal_operator(service, batch, heads, rows, depth):
    """Attention with is_causal, compared with NumPy."""
    model = Model()
    names = [model.input(batch, heads, rows, depth) for _ in range(3)]
    path = model.save(service, [model.op("Attention", *names, is_causal=1)], opset=23)
    chains, _ = decisions_of(service, path)
    check(chains and chains[-1].get("taken") and "masked and skipped" in chains[-1]["reason"], str(chains))
    print(f"   {chains[-1]['reason']}")
    q, k, v = (model.arrays[name].astype(np.float64) for name in names)
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(depth)
    scores[..., ~np.tril(np.ones((rows, rows), bool))] = -np.inf
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    expected = powers / powers.sum(-1, keepdims=True) @ v
    compiled = service.compile(path)
    for threads in ("1", "2"):
        outputs, _ = service.run(compiled.artifact, model.arrays, "--threads", threads)
        (found,) = outputs.values()
        _, relative = difference(found, expected.astype(np.float32))
        check(relative <= TOLERANCE, f"off by {relative:.3g} with {threads} threads")


def normalized(model, value, width):
    """Layer normalization of rows, with scale and shift."""
    centred = model.op("Sub", value, model.op("ReduceMean", value, axes=[-1]))
    variance = model.op("ReduceMean", model.op("Mul", centred, centred), axes=[-1])
    deviation = model.op("Sqrt", model.op("Add", variance, model.constant(np.float32(1e-5))))
    return model.op("Add", model.op("Mul", model.op("Div", centred, deviation), model.weight(width)),
                    model.weight(width))


def residual_norm(model, rows, depth, width, kept):
    """A product with bias and residual and normalized rows; `kept`: the sum is a result too, as before a residual block."""
    x = model.op("Add", model.op("MatMul", model.input(rows, depth), model.weight(depth, width)), model.weight(width))
    total = model.op("Add", x, model.input(rows, width))
    result = normalized(model, total, width)
    return [result, model.op("Relu", total)] if kept else [result]


def mean_square_norm(model, rows, depth, width):
    """Root mean square normalization, without subtracting the mean, after a product without bias."""
    x = model.op("MatMul", model.input(rows, depth), model.weight(depth, width))
    square = model.op("ReduceMean", model.op("Mul", x, x), axes=[-1])
    return [model.op("Div", x, model.op("Sqrt", model.op("Add", square, model.constant(np.float32(1e-5)))))]


def product_softmax(model, rows, depth, width):
    return [model.op("Softmax", model.op("MatMul", model.input(rows, depth), model.weight(depth, width)), axis=-1)]


def layers(model, rows, *widths):
    """Three consecutive products, and the normalization of the last one's rows."""
    x = model.input(rows, widths[0])
    for fan_in, fan_out in zip(widths, widths[1:]):
        x = model.op("Relu", model.op("MatMul", x, model.weight(fan_in, fan_out)))
    return [normalized(model, x, widths[-1])]


def inverted(model, channels, expanded, height, width):
    """Pointwise, depthwise, pointwise."""
    x = model.op("Relu", model.op("Conv", model.input(1, channels, height, width),
                                  model.weight(expanded, channels, 1, 1)))
    x = model.op("Relu", model.op("Conv", x, model.weight(expanded, 1, 3, 3), pads=[1] * 4, group=expanded))
    return [model.op("Conv", x, model.weight(channels, expanded, 1, 1))]


def agrees_for_every_target(service, oracle, build, arguments):
    """Chains that one chip runs as one step, built for each chip whose code this host runs, and in plain loops."""
    model = Model()
    path = model.save(service, build(model, *arguments))
    chains, sliced = decisions_of(service, path)
    print("   " + "\n   ".join(chain["reason"] for chain in chains))
    longest = max((chain for chain in chains if chain.get("taken")), key=lambda chain: len(chain["place"]), default=None)
    check(longest and len(longest["place"]) == max(len(chain["place"]) for chain in chains), f"decisions: {chains}")
    check(len(sliced) == 1, "more or less than one workload has slices")
    for target in runnable_targets():
        results_agree(service, oracle, path, model.arrays, target=target)
    results_agree(service, oracle, path, model.arrays, "-O", "1")


def test_read_elsewhere_is_declined(service):
    model = Model()
    results = products(model, 2, 33, 16, 65, 17)
    path = model.save(service, [*results, "matmul0"])
    chains, sliced = decisions_of(service, path)
    check(len(chains) == 1 and not chains[0].get("taken") and not sliced, str(chains))
    check("read by 1 more" in chains[0]["reason"], chains[0]["reason"])


CASES = (
    (attention, (4, 384, 64, 384, 64), True),
    (attention, (3, 37, 19, 53, 23), None),
    (attention, (5, 197, 64, 197, 64), True),
    (products, (6, 257, 31, 383, 29), None),
    (perceptron, (4099, 33, 129, 31), None),
    (perceptron, (517, 33, 70, 29), None),
    (convolutions, (16, 31, 29, 48, 32, 3, 1, 1), None),
    (convolutions, (16, 111, 113, 48, 16, 3, 1, 2), None),
    (convolutions, (64, 56, 56, 64, 64, 1, 3, 1), False),
    (convolutions, (32, 147, 147, 64, 80, 3, 1, 2), None),
    (convolutions, (256, 53, 59, 192, 64, 1, 1, 1), None),
    (convolutions, (31, 61, 127, 40, 23, 3, 1, 2), None),
)

# Chains that end with normalized rows, or have three members.
LONGER = (
    (residual_norm, (4099, 64, 131, False)),
    (residual_norm, (4099, 65, 128, True)),
    (mean_square_norm, (5003, 67, 96)),
    (product_softmax, (4099, 71, 257)),
    (layers, (4099, 33, 129, 67, 31)),
    (inverted, (16, 96, 113, 61)),
)

# batch, rows, depth, keys, width, masked keys
LONG = ((12, 2048, 64, 2048, 64, 0), (5, 517, 31, 9001, 29, 700), (2, 531, 31, 8003, 45, 1))

# mask, batch, rows, depth, keys, width, and the reach of a window, or whether the diagonal is masked too
MASKED = (
    (added_mask, 12, 512, 64, 512, 64, 0),
    (added_mask, 3, 387, 31, 401, 29, 0),
    (added_mask, 3, 1031, 32, 1031, 32, 130),
    (added_mask, 2, 2048, 64, 2048, 64, 0),
    (chosen_mask, 12, 512, 64, 512, 64, False),
    (chosen_mask, 5, 421, 23, 421, 37, True),
    (chosen_mask, 2, 2177, 64, 2177, 64, True),
)


def called(build, arguments):
    return f"{build.__name__}/{'x'.join(map(str, arguments))}"


@pytest.mark.parametrize("build, arguments, taken", CASES, ids=[called(*case[:2]) for case in CASES])
def test_fused(service, oracle, build, arguments, taken):
    agrees(service, oracle, build, arguments, taken)


@pytest.mark.parametrize("build, arguments", LONGER, ids=[called(*case) for case in LONGER])
def test_longer(service, oracle, build, arguments):
    agrees_for_every_target(service, oracle, build, arguments)


@pytest.mark.parametrize("sizes", LONG, ids=[called(running_softmax, sizes) for sizes in LONG])
def test_running_softmax(service, oracle, sizes):
    running_softmax(service, oracle, *sizes)


@pytest.mark.parametrize("mask, sizes", [(mask, sizes) for mask, *sizes in MASKED], ids=[called(mask, sizes) for mask, *sizes in MASKED])
def test_masked_keys(service, oracle, mask, sizes):
    masked_keys_are_skipped(service, oracle, mask, *sizes)


@pytest.mark.parametrize("sizes", ((2, 3, 509, 64), (1, 2, 2048, 64)), ids=str)
def test_causal_operator(service, sizes):
    causal_operator(service, *sizes)
