"""Models compiled for ranges of sizes, compared with ONNX Runtime at each size, after runs that leave only NaN in memory."""

import numpy as np
from onnx import helper, numpy_helper

from e2e import python_package
from oracle.oracle import difference
from checks import check, check_equal

python_package.install()
import tessera  # noqa: E402

TOLERANCE = 1e-4  # of the output's largest magnitude


def same(outputs, expected, what):
    check_equal(sorted(outputs), sorted(expected), f"outputs of {what}")
    for name, wanted in expected.items():
        _, relative = difference(outputs[name], wanted)
        check(relative <= TOLERANCE, f"{what}, {name}: off by {relative:.3g} of its largest magnitude")


def save(service, nodes, inputs, outputs, initializers=(), opset=13, microsoft=False):
    graph = helper.make_graph(nodes, "ranges", [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in inputs],
                              [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in outputs],
                              [numpy_helper.from_array(array, name) for name, array in initializers])
    path = service.scratch("ranged.onnx")
    opsets = [helper.make_opsetid("", opset), *([helper.make_opsetid("com.microsoft", 1)] if microsoft else [])]
    path.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())
    return path


def rows_left_behind_change_nothing(artifact, runs, what):
    """Runs each case after one of the largest size with NaN inputs, in one session, so that unwritten memory contains NaN."""
    model = tessera.load(artifact)
    session = model.session(2)
    for arrays, expected in runs:
        variant = min((each for each in model.variants if all(
            size <= room for tensor in each.inputs if tensor.name in arrays
            for size, room in zip(arrays[tensor.name].shape, tensor.shape))), key=lambda each: abs(np.prod(list(each.dimensions.values()))))
        session.run({tensor.name: np.full(tensor.shape, np.nan if tensor.numpy_dtype.kind == "f" else 0, tensor.numpy_dtype)
                     for tensor in variant.inputs if tensor.name in arrays})
        same(session.run(arrays), expected, f"{what} after a run of NaN")


def ranged_against_oracle(service, oracle, path, dims, sizes, arrays_of, what, threads=("1", "2")):
    """Compares each of `sizes`, a tuple of one size for each of `dims`, with ONNX Runtime; returns the runs' output."""
    artifact = service.compile(path, None, *(word for name, text in dims.items() for word in ("--dim", f"{name}={text}")),
                               timeout=300).artifact
    session = oracle.load(path)
    said, runs = [], []
    for size in sizes:
        arrays = arrays_of(*size)
        expected, _ = session.run(arrays)
        runs.append((arrays, expected))
        for count in threads:
            outputs, answer = service.run(artifact, arrays, "--threads", count)
            same(outputs, expected, f"{what} of {size}")
        said.append(answer)
    rows_left_behind_change_nothing(artifact, runs, what)
    service.run(artifact, arrays, "--guard")
    session.close()
    return said


def f32s(random, *shape):
    return random.standard_normal(shape, np.float32)
