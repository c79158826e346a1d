"""Training: steps of networks compared with NumPy, and with PyTorch where it is installed; a classifier that learns drawn digits."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from checks import check, check_equal
from e2e import python_package
from e2e.tessera_e2e import save_npz

python_package.install()
import tessera  # noqa: E402

F32 = TensorProto.FLOAT
BATCH = 16


def save(path, nodes, shape, output, weights):
    graph = helper.make_graph([helper.make_node(op, inputs, [name], name=name, **attributes) for op, inputs, name, attributes in nodes],
                              "network", [helper.make_tensor_value_info("x", F32, shape)],
                              [helper.make_tensor_value_info(output, F32, None)],
                              [numpy_helper.from_array(array, name) for name, array in weights.items()])
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString())
    return path


def drawn(random, *shape):
    return (random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]) if len(shape) > 1 else 4)).astype(np.float32)


def perceptron(path, inputs=20, hidden=33, classes=7):
    random = np.random.default_rng(1)
    weights = {"w1": drawn(random, hidden, inputs), "b1": drawn(random, hidden), "w2": drawn(random, classes, hidden),
               "b2": drawn(random, classes)}
    save(path, [("Gemm", ["x", "w1", "b1"], "h", {"transB": 1}), ("Tanh", ["h"], "t", {}),
                ("Gemm", ["t", "w2", "b2"], "y", {"transB": 1})], [BATCH, inputs], "y", weights)
    return {name: array.astype(np.float64) for name, array in weights.items()}


def gradients(p, x, labels):
    """The loss of the perceptron and its gradients, in f64."""
    t = np.tanh(x @ p["w1"].T + p["b1"])
    scores = t @ p["w2"].T + p["b2"]
    scores -= scores.max(1, keepdims=True)
    probability = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    rows = np.arange(len(labels))
    loss = -np.log(probability[rows, labels]).mean()
    dy = probability.copy()
    dy[rows, labels] -= 1
    dy /= len(labels)
    dh = dy @ p["w2"] * (1 - t * t)
    return loss, {"w1": dh.T @ x, "b1": dh.sum(0), "w2": dy.T @ t, "b2": dy.sum(0)}


def sgd(p, g, m, t, rate):
    m["m"] = 0.9 * m.get("m", 0) + g
    return p - rate * m["m"]


def nesterov(p, g, m, t, rate):
    g = g + 0.01 * p
    m["m"] = 0.9 * m.get("m", 0) + g
    return p - rate * (g + 0.9 * m["m"])


def moments(g, m, t):
    m["m"] = 0.9 * m.get("m", 0) + 0.1 * g
    m["v"] = 0.999 * m.get("v", 0) + 0.001 * g * g
    return m["m"] / (1 - 0.9**t), np.sqrt(m["v"] / (1 - 0.999**t))


def adam(p, g, m, t, rate):
    mean, deviation = moments(g + 0.02 * p, m, t)
    return p - rate * mean / (deviation + 1e-8)


def adamw(p, g, m, t, rate):
    mean, deviation = moments(g, m, t)
    return p * (1 - 0.01 * rate) - rate * mean / (deviation + 1e-8)


def lamb(p, g, m, t, rate):
    mean, deviation = moments(g, m, t)
    update = mean / (deviation + 1e-6) + 0.01 * p
    return p - rate * np.linalg.norm(p) / np.linalg.norm(update) * update


OPTIMIZERS = {
    "sgd": (sgd, ("--optimizer", "sgd", "--momentum", "0.9"), 0.05),
    "nesterov": (nesterov, ("--momentum", "0.9", "--nesterov", "--weight-decay", "0.01"), 0.05),
    "adam": (adam, ("--optimizer", "adam", "--weight-decay", "0.02"), 0.003),
    "adamw": (adamw, ("--optimizer", "adamw"), 0.003),
    "lamb": (lamb, ("--optimizer", "lamb"), 0.003),
}


def examples(inputs=20, classes=7, rows=10 * BATCH):
    random = np.random.default_rng(2)
    return random.standard_normal((rows, inputs)).astype(np.float32), random.integers(0, classes, rows)


def train(service, artifact, data, steps, rate, *flags):
    answer = service.cli("train", artifact, "--data", data, "--steps", str(steps), "--learning-rate", str(rate), "--json",
                         *flags)
    return answer.json["losses"]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_equal_numpy(service, name):
    update, flags, rate = OPTIMIZERS[name]
    path, data = service.scratch("mlp.onnx"), service.scratch("data.npz")
    parameters = perceptron(path)
    x, labels = examples()
    save_npz(data, {"x": x, "labels": labels})
    artifact = service.compile(path, None, "--train", "--loss", "cross-entropy", *flags).artifact
    losses = train(service, artifact, data, 50, rate, "--in-order")
    memory = {parameter: {} for parameter in parameters}
    for step, loss in enumerate(losses):
        rows = slice(step % 10 * BATCH, (step % 10 + 1) * BATCH)
        expected, gradient = gradients(parameters, x[rows].astype(np.float64), labels[rows])
        check(abs(loss - expected) < 1e-4 * max(1, expected), f"step {step + 1}: loss {loss}, NumPy's {expected}")
        parameters = {each: update(parameters[each], gradient[each], memory[each], step + 1, rate) for each in parameters}


def test_a_resumed_training_has_the_same_bits(service):
    path, data = service.scratch("mlp.onnx"), service.scratch("data.npz")
    perceptron(path)
    x, labels = examples()
    save_npz(data, {"x": x, "labels": labels})
    artifact = service.compile(path, None, "--train", "--loss", "cross-entropy", "--optimizer", "adam", "--clip-norm", "0.5").artifact
    whole, first, second = (service.scratch(name) for name in ("whole.safetensors", "first.safetensors", "second.safetensors"))
    losses = train(service, artifact, data, 35, 0.01, "--state-out", whole)
    parts = train(service, artifact, data, 13, 0.01, "--state-out", first)
    parts += train(service, artifact, data, 22, 0.01, "--state-in", first, "--state-out", second)
    check_equal(parts, losses, "losses")
    check(whole.read_bytes() == second.read_bytes(), "the states after 35 steps differ")
    check(losses[-1] < losses[0], f"the loss went from {losses[0]} to {losses[-1]}")


def test_a_trained_model_is_an_onnx_model(service):
    path, data, state, trained = (service.scratch(name) for name in ("mlp.onnx", "data.npz", "state.safetensors", "trained.onnx"))
    begin = perceptron(path)
    x, labels = examples()
    save_npz(data, {"x": x, "labels": labels})
    step = service.compile(path, None, "--train", "--loss", "cross-entropy", "--optimizer", "adam", "--frozen", "b1").artifact
    train(service, step, data, 30, 0.01, "--state-out", state, "--model", path, "--model-out", trained)
    kept = tessera.load(step, trust=False).state()
    kept.load(state)
    p = {name: kept[name] for name in ("w1", "w2", "b2")}
    found = {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(trained).graph.initializer}
    for name, array in p.items():
        check(np.array_equal(found[name], array), f"{name} is not the state's")
    check(np.array_equal(found["b1"], begin["b1"].astype(np.float32)), "a frozen parameter changed")
    scores = tessera.load(service.compile(trained).artifact, trust=False)(x=x[:BATCH])["y"]
    expected = np.tanh(x[:BATCH] @ p["w1"].T + begin["b1"]) @ p["w2"].T + p["b2"]
    check(np.abs(p["w1"] - begin["w1"]).max() > 1e-3, "the training changed nothing")
    check(np.abs(scores - expected).max() < 1e-4, f"scores differ by {np.abs(scores - expected).max()}")
    other = service.scratch("other.onnx")
    perceptron(other, hidden=34)
    answer = service.cli("train", step, "--data", data, "--steps", "1", "--learning-rate", "0", "--model", other, "--model-out", trained,
                         expect=3)
    check("initializer 'w1' is FLOAT[34,20] in the model" in answer.err, answer.err)


def test_half_parameters_are_rounded_in_the_model(service):
    path, data, state, trained = (service.scratch(name) for name in ("half.onnx", "data.npz", "state.safetensors", "trained.onnx"))
    random = np.random.default_rng(3)
    save(path, [("Cast", ["w"], "wide", {"to": F32}), ("MatMul", ["x", "wide"], "y", {})], [BATCH, 5], "y",
         {"w": random.standard_normal((5, 3)).astype(np.float16)})
    save_npz(data, {"x": random.standard_normal((BATCH, 5)).astype(np.float32), "labels": random.integers(0, 3, BATCH)})
    step = service.compile(path, None, "--train", "--loss", "cross-entropy").artifact
    train(service, step, data, 7, 0.1, "--state-out", state, "--model", path, "--model-out", trained)
    kept = tessera.load(step, trust=False).state()
    kept.load(state)
    found = numpy_helper.to_array(onnx.load(trained).graph.initializer[0])
    check(found.dtype == np.float16 and np.array_equal(found, kept["w"].astype(np.float16)), "the values are not the state's, rounded")


def test_frozen_parameters_are_no_states(service):
    path = service.scratch("mlp.onnx")
    perceptron(path)
    artifact = service.compile(path, None, "--train", "--loss", "cross-entropy", "--frozen", "w1", "--frozen", "b*").artifact
    check_equal(sorted(tessera.load(artifact, trust=False).state().keys()), ["steps", "w2"], "states")


def test_requests_that_do_not_fit_are_explained(service):
    path = service.scratch("mlp.onnx")
    perceptron(path)
    for flags, wanted in ((("--loss", "hinge"), "there is no loss 'hinge'"),
                          (("--loss", "output"), "output 'y' does not fit loss 'output'"),
                          (("--loss", "cross-entropy", "--optimizer", "adagrad"), "there is no optimizer 'adagrad'"),
                          (("--loss", "cross-entropy", "--frozen", "w9"), "no initializer that can be trained has the name 'w9'"),
                          (("--loss", "cross-entropy", "--frozen", "*"), "the loss depends on no trainable initializer")):
        answer = service.cli("compile", path, "--train", "-o", service.scratch("bad.tsra"), *flags, expect=3)
        check(wanted in answer.err, f"{flags}: {answer.err}")


def digits(random, rows):
    """Figures of seven segments, moved, with noise: 12 x 12 pixels."""
    segments = ["abcdef", "bc", "abged", "abgcd", "fgbc", "afgcd", "afgedc", "abc", "abcdefg", "abcdfg"]
    strokes = {"a": (0, slice(0, 5)), "g": (4, slice(0, 5)), "d": (8, slice(0, 5)), "f": (slice(0, 5), 0), "e": (slice(4, 9), 0),
               "b": (slice(0, 5), 4), "c": (slice(4, 9), 4)}
    labels = random.integers(0, 10, rows)
    pictures = random.standard_normal((rows, 1, 12, 12)).astype(np.float32) * 0.2
    for picture, label in zip(pictures, labels):
        top, left = random.integers(0, 4), random.integers(0, 8)
        for segment in segments[label]:
            picture[0, top:top + 9, left:left + 5][strokes[segment]] += 1
    return pictures, labels


def classifier(path):
    random = np.random.default_rng(4)
    weights = {"conv1.weight": drawn(random, 8, 1, 3, 3), "conv1.bias": np.zeros(8, np.float32),
               "conv2.weight": drawn(random, 16, 8, 3, 3), "conv2.bias": np.zeros(16, np.float32),
               "fc.weight": drawn(random, 10, 144), "fc.bias": np.zeros(10, np.float32)}
    same = {"pads": [1, 1, 1, 1]}
    pool = {"kernel_shape": [2, 2], "strides": [2, 2]}
    save(path, [("Conv", ["x", "conv1.weight", "conv1.bias"], "a", same), ("Relu", ["a"], "b", {}), ("MaxPool", ["b"], "c", pool),
                ("Conv", ["c", "conv2.weight", "conv2.bias"], "d", same), ("Relu", ["d"], "e", {}), ("MaxPool", ["e"], "f", pool),
                ("Flatten", ["f"], "g", {}), ("Gemm", ["g", "fc.weight", "fc.bias"], "y", {"transB": 1})],
         [32, 1, 12, 12], "y", weights)


def test_a_classifier_learns_digits(service):
    path, random = service.scratch("digits.onnx"), np.random.default_rng(5)
    classifier(path)
    training = tessera.Training("cross-entropy", optimizer="adamw")
    with tessera.connect(service.address) as client:
        step = client.compile(path, training=training).artifact.load()
    session, parameters = step.session(), step.state()
    pictures, labels = digits(random, 32 * 100)
    for epoch in range(6):
        for first in range(0, len(labels), 32):
            rows = slice(first, first + 32)
            session.run({"x": pictures[rows], "labels": labels[rows], "learning_rate": np.float32(0.004)}, state=parameters)
    pictures, labels = digits(random, 32 * 32)
    right = 0
    for first in range(0, len(labels), 32):
        rows = slice(first, first + 32)
        scores = session.run({"x": pictures[rows], "labels": labels[rows], "learning_rate": np.float32(0)}, state=parameters)["y"]
        right += (scores.argmax(1) == labels[rows]).sum()
    check(right >= 0.97 * len(labels), f"{right} of {len(labels)} new digits are right")


def networks(torch):
    from torch import nn

    class Convolutions(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.last = nn.Conv2d(1, 6, 3, padding=1), nn.Conv2d(6, 9, 3, stride=2), nn.Linear(81, 10)

        def forward(self, x):
            x = nn.functional.max_pool2d(self.first(x).relu(), 2)
            return self.last(self.second(x).relu().flatten(1))

    class Block(nn.Module):
        def __init__(self, width=16, heads=2):
            super().__init__()
            self.heads = heads
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attend, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.widen, self.narrow, self.last = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), nn.Linear(width, 5)

        def forward(self, x):
            batch, tokens, width = x.shape
            q, k, v = self.attend(self.norm1(x)).reshape(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
            weights = torch.softmax(q @ k.transpose(-1, -2) / 8**0.5, -1)
            x = x + self.join((weights @ v).transpose(1, 2).reshape(batch, tokens, width))
            return self.last(x + self.narrow(nn.functional.gelu(self.widen(self.norm2(x)))))

    class Cell(nn.Module):
        def __init__(self, width=6, hidden=11):
            super().__init__()
            self.hidden, self.of_x, self.of_h = hidden, nn.Linear(width, 4 * hidden), nn.Linear(hidden, 4 * hidden, bias=False)
            self.last = nn.Linear(hidden, 3)

        def forward(self, x):
            h = c = torch.zeros(x.shape[0], self.hidden)
            for t in range(x.shape[1]):
                i, f, g, o = (self.of_x(x[:, t]) + self.of_h(h)).chunk(4, 1)
                c = f.sigmoid() * c + i.sigmoid() * g.tanh()
                h = o.sigmoid() * c.tanh()
            return self.last(h)

    return {"convolutions": (Convolutions, (1, 14, 14), 10, ()), "block": (Block, (9, 16), 5, (9,)), "cell": (Cell, (5, 6), 3, ())}


@pytest.mark.parametrize("name", ["convolutions", "block", "cell"])
def test_losses_equal_pytorch(service, name):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    pytest.importorskip("onnxscript", reason="PyTorch's exporter needs it")
    network, shape, classes, of_labels = networks(torch)[name]
    torch.manual_seed(0)
    module, random = network(), np.random.default_rng(6)
    x = random.standard_normal((10 * BATCH, *shape)).astype(np.float32)
    labels = random.integers(0, classes, (10 * BATCH, *of_labels))
    path, data = service.scratch(f"{name}.onnx"), service.scratch("data.npz")
    torch.onnx.export(module, (torch.tensor(x[:BATCH]),), path, dynamo=True, input_names=["x"], output_names=["y"], external_data=False,
                      optimize=False)
    save_npz(data, {"x": x, "labels": labels})
    artifact = service.compile(path, None, "--train", "--loss", "cross-entropy", "--optimizer", "adamw").artifact
    losses = train(service, artifact, data, 50, 0.003, "--in-order")
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.003)
    for step, loss in enumerate(losses):
        rows = slice(step % 10 * BATCH, (step % 10 + 1) * BATCH)
        optimizer.zero_grad()
        scores = module(torch.tensor(x[rows])).reshape(-1, classes)
        expected = torch.nn.functional.cross_entropy(scores, torch.tensor(labels[rows]).reshape(-1))
        expected.backward()
        optimizer.step()
        check(abs(loss - expected.item()) < 1e-3, f"step {step + 1}: loss {loss}, PyTorch's {expected.item()}")
