"""Results with data-dependent shapes, compared with ONNX Runtime, at odd sizes, with no element found and with all."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from checks import check, check_equal
from e2e.tessera_e2e import save_npz

random = np.random.default_rng(20260)
node = helper.make_node
F32, I64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
TYPES = {np.dtype(np.float32): F32, np.dtype(np.int64): I64, np.dtype(np.bool_): BOOL,
         np.dtype(np.int32): TensorProto.INT32, np.dtype(np.uint8): TensorProto.UINT8, np.dtype(np.int8): TensorProto.INT8}


def model_of(service, name, nodes, inputs, outputs, constants=None):
    """Saves a model; outputs: name -> (type, rank)."""
    graph = helper.make_graph(
        nodes, name,
        [helper.make_tensor_value_info(key, TYPES[array.dtype], array.shape) for key, array in inputs.items()],
        [helper.make_tensor_value_info(key, kind, [f"{key}{d}" for d in range(rank)])
         for key, (kind, rank) in outputs.items()],
        [numpy_helper.from_array(array, key) for key, array in (constants or {}).items()])
    path = service.scratch(f"{name}.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


def boxes_of(count, batches=1):
    """Overlapping boxes as two corners."""
    corner = random.uniform(0, 10, (batches, count, 2))
    return np.concatenate([corner, corner + random.uniform(0.5, 6, (batches, count, 2))], axis=2).astype(np.float32)


def sparse(shape, share):
    return np.where(random.uniform(size=shape) < share, random.normal(size=shape), 0).astype(np.float32)


def nms(**attributes):
    return [node("NonMaxSuppression", ["boxes", "scores", "most", "overlap", "least"], ["y"], **attributes)]


def nms_constants(most, overlap=0.4, least=0.3):
    return {"most": np.array([most], np.int64), "overlap": np.array([overlap], np.float32),
            "least": np.array([least], np.float32)}


def scores(batches, classes, count):
    return random.uniform(size=(batches, classes, count)).astype(np.float32)


# The end of a detector: the best boxes of each class, their coordinates, scores and labels.
HEAD = [node("NonMaxSuppression", ["boxes", "scores", "most", "overlap", "least"], ["chosen"]),
        node("Gather", ["chosen", "one"], ["label"], axis=1),
        node("Gather", ["chosen", "two"], ["index"], axis=1),
        node("Squeeze", ["index", "axis1"], ["flat"]),
        node("Squeeze", ["boxes", "axis0"], ["all"]),
        node("Gather", ["all", "flat"], ["found"], axis=0),
        node("Mul", ["found", "scale"], ["scaled"]),
        node("Cast", ["label"], ["label_f"], to=F32),
        node("Concat", ["scaled", "label_f"], ["y"], axis=1),
        node("Shape", ["found"], ["extents"]),
        node("Gather", ["extents", "zero"], ["count"], axis=0)]
HEAD_CONSTANTS = {"one": np.array([1], np.int64), "two": np.array([2], np.int64), "zero": np.array(0, np.int64),
                  "axis0": np.array([0], np.int64), "axis1": np.array([1], np.int64),
                  "scale": np.array([2, 3, 2, 3], np.float32)}
# x[x > 0], and rows of a table by a mask.
MASKED = [node("Greater", ["x", "zero"], ["mask"]), node("NonZero", ["mask"], ["where"]),
          node("Transpose", ["where"], ["places"], perm=[1, 0]), node("GatherND", ["x", "places"], ["y"]),
          node("Softplus", ["y"], ["soft"]), node("Reshape", ["soft", "column"], ["rows"]),
          node("MatMul", ["rows", "weights"], ["product"])]
MASKED_CONSTANTS = {"zero": np.array(0, np.float32), "column": np.array([-1, 1], np.int64),
                    "weights": np.array([[1, 2, 3]], np.float32)}


def table():
    """name -> nodes, inputs, outputs, constants"""
    cases = {}
    for shape, share in (((7,), 0.4), ((3, 5, 2), 0.3), ((4, 9), 0.0), ((5, 3), 1.1), ((1, 1), 1.1)):
        cases[f"nonzero {shape} {share}"] = ([node("NonZero", ["x"], ["y"])], {"x": sparse(shape, share)},
                                             {"y": (I64, 2)}, {})
    for axis, length in ((0, 5), (1, 7), (2, 3), (-1, 2), (None, 60)):
        mask = random.uniform(size=length) < 0.5
        attributes = {} if axis is None else {"axis": axis}
        cases[f"compress axis {axis}"] = ([node("Compress", ["x", "mask"], ["y"], **attributes)],
                                          {"x": sparse((5, 7, 3), 1), "mask": mask},
                                          {"y": (F32, 1 if axis is None else 3)}, {})
    for repeats, share in (((1, 2), 0.4), ((3, 3), 0.4), ((2, 1), 0.4), ((1, 4), 0.0), ((1, 2), 1.1)):
        cases[f"tile {repeats} of nonzero {share}"] = (
            [node("NonZero", ["x"], ["w"]), node("Tile", ["w", "repeats"], ["y"])], {"x": sparse((3, 5), share)},
            {"y": (I64, 2)}, {"repeats": np.array(repeats, np.int64)})
    for share in (0.0, 1.0):
        cases[f"compress {share}"] = ([node("Compress", ["x", "mask"], ["y"], axis=1)],
                                      {"x": sparse((3, 4), 1), "mask": np.full(4, share > 0)}, {"y": (F32, 2)}, {})
    for shape, attributes in (((13,), {}), ((13,), {"sorted": 0}), ((6, 3), {"axis": 0}), ((2, 9), {"axis": 1}),
                              ((2, 9), {"axis": 1, "sorted": 0}), ((3, 5, 2), {"axis": -2}), ((4, 4), {"sorted": 0}),
                              ((1,), {}), ((1000,), {})):
        x = random.integers(0, 3 if len(shape) > 1 else 7, shape).astype(np.float32)
        outputs = {"y": (F32, len(shape) if "axis" in attributes else 1), "first": (I64, 1), "kind": (I64, 1),
                   "often": (I64, 1)}
        cases[f"unique {shape} {attributes}"] = ([node("Unique", ["x"], list(outputs), **attributes)], {"x": x},
                                                 outputs, {})
    for count, classes, batches, most, least in ((17, 3, 2, 5, 0.3), (33, 1, 1, 33, 0.0), (9, 2, 1, 1, 0.5),
                                                 (20, 2, 3, 100, 0.9), (5, 1, 1, 3, 2.0), (1, 1, 1, 1, 0.0)):
        cases[f"nms {count} boxes {classes} classes {batches} batches {most} {least}"] = (
            nms(), {"boxes": boxes_of(count, batches), "scores": scores(batches, classes, count)}, {"y": (I64, 2)},
            nms_constants(most, 0.4, least))
    centers = boxes_of(21)
    cases["nms of centers"] = (nms(center_point_box=1), {"boxes": centers, "scores": scores(1, 2, 21)},
                               {"y": (I64, 2)}, nms_constants(9))
    flipped = np.ascontiguousarray(boxes_of(21)[:, :, [2, 3, 0, 1]])
    cases["nms of flipped corners"] = (nms(), {"boxes": flipped, "scores": scores(1, 2, 21)}, {"y": (I64, 2)},
                                       nms_constants(9))
    equal = np.full((1, 1, 21), 0.5, np.float32)
    cases["nms of equal scores"] = (nms(), {"boxes": boxes_of(21), "scores": equal}, {"y": (I64, 2)},
                                    nms_constants(21))
    for most, least in ((4, 0.3), (4, 2.0)):
        cases[f"detection head {most} {least}"] = (
            HEAD, {"boxes": boxes_of(19), "scores": scores(1, 3, 19)}, {"y": (F32, 2), "count": (I64, 0)},
            {**HEAD_CONSTANTS, **nms_constants(most, 0.4, least)})
    for share in (0.5, 0.0):
        cases[f"masked {share}"] = (MASKED, {"x": np.abs(sparse((5, 11), share))},
                                    {"y": (F32, 1), "product": (F32, 2)}, MASKED_CONSTANTS)
    for share in (0.5, 1.0):
        cases[f"greatest {share}"] = (
            [node("NonZero", ["x"], ["w"]), node("ReduceMax", ["w"], ["y"], axes=[1]), node("Cast", ["w"], ["f"], to=F32),
             node("ReduceMean", ["f"], ["mean"], axes=[1]), node("ArgMax", ["f"], ["first"], axis=1)],
            {"x": sparse((4, 9), share)}, {"y": (I64, 2), "mean": (F32, 2), "first": (I64, 2)}, {})
    for start, end, steps in (([2, -3], [5, 9], [1, 1]), ([0, 0], [6, 5], [1, 1]), ([4, 1], [2, 1], [1, 1]),
                              ([-99, -2], [99, -1], [1, 1]), ([1, 0], [-1, -1], [2, 3])):
        cases[f"slice from {start} to {end} by {steps}"] = (
            [node("Slice", ["x", "start", "end", "axes", "steps"], ["y"]), node("Softplus", ["y"], ["soft"]),
             node("ReduceSum", ["soft", "both"], ["sum"], keepdims=0), node("Transpose", ["y"], ["turned"], perm=[2, 0, 1]),
             node("MatMul", ["turned", "weights"], ["product"])],
            {"x": sparse((6, 3, 5), 1), "start": np.array(start), "end": np.array(end)},
            {"y": (F32, 3), "sum": (F32, 1), "product": (F32, 3)},
            {"axes": np.array([0, -1]), "steps": np.array(steps), "both": np.array([0, 2]), "weights": sparse((3, 2), 1)})
    for start, end in ((1, -1), (-2, 99), (3, 1)):
        cases[f"slice from {start} to {end} of nonzero"] = (
            [node("NonZero", ["x"], ["w"]), node("Slice", ["w", "start", "end", "axis"], ["y"])],
            {"x": sparse((3, 5), 0.5), "start": np.array([start], np.int32), "end": np.array([end], np.int32)},
            {"y": (I64, 2)}, {"axis": np.array([1], np.int32)})
    return cases


def agrees(service, oracle, name, nodes, inputs, outputs, constants, target="host"):
    path = model_of(service, name.split()[0], nodes, inputs, outputs, constants)
    session = oracle.load(path)
    expected, _ = session.run(inputs)
    session.close()
    compiled = service.compile(path, target=target)
    found, _ = service.run(compiled.artifact, inputs, "--guard")
    check_equal(sorted(found), sorted(outputs), "outputs")
    for key in outputs:
        check_equal((found[key].shape, found[key].dtype), (expected[key].shape, expected[key].dtype), f"{name}: {key}")
        np.testing.assert_allclose(found[key], expected[key], rtol=1e-5, atol=1e-6, err_msg=f"{name}: {key}")


def test_one_artifact_gives_many_shapes(service, oracle):
    """One artifact, in this process and through the service: the output shape of each run follows its data."""
    path = model_of(service, "many", [node("NonZero", ["x"], ["y"])], {"x": sparse((6, 5), 1)}, {"y": (I64, 2)})
    compiled = service.compile(path)
    check("int64[2,<=30]" in service.cli("inspect", compiled.artifact).out, "inspect does not show the bound")
    for share in (0.5, 0.0, 1.1, 0.2):
        x = sparse((6, 5), share)
        expected = np.stack(np.nonzero(x))
        found, _ = service.run(compiled.artifact, {"x": x}, "--threads", "2")
        np.testing.assert_array_equal(found["y"], expected)
        given, wanted = service.scratch("in.npz"), service.scratch("out")
        save_npz(given, {"x": x})
        answer = service.cli("execute", compiled.job["compile_result"]["artifact_id"], "--input", given,
                             "--output-dir", wanted, "--json").json
        np.testing.assert_array_equal(np.load(wanted / "y.npy"), expected)
        check_equal([int(d) for d in answer["result"]["outputs"][0]["spec"]["shape"]], list(expected.shape),
                    "shape in the answer")


def test_one_artifact_slices_anywhere(service, oracle):
    """All starts and ends around a dimension, computed from data: results equal NumPy's."""
    path = model_of(service, "anywhere", [node("Slice", ["x", "start", "end", "axis"], ["y"]),
                                          node("ReduceSum", ["y", "axis"], ["sum"], keepdims=0)],
                    {"x": sparse((2, 4), 1), "start": np.zeros(1, np.int64), "end": np.zeros(1, np.int64)},
                    {"y": (F32, 2), "sum": (F32, 1)}, {"axis": np.array([1])})
    compiled = service.compile(path)
    x = sparse((2, 4), 1)
    for start in (-9223372036854775807, -5, -4, -1, 0, 2, 4, 5):
        for end in (-5, -3, 0, 1, 4, 9223372036854775807):
            found, _ = service.run(compiled.artifact, {"x": x, "start": np.array([start]), "end": np.array([end])})
            np.testing.assert_array_equal(found["y"], x[:, start:end], f"from {start} to {end}")
            np.testing.assert_allclose(found["sum"], x[:, start:end].sum(1), rtol=1e-6, err_msg=f"from {start} to {end}")


def test_one_artifact_has_its_window_anywhere(service, oracle):
    """x[:, i : i + 3] with i from data: operators that need its length use the full extent; as a result it may be shorter."""
    x = random.standard_normal((2, 8, 5)).astype(np.float32)
    constants = {"three": np.array([3]), "one": np.array([1]), "axis": np.array([1]), "merge": np.array([2, -1]),
                 "kernel": random.standard_normal((4, 3, 2)).astype(np.float32), "beside": random.standard_normal((3, 5)).astype(np.float32),
                 "w": random.standard_normal((1, 16, 5)).astype(np.float32), "r": random.standard_normal((1, 16, 4)).astype(np.float32)}
    nodes = [node("Add", ["i", "three"], ["end"]), node("Slice", ["x", "i", "end", "axis"], ["window"]),
             node("Reshape", ["window", "merge"], ["merged"]), node("Conv", ["window", "kernel"], ["convolved"]),
             node("Add", ["window", "beside"], ["sum"]), node("LSTM", ["window", "w", "r"], ["", "last"], hidden_size=4),
             node("Add", ["i", "one"], ["next"]), node("Slice", ["x", "i", "next", "axis"], ["row"]), node("Squeeze", ["row", "axis"], ["own"])]
    outputs = {"merged": (F32, 2), "convolved": (F32, 3), "sum": (F32, 3), "last": (F32, 3), "own": (F32, 2)}
    starts = {"x": x, "i": np.array([2])}
    for name, kept, places in (("whole", outputs, (0, 2, 5, -8)), ("shorter", {"window": (F32, 3)}, (0, 5, 6, 7, 8, -1, -3, -20))):
        path = model_of(service, f"windows-{name}", nodes if name == "whole" else nodes[:2], starts, kept, constants)
        session, artifact = oracle.load(path), service.compile(path, None).artifact
        for place in places:
            arrays = {"x": x, "i": np.array([place])}
            expected, _ = session.run(arrays)
            results, _ = service.run(artifact, arrays)
            for key, wanted in expected.items():
                check_equal(results[key].shape, wanted.shape, f"{key} at {place}")
                check(np.allclose(results[key], wanted, 1e-4, 1e-5), f"{key} at {place} differs")
        session.close()


def test_what_needs_the_extent_is_refused(service, oracle):
    """The message names the node, the dimension and its bound."""
    for nodes, words in (([node("NonZero", ["x"], ["w"]), node("Reshape", ["w", "whole"], ["y"])],
                          ("Reshape", "dimension 1", "the new shape requires 12")),
                         ([node("NonZero", ["x"], ["w"]), node("ArgMax", ["w"], ["y"], axis=1, select_last_index=1)],
                          ("ArgMax", "dimension 1", "the last of equal elements")),
                         ([node("NonZero", ["x"], ["w"]), node("Mul", ["w", "row"], ["y"])],
                          ("Mul", "dimension 1", "input 1 has 12")),
                         ([node("Slice", ["x", "from", "to", "axis"], ["w"]), node("Squeeze", ["w", "axis"], ["y"])],
                          ("Squeeze", "dimension 1", "it may differ from 1", "--fix from=... --fix to=..."))):
        bounds = {key: np.zeros(1, np.int64) for key in ("from", "to") if nodes[0].op_type == "Slice"}
        path = model_of(service, "refused", nodes, {"x": sparse((3, 4), 1), **bounds}, {"y": (I64, 2)},
                        {"axis": np.array([1], np.int64), "whole": np.array([2, 12], np.int64), "row": np.ones((2, 12), np.int64)})
        failure = service.cli("compile", path, "--target", "host", "--json", expect=4).failure
        check_equal(failure["reason"], "UNSUPPORTED_OPERATOR", "reason")
        for word in words:
            check(word in failure["message"] + failure["fix"], f"no '{word}' in: {failure}")


CASES = table()


@pytest.mark.parametrize("name", CASES)
def test_operators(service, oracle, name):
    agrees(service, oracle, name, *CASES[name])
