"""A text decoder with weights of 4 or 8 bits generates token by token: logits and state of each step are compared with
ONNX Runtime's, each side with its own state."""

import numpy as np
import onnx
import pytest

from checks import check, check_equal
from models import catalog
from oracle.oracle import difference

TOLERANCE = 1e-4  # of the output's largest magnitude
LAYERS, GROUPS, HEAD = 2, 2, 16
PROMPT = np.array([[3, 71, 12, 96, 40]])


def model(service, bits):
    path = service.scratch("decoder.onnx")
    path.write_bytes(catalog.build(f"decoder:tokens=0,bits={bits}").SerializeToString())
    return path


def empty_state(batch, length):
    return {f"past_key_values.{layer}.{kind}": np.zeros((batch, GROUPS, length, HEAD), np.float32)
            for layer in range(LAYERS) for kind in ("key", "value")}


def next_state(outputs):
    return {name.replace("present", "past_key_values"): array for name, array in outputs.items() if name != "logits"}


def same(outputs, expected, what):
    check_equal(sorted(outputs), sorted(expected), f"outputs of {what}")
    for name, wanted in expected.items():
        _, relative = difference(outputs[name], wanted)
        check(relative <= TOLERANCE, f"{what}, {name}: off by {relative:.3g} of its largest magnitude")


def write(service, oracle, path, artifact, steps, mask_of, state):
    """Generates greedily on both sides; `mask_of(count)` is the mask for `count` tokens in all."""
    session = oracle.load(path)
    ours, theirs, tokens, count, written = dict(state), dict(state), PROMPT, PROMPT.shape[1], []
    for step in range(steps):
        common = {"input_ids": tokens, "attention_mask": mask_of(count)}
        expected, _ = session.run({**common, **theirs})
        outputs, _ = service.run(artifact, {**common, **ours})
        same(outputs, expected, f"step {step}")
        tokens = outputs["logits"][:, -1:].argmax(-1)
        check_equal(tokens.tolist(), expected["logits"][:, -1:].argmax(-1).tolist(), f"token after step {step}")
        ours, theirs, count = next_state(outputs), next_state(expected), count + 1
        written.append(int(tokens[0, 0]))
    session.close()
    print("   wrote", *written)
    check(len(set(written)) > 1, f"always the same token: {written}")


@pytest.mark.parametrize("bits", (4, 8))
def test_state_in_a_buffer(service, oracle, bits):
    """One artifact for all steps: the state has the buffer's length, and the mask selects the valid part."""
    path, length = model(service, bits), 13
    compiled = service.compile(path, None, "--dim", "N=1", "--dim", f"past={length}", "--dim", f"total={length}",
                               "--dim", f"tokens=1,{PROMPT.shape[1]}")
    write(service, oracle, path, compiled.artifact, 6, lambda count: (np.arange(length)[None] < count).astype(np.int64),
          empty_state(1, length))


@pytest.mark.parametrize("bits", (4, 8))
def test_state_that_grows(service, oracle, bits):
    """A variant for each step, whose inputs have the text's length."""
    path, steps = model(service, bits), 4
    first, flags = PROMPT.shape[1], []
    for step in range(steps):
        past, tokens = (first + step - 1, 1) if step else (0, first)
        shapes = {"input_ids": (1, tokens), "attention_mask": (1, past + tokens)}
        shapes |= {name: array.shape for name, array in empty_state(1, past).items()}
        flags += [word for name, shape in shapes.items() for word in ("--shape", f"{name}={'x'.join(map(str, shape))}")]
    compiled = service.compile(path, None, *flags)
    write(service, oracle, path, compiled.artifact, steps, lambda count: np.ones((1, count), np.int64), empty_state(1, 0))


def test_sequences_of_different_lengths(service, oracle):
    """A step of three texts at once."""
    random, length = np.random.default_rng(5), 9
    path = model(service, 4)
    compiled = service.compile(path, None, "--dim", "N=3", "--dim", f"past={length}", "--dim", f"total={length}", "--dim",
                               "tokens=1")
    inputs = {name: random.standard_normal(array.shape, np.float32) for name, array in empty_state(3, length).items()}
    inputs |= {"input_ids": random.integers(0, 97, (3, 1)),
               "attention_mask": (np.arange(length)[None] < [[2], [9], [6]]).astype(np.int64)}
    session = oracle.load(path)
    expected, _ = session.run(inputs)
    session.close()
    outputs, _ = service.run(compiled.artifact, inputs)
    same(outputs, expected, "a batch")


def test_weights_stay_small(service):
    """Large weights are stored as in the model: two 4-bit weights in a byte."""
    path = service.scratch("wide.onnx")
    path.write_bytes(catalog.build("decoder:hidden=256,inner=512,groups=4,heads=16,block=32").SerializeToString())
    stored = sum(len(weight.raw_data) for weight in onnx.load(path).graph.initializer)
    for batch in (1, 8):  # few rows read packed weights in the product, many widen them first
        compiled = service.compile(path, None, "--dim", f"N={batch}")
        weights = int(service.cli("inspect", compiled.artifact, "--json").json["weights_bytes"])
        # Zero points become floats; embedding and rotary tables stay.
        print(f"   batch {batch}: weights {weights} bytes, in the model {stored}")
        check(weights <= 1.3 * stored, f"weights take {weights} bytes, in the model {stored}")
