"""Inputs whose value is given at compile time because shapes depend on it: valid values, and all kinds of invalid ones."""

import numpy as np
import onnx
from onnx import TensorProto, helper

from checks import check, check_equal
from e2e.tessera_e2e import save_npz

X = np.arange(6, dtype=np.float32).reshape(2, 3)
SHAPE = np.array([3, 2], np.int64)


def save(service, nodes, inputs, output, name):
    """A model of these nodes; inputs: (name, type, shape)."""
    graph = helper.make_graph(nodes, name, [helper.make_tensor_value_info(*each) for each in inputs],
                              [helper.make_tensor_value_info(*output)])
    path = service.scratch(f"{name}.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), path)
    return path


def reshape(service):
    return save(service, [helper.make_node("Reshape", ["x", "shape"], ["y"])],
                [("x", TensorProto.FLOAT, [2, 3]), ("shape", TensorProto.INT64, [2])],
                ("y", TensorProto.FLOAT, None), "reshape")


def failure_of(service, *words, expect):
    return service.cli(*words, "--json", expect=expect).failure


def test_the_error_names_the_input_to_fix(service):
    found = failure_of(service, "compile", reshape(service), "--target", "host", expect=4)
    check_equal(found["reason"], "UNSUPPORTED_OPERATOR", "reason")
    check("--fix shape=..." in found["fix"], f"the fix does not say what to do: {found}")


def test_a_fixed_input_stays_an_input(service):
    compiled = service.compile(reshape(service), {}, "--fix", "shape=3,-1")
    for arrays in ({"x": X, "shape": np.array([3, -1], np.int64)}, {"x": X}):
        outputs, _ = service.run(compiled.artifact, arrays)
        np.testing.assert_array_equal(outputs["y"], X.reshape(3, 2))
    manifest = service.cli("inspect", compiled.artifact, "--json").json
    check_equal([each["name"] for each in manifest["inputs"]], ["x", "shape"], "inputs of the artifact")
    check_equal([each["spec"]["name"] for each in manifest["fixed_inputs"]], ["shape"], "fixed inputs")
    check("shape: int64[2], fixed" in service.cli("inspect", compiled.artifact).out, "inspect does not mark it")
    service.cli("run", compiled.artifact, "--random")  # draws values for x alone


def test_another_value_is_refused_with_both(service):
    compiled = service.compile(reshape(service), {}, "--fix", "shape=3,2")
    given = service.scratch("in.npz")
    save_npz(given, {"x": X, "shape": np.array([6, 1], np.int64)})
    for words in (["run", compiled.artifact],
                  ["execute", compiled.job["compile_result"]["artifact_id"]]):
        message = failure_of(service, *words, "--input", given, expect=3)["message"]
        for word in ("'shape'", "[3, 2]", "[6, 1]"):
            check(word in message, f"`{words[0]}`: no {word} in the message: {message}")


def test_the_service_runs_it_too(service):
    compiled = service.compile(reshape(service), {}, "--fix", "shape=3,2")
    for arrays in ({"x": X, "shape": SHAPE}, {"x": X}):
        given, wanted = service.scratch("in.npz"), service.scratch("out")
        save_npz(given, arrays)
        service.cli("execute", compiled.job["compile_result"]["artifact_id"], "--input", given, "--output-dir", wanted)
        np.testing.assert_array_equal(np.load(wanted / "y.npy"), X.reshape(3, 2))
    service.cli("profile", compiled.job["compile_result"]["artifact_id"], "--repeat", "2")


def test_wrong_values_are_named(service):
    model = reshape(service)
    np.save(service.folder / "floats.npy", np.ones(2, np.float32))
    for value, words in (("shape=float32:3,2", ("is f32", "is i64")), ("shape=@floats.npy", ("is f32", "is i64")),
                         ("shape=3,2,1", ("differs", "shape")), ("sharpe=3,2", ("sharpe", "no input"))):
        found = failure_of(service, "compile", model, "--target", "host", "--fix", value, expect=3)
        check_equal(found["reason"], "INVALID_INPUT", f"reason for --fix {value}")
        for word in words:
            check(word in found["message"], f"--fix {value}: no '{word}' in {found['message']}")
    impossible = failure_of(service, "compile", model, "--target", "host", "--fix", "shape=4,2", expect=3)
    check_equal((impossible["reason"], impossible["attribute"]), ("INVALID_MODEL", "shape"), "six elements as eight")
    for value in ("shape", "shape=a,b", "shape=@no-such-file.npy"):
        check(service.cli("compile", model, "--target", "host", "--fix", value, expect=None).code in (3, 5), value)


def test_several_files_and_scalars(service):
    model = save(service,
                 [helper.make_node("Slice", ["x", "starts", "ends"], ["part"]),
                  helper.make_node("CumSum", ["part", "axis"], ["y"])],
                 [("x", TensorProto.FLOAT, [2, 3]), ("starts", TensorProto.INT32, [2]),
                  ("ends", TensorProto.INT32, [2]), ("axis", TensorProto.INT32, [])],
                 ("y", TensorProto.FLOAT, None), "several")
    np.save(service.folder / "ends.npy", np.array([2, 9], np.int32))
    compiled = service.compile(model, {}, "--fix", "starts=int32:0,1", "--fix", "ends=@ends.npy",
                               "--fix", "axis=int32:1")
    outputs, _ = service.run(compiled.artifact, {"x": X, "starts": np.array([0, 1], np.int32),
                                                 "ends": np.array([2, 9], np.int32), "axis": np.int32(1)})
    np.testing.assert_array_equal(outputs["y"], np.cumsum(X[:, 1:], axis=1))


def test_the_value_is_part_of_the_key(service):
    model = reshape(service)
    first = service.compile(model, {}, "--fix", "shape=1,6")
    check(service.compile(model, {}, "--fix", "shape=1,6").job["cached"], "the same value misses the cache")
    other = service.compile(model, {}, "--fix", "shape=6,1")
    check(other.job["action_key"] != first.job["action_key"], "another value has the same key")
    miss = service.cli("explain", "--key", model, "--target", "host", "--json", "--fix", "shape=2,3").json
    check_equal((miss["hit"], miss["differing"]), (False, ["fixed_inputs"]), "what differs")


def by_rate(service, known_shape, other_shape, name, comparison="Equal"):
    """y = x in one shape if the sampling rate compares to 16000, otherwise in another."""
    branches = [helper.make_graph(
        [helper.make_node("Constant", [], [f"{branch} shape"], value_ints=shape),
         helper.make_node("Reshape", ["x", f"{branch} shape"], [f"{branch} result"])], branch, [],
        [helper.make_tensor_value_info(f"{branch} result", TensorProto.FLOAT, None)])
        for branch, shape in (("known", known_shape), ("other", other_shape))]
    return save(service,
                [helper.make_node("Constant", [], ["known rate"], value=helper.make_tensor("", TensorProto.INT64, [], [16000])),
                 helper.make_node(comparison, ["sample rate", "known rate"], ["is known"]),
                 helper.make_node("If", ["is known"], ["y"], then_branch=branches[0], else_branch=branches[1])],
                [("x", TensorProto.FLOAT, [2, 3]), ("sample rate", TensorProto.INT64, [])], ("y", TensorProto.FLOAT, None), name)


def test_a_branch_that_does_not_fit_is_an_error_of_its_runs(service):
    compiled = service.compile(by_rate(service, [3, 2], [4, 2], "rates"), {})
    for arrays in ({"x": X, "sample rate": np.array(16000)}, {"x": X}):
        outputs, _ = service.run(compiled.artifact, arrays)
        np.testing.assert_array_equal(outputs["y"], X.reshape(3, 2))
    given = service.scratch("in.npz")
    save_npz(given, {"x": X, "sample rate": np.array(8000)})
    message = failure_of(service, "run", compiled.artifact, "--input", given, expect=3)["message"]
    check("'sample rate' was fixed to [16000]" in message and "[8000]" in message, message)
    model = by_rate(service, [4, 2], [3, 2], "others")
    compiled = service.compile(model)
    outputs, _ = service.run(compiled.artifact, {"x": X, "sample rate": np.array(8000)})
    np.testing.assert_array_equal(outputs["y"], X.reshape(3, 2))
    save_npz(given, {"x": X, "sample rate": np.array(16000)})
    identity = compiled.job["compile_result"]["artifact_id"]
    for words in (["run", compiled.artifact], ["run", compiled.artifact, "--guard"], ["run", compiled.artifact, "--sandbox"],
                  ["execute", identity]):
        found = failure_of(service, *words, "--input", given, expect=3)
        check_equal(found["reason"], "INVALID_INPUT", f"reason of {words}")
        for word in ("the run takes the then_branch", "give input 'sample rate' any value but 16000"):
            check(word in found["message"], f"{words}: no '{word}' in {found['message']}")
    compiled = service.compile(model, {}, "--fix", "sample rate=8000")
    outputs, _ = service.run(compiled.artifact, {"x": X})
    np.testing.assert_array_equal(outputs["y"], X.reshape(3, 2))


def test_inputs_that_are_made_up_may_take_any_branch(service):
    """All random numbers are below the bound. Their runs are timed like others, since each run computes both branches."""
    model = by_rate(service, [3, 2], [4, 2], "large", comparison="Greater")
    compiled = service.compile(model)
    outputs, _ = service.run(compiled.artifact, {"x": X, "sample rate": np.array(16001)})
    np.testing.assert_array_equal(outputs["y"], X.reshape(3, 2))
    identity = compiled.job["compile_result"]["artifact_id"]
    service.cli("profile", identity, "--repeat", "2")
    service.cli("compare", compiled.artifact, compiled.artifact, "--rounds", "5")
    found = failure_of(service, "run", compiled.artifact, "--random", expect=3)
    check("give input 'sample rate' another value" in found["message"], f"run --random: {found}")


def test_too_much_is_refused(service):
    np.save(service.folder / "large.npy", np.ones(8193, np.int64))
    found = failure_of(service, "compile", reshape(service), "--target", "host", "--fix", "shape=@large.npy", expect=3)
    check("65544" in found["message"] and "65536" in found["message"], f"no sizes in the message: {found}")


def with_defaults(service):
    """y = gain * reshape(x, shape) + bias: two defaults that a run may replace, and one that determines a shape."""
    values = {"gain": np.float32(2), "bias": np.full((3, 2), 10, np.float32), "shape": SHAPE}
    types = {"gain": TensorProto.FLOAT, "bias": TensorProto.FLOAT, "shape": TensorProto.INT64}
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["r"]), helper.make_node("Mul", ["r", "gain"], ["g"]),
             helper.make_node("Add", ["g", "bias"], ["y"])]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])]
    inputs += [helper.make_tensor_value_info(name, types[name], value.shape) for name, value in values.items()]
    graph = helper.make_graph(nodes, "defaults", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                              [onnx.numpy_helper.from_array(value, name) for name, value in values.items()])
    path = service.scratch("defaults.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


def test_defaults_are_optional_from_everywhere(service):
    compiled = service.compile(with_defaults(service))
    bias, identity = np.arange(6, dtype=np.float32).reshape(3, 2), compiled.job["compile_result"]["artifact_id"]
    manifest = service.cli("inspect", compiled.artifact, "--json").json
    check_equal([each["spec"]["name"] for each in manifest["default_inputs"]], ["gain", "bias"], "defaults")
    check_equal([each["spec"]["name"] for each in manifest["fixed_inputs"]], ["shape"], "fixed to their default")
    shown = service.cli("inspect", compiled.artifact).out
    check("gain: float32[], optional" in shown and "shape: int64[2], fixed" in shown, f"inspect: {shown}")
    for given in ({}, {"bias": bias}, {"gain": np.float32(-3), "bias": bias, "shape": SHAPE}):
        wanted = given.get("gain", np.float32(2)) * X.reshape(3, 2) + given.get("bias", np.float32(10))
        file = service.scratch("in.npz")
        save_npz(file, {"x": X, **given})
        for words in (["run", compiled.artifact], ["run", compiled.artifact, "--guard"],
                      ["run", compiled.artifact, "--sandbox"], ["execute", identity]):
            out = service.scratch("out")
            service.cli(*words, "--input", file, "--output-dir", out)
            np.testing.assert_array_equal(np.load(out / "y.npy"), wanted, err_msg=f"{words} with {sorted(given)}")
    save_npz(file, {"x": X, "shape": np.array([6, 1], np.int64)})
    for words in (["run", compiled.artifact], ["execute", identity]):
        message = failure_of(service, *words, "--input", file, expect=3)["message"]
        check("'shape'" in message and "[6, 1]" in message, f"`{words[0]}` with another shape: {message}")
    service.cli("run", compiled.artifact, "--random")
    service.cli("profile", identity, "--repeat", "2")
