"""Several variants in one artifact: dimensions bound by name, dispatch by the inputs' shapes, errors that list variants."""

import hashlib

import numpy as np
import pytest
from onnx import TensorProto, helper

from checks import check, check_equal
from e2e.tessera_e2e import model_inputs, model_path, save_npz
from oracle.oracle import difference

TOLERANCE = 1e-4  # of the output's largest magnitude
MODELS = ("mlp", "conv:h=17,w=19,stride=2,relu=1", "bert_tiny")
BATCHES = (1, 3, 8)


def inputs_of(spec, batch):
    """Seeded inputs at any batch: rows of the catalog's batch of three, in another order."""
    three = model_inputs(spec, 3)
    return {name: array[np.arange(batch) * 2 % 3] for name, array in three.items()}


def compare(outputs, expected, what):
    check_equal(sorted(outputs), sorted(expected), f"outputs of {what}")
    for name, wanted in expected.items():
        _, relative = difference(outputs[name], wanted)
        print(f"   {what} {name} {list(wanted.shape)}: relative error {relative:.3g}, tolerance {TOLERANCE:g}")
        check(relative <= TOLERANCE, f"{what}, {name}: off by {relative:.3g} of its largest magnitude")


def attention(service):
    """softmax(x xT) x + mask: two named dimensions, and a second input that shares one of them."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "seq", 16])
    mask = helper.make_tensor_value_info("mask", TensorProto.FLOAT, ["seq", 1])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "seq", 16])
    nodes = [helper.make_node("Transpose", ["x"], ["t"], perm=[0, 2, 1]), helper.make_node("MatMul", ["x", "t"], ["s"]),
             helper.make_node("Softmax", ["s"], ["p"], axis=-1), helper.make_node("MatMul", ["p", "x"], ["a"]),
             helper.make_node("Add", ["a", "mask"], ["y"])]
    model = helper.make_model(helper.make_graph(nodes, "attention", [x, mask], [y]),
                              opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path = service.scratch("attention.onnx")
    path.write_bytes(model.SerializeToString())
    return path


def attention_inputs(batch, seq):
    random = np.random.default_rng(batch * 100 + seq)
    return {"x": random.standard_normal((batch, seq, 16), dtype=np.float32),
            "mask": random.standard_normal((seq, 1), dtype=np.float32)}


# Results.

@pytest.mark.parametrize("spec", MODELS)
def test_one_artifact_runs_every_batch(service, oracle, spec):
    dims = ",".join(map(str, reversed(BATCHES)))
    compiled = service.compile(model_path(spec), None, "--dim", f"N={dims}", timeout=300)
    session = oracle.load(model_path(spec))
    for batch in BATCHES:
        arrays = inputs_of(spec, batch)
        expected, _ = session.run(arrays)
        for threads in ("1", "2"):
            outputs, _ = service.run(compiled.artifact, arrays, "--threads", threads)
            compare(outputs, expected, f"{spec} batch {batch}, {threads} threads")
    session.close()


def test_combinations_of_two_dimensions(service, oracle):
    path = attention(service)
    compiled = service.compile(path, None, "--dim", "batch=1,2", "--dim", "seq=5..9:4")
    session = oracle.load(path)
    for batch in (1, 2):
        for seq in (5, 9):
            arrays = attention_inputs(batch, seq)
            expected, _ = session.run(arrays)
            outputs, _ = service.run(compiled.artifact, arrays)
            compare(outputs, expected, f"batch {batch} seq {seq}")
    session.close()
    # The same by corresponding shapes: the i-th of each input.
    flags = [word for batch, seq in ((1, 5), (2, 9)) for word in
             ("--shape", f"x={batch}x{seq}x16", "--shape", f"mask={seq}x1")]
    pairs = service.compile(path, None, *flags)
    variants = service.cli("inspect", pairs.artifact, "--json").json["variants"]
    check_equal([[int(d["size"]) for d in v["dimensions"]] for v in variants], [[1, 5], [2, 9]], "variants of pairs")


def test_workers_choose_as_well(service, oracle):
    spec = MODELS[1]
    compiled = service.compile(model_path(spec), None, "--dim", "N=1,3,8")
    artifact = compiled.job["compile_result"]["artifact_id"]
    session = oracle.load(model_path(spec))
    for batch in BATCHES:
        given, wanted = service.scratch("in.npz"), service.scratch("out")
        save_npz(given, inputs_of(spec, batch))
        service.cli("execute", artifact, "--input", given, "--output-dir", wanted)
        expected, _ = session.run(inputs_of(spec, batch))
        compare({path.stem: np.load(path) for path in wanted.glob("*.npy")}, expected, f"execute at batch {batch}")
    session.close()
    profiled = {}
    for batch in BATCHES:
        answer = service.cli("profile", artifact, "--dim", f"N={batch}", "--repeat", "3", "--json").json
        profiled[batch] = sum(int(kernel["flops"]) for kernel in answer["result"]["kernels"])
    check_equal(profiled[8], 8 * profiled[1], "operations of a run at batch 8")
    check_equal(profiled[3], 3 * profiled[1], "operations of a run at batch 3")


def test_slices_that_fill_a_cache_exactly(service):
    """Two rows of an encoder between products: 32 KiB, which is all of this chip's L1."""
    service.compile(model_path("bert_tiny"), None, "--dim", "N=2", target="znver4")


# Stored data.

def test_weights_are_stored_once(service):
    single = service.compile(model_path("mlp"), None, "--dim", "N=3")
    several = service.compile(model_path("mlp"), None, "--dim", "N=1,3,8")
    sizes = [int(service.cli("inspect", c.artifact, "--json").json["weights_bytes"]) for c in (single, several)]
    check(sizes[1] <= 1.1 * sizes[0], f"weights of one variant {sizes[0]} bytes, of three {sizes[1]}")


def test_by_name_or_by_shape_is_the_same_artifact(service):
    digests = []
    for flags in (["--dim", "N=5"], ["--shape", "x=5x784"]):
        compiled = service.compile(model_path("mlp"), None, "--no-cache", *flags)
        digests.append(hashlib.sha256(compiled.artifact.read_bytes()).hexdigest())
    check_equal(digests[0], digests[1], "artifact bound by name and by shape")


def test_order_does_not_matter_and_keys_are_explained(service):
    model = model_path("tiny:seed=40")
    service.compile(model, None, "--dim", "N=1,4")
    again = service.compile(model, None, "--dim", "N=4,1")
    check(again.job["cached"], "the same variants in another order miss the cache")
    flags = ["explain", "--key", model, "--target", "host", "--json"]
    check_equal(service.cli(*flags, "--dim", "N=4,1").json["hit"], True, "explain of a cached artifact")
    miss = service.cli(*flags, "--dim", "N=1,5").json
    check_equal((miss["hit"], miss["differing"]), (False, ["specializations"]), "explain of other variants")
    service.compile(model, None, "--dim", "N=7")
    miss = service.cli(*flags, "--dim", "N=8").json
    check_equal((miss["hit"], miss["differing"]), (False, ["dimensions"]), "explain of another size")


def test_inspect_and_explain_show_variants(service):
    compiled = service.compile(model_path("mlp"), None, "--dim", "N=1,3")
    manifest = service.cli("inspect", compiled.artifact, "--json").json
    check_equal([v["dimensions"] for v in manifest["variants"]],
                [[{"name": "N", "size": "1"}], [{"name": "N", "size": "3"}]], "dimensions of the variants")
    check_equal([v["inputs"][0]["shape"] for v in manifest["variants"]], [["1", "784"], ["3", "784"]], "input shapes")
    for command in ("inspect", "explain"):
        text = service.cli(command, compiled.artifact).out
        check("N=1" in text and "N=3" in text, f"{command} does not name the variants:\n{text}")


# Errors.

def test_unbound_dimensions_are_named(service):
    path = attention(service)
    answer = service.cli("compile", path, "--target", "host", "--json", expect=3)
    check_equal(answer.failure["reason"], "UNBOUND_DIMENSION", "reason")
    for word in ("'x'", "'batch'"):
        check(word in answer.failure["message"], f"no {word} in: {answer.failure['message']}")
    for word in ("--dim batch=", "--dim seq=", "--shape x=1x1x16"):
        check(word in answer.failure["fix"], f"no {word} in: {answer.failure['fix']}")
    # One of two is not enough; the error names the other one.
    answer = service.cli("compile", path, "--target", "host", "--dim", "batch=1,2", "--json", expect=3)
    check("'seq'" in answer.failure["message"], f"no 'seq' in: {answer.failure['message']}")
    check("--dim batch" not in answer.failure["fix"], f"asks for what is bound: {answer.failure['fix']}")


def test_contradictions_are_errors(service):
    path = attention(service)

    def refused(words, *expected, code=3):
        answer = service.cli("compile", path, "--target", "host", *words, expect=code)
        for part in expected:
            check(part in answer.err, f"{words}: no '{part}' in: {answer.err}")

    refused(["--dim", "batch=1", "--dim", "seq=4", "--dim", "length=4"], "'length'", "batch, seq")
    refused(["--dim", "batch=1", "--dim", "seq=4", "--shape", "x=2x4x16"], "'batch'", "two values")
    refused(["--dim", "batch=1", "--dim", "batch=2", "--dim", "seq=4"], "'batch' is bound before")
    refused(["--dim", "batch=1..8:1", "--dim", "seq=1..9:1"], "72 variants", "at most 64")
    refused(["--dim", "batch=one", "--dim", "seq=4"], "--dim batch=one")
    refused(["--dim", "batch=1,2", "--dim", "seq=4", "--shape", "q=4"], "'q'", "mask, x")


def test_shapes_without_a_variant_list_what_there_is(service):
    compiled = service.compile(model_path("mlp"), None, "--dim", "N=1,3")
    given = service.scratch("in.npz")
    save_npz(given, inputs_of("mlp", 2))
    artifact = compiled.job["compile_result"]["artifact_id"]
    for words in (["run", compiled.artifact, "--input", given], ["execute", artifact, "--input", given],
                  ["run", compiled.artifact, "--random", "--dim", "N=2"], ["profile", artifact, "--dim", "N=2"],
                  ["run", compiled.artifact, "--random"], ["profile", artifact],
                  ["run", compiled.artifact, "--random", "--dim", "M=1"]):
        answer = service.cli(*words, "--json", expect=3)
        text = str(answer.failure)
        check("1" in text and "784" in text and "3" in text, f"{words[0]} does not list what there is: {text}")
    # With a single variant there is no choice: the error is about the input itself, as before.
    single = service.compile(model_path("mlp"), None, "--dim", "N=1")
    answer = service.cli("run", single.artifact, "--input", given, "--json", expect=3)
    check("784" in answer.failure["accepted"], f"no accepted shape: {answer.failure}")


def test_random_runs_choose_by_flag(service):
    compiled = service.compile(model_path("mlp"), None, "--dim", "N=1,3,8")
    for words, rows in ((["--dim", "N=8"], 8), (["--shape", "x=3x784"], 3)):
        wanted = service.scratch("out")
        service.cli("run", compiled.artifact, "--random", "--steps", "--output-dir", wanted, *words)
        check_equal(np.load(wanted / "y.npy").shape[0], rows, f"rows of the output with {words}")
