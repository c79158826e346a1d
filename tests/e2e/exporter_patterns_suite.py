"""Graphs as exporters write them: sizes computed by the graph, control flow of scripted models, state as inputs and outputs.

Each case has, node for node, the graph that PyTorch's exporter makes of the Python code in its comment. ONNX Runtime's
results are the reference.
"""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from checks import check, check_equal
from e2e.operators_suite import Case, agrees

F32, I64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
random = np.random.default_rng(20262)
node = helper.make_node


def floats(*shape):
    return random.uniform(-1, 1, shape).astype(np.float32)


def constant(name, value, dtype=np.int64):
    return node("Constant", [], [name], value=numpy_helper.from_array(np.array(value, dtype), name))


def body(nodes, inputs, outputs):
    """A subgraph; inputs and outputs are (name, type) pairs. Types other than floats are integers or conditions."""
    def info(name, kind):
        return helper.make_tensor_value_info(name, kind, None if kind == F32 else [])
    return helper.make_graph(nodes, "body", [info(*each) for each in inputs], [info(*each) for each in outputs])


def padding(prefix, pads, rank, result):
    """F.pad(x, pads): the graph reorders the list of pads."""
    p = prefix
    return [constant(f"{p}pads", pads), constant(f"{p}rest", [2 * rank - len(pads)]), constant(f"{p}last", [-1]),
            constant(f"{p}pairs", [-1, 2]), constant(f"{p}first", [0]), constant(f"{p}least", [-9223372036854775807]),
            node("ConstantOfShape", [f"{p}rest"], [f"{p}zeros"],
                 value=helper.make_tensor("value", I64, [1], [0])),
            node("Concat", [f"{p}pads", f"{p}zeros"], [f"{p}all"], axis=0),
            node("Reshape", [f"{p}all", f"{p}pairs"], [f"{p}table"]),
            node("Slice", [f"{p}table", f"{p}last", f"{p}least", f"{p}first", f"{p}last"], [f"{p}turned"]),
            node("Transpose", [f"{p}turned"], [f"{p}columns"], perm=[1, 0]),
            node("Reshape", [f"{p}columns", f"{p}last"], [f"{p}list"]),
            node("Cast", [f"{p}list"], [f"{p}cast"], to=I64), constant(f"{p}with", 0, np.float32),
            node("Pad", ["x", f"{p}cast", f"{p}with"], [result], mode="constant")]


def branches(yes, no):
    return {"then_branch": body(yes[0], [], [(yes[1], F32)]), "else_branch": body(no[0], [], [(no[1], F32)])}


def extent(tensor, dim, result):
    """tensor.shape[dim]"""
    return [node("Shape", [tensor], [f"{result}_all"]), constant(f"{result}_dim", dim),
            node("Gather", [f"{result}_all", f"{result}_dim"], [result])]


def padding_cases():
    x = floats(1, 3, 5, 7)
    yield "padding", Case(padding("", [1, 1, 2, 2], 4, "y"), {"x": x}, opset=16)
    # if c: F.pad(x, [1, 1, 2, 2]) else: F.pad(x, [0, 2, 1, 3])
    either = branches((padding("a", [1, 1, 2, 2], 4, "u"), "u"), (padding("b", [0, 2, 1, 3], 4, "v"), "v"))
    for given in (True, False):
        yield f"padding in an If, {given}", Case([node("If", ["c"], ["y"], **either)], {"x": x, "c": np.array(given)},
                                                 opset=16)
    # if x.shape[-1] % 4 != 0: x = F.pad(x, [0, 4 - x.shape[-1] % 4, 0, 0])
    step = [*extent("x", 3, "w"), constant("four", 4), node("Mod", ["w", "four"], ["rest"]), constant("none", 0),
            node("Equal", ["rest", "none"], ["even"]), node("Not", ["even"], ["odd"])]
    amount = [node("Sub", ["four", "rest"], ["missing"]), constant("axis", [0]),
              node("Unsqueeze", ["missing", "axis"], ["high"]), constant("zeros", [0] * 7),
              node("Concat", ["zeros", "high"], ["list"], axis=0), node("Pad", ["x", "list"], ["u"])]
    for width in (7, 8):
        yield f"padding to a multiple, {width}", Case(
            [*step, node("If", ["odd"], ["y"], **branches((amount, "u"), ([node("Identity", ["x"], ["v"])], "v")))],
            {"x": floats(1, 3, 5, width)}, opset=16)
    # x[:, :3] if c else x: the size is known only after the run
    cut = [constant("from", [0]), constant("to", [3]), constant("along", [1]),
           node("Slice", ["x", "from", "to", "along"], ["u"])]
    for given in (True, False):
        yield f"sizes that differ, {given}", Case(
            [node("If", ["c"], ["y"], **branches((cut, "u"), ([node("Neg", ["x"], ["v"])], "v")))],
            {"x": floats(2, 5), "c": np.array(given)}, opset=16)


def loop_cases():
    # for t in range(x.shape[0]): h = tanh(h * 0.5 + x[t]); outs.append(h)
    step = body([node("Gather", ["x", "t"], ["row"], axis=0), constant("half", 0.5, np.float32),
                 node("Mul", ["h", "half"], ["old"]), node("Add", ["old", "row"], ["sum"]),
                 node("Tanh", ["sum"], ["next"]), node("Identity", ["go"], ["again"]), node("Identity", ["next"], ["out"])],
                [("t", I64), ("go", BOOL), ("h", F32)], [("again", BOOL), ("next", F32), ("out", F32)])
    yield "loop over rows", Case([*extent("x", 0, "steps"), constant("true", True, np.bool_),
                                  node("Loop", ["steps", "true", "start"], ["last", "y"], body=step)],
                                 {"x": floats(5, 2, 3), "start": floats(2, 3)}, opset=16, outputs=("y", "last"))
    # while i < 6 and x.abs().max() < limit: x = x * 2
    double = body([node("Add", ["v", "v"], ["twice"]), node("Abs", ["twice"], ["size"]),
                   node("ReduceMax", ["size"], ["most"], keepdims=0), node("Less", ["most", "limit"], ["again"])],
                  [("i", I64), ("go", BOOL), ("v", F32)], [("again", BOOL), ("twice", F32)])
    for limit in (0.1, 3, 1000):
        yield f"while below {limit}", Case(
            [constant("six", 6), node("Abs", ["x"], ["s"]), node("ReduceMax", ["s"], ["m"], keepdims=0),
             node("Less", ["m", "limit"], ["start"]), node("Loop", ["six", "start", "x"], ["y"], body=double)],
            {"x": floats(3) + 2, "limit": np.array(limit, np.float32)}, opset=16)


    # while n < 5 and v.max() < limit: v = v * 2; all = cat([all, v]); n += 1, scripted: `and` is an If, and n is counted
    never = body([constant("no", False, np.bool_)], [], [("no", BOOL)])
    small = body([node("ReduceMax", ["next"], ["most"], keepdims=0), node("Less", ["most", "limit"], ["small"])], [],
                 [("small", BOOL)])
    count = body([constant("one", 1), node("Add", ["n", "one"], ["later"]), node("Add", ["v", "v"], ["next"]),
                  node("Concat", ["all", "next"], ["longer"], axis=0), constant("five", 5),
                  node("Less", ["later", "five"], ["few"]),
                  node("If", ["few"], ["again"], then_branch=small, else_branch=never)],
                 [("i", I64), ("go", BOOL), ("n", I64), ("v", F32), ("all", F32)],
                 [("again", BOOL), ("later", I64), ("next", F32), ("longer", F32)])
    for limit in (0.1, 12, 1e6):
        yield f"while counted and below {limit}", Case(
            [constant("endless", np.iinfo(np.int64).max), node("ReduceMax", ["x"], ["m"], keepdims=0),
             node("Less", ["m", "limit"], ["start"]), constant("zero", 0),
             node("Loop", ["endless", "start", "zero", "x", "x"], ["n", "last", "y"], body=count)],
            {"x": floats(1, 3) + 2, "limit": np.array(limit, np.float32)}, opset=16, outputs=("y", "last"))


def bag_cases():
    # nn.EmbeddingBag(11, 4, mode=...)(indices, offsets); the indices of a bag end where the next bag begins
    def bags(combine, weighted):
        part = [constant("axis", [0]), node("Gather", ["offsets", "i"], ["a"]), node("Gather", ["ends", "i"], ["b"]),
                node("Unsqueeze", ["a", "axis"], ["from"]), node("Unsqueeze", ["b", "axis"], ["to"]),
                node("Slice", ["indices", "from", "to", "axis"], ["of_bag"]), node("Gather", ["table", "of_bag"], ["rows"])]
        if weighted:
            part += [node("Slice", ["shares", "from", "to", "axis"], ["w"]), constant("last", [1]),
                     node("Unsqueeze", ["w", "last"], ["column"]), node("Mul", ["rows", "column"], ["scaled"])]
        along = {"axes": [0]} if combine != "ReduceSum" else {}
        part += [node(combine, ["scaled" if weighted else "rows", *(() if along else ("axis",))], ["bag"], keepdims=0, **along),
                 node("Identity", ["go"], ["again"])]
        each = body(part, [("i", I64), ("go", BOOL)], [("again", BOOL), ("bag", F32)])
        return [node("Shape", ["indices"], ["all"]), constant("axis0", [0]), constant("one", [1]),
                constant("most", [9223372036854775807]), node("Slice", ["offsets", "one", "most", "axis0"], ["next"]),
                node("Concat", ["next", "all"], ["ends"], axis=0), *extent("offsets", 0, "bags"),
                constant("true", True, np.bool_), node("Loop", ["bags", "true"], ["y"], body=each)]
    for combine, weighted in (("ReduceSum", False), ("ReduceMean", False), ("ReduceMax", False), ("ReduceSum", True)):
        for offsets in ([0, 4, 9], [0, 1, 12], [0, 0, 0]):
            if len(set(offsets)) < 3 and combine != "ReduceSum":
                continue  # mean and maximum of an empty bag are undefined
            inputs = {"indices": random.integers(0, 11, 13), "offsets": np.array(offsets)}
            inputs |= {"shares": floats(13)} if weighted else {}
            yield f"bags of {combine}{' with weights' if weighted else ''} from {offsets}", Case(
                bags(combine, weighted), inputs, opset=16, constants={"table": floats(11, 4)})


def mask_cases():
    # for e in range(3): r, k = where(best == e); out = out.index_put((r,), (x[r] @ w[e]) * share[r, k][:, None], True)
    experts = [constant("k", [2]), node("TopK", ["gates", "k"], ["share", "best"]), constant("axis0", [0]),
               constant("axis1", [1]), constant("ends", [1, 1]), constant("width", [4]), constant("flat", [-1]),
               constant("two", 2), node("Reshape", ["share", "flat"], ["shares"]),
               constant("out0", np.zeros((5, 4)), np.float32)]
    for e in range(3):
        experts += [constant(f"e{e}", e), node("Equal", ["best", f"e{e}"], [f"mine{e}"]), node("NonZero", [f"mine{e}"], [f"at{e}"]),
                    node("Transpose", [f"at{e}"], [f"pairs{e}"], perm=[1, 0]),
                    node("Split", [f"pairs{e}", "ends"], [f"r_{e}", f"k_{e}"], axis=1),
                    node("Squeeze", [f"r_{e}", "axis1"], [f"r{e}"]), node("Squeeze", [f"k_{e}", "axis1"], [f"k{e}"]),
                    node("Gather", ["x", f"r{e}"], [f"rows{e}"], axis=0), node("MatMul", [f"rows{e}", f"w{e}"], [f"made{e}"]),
                    node("Mul", [f"r{e}", "two"], [f"start{e}"]), node("Add", [f"start{e}", f"k{e}"], [f"place{e}"]),
                    node("Gather", ["shares", f"place{e}"], [f"part{e}"], axis=0),
                    node("Shape", [f"place{e}"], [f"count{e}"]), node("Reshape", [f"part{e}", f"count{e}"], [f"list{e}"]),
                    node("Unsqueeze", [f"list{e}", "axis1"], [f"column{e}"]),
                    node("Mul", [f"made{e}", f"column{e}"], [f"scaled{e}"]),
                    node("Concat", [f"count{e}", "width"], [f"shape{e}"], axis=0),
                    node("Reshape", [f"scaled{e}", f"shape{e}"], [f"update{e}"]),
                    node("Unsqueeze", [f"r{e}", "axis1"], [f"index{e}"]),
                    node("ScatterND", [f"out{e}", f"index{e}", f"update{e}"], [f"out{e + 1}" if e < 2 else "y"], reduction="add")]
    weights = {f"w{e}": floats(6, 4) for e in range(3)}
    gates = random.permuted(np.tile(np.arange(3, dtype=np.float32), (5, 1)), axis=1)
    for name, given in (("", gates), (" of which one has no rows", np.tile(np.float32([2, 0, 1]), (5, 1)))):
        yield f"experts that pick rows{name}", Case(experts, {"x": floats(5, 6), "gates": given}, opset=16, constants=weights)


def shape_cases():
    # torch.arange(n) of old exporters; grid coordinates, as in detection heads
    count = [*extent("x", 2, "h"), constant("axis", [0]), node("Unsqueeze", ["h", "axis"], ["n"]),
             node("ConstantOfShape", ["n"], ["ones"], value=helper.make_tensor("value", I64, [1], [1])),
             node("NonZero", ["ones"], ["places"]), node("Transpose", ["places"], ["column"], perm=[1, 0]),
             node("Squeeze", ["column", "one"], ["range"]), constant("one", [1])]
    grid = [node("Cast", ["range"], ["real"], to=F32), constant("rows", [1, 1, -1, 1]),
            node("Reshape", ["real", "rows"], ["offsets"]), node("Sigmoid", ["x"], ["s"]),
            node("Add", ["s", "offsets"], ["y"])]
    yield "places of a grid", Case([*count, *grid], {"x": floats(1, 2, 5, 3)}, opset=16)
    # x.expand(*x.shape[:-1], k) with k from a table: any operator can compute a size
    best = [constant("table", [3, 7, 5]), constant("k", [1]), node("TopK", ["table", "k"], ["size", "place"]),
            *extent("x", 0, "b"), constant("axis", [0]), node("Unsqueeze", ["b", "axis"], ["batch"]),
            node("Concat", ["batch", "size"], ["shape"], axis=0), node("Expand", ["x", "shape"], ["y"])]
    yield "size of a table", Case(best, {"x": floats(3, 1)}, opset=16)
    # Sizes taken apart and reassembled with sequences, and a Scan and a Loop over them.
    last, size = constant("last", [-1]), node("Shape", ["x"], ["sizes"])
    filled = [node("ConstantOfShape", ["t"], ["zeros"], value=helper.make_tensor("value", F32, [1], [2])),
              node("ReduceMean", ["x"], ["mean"], keepdims=0), node("Mul", ["zeros", "mean"], ["y"])]
    yield "sizes in a sequence", Case(
        [size, node("SplitToSequence", ["sizes"], ["list"], axis=0), last, node("SequenceErase", ["list", "place"], ["rest"]),
         constant("place", 1), node("ConcatFromSequence", ["rest"], ["t"], axis=0), *filled], {"x": floats(3, 1, 5)}, opset=16)
    total = body([node("Add", ["sum", "each"], ["next"]), node("Identity", ["next"], ["out"])], [("sum", I64), ("each", I64)],
                 [("next", I64), ("out", I64)])
    yield "sizes by a Scan", Case(
        [size, constant("none", 0), node("Scan", ["none", "sizes"], ["all", "t"], body=total, num_scan_inputs=1), *filled],
        {"x": floats(3, 1, 5)}, opset=16)
    row = body([node("Gather", ["sizes", "i"], ["one"]), node("Add", ["one", "i"], ["out"]), node("Identity", ["go"], ["again"])],
               [("i", I64), ("go", BOOL)], [("again", BOOL), ("out", I64)])
    yield "sizes by a Loop", Case(
        [size, constant("three", 3), constant("true", True, np.bool_),
         node("Loop", ["three", "true"], ["t"], body=row), *filled], {"x": floats(3, 1, 5)}, opset=16)
    # z = cat([state, x]); return conv(z), z[:, :, -2:]
    stream = [node("Concat", ["state", "x"], ["z"], axis=2), node("Conv", ["z", "w"], ["y"]), constant("from", [-2]),
              constant("to", [9223372036854775807]), constant("along", [2]),
              node("Slice", ["z", "from", "to", "along"], ["after"])]
    yield "state of a stream", Case(stream, {"x": floats(1, 4, 5), "state": floats(1, 4, 2)}, opset=16,
                                    outputs=("y", "after"), constants={"w": floats(6, 4, 3)})


def crop_cases():
    """Data-dependent regions, and tf.image.crop_and_resize as tf2onnx writes it: a Loop over the boxes."""
    def corners(*box):
        return np.array([0, 0, box[0], box[1], 1, 1, box[2], box[3]], np.float32)
    none, sizes = np.zeros(0, np.float32), np.array([1, 3, 4, 5])
    crops = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 3.0}
    for mode in ("linear", "nearest"):
        for name, box in (("inside", (0.1, 0.2, 0.8, 0.9)), ("whole", (0, 0, 1, 1)), ("beyond", (-0.2, 0.3, 1.3, 0.7)), ("mirrored", (0.8, 0.9, 0.1, 0.2))):
            yield f"region {name}, {mode}", Case(
                [node("Resize", ["x", "roi", "none", "sizes"], ["y"], mode=mode, **crops)], {"x": floats(1, 3, 7, 9), "roi": corners(*box)},
                opset=13, constants={"none": none, "sizes": sizes})
    yield "region of one", Case([node("Resize", ["x", "roi", "none", "sizes"], ["y"], mode="linear", **crops)],
                                {"x": floats(1, 3, 7, 9), "roi": corners(0.1, 0.2, 0.8, 0.9)}, opset=13,
                                constants={"none": none, "sizes": np.array([1, 3, 1, 1])})
    one = body([
        node("Add", ["at", "b1"], ["next"]), node("Slice", ["images_of", "at", "next"], ["image"]), node("Add", ["image", "b1"], ["behind"]),
        node("Slice", ["x", "image", "behind", "b0"], ["own"]), node("Transpose", ["own"], ["channels_first"], perm=[0, 3, 1, 2]),
        node("Slice", ["boxes", "at", "next", "b0"], ["box"]), node("Reshape", ["box", "b4"], ["flat"]),
        node("Slice", ["flat", "b0", "b2"], ["low"]), node("Slice", ["flat", "b2", "b4"], ["high"]),
        node("Concat", ["zeros", "low"], ["starts"], axis=0), node("Concat", ["ones", "high"], ["ends"], axis=0),
        node("Concat", ["starts", "ends"], ["roi"], axis=0), node("Shape", ["channels_first"], ["all"]), node("Slice", ["all", "b0", "b2"], ["kept"]),
        node("Concat", ["kept", "crop"], ["sizes"], axis=0),
        node("Resize", ["channels_first", "roi", "none", "sizes"], ["resized"], mode="linear", **crops),
        node("Transpose", ["resized"], ["channels_last"], perm=[0, 2, 3, 1]), node("Squeeze", ["channels_last", "b0"], ["cropped"]),
        node("Identity", ["go"], ["again"])], [("at", I64), ("go", BOOL)], [("again", BOOL), ("cropped", F32)])
    one.input[0].type.tensor_type.shape.dim.add().dim_value = 1  # a list, unlike ONNX's own operator
    boxes = np.array([[0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1], [-0.2, 0.3, 0.5, 1.4]], np.float32)
    yield "crops of boxes", Case(
        [node("Shape", ["images_of"], ["boxes_there"]), node("Loop", ["boxes_there", "true"], ["y"], body=one)],
        {"x": floats(2, 7, 9, 3), "boxes": boxes, "images_of": np.array([0, 1, 0])}, opset=13,
        constants={"true": np.array(True), "zeros": np.zeros(2, np.float32), "ones": np.ones(2, np.float32), "none": none,
                   "crop": np.array([4, 5]), **{f"b{i}": np.array([i]) for i in (0, 1, 2, 4)}})


def test_estimators_are_refused(service):
    """scikit-learn's operators on maps and strings, and unknown ones: the error says what to do."""
    for op, advice in (("ZipMap", "'zipmap': False"), ("SVMClassifier", "hummingbird-ml")):
        nodes = [node(op, ["x"], ["scores"], domain="ai.onnx.ml"), node("Relu", ["scores"], ["y"])]
        path = Case(nodes, {"x": floats(2, 3)}).save(service.scratch("estimator.onnx"))
        failure = service.cli("compile", path, "--target", "host", "--json", expect=4).failure
        check(f"ai.onnx.ml.{op}" in failure["found"] and advice in failure["fix"], f"no advice: {failure}")
        report = service.cli("check", path, "--json", expect=None).json
        check(advice in report["problems"][0]["fix"], f"no advice of a check: {report}")


def test_sequences_are_refused(service):
    """Inputs that are not tensors: the error says what to do."""
    sequence = helper.make_tensor_sequence_value_info("s", F32, None)
    graph = helper.make_graph([constant("zero", 0), node("SequenceAt", ["s", "zero"], ["y"])], "sequence", [sequence],
                              [helper.make_tensor_value_info("y", F32, None)])
    path = service.scratch("sequence.onnx")
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=8).SerializeToString())
    answer = service.cli("compile", path, "--target", "host", "--json", expect=None)
    check_equal(answer.code, 4, "exit code")
    failure = answer.failure
    check("sequence" in failure["found"] and "tensor" in failure.get("fix", ""), f"no advice: {failure}")


CASES = {name: case for group in (padding_cases, loop_cases, bag_cases, mask_cases, shape_cases, crop_cases) for name, case in group()}


@pytest.mark.parametrize("name", CASES)
def test_patterns(service, oracle, name):
    agrees(service, oracle, name, CASES[name])
