"""Hostile input tensors for valid models: generated code never leaves its buffers, whatever its inputs contain."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from checks import check
from e2e.tessera_e2e import model_inputs, model_path, save_npz, shapes_of

EXTREMES = np.array([np.iinfo(np.int64).max, np.iinfo(np.int64).min, 1 << 40, -(1 << 40), 1 << 32, (1 << 32) + 1],
                    np.int64)


def clamped(indices, extent):
    """The documented result of an index outside [-extent, extent): the nearest valid index."""
    wrapped = np.where(indices < 0, np.maximum(indices, -extent) + extent, indices)
    return np.clip(wrapped, 0, extent - 1)


def same_here_and_on_a_worker(service, compiled, hostile, tame):
    """Hostile inputs give the same results as their valid equivalents, in the client's process and in a worker's sandbox."""
    wanted, _ = service.run(compiled.artifact, tame)
    found, _ = service.run(compiled.artifact, hostile)
    given, remote = service.scratch("hostile.npz"), service.scratch("remote")
    save_npz(given, hostile)
    service.cli("execute", compiled.job["compile_result"]["artifact_id"], "--input", given, "--output-dir", remote)
    for name, array in wanted.items():
        check(np.array_equal(found[name], array), f"{name}: differs from the result of clamped indices")
        check(np.array_equal(np.load(remote / f"{name}.npy"), array), f"{name}: differs on a worker")


def test_token_ids_outside_the_vocabulary(service):
    spec, vocabulary = "bert_tiny", 1000
    for batch in (1, 3):
        hostile = model_inputs(spec, batch)
        compiled = service.compile(model_path(spec), shapes_of(hostile))
        ids = hostile["input_ids"]
        ids[:, :8] = [*EXTREMES, vocabulary, -vocabulary - 1]
        same_here_and_on_a_worker(service, compiled, hostile, {**hostile, "input_ids": clamped(ids, vocabulary)})


def build(service, nodes, inputs, constants):
    """y = the last node's result, compiled; constants by name."""
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                              [numpy_helper.from_array(value, name) for name, value in constants.items()])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    made.ir_version = 8
    path = service.scratch("model.onnx")
    path.write_bytes(made.SerializeToString())
    return service.compile(path)


def test_gathers_at_computed_indices(service):
    data = np.arange(7 * 5, dtype=np.float32).reshape(7, 5)
    indices = np.array([*EXTREMES, 7, -8, 6, -7], np.int64)
    given = [helper.make_tensor_value_info("i", TensorProto.INT64, [len(indices)])]
    for axis, extent in ((0, 7), (1, 5)):
        compiled = build(service, [helper.make_node("Gather", ["data", "i"], ["y"], axis=axis)], given, {"data": data})
        same_here_and_on_a_worker(service, compiled, {"i": indices}, {"i": clamped(indices, extent)})


def test_gathers_elements(service):
    data = np.arange(6, dtype=np.float32)
    indices = np.array([*EXTREMES], np.int64)
    given = [helper.make_tensor_value_info("i", TensorProto.INT64, [6])]
    compiled = build(service, [helper.make_node("GatherElements", ["data", "i"], ["y"], axis=0)], given, {"data": data})
    same_here_and_on_a_worker(service, compiled, {"i": indices}, {"i": clamped(indices, 6)})
    given = [helper.make_tensor_value_info("i", TensorProto.INT64, [6, 1])]
    compiled = build(service, [helper.make_node("GatherND", ["data", "i"], ["y"])], given, {"data": data})
    same_here_and_on_a_worker(service, compiled, {"i": indices[:, None]}, {"i": clamped(indices, 6)[:, None]})


def test_indices_cast_from_floats(service):
    # The conversion of floats beyond int64 is unspecified, but the element that is read must be one of the tensor.
    data = np.arange(100, 107, dtype=np.float32)
    floats = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 9.3e18, 3], np.float32)
    nodes = [helper.make_node("Cast", ["f"], ["i"], to=TensorProto.INT64),
             helper.make_node("Gather", ["data", "i"], ["y"], axis=0)]
    compiled = build(service, nodes, [helper.make_tensor_value_info("f", TensorProto.FLOAT, [7])], {"data": data})
    outputs, _ = service.run(compiled.artifact, {"f": floats})
    check(np.isin(outputs["y"], data).all() and outputs["y"][6] == 103, f"read outside the tensor: {outputs['y']}")
