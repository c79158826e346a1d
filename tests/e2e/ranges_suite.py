"""A dimension compiled as a range (--dim N=1..6): each size of it runs, with padding in the next larger variant, and
gives the results of an artifact for exactly that size. Models that combine values across a ranged dimension are
rejected, naming the node."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from checks import check, check_equal
from e2e.ranged import f32s, ranged_against_oracle, same, save, tessera
from e2e.tessera_e2e import model_inputs, model_path

MODELS = ("mlp", "conv:h=17,w=19,stride=2,relu=1", "squeezenet1_1:size=48", "resnet18:size=48", "mobilenet_v1:size=32")
LARGEST = 6


def inputs_of(spec, batch):
    """Seeded inputs at any batch: rows of the catalog's batch of three, scaled to differ."""
    three = model_inputs(spec, 3)
    return {name: array[np.arange(batch) % 3] * (1 + np.arange(batch, dtype=np.float32) / 7).reshape(
        -1, *[1] * (array.ndim - 1)) for name, array in three.items()}


def room_for(size):
    return next(room for room in (1, 2, 4, LARGEST) if room >= size)


@pytest.mark.parametrize("spec", MODELS)
def test_every_size_is_right(service, oracle, spec):
    ranged = service.compile(model_path(spec), None, "--dim", f"N=1..{LARGEST}", timeout=300)
    session = oracle.load(model_path(spec))
    for size in range(1, LARGEST + 1):
        arrays = inputs_of(spec, size)
        expected, _ = session.run(arrays)
        outputs, said = service.run(ranged.artifact, arrays)
        same(outputs, expected, f"{spec} of {size}")
        check_equal(said["ranges"], [{"dimension": "N", "size": size, "room": room_for(size)}], f"what ran for {size}")
        ways = ("exact",) if size == room_for(size) else ("counted", "padded")
        check(said["way"] in ways, f"{spec} of {size} ran {said['way']}")
        check((said["work"] < 1) == (said["way"] == "counted"), f"{said['way']} did {said['work']} of its operations")
    session.close()
    for size in (3, 5):
        exact = service.compile(model_path(spec), None, "--dim", f"N={size}", timeout=300)
        wanted, said = service.run(exact.artifact, inputs_of(spec, size))
        check("ranges" not in said, "an exact variant says that it is a range")
        same(service.run(ranged.artifact, inputs_of(spec, size))[0], wanted, f"{spec} of {size} compared with the exact size")


def test_an_empty_batch_is_one(service, oracle):
    """As in ONNX Runtime: zero rows in, zero rows out."""
    for spec in ("mlp", "conv:h=17,w=19,stride=2,relu=1"):
        ranged = service.compile(model_path(spec), None, "--dim", f"N=1..{LARGEST}", timeout=300)
        session = oracle.load(model_path(spec))
        arrays = {name: array[:0] for name, array in model_inputs(spec, 3).items()}
        expected, _ = session.run(arrays)
        outputs, _ = service.run(ranged.artifact, arrays)
        check_equal({name: array.shape for name, array in outputs.items()},
                    {name: array.shape for name, array in expected.items()}, f"shapes of {spec} without rows")
        session.close()


def test_rows_in_the_middle(service, oracle):
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


def test_padding_changes_nothing(service):
    """The bits of results do not depend on memory after the valid rows."""
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


def test_mixing_nodes_are_named(service):
    f32 = TensorProto.FLOAT
    x = [("x", f32, ["n", 4])]
    for name, nodes, initializers in (
            ("positions", [helper.make_node("ArgMax", ["x"], ["y"], name="mixes", axis=0, select_last_index=1)], ()),
            ("statistics", [helper.make_node("BatchNormalization", ["x", *"cccc"], ["y", "mean", "variance"], name="mixes",
                                             training_mode=1)], [("c", np.ones(4, np.float32))]),
            ("cubic", [helper.make_node("Resize", ["x", "", "", "r"], ["y"], name="mixes", mode="cubic")],
             [("r", np.array([20, 4]))]),
            ("constant rows", [helper.make_node("Add", ["x", "c"], ["y"], name="mixes")], [("c", np.ones((2, 1), np.float32))])):
        path = save(service, nodes, x, [("y", TensorProto.INT64 if name == "positions" else f32, None)], initializers,
                    15 if name == "statistics" else 13)
        failure = service.cli("compile", path, "--target", "host", "--dim", "n=2..5", "--json", expect=4).failure
        check_equal((failure["reason"], failure["node"]), ("UNSUPPORTED_OPERATOR", "mixes"), name)
        check("--dim N=1,2,4,8" in failure["fix"], f"{name}: no way out in: {failure['fix']}")
        if name != "constant rows":
            service.compile(path, None, "--dim", "n=2,5")  # as the error advises


def test_slices_between_counts(service, oracle):
    """Ends that move inwards as the range grows, and starts at a fraction of it."""
    f32, i64, node = TensorProto.FLOAT, TensorProto.INT64, helper.make_node
    counted = [node("Shape", ["x"], ["all"]), node("Gather", ["all", "i"], ["n0"])]
    random = np.random.default_rng(9)
    for name, nodes, initializers in (
            ("falling size", [node("Sub", ["k", "n0"], ["left"]), node("Slice", ["x", "i", "left", "axis"], ["y"])],
             [("k", np.array([6])), ("axis", np.array([1]))]),
            ("moving start", [node("Cast", ["n0"], ["n1"], to=f32), node("Mul", ["n1", "part"], ["n2"]),
                              node("Cast", ["n2"], ["from"], to=i64), node("Slice", ["x", "from", "end", "i"], ["y"])],
             [("part", np.array([0.6], np.float32)), ("end", np.array([100]))])):
        path = save(service, [*counted, *nodes], [("x", f32, ["n", 4])], [("y", f32, None)], [("i", np.array([0])), *initializers])
        ranged_against_oracle(service, oracle, path, {"n": "2..5"}, [(n,) for n in (1, 2, 3, 4, 5)],
                              lambda n: {"x": f32s(random, n, 4)}, name)


def test_mixing_is_masked(service, oracle):
    """Sums, means, maxima, softmax and products along the range itself."""
    f32, node = TensorProto.FLOAT, helper.make_node
    nodes = [node("ReduceMean", ["x"], ["mean"], axes=[0]), node("ReduceMax", ["x"], ["top"], axes=[0]),
             node("ReduceProd", ["x"], ["product"], axes=[0, 1]), node("ReduceLogSumExp", ["x"], ["lse"], axes=[0]),
             node("Softmax", ["x"], ["p"], axis=0), node("Transpose", ["x"], ["t"]), node("MatMul", ["t", "p"], ["m"]),
             node("Gemm", ["x", "x"], ["gram"], transA=1), node("ReduceSum", ["x", "both"], ["all"], keepdims=0)]
    path = save(service, nodes, [("x", f32, ["n", 4])],
                [(name, f32, None) for name in ("mean", "top", "product", "lse", "p", "m", "gram", "all")], [("both", np.array([0, 1]))])
    random = np.random.default_rng(8)
    ranged_against_oracle(service, oracle, path, {"n": "3..11"}, [(n,) for n in (1, 2, 3, 5, 8, 11)],
                          lambda n: {"x": f32s(random, n, 4)}, "what is masked")


def test_contradictions_are_errors(service):
    f32 = TensorProto.FLOAT
    nodes = [helper.make_node("MatMul", ["x", "z"], ["y"])]
    path = save(service, nodes, [("x", f32, ["n", "k"]), ("z", f32, ["k", 3])], [("y", f32, None)])
    compiled = service.compile(path, None, "--dim", "n=1..4", "--dim", "k=5")
    given = service.scratch("in.npz")
    np.savez(given, x=np.zeros((5, 5), np.float32), z=np.zeros((5, 3), np.float32))
    answer = service.cli("run", compiled.artifact, "--input", given, expect=3)
    check("n<=4" in answer.err and "no variant" in answer.err, answer.err)
    np.savez(given, x=np.zeros((3, 5), np.float32), z=np.zeros((5, 3), np.float32), n=np.array(2))
    answer = service.cli("run", compiled.artifact, "--input", given, expect=3)
    check("contradicts" in answer.err, answer.err)


def test_two_ranges_at_once(service, oracle):
    """Rows of two inputs that a product combines: [n, 5] x [5, m]."""
    f32 = TensorProto.FLOAT
    nodes = [helper.make_node("MatMul", ["x", "z"], ["p"]), helper.make_node("Relu", ["p"], ["y"]),
             helper.make_node("MatMul", ["y", "t"], ["q"])]
    path = save(service, nodes, [("x", f32, ["n", 5]), ("z", f32, [5, "m"]), ("t", f32, ["m", 2])],
                [("y", f32, ["n", "m"]), ("q", f32, ["n", 2])])
    random = np.random.default_rng(5)
    said = ranged_against_oracle(
        service, oracle, path, {"n": "1..6", "m": "1..9"}, [(1, 1), (3, 7), (5, 9), (6, 5), (2, 3)],
        lambda n, m: {"x": f32s(random, n, 5), "z": f32s(random, 5, m), "t": f32s(random, m, 2)}, "a product of two ranges")
    check_equal([each["dimension"] for each in said[1]["ranges"]], ["n", "m"], "dimensions")


def test_shapes_that_follow(service, oracle):
    """Exported shape arithmetic: Shape, Gather, Concat, then Reshape, Expand, Range, Slice by their results."""
    f32, i64 = TensorProto.FLOAT, TensorProto.INT64
    node = helper.make_node
    constants = [("zero", np.array(0)), ("one", np.array(1)), ("two", np.array([2])), ("three", np.array([3])), ("at0", np.array([0])),
                 ("table", np.random.default_rng(1).standard_normal((40, 6)).astype(np.float32)),
                 ("axes", np.array([0]))]
    nodes = [node("Shape", ["x"], ["s"]), node("Gather", ["s", "zero"], ["n0"], axis=0), node("Gather", ["s", "one"], ["n1"], axis=0),
             node("Unsqueeze", ["n0", "axes"], ["b"]), node("Unsqueeze", ["n1", "axes"], ["t"]),
             node("Concat", ["b", "t", "two", "three"], ["heads"], axis=0), node("Reshape", ["x", "heads"], ["h"]),
             node("Transpose", ["h"], ["y"], perm=[0, 2, 1, 3]),
             node("Slice", ["table", "at0", "t", "axes"], ["positions"]), node("Add", ["x", "positions"], ["p"]),
             node("Range", ["zero", "n1", "one"], ["r"]), node("Gather", ["table", "r"], ["g"], axis=0),
             node("Concat", ["b", "t"], ["bt"], axis=0), node("ConstantOfShape", ["bt"], ["c"]),
             node("Cast", ["c"], ["cf"], to=f32), node("Unsqueeze", ["cf", "two"], ["cu"]), node("Add", ["cu", "x"], ["z"]),
             node("Concat", ["b", "t", "three"], ["e3"], axis=0), node("Expand", ["one_f", "e3"], ["e"])]
    path = save(service, nodes, [("x", f32, ["n", "t", 6])],
                [("y", f32, ["n", 2, "t", 3]), ("p", f32, ["n", "t", 6]), ("g", f32, ["t", 6]), ("z", f32, ["n", "t", 6]),
                 ("e", f32, ["n", "t", 3])], [*constants, ("one_f", np.ones((1, 1, 1), np.float32))])
    random = np.random.default_rng(6)
    ranged_against_oracle(service, oracle, path, {"n": "1..3", "t": "1..10"}, [(n, t) for n in (1, 2, 3) for t in (1, 2, 5, 7, 10)],
                          lambda n, t: {"x": f32s(random, n, t, 6)}, "shapes that follow", threads=("2",))


def encoder(random, width, heads, layers, service):
    """PyTorch's attention over [batch, sequence, width], with shapes computed from the input's."""
    node, f32 = helper.make_node, TensorProto.FLOAT
    nodes, constants = [], [("zero", np.array(0)), ("one", np.array(1)), ("axes", np.array([0])), ("hd", np.array([heads, width // heads])),
                            ("w", np.array([width])), ("root", np.array(np.sqrt(width // heads), np.float32)),
                            ("gain", np.ones(width, np.float32)), ("shift", np.zeros(width, np.float32))]
    x = "x"
    nodes += [node("Shape", ["x"], ["s"]), node("Gather", ["s", "zero"], ["rows"]), node("Gather", ["s", "one"], ["length"]),
              node("Unsqueeze", ["rows", "axes"], ["b"]), node("Unsqueeze", ["length", "axes"], ["t"]),
              node("Concat", ["b", "t", "hd"], ["split"], axis=0), node("Concat", ["b", "t", "w"], ["whole"], axis=0)]
    for layer in range(layers):
        at = lambda name: f"{name}{layer}"  # noqa: B023, E731
        for part in "qkvo":
            constants.append((at("w" + part), (random.standard_normal((width, width)) / np.sqrt(width)).astype(np.float32)))
        for part in "qkv":
            nodes += [node("MatMul", [x, at("w" + part)], [at(part + "0")]), node("Reshape", [at(part + "0"), "split"], [at(part + "1")]),
                      node("Transpose", [at(part + "1")], [at(part)], perm=[0, 2, 3, 1] if part == "k" else [0, 2, 1, 3])]
        nodes += [node("MatMul", [at("q"), at("k")], [at("scores")]), node("Div", [at("scores"), "root"], [at("scaled")]),
                  node("Softmax", [at("scaled")], [at("p")], axis=-1), node("MatMul", [at("p"), at("v")], [at("a")]),
                  node("Transpose", [at("a")], [at("at")], perm=[0, 2, 1, 3]), node("Reshape", [at("at"), "whole"], [at("joined")]),
                  node("MatMul", [at("joined"), at("wo")], [at("o")]), node("Add", [x, at("o")], [at("sum")]),
                  node("LayerNormalization", [at("sum"), "gain", "shift"], [at("n")], axis=-1)]
        x = at("n")
    nodes += [node("ReduceMean", [x], ["y"], axes=[1], keepdims=0), node("Identity", [x], ["z"])]
    return save(service, nodes, [("x", f32, ["n", "t", width])], [("y", f32, ["n", width]), ("z", f32, ["n", "t", width])], constants, 17)


def test_encoders_of_any_length(service, oracle):
    for seed, (width, heads, layers, longest) in enumerate(((16, 2, 1, 12), (24, 3, 2, 37), (64, 4, 1, 20))):
        random = np.random.default_rng(seed)
        path = encoder(random, width, heads, layers, service)
        sizes = [(1, 1), (1, longest), (3, longest - 1), (2, longest // 2), (3, 5)]
        said = ranged_against_oracle(service, oracle, path, {"n": "2..3", "t": f"4..{longest}"}, sizes,
                                     lambda n, t: {"x": f32s(random, n, t, width)}, f"encoder {width} {heads} {layers}", threads=("2",))
        check(said[0]["way"] == "counted", f"an encoder of one row ran {said[0]['way']}")


def test_keys_end_where_the_run_does(service, oracle):
    """Lengths on both sides of the block size in which keys are computed."""
    random = np.random.default_rng(23)
    path = encoder(random, 32, 4, 1, service)
    ranged_against_oracle(service, oracle, path, {"n": "..2", "t": "..300"},
                          [(1, 1), (2, 63), (1, 64), (2, 65), (1, 128), (2, 131), (1, 257), (2, 300)],
                          lambda n, t: {"x": f32s(random, n, t, 32)}, "keys of an encoder")


def test_what_exporters_write(service, oracle):
    """A causal mask computed from the length, a cumulative sum of a mask, recurrent layers, pixel blocks and a
    transposed convolution of any size, as PyTorch exports them."""
    f32, node, random = TensorProto.FLOAT, helper.make_node, np.random.default_rng(9)
    w = lambda *shape: random.standard_normal(shape).astype(np.float32) / 2  # noqa: E731
    path = save(service, [
        node("Shape", ["x"], ["s"]), node("Slice", ["s", "one", "two", "zero"], ["t"]), node("Concat", ["t", "t"], ["tt"], axis=0),
        node("ConstantOfShape", ["tt"], ["ones"], value=helper.make_tensor("v", f32, [1], [1])),
        node("Trilu", ["ones"], ["tril"], upper=0), node("MatMul", ["x", "wk"], ["k"]),
        node("Einsum", ["x", "k"], ["a"], equation="bid,bjd->bij"), node("Mul", ["a", "tril"], ["m"]),
        node("MatMul", ["m", "x"], ["y"]), node("CumSum", ["x", "axis"], ["sums"], reverse=1),
        node("Transpose", ["x"], ["steps"], perm=[1, 0, 2]),
        node("LSTM", ["steps", "lw", "lr", "lb"], ["l", "h"], hidden_size=3, direction="bidirectional")],
        [("x", f32, ["n", "t", 4])], [("y", f32, None), ("sums", f32, None), ("l", f32, None), ("h", f32, None)],
        [("zero", np.array([0])), ("one", np.array([1])), ("two", np.array([2])), ("axis", np.array(1)), ("wk", w(4, 4)),
         ("lw", w(2, 12, 4)), ("lr", w(2, 12, 3)), ("lb", w(2, 24))], 14)
    ranged_against_oracle(service, oracle, path, {"n": "2..3", "t": "3..7"}, [(1, 1), (2, 5), (3, 7), (3, 2)],
                          lambda n, t: {"x": f32s(random, n, t, 4)}, "a decoder and a recurrent layer", threads=("2",))
    path = save(service, [
        node("Conv", ["x", "c"], ["a"], pads=[1, 1, 1, 1]), node("ConvTranspose", ["a", "u"], ["b"], strides=[2, 2]),
        node("ConvTranspose", ["a", "v"], ["y"], strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1]),
        node("DepthToSpace", ["b"], ["z"], blocksize=2, mode="CRD")],
        [("x", f32, [1, 3, "h", "w"])], [("y", f32, None), ("z", f32, None)],
        [("c", w(8, 3, 3, 3)), ("u", w(8, 8, 2, 2)), ("v", w(8, 5, 3, 3))])
    ranged_against_oracle(service, oracle, path, {"h": "6..9", "w": "5..11"}, [(6, 5), (9, 11), (7, 6), (1, 3)],
                          lambda h, w: {"x": f32s(random, 1, 3, h, w)}, "enlarged images", threads=("2",))


def test_ends_of_sequences(service, oracle):
    """The last step, the last few, all but the ends, and padded sequences, of any length."""
    node, f32, random = helper.make_node, TensorProto.FLOAT, np.random.default_rng(10)
    constants = {"last": np.array(-1), "one": np.array([1]), "two_back": np.array([-2]), "back": np.array([-1]),
                 "open": np.array([2**63 - 1]), "axis": np.array([1]), "pads": np.array([0, 2, 0, 0, 1, 0]),
                 "w": random.standard_normal((4, 6)).astype(np.float32), "c": random.standard_normal((5, 6, 3)).astype(np.float32)}
    nodes = [node("MatMul", ["x", "w"], ["h"]), node("Gather", ["h", "last"], ["y"], axis=1),
             node("Slice", ["h", "two_back", "open", "axis"], ["few"]), node("Slice", ["h", "one", "back", "axis"], ["inner"]),
             node("Pad", ["h", "pads"], ["padded"]), node("Transpose", ["padded"], ["t"], perm=[0, 2, 1]),
             node("Conv", ["t", "c"], ["conv"])]
    path = save(service, nodes, [("x", f32, ["n", "t", 4])], [(name, f32, None) for name in ("y", "few", "inner", "padded", "conv")],
                list(constants.items()))
    ranged_against_oracle(service, oracle, path, {"n": "2..3", "t": "4..9"}, [(1, 1), (2, 4), (3, 9), (1, 7), (3, 2)],
                          lambda n, t: {"x": f32s(random, n, t, 4)}, "ends of sequences", threads=("2",))


def test_decoders_with_a_growing_state(service, oracle):
    """Keys and values of a past of any length, joined with those of this step; positions continue from the past."""
    node, f32, random = helper.make_node, TensorProto.FLOAT, np.random.default_rng(11)
    w = lambda *shape: random.standard_normal(shape).astype(np.float32) / 2  # noqa: E731
    nodes = [node("Shape", ["pk"], ["s"]), node("Gather", ["s", "two"], ["past"]), node("Add", ["past", "three"], ["end"]),
             node("Range", ["past", "end", "one"], ["at"]), node("Gather", ["table", "at"], ["positions"]), node("Add", ["x", "positions"], ["h"])]
    for part in "qkv":
        nodes += [node("MatMul", ["h", "w" + part], [part + "0"]), node("Reshape", [part + "0", "split"], [part + "1"]),
                  node("Transpose", [part + "1"], [part], perm=[0, 2, 1, 3])]
    nodes += [node("Concat", ["pk", "k"], ["keys"], axis=2), node("Concat", ["pv", "v"], ["values"], axis=2),
              node("Transpose", ["keys"], ["turned"], perm=[0, 1, 3, 2]), node("MatMul", ["q", "turned"], ["scores"]),
              node("Softmax", ["scores"], ["p"], axis=-1), node("MatMul", ["p", "values"], ["y"])]
    state = [(name, f32, [1, 2, "past", 4]) for name in ("pk", "pv")]
    path = save(service, nodes, [("x", f32, [1, 3, 8]), *state], [(name, f32, None) for name in ("y", "keys", "values")],
                [("two", np.array(2)), ("three", np.array(3)), ("one", np.array(1)), ("table", w(40, 8)), ("split", np.array([1, 3, 2, 4])),
                 *(("w" + part, w(8, 8)) for part in "qkv")])
    ranged_against_oracle(service, oracle, path, {"past": "1..9"}, [(1,), (4,), (7,), (9,)],
                          lambda past: {"x": f32s(random, 1, 3, 8), "pk": f32s(random, 1, 2, past, 4), "pv": f32s(random, 1, 2, past, 4)},
                          "a decoder with a state", threads=("2",))


def test_rows_split_and_merged(service, oracle):
    """As in nn.MultiheadAttention: [t, n, heads * d] becomes [t, n * heads, d]."""
    node, f32, random = helper.make_node, TensorProto.FLOAT, np.random.default_rng(13)
    nodes = [node("Reshape", ["x", "heads"], ["h"]), node("Transpose", ["h"], ["q"], perm=[1, 0, 2]),
             node("Transpose", ["h"], ["k"], perm=[1, 2, 0]), node("MatMul", ["q", "k"], ["scores"]), node("Softmax", ["scores"], ["p"], axis=-1),
             node("MatMul", ["p", "q"], ["y"])]
    path = save(service, nodes, [("x", f32, ["t", "n", 8])], [("y", f32, None)], [("heads", np.array([0, -1, 4]))])
    ranged_against_oracle(service, oracle, path, {"n": "1..5", "t": "..12"}, [(1, 12), (3, 5), (5, 7), (4, 12)],
                          lambda n, t: {"x": f32s(random, t, n, 8)}, "rows merged with heads", threads=("2",))


def test_attention_costs_its_rows(service, oracle):
    """One variant for all lengths: query rows stay separate after a softmax, so that a short sequence costs little."""
    random = np.random.default_rng(14)
    path = encoder(random, 32, 4, 2, service)
    said = ranged_against_oracle(service, oracle, path, {"n": "1", "t": "..96"}, [(8,), (40,), (96,)],
                                 lambda t: {"x": f32s(random, 1, t, 32)}, "an encoder of one variant", threads=("1",))
    check_equal([each["ranges"][0]["room"] for each in said], [96] * 3, "rooms")
    for answer, most in zip(said, (0.7, 0.9, 1)):
        check(answer["work"] <= most, f"{answer['ranges']}: {answer['work']:.2f} of the operations, at most {most}")


def test_work_follows_the_count(service):
    """Absent rows cost little: a run computes about its share of the variant's rows. Tested for one target, because
    tiles depend on its cores and lanes."""
    for spec, rows in (("mlp", 64), ("conv:h=17,w=19,stride=2,relu=1", 16)):
        artifact = service.compile(model_path(spec), None, "--dim", f"N={rows - 1}..{rows}",
                                   target="x86-64-v3", timeout=300).artifact
        for size in (1, rows // 4, rows // 2):
            _, said = service.run(artifact, inputs_of(spec, size))
            check_equal(said["way"], "counted", f"{spec} of {size}")
            check(size / rows <= said["work"] + 0.01 and said["work"] <= size / rows + 0.5,
                  f"{spec}: {size} of {rows} rows did {said['work']:.2f} of the operations")


def test_memory_follows_the_sizes(service, oracle):
    """Intermediates of a run take the memory of its sizes: about as much as in an artifact for exactly these sizes if
    rows are a batch, and less than at the largest size if a part has all rows of a sequence. Memory of a larger earlier
    run is kept. Tested for one target, because tiles depend on its cores and lanes."""
    random, chip = np.random.default_rng(15), "x86-64-v3"
    def images(spec):
        return (model_path(spec), (), "N", 8, (1, 3, 5, 8), lambda n: inputs_of(spec, n), lambda size, exact, whole: 1.1 * exact + 4096)
    cases = [images("squeezenet1_1:size=48"), images("resnet18:size=96"),  # the latter with Winograd
             (encoder(random, 32, 4, 2, service), ("--dim", "n=1"), "t", 96, (1, 17, 48), lambda t: {"x": f32s(random, 1, t, 32)},
              lambda size, exact, whole: whole * (0.4 + 0.6 * size / 96))]
    for path, others, name, most, sizes, arrays_of, bound in cases:
        artifact = service.compile(path, None, *others, "--dim", f"{name}=..{most}", target=chip, timeout=300).artifact
        model, peer = tessera.load(artifact), oracle.load(path)
        session, whole = model.session(), model.memory.arena_bytes
        for size in sizes:
            exact = service.compile(path, None, *others, "--dim", f"{name}={size}", target=chip, timeout=300).artifact
            wanted, arrays = tessera.load(exact).memory.arena_bytes, arrays_of(size)
            same(session.run(arrays), peer.run(arrays)[0], f"{path.stem} of {size}")
            taken = session.memory.arena_bytes
            check(taken <= min(whole, bound(size, wanted, whole)),
                  f"{path.stem} of {size} took {taken} bytes of intermediates, exactly compiled {wanted}, of the greatest size {whole}")
            check_equal(service.run(artifact, arrays)[1]["memory"]["arena_bytes"], taken, "the command's own figure")
        arrays = arrays_of(1)
        same(session.run(arrays), peer.run(arrays)[0], f"{path.stem} of 1 after {sizes[-1]}")
        check_equal(session.memory.arena_bytes, taken, "after a larger run")
        peer.close()


def test_variants_share_and_show(service):
    single = service.compile(model_path("mlp"), None, "--dim", f"N={LARGEST}")
    ranged = service.compile(model_path("mlp"), None, "--dim", f"N=1..{LARGEST}")
    sizes = [int(service.cli("inspect", c.artifact, "--json").json["weights_bytes"]) for c in (single, ranged)]
    check(sizes[1] <= 1.1 * sizes[0], f"weights of one variant {sizes[0]} bytes, of a range {sizes[1]}")
    text = service.cli("inspect", ranged.artifact).out
    check(f"N<={LARGEST}" in text, f"the range is not shown:\n{text}")
    text = service.cli("run", ranged.artifact, "--random", "--dim", "N=3").out
    check("N=3 ran in the variant for N<=4, 1 of 4 padded" in text, text)
    text = service.cli("run", ranged.artifact, "--sandbox", "--random", "--dim", "N=3").out
    check("float32[3," in text and "in the sandbox" in text, f"a size between two variants in the sandbox: {text}")
    name, array = next(iter(inputs_of("mlp", 4).items()))
    given, count = service.scratch("four.npz"), service.scratch("count.npy")
    np.savez(given, **{name: array})
    np.save(count, np.array(3))
    said = service.cli("run", ranged.artifact, "--sandbox", "--input", given, "--dim", "N=3").out
    check("float32[3," in said, f"--dim in the sandbox without --random: {said}")
    words = ("run", ranged.artifact, "--sandbox", "--random", "--input", f"N={count}", "--dim")
    check("float32[3," in service.cli(*words, "N=3").out, "a given count in the shape")
    check("contradicts" in service.cli(*words, "N=4", expect=3).err, "two counts that differ")
    alone = service.compile(model_path("mlp"), None, "--dim", f"N=..{LARGEST}").artifact
    for words, rows in ((("--random",), LARGEST), (("--random", "--dim", "N=3"), 3), (("--input", given, "--dim", "N=3"), 3)):
        if "--input" in words:
            np.savez(given, **inputs_of("mlp", LARGEST))
        said = service.cli("run", alone, "--sandbox", *words).out
        check(f"float32[{rows}," in said, f"{words} of one variant for a range, in the sandbox: {said}")
    own = inputs_of("mlp", 5)
    np.savez(given, **own)
    here, there = service.scratch("here"), service.scratch("there")
    service.cli("run", alone, "--input", given, "-o", here)
    said = service.cli("run", alone, "--sandbox", "--input", given, "-o", there).out
    check("float32[5," in said, f"inputs of the run's own size in the sandbox: {said}")
    for path in sorted(here.iterdir()):
        check((np.load(path) == np.load(there / path.name)).all(), f"{path.name} of the sandbox differs")
    profiled = service.cli("profile", ranged.job["compile_result"]["artifact_id"], "--dim", "N=3", "--repeat", "2", "--json").json
    check(profiled["result"]["kernels"], "a range cannot be profiled")
