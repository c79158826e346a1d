"""A sample of models compiled for AArch64 and run by libtessera_rt under QEMU, compared with ONNX Runtime: without
guards, and between guard pages at both ends."""

import shutil
import subprocess

import numpy as np
import onnx
import pytest
from onnx import helper, mapping, numpy_helper

from checks import check, check_equal
from e2e.tessera_e2e import BIN, model_inputs, model_path, shapes_of
from oracle.oracle import difference

TARGETS = ("aarch64", "neoverse-n1", "neoverse-v1")  # NEON only, with dot products and f16, of an SVE machine
PROGRAM = BIN / "run_artifact_aarch64"
SYSROOT = "/usr/aarch64-linux-gnu"
pytestmark = pytest.mark.skipif(not PROGRAM.exists() or not shutil.which("qemu-aarch64-static"),
                                reason="no AArch64 libraries or no qemu-aarch64-static here")
node = helper.make_node
random = np.random.default_rng(20261)


def values(*shape, dtype=np.float32):
    return random.standard_normal(shape).astype(dtype)


def eight_bits():
    """An 8-bit convolution and an 8-bit product with realistic scales. The convolution's weights have seven bits: on
    x86-64 without VNNI, ONNX Runtime adds pairs of products in 16 bits, which eight bits would saturate."""
    image, matrix = random.integers(0, 256, (1, 5, 9, 11), np.uint8), random.integers(-128, 128, (7, 33), np.int8)
    scale, zero = lambda value: np.array(value, np.float32), lambda value, dtype: np.array(value, dtype)
    constants = {"s": scale(0.05), "zu": zero(120, np.uint8), "zs": zero(0, np.int8), "so": scale(0.9),
                 "w": random.integers(-64, 64, (6, 5, 3, 3), np.int8), "m": random.integers(-128, 128, (33, 19), np.int8)}
    nodes = [node("QLinearConv", ["x", "s", "zu", "w", "s", "zs", "so", "zu"], ["y"], pads=[1, 1, 1, 1], strides=[2, 1]),
             node("MatMulInteger", ["a", "m"], ["p"])]
    return nodes, {"x": image, "a": matrix}, ("y", "p"), constants


def half():
    nodes = [node("MatMul", ["a", "b"], ["c"]), node("Tanh", ["c"], ["y"]), node("Softmax", ["c"], ["z"], axis=-1)]
    return nodes, {"a": values(13, 37, dtype=np.float16) / 4, "b": values(37, 21, dtype=np.float16) / 4}, ("y", "z"), {}


def mixture():
    """Data movement: slices, transposes, gathers, reductions over odd extents."""
    nodes = [node("Transpose", ["x"], ["t"], perm=[2, 0, 1]), node("Gather", ["t", "at"], ["g"], axis=1),
             node("ReduceMean", ["g"], ["m"], axes=[2]), node("ArgMax", ["x"], ["i"], axis=2), node("Erf", ["m"], ["y"]),
             node("Resize", ["v", "", "by"], ["r"], mode="linear")]
    return nodes, {"x": values(3, 7, 17), "v": values(1, 2, 5, 7)}, ("y", "i", "r"), {
        "at": np.array([2, 0, 2, 1], np.int64), "by": np.array([1, 1, 1.7, 2.3], np.float32)}


GRAPHS = {"eight bits": eight_bits, "half": half, "mixture": mixture}
MODELS = ("gemm:m=33,k=65,n=17,transb=1", "matmul:m=7,k=33,n=65", "conv:h=17,w=19,stride=2,group=2", "bert_tiny",
          "squeezenet1_1:size=64", "shufflenet_v1:size=64,slim=4,classes=10")


def graph_path(service, name):
    nodes, inputs, outputs, constants = GRAPHS[name]()
    graph = helper.make_graph(
        nodes, name.replace(" ", "_"),
        [helper.make_tensor_value_info(key, mapping.NP_TYPE_TO_TENSOR_TYPE[array.dtype], array.shape) for key, array in inputs.items()],
        [helper.make_empty_tensor_value_info(key) for key in outputs],
        [numpy_helper.from_array(array, key) for key, array in constants.items()])
    model = onnx.shape_inference.infer_shapes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8))
    path = service.scratch(f"{graph.name}.onnx")
    onnx.save(model, path)
    return path, inputs


def emulated(service, artifact, inputs, expected):
    """Outputs by name, from a run under QEMU."""
    folder = service.scratch("emulated")
    folder.mkdir()
    for i, array in enumerate(inputs.values()):
        (folder / f"in{i}").write_bytes(np.ascontiguousarray(array).tobytes())
    done = subprocess.run(["qemu-aarch64-static", "-L", SYSROOT, "-cpu", "max", PROGRAM, artifact, folder, "2"],
                          capture_output=True, text=True, timeout=300)
    check_equal(done.returncode, 0, f"{done.stderr}\nexit code under emulation")
    return {name: np.frombuffer((folder / f"out{i}").read_bytes(), expected[name].dtype).reshape(expected[name].shape)
            for i, name in enumerate(done.stdout.split())}


def agrees(service, oracle, path, inputs, target):
    session = oracle.load(path)
    expected, _ = session.run(inputs)
    names = session.inputs
    session.close()
    artifact = service.compile(path, shapes_of(inputs), target=target).artifact
    found = emulated(service, artifact, {name: inputs[name] for name in names}, expected)
    check_equal(sorted(found), sorted(expected), "outputs")
    for name, wanted in expected.items():
        relative = difference(found[name], wanted)[1]
        tolerance = 4e-3 if wanted.dtype == np.float16 else 1e-4 if wanted.dtype == np.float32 else 0
        print(f"   {name} {wanted.dtype}{list(wanted.shape)} for {target}: relative error {relative:.2g}, tolerance {tolerance:g}")
        check(relative <= tolerance, f"{name} is off by {relative:.3g} of its largest magnitude, tolerance {tolerance:g}")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", GRAPHS)
def test_graphs(service, oracle, name, target):
    agrees(service, oracle, *graph_path(service, name), target)


@pytest.mark.parametrize("spec", MODELS)
def test_models(service, oracle, spec):
    agrees(service, oracle, model_path(spec), model_inputs(spec, 1), TARGETS[MODELS.index(spec) % len(TARGETS)])
