#!/usr/bin/python3
"""A dimension compiled as a range (--dim N=1..6): any size of it runs, between two variants in the next larger one with
padding, and gives what an artifact of exactly that size gives. Models whose rows meet are refused by the node that mixes
them."""
# suite: timeout=900

import pathlib
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from e2e.tessera_e2e import Service, model_inputs, model_path
from oracle.oracle import Oracle, difference
from suite import check, check_equal, run

TOLERANCE = 1e-4  # of the output's largest magnitude
MODELS = ("mlp", "conv:h=17,w=19,stride=2,relu=1", "squeezenet1_1:size=48", "resnet18:size=48", "mobilenet_v1:size=32")
LARGEST = 6


def inputs_of(spec, batch):
    """Seeded inputs at any batch: rows of the catalog's batch of three, scaled to differ."""
    three = model_inputs(spec, 3)
    return {name: array[np.arange(batch) % 3] * (1 + np.arange(batch, dtype=np.float32) / 7).reshape(
        -1, *[1] * (array.ndim - 1)) for name, array in three.items()}


def same(outputs, expected, what):
    check_equal(sorted(outputs), sorted(expected), f"outputs of {what}")
    for name, wanted in expected.items():
        _, relative = difference(outputs[name], wanted)
        check(relative <= TOLERANCE, f"{what}, {name}: off by {relative:.3g} of its largest magnitude")


def room_for(size):
    return next(room for room in (1, 2, 4, LARGEST) if room >= size)


def every_size_is_right(service, oracle, spec):
    ranged = service.compile(model_path(spec), None, "--dim", f"N=1..{LARGEST}", timeout=300)
    session = oracle.load(model_path(spec))
    for size in range(1, LARGEST + 1):
        arrays = inputs_of(spec, size)
        expected, _ = session.run(arrays)
        outputs, said = service.run(ranged.artifact, arrays)
        same(outputs, expected, f"{spec} of {size}")
        check_equal(said["range"], {"dimension": "N", "size": size, "room": room_for(size)}, f"what ran for {size}")
    session.close()
    for size in (3, 5):
        exact = service.compile(model_path(spec), None, "--dim", f"N={size}", timeout=300)
        wanted, said = service.run(exact.artifact, inputs_of(spec, size))
        check("range" not in said, "an exact variant says that it is a range")
        same(service.run(ranged.artifact, inputs_of(spec, size))[0], wanted, f"{spec} of {size} beside the exact size")


def save(service, nodes, inputs, outputs, initializers=(), opset=13):
    graph = helper.make_graph(nodes, "ranges", [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in inputs],
                              [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in outputs],
                              [numpy_helper.from_array(array, name) for name, array in initializers])
    path = service.scratch("ranged.onnx")
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8).SerializeToString())
    return path


def rows_in_the_middle(service, oracle):
    """The range is the second dimension of one input and the first of another; outputs have it in three places."""
    nodes = [helper.make_node("Add", ["x", "m"], ["s"]), helper.make_node("MatMul", ["s", "w"], ["y"]),
             helper.make_node("Transpose", ["y"], ["t"], perm=[1, 0, 2]), helper.make_node("Softmax", ["t"], ["p"], axis=2),
             helper.make_node("ReduceMax", ["x"], ["r"], axes=[2], keepdims=0), helper.make_node("Shape", ["x"], ["e"])]
    f32, i64 = TensorProto.FLOAT, TensorProto.INT64
    path = save(service, nodes, [("x", f32, [3, "n", 5]), ("m", f32, ["n", 1])],
                [("y", f32, [3, "n", 7]), ("p", f32, ["n", 3, 7]), ("r", f32, [3, "n"]), ("e", i64, [3])],
                [("w", np.random.default_rng(3).standard_normal((5, 7)).astype(np.float32))])
    artifact = service.compile(path, None, "--dim", "n=1..11").artifact
    session = oracle.load(path)
    for size in range(1, 12):
        random = np.random.default_rng(size)
        arrays = {"x": random.standard_normal((3, size, 5), np.float32), "m": random.standard_normal((size, 1), np.float32)}
        expected, _ = session.run(arrays)
        for threads in ("1", "2"):
            outputs, _ = service.run(artifact, arrays, "--threads", threads)
            same(outputs, expected, f"size {size}")
        service.run(artifact, arrays, "--guard")
    session.close()


def padding_changes_nothing(service):
    """Whatever stands behind the rows that count: bits of the results are the same."""
    spec, size = MODELS[1], 3
    compiled = service.compile(model_path(spec), None, "--dim", "N=4..6")
    wanted, _ = service.run(compiled.artifact, inputs_of(spec, size))
    for padding in (0.0, 1e30, -7.0):
        arrays = {name: np.concatenate([array, np.full((4 - size, *array.shape[1:]), padding, np.float32)])
                  for name, array in inputs_of(spec, size).items()}
        arrays["N"] = np.array(size)
        given, out = service.scratch("in.npz"), service.scratch("out")
        np.savez(given, **arrays)
        service.cli("execute", compiled.job["compile_result"]["artifact_id"], "--input", given, "--output-dir", out)
        for name, array in wanted.items():
            check_equal(np.load(out / f"{name}.npy").tobytes(), array.tobytes(), f"{name} padded with {padding}")


def mixing_nodes_are_named(service):
    f32 = TensorProto.FLOAT
    x = [("x", f32, ["n", 4])]
    for name, nodes, initializers in (
            ("mean", [helper.make_node("ReduceMean", ["x"], ["y"], name="mixes", axes=[0])], ()),
            ("softmax", [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Softmax", ["r"], ["y"], name="mixes", axis=0)], ()),
            ("product", [helper.make_node("Transpose", ["x"], ["t"]), helper.make_node("MatMul", ["t", "x"], ["y"], name="mixes")], ()),
            ("sums", [helper.make_node("CumSum", ["x", "a"], ["y"], name="mixes")], [("a", np.array(0))]),
            ("statistics", [helper.make_node("BatchNormalization", ["x", *"cccc"], ["y", "mean", "variance"], name="mixes",
                                             training_mode=1)], [("c", np.ones(4, np.float32))]),
            ("parts", [helper.make_node("Reshape", ["x", "s"], ["y"], name="mixes")], [("s", np.array([-1, 2, 4]))]),
            ("constant rows", [helper.make_node("Add", ["x", "c"], ["y"], name="mixes")], [("c", np.ones((2, 1), np.float32))])):
        path = save(service, nodes, x, [("y", f32, None)], initializers, 15 if name == "statistics" else 13)
        sizes = "n=2..4" if name == "parts" else "n=2..5"
        failure = service.cli("compile", path, "--target", "host", "--dim", sizes, "--json", expect=4).failure
        check_equal((failure["reason"], failure["node"]), ("UNSUPPORTED_OPERATOR", "mixes"), name)
        check("--dim N=1,2,4,8" in failure["fix"], f"{name}: no way out in: {failure['fix']}")
        if name not in ("constant rows", "parts"):
            service.compile(path, None, "--dim", "n=2,5")  # which is what the error advises


def contradictions_are_errors(service):
    f32 = TensorProto.FLOAT
    nodes = [helper.make_node("MatMul", ["x", "z"], ["y"])]
    path = save(service, nodes, [("x", f32, ["n", "k"]), ("z", f32, ["k", 3])], [("y", f32, None)])
    answer = service.cli("compile", path, "--target", "host", "--dim", "n=1..4", "--dim", "k=1..4", expect=3)
    check("two dimensions are ranges" in answer.err, answer.err)
    compiled = service.compile(path, None, "--dim", "n=1..4", "--dim", "k=5")
    given = service.scratch("in.npz")
    np.savez(given, x=np.zeros((5, 5), np.float32), z=np.zeros((5, 3), np.float32))
    answer = service.cli("run", compiled.artifact, "--input", given, expect=3)
    check("n<=4" in answer.err and "no variant" in answer.err, answer.err)
    np.savez(given, x=np.zeros((3, 5), np.float32), z=np.zeros((5, 3), np.float32), n=np.array(2))
    answer = service.cli("run", compiled.artifact, "--input", given, expect=3)
    check("contradicts" in answer.err, answer.err)


def variants_share_and_show(service):
    single = service.compile(model_path("mlp"), None, "--dim", f"N={LARGEST}")
    ranged = service.compile(model_path("mlp"), None, "--dim", f"N=1..{LARGEST}")
    sizes = [int(service.cli("inspect", c.artifact, "--json").json["weights_bytes"]) for c in (single, ranged)]
    check(sizes[1] <= 1.1 * sizes[0], f"weights of one variant {sizes[0]} bytes, of a range {sizes[1]}")
    text = service.cli("inspect", ranged.artifact).out
    check(f"N<={LARGEST}" in text, f"the range is not shown:\n{text}")
    text = service.cli("run", ranged.artifact, "--random", "--dim", "N=3").out
    check("N=3 ran in the variant for N<=4, 1 of 4 padded" in text, text)
    profiled = service.cli("profile", ranged.job["compile_result"]["artifact_id"], "--dim", "N=3", "--repeat", "2", "--json").json
    check(profiled["result"]["kernels"], "a range cannot be profiled")


def main():
    with Oracle() as oracle, Service(workers=2) as service:
        service.wait_for_workers(2)
        return run("ranges", [
            *((f"every size of {spec}", lambda spec=spec: every_size_is_right(service, oracle, spec)) for spec in MODELS),
            ("rows in the middle", lambda: rows_in_the_middle(service, oracle)),
            ("padding changes nothing", lambda: padding_changes_nothing(service)),
            ("mixing nodes are named", lambda: mixing_nodes_are_named(service)),
            ("contradictions are errors", lambda: contradictions_are_errors(service)),
            ("variants share and show", lambda: variants_share_and_show(service))])


if __name__ == "__main__":
    sys.exit(main())
