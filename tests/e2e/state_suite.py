"""State: values that an artifact keeps from run to run. Each stream is compared with ONNX Runtime, which gets its own outputs
back as inputs, and growing states with the same artifact without a state, bit by bit."""

import json
import struct

import numpy as np
import pytest

from checks import check, check_equal
from e2e import python_package, stateful_models
from e2e.stateful_models import names_of_cache
from e2e.tessera_e2e import save_npz
from oracle.oracle import difference

python_package.install()
import tessera  # noqa: E402

TOLERANCE = 1e-4  # of the output's largest magnitude
LSTM = {"h0": "hn", "c0": "cn"}


def same(outputs, expected, what):
    for name, array in outputs.items():
        check_equal(array.shape, expected[name].shape, f"{what}, shape of {name}")
        _, relative = difference(array, expected[name])
        check(relative <= TOLERANCE, f"{what}, {name}: off by {relative:.3g} of its largest magnitude")


def same_bits(outputs, expected, what):
    for name, array in outputs.items():
        check(array.tobytes() == expected[name].tobytes(), f"{what}, {name}: other bits than without a state")


class Fed:
    """A stream of runs that gets its outputs back as inputs."""

    def __init__(self, run, pairs, first):
        self.run_once, self.pairs, self.values = run, dict(pairs), dict(first)

    def run(self, arrays):
        outputs = self.run_once({**arrays, **self.values})
        self.values = {before: outputs[after] for before, after in self.pairs.items()}
        return {name: array for name, array in outputs.items() if name not in self.pairs.values()}


@pytest.fixture(scope="module")
def recurrent(service):
    path = stateful_models.recurrent(service.scratch("lstm.onnx"))
    return path, service.compile(path, None, "--state", "h0=hn", "--state", "c0=cn").artifact


def test_fixed_size(recurrent, oracle):
    path, artifact = recurrent
    session, random = oracle.load(path), np.random.default_rng(7)
    zeros = {name: np.zeros((1, 1, 7), np.float32) for name in LSTM}
    model = tessera.load(artifact, trust=False)
    own, states = model.session(), [model.state() for _ in range(3)]
    streams = [Fed(lambda arrays: session.run(arrays)[0], LSTM, zeros) for _ in states]
    for step in range(12):
        which = step % 3 if step < 9 else 1
        arrays = {"x": random.standard_normal((3, 1, 5), np.float32)}
        outputs = own.run(arrays, state=states[which])
        check_equal(list(outputs), ["y"], "outputs")
        same(outputs, streams[which].run(arrays), f"stream {which}, step {step}")
        same(dict(states[which].items()), streams[which].values, f"state {which} after step {step}")
    states[1].reset()
    fresh = Fed(lambda arrays: session.run(arrays)[0], LSTM, zeros)
    same(own.run(arrays, state=states[1]), fresh.run(arrays), "after a reset")
    states[1]["h0"] = given = random.standard_normal((1, 1, 7)).astype(np.float32)
    check((states[1]["h0"] == given).all(), "a value that was set")
    fresh.values["h0"] = given
    same(own.run(arrays, state=states[1]), fresh.run(arrays), "after a value was set")
    session.close()


def test_a_file_continues_the_stream(service, recurrent):
    _, artifact = recurrent
    random, saved = np.random.default_rng(8), service.scratch("a.safetensors")
    model = tessera.load(artifact, trust=False)
    state, arrays = model.state(), {"x": random.standard_normal((3, 1, 5), np.float32)}
    model.run(arrays, state=state)
    state.save(saved)
    raw = saved.read_bytes()
    header = json.loads(raw[8:8 + struct.unpack("<Q", raw[:8])[0]])
    check_equal({name: (each["dtype"], each["shape"]) for name, each in header.items()},
                {name: ("F32", [1, 1, 7]) for name in LSTM}, "the file's tensors")
    begin, end = header["c0"]["data_offsets"]
    data = raw[8 + struct.unpack("<Q", raw[:8])[0]:]
    check(data[begin:end] == state["c0"].tobytes(), "the file's bytes of c0")
    loaded = model.state()
    loaded.load(saved)
    expected = model.run(arrays, state=state)
    same_bits(model.run(arrays, state=loaded), expected, "after loading")
    # The same on the command line: two runs, the second from the file of the first.
    given, first, second = service.scratch("x.npz"), service.scratch("1.safetensors"), service.scratch("2.safetensors")
    save_npz(given, arrays)
    service.cli("run", artifact, "--input", given, "--state-out", first)
    check(first.read_bytes() == raw, "the command line's state after one run")
    outputs, answer = service.run(artifact, arrays, "--state-in", first, "--state-out", second)
    same_bits(outputs, expected, "the command line's second run")
    check_equal([each["name"] for each in answer["outputs"]], ["y"], "what the command lists")
    state.save(saved)
    check(second.read_bytes() == saved.read_bytes(), "the command line's state after two runs")
    service.cli("run", artifact, "--input", given, "--repeat", "2", "--state-out", first)
    check(first.read_bytes() == second.read_bytes(), "the state after two runs of one command")


def test_variants_for_several_batches(service, oracle):
    """The first run decides the size of a state."""
    path = stateful_models.recurrent(service.scratch("lstm.onnx"), batch="batch")
    session, random = oracle.load(path), np.random.default_rng(11)
    for sizes in ("1,3", "..3"):
        model = tessera.load(service.compile(path, None, "--dim", f"batch={sizes}", "--state", "auto").artifact, trust=False)
        for batch in (3, 1):
            state = model.state()
            check_equal(state.shape("h0"), (1, None, 7), "the shape before the first run")
            fed = Fed(lambda arrays: session.run(arrays)[0], LSTM, {name: np.zeros((1, batch, 7), np.float32) for name in LSTM})
            for step in range(3):
                arrays = {"x": random.standard_normal((3, batch, 5), np.float32)}
                same(model.run(arrays, state=state), fed.run(arrays), f"batch={sizes}, {batch} at once, step {step}")
            check_equal(state.shape("h0"), (1, batch, 7), "the shape after runs")
            with pytest.raises(tessera.errors.InvalidInput):
                model.run({"x": np.zeros((3, 4 - batch, 5), np.float32)}, state=state)
            same(dict(state.items()), fed.values, "the state after a refused run")
    session.close()


def test_a_growing_state(service, oracle):
    """Token by token, then after prompts of several lengths, until the state is full."""
    path = stateful_models.decoder(service.scratch("decoder.onnx"))
    most = 23
    artifact = service.compile(path, None, "--dim", "batch=1", "--dim", f"past_sequence_length=..{most}", "--dim", "tokens=..7",
                               "--state", "auto").artifact
    session, random = oracle.load(path), np.random.default_rng(9)
    model = tessera.load(artifact, trust=False)
    for threads in (1, 2):
        own, plain = model.session(threads), model.session(threads)
        check(model.state().appends, "the artifact appends rows")
        empty = {before: np.zeros((1, 2, 0, 8), np.float32) for before, _ in names_of_cache()}
        states = [model.state() for _ in range(2)]
        fed = [[Fed(run, names_of_cache(), empty) for run in (lambda arrays: session.run(arrays)[0], plain.run)] for _ in states]
        counts = [0, 0]
        for which, tokens in ((0, 5), (1, 1), (0, 1), (1, 7), (1, 2), (0, 1), (0, 3), (1, 1), (0, 7), (1, 5), (0, 1), (0, 5), (0, 3)):
            counts[which] += tokens
            arrays = {"input_ids": random.integers(0, 31, (1, tokens)), "attention_mask": np.ones((1, counts[which]), np.int64)}
            what = f"stream {which} with {counts[which]} tokens, {tokens} new"
            outputs = own.run(arrays, state=states[which])
            theirs, ours = (each.run(arrays) for each in fed[which])
            same(outputs, theirs, what)
            same_bits(outputs, ours, what)
            same_bits(dict(states[which].items()), fed[which][1].values, what)
            check_equal(states[which].rows, counts[which], "rows")
        check_equal(counts[0], most + 3, "tokens in the first stream")
        with pytest.raises(tessera.errors.InvalidInput, match=f"is full: it has {most + 3} of 'past_sequence_length'"):
            own.run({"input_ids": np.array([[1]]), "attention_mask": np.ones((1, most + 4), np.int64)}, state=states[0])
        check_equal(states[0].rows, most + 3, "rows after the refused run")
        states[0].reset()
        check_equal(states[0].rows, 0, "rows after a reset")
        first = {"input_ids": np.array([[3, 4]]), "attention_mask": np.ones((1, 2), np.int64)}
        same_bits(own.run(first, state=states[0]), plain.run({**first, **empty}), "after a reset")
    session.close()


def test_a_growing_state_that_is_moved_as_a_whole(service, oracle):
    path = stateful_models.rectified(service.scratch("rectified.onnx"))
    artifact = service.compile(path, None, "--dim", "rows=..9", "--state", "past=present").artifact
    session, random = oracle.load(path), np.random.default_rng(12)
    model = tessera.load(artifact, trust=False)
    state, first = model.state(), {"past": np.zeros((0, 3), np.float32)}
    check(not state.appends, "the output is more than a concatenation")
    fed = Fed(lambda arrays: session.run(arrays)[0], {"past": "present"}, first)
    for step in range(5):
        arrays = {"x": random.standard_normal((2, 3), np.float32)}
        same(model.run(arrays, state=state), fed.run(arrays), f"step {step}")
        same(dict(state.items()), fed.values, f"state after step {step}")
    with pytest.raises(tessera.errors.InvalidInput, match="is full: it has 10 of 'rows', a run takes at most 9"):
        model.run(arrays, state=state)
    session.close()


def test_growing_states_of_a_batch(service, oracle):
    """The batch is a range as well, and the state is loaded from a file that another variant's run wrote."""
    path = stateful_models.decoder(service.scratch("decoder.onnx"), tokens=1)
    artifact = service.compile(path, None, "--dim", "batch=..3", "--dim", "past_sequence_length=..4,..13", "--state", "auto").artifact
    session, random, saved = oracle.load(path), np.random.default_rng(10), service.scratch("batch.safetensors")
    model = tessera.load(artifact, trust=False)
    check_equal(len(model.variants), 2, "variants for several lengths")
    for batch in (1, 3, 2):
        state = model.state()
        fed = Fed(lambda arrays: session.run(arrays)[0], names_of_cache(),
                  {before: np.zeros((batch, 2, 0, 8), np.float32) for before, _ in names_of_cache()})
        for count in range(1, 12):
            arrays = {"input_ids": random.integers(0, 31, (batch, 1)), "attention_mask": np.ones((batch, count), np.int64)}
            arrays["attention_mask"][-1, :count // 3] = 0
            same(model.run(arrays, state=state), fed.run(arrays), f"batch of {batch} with {count} tokens")
            if count in (3, 7):  # goes on in another state
                state.save(saved)
                state = model.state()
                state.load(saved)
            same(dict(state.items()), fed.values, f"state of a batch of {batch} with {count} tokens")
        with pytest.raises(tessera.errors.InvalidInput, match="no variant for input_ids="):
            model.run({"input_ids": np.ones((batch % 3 + 1, 1), np.int64), "attention_mask": np.ones((batch % 3 + 1, 12), np.int64)},
                      state=state)
    session.close()


def test_without_a_state(service, recurrent):
    """The artifact stays an ordinary one, also for jobs of the service."""
    _, artifact = recurrent
    arrays = {"x": np.ones((3, 1, 5), np.float32), **{name: np.zeros((1, 1, 7), np.float32) for name in LSTM}}
    outputs, _ = service.run(artifact, arrays)
    check_equal(sorted(outputs), ["cn", "hn", "y"], "outputs without a state")
    answer = service.cli("run", artifact, "--random", "--guard")
    check("guarded" in answer.out, answer.out)


def test_what_is_refused(service, recurrent):
    path, artifact = recurrent
    for flags, said in ((("--state", "h=hn"), "the model has no input 'h'"), (("--state", "h0=h"), "the model has no output 'h'"),
                        (("--state", "x=hn"), "cannot be one state"), (("--state", "h0=hn", "--state", "c0=hn"), "in another state"),
                        (("--state", "h0"), "write INPUT=OUTPUT"), (("--state", "h0=hn", "--target", "edge"), "keeps no state")):
        answer = service.cli("compile", path, *flags, "-o", service.scratch("none.tsra"), expect=None)
        check(answer.code in (2, 3) and said in answer.err, f"{flags}: {answer}")
    decoder = stateful_models.decoder(service.scratch("decoder.onnx"), tokens=1)
    answer = service.cli("compile", decoder, "--dim", "batch=1", "--dim", "past_sequence_length=4", "--state", "auto", expect=3)
    check("dimension 2, which is not a range" in answer.err and "--dim past_sequence_length=..2047" in answer.err, answer)
    plain = service.compile(path).artifact
    answer = service.cli("run", plain, "--random", "--state", expect=None)
    check(answer.code == 3 and "compile the model with --state" in answer.err, answer)
    model = tessera.load(artifact, trust=False)
    state, arrays = model.state(), {"x": np.ones((3, 1, 5), np.float32)}
    with pytest.raises(tessera.errors.InvalidInput, match="'h0' belongs to the state"):
        model.run({**arrays, "h0": np.zeros((1, 1, 7), np.float32)}, state=state)
    with pytest.raises(tessera.errors.InvalidInput, match="cannot have shape \\[1,1,8\\]"):
        state["h0"] = np.zeros((1, 1, 8), np.float32)
    with pytest.raises(tessera.errors.InvalidInput, match="another element type"):
        state["h0"] = np.zeros((1, 1, 7))
    with pytest.raises(tessera.errors.InvalidInput, match="there is no state 'h'"):
        state["h"]


def safetensors(tensors):
    """A file of float32 tensors, written by the format's description."""
    header, data = {}, b""
    for name, array in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [len(data), len(data) + array.nbytes]}
        data += array.tobytes()
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    return struct.pack("<Q", len(text)) + text + data


def test_files_that_are_refused(service, recurrent):
    _, artifact = recurrent
    model, path = tessera.load(artifact, trust=False), service.scratch("bad.safetensors")
    state = model.state()
    state["h0"] = kept = np.full((1, 1, 7), 3, np.float32)
    good = {name: np.ones((1, 1, 7), np.float32) for name in LSTM}
    whole = safetensors(good)
    cases = [(safetensors({"h0": good["h0"]}), "has no tensor 'c0'"), (safetensors({**good, "z": good["h0"]}), "has a tensor 'z'"),
             (safetensors({**good, "h0": np.ones((7,), np.float32)}), "cannot have shape"),
             (whole.replace(b"F32", b"I32"), "has type I32"), (whole.replace(b"F32", b"F8 "), "has type F8"),
             (whole[:-4], "cut off"), (whole[:30], "bytes"), (b"", "0 bytes"), (b"\xff" * 64, "header takes"),
             (whole.replace(b'"shape"', b'"shapo"'), "at byte")]
    for content, said in cases:
        path.write_bytes(content)
        with pytest.raises((tessera.errors.InvalidInput, tessera.errors.CorruptArtifact), match=said):
            state.load(path)
        check((state["h0"] == kept).all(), f"the state after a file that was refused ({said})")
        answer = service.cli("run", artifact, "--random", "--state-in", path, expect=None)
        check(answer.code == 3 and said in answer.err, f"{said}: {answer}")
    answer = service.cli("run", artifact, "--random", "--state-in", service.scratch("none"), expect=None)
    check(answer.code == 5 and "No such file" in answer.err, answer)
    path.write_bytes(whole)
    state.load(path)
    check((state["h0"] == 1).all(), "the state after a file of another program")
