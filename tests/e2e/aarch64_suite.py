"""A sample of models compiled for AArch64 and run by libtessera_rt under QEMU, compared with ONNX Runtime: without
guards, and between guard pages at both ends."""

import shutil
import subprocess

import numpy as np
import onnx
import pytest
from onnx import helper, mapping, numpy_helper

from checks import check, check_equal
from e2e.new_instructions_suite import mnemonics
from e2e.tessera_e2e import BIN, model_inputs, model_path, shapes_of
from fuzz.cases.types import rounded_to_bf16
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


# A processor whose description requires none of Tessera's instruction sets with products of bytes. The cpu has i8mm, which
# an entry that states other features may use.
PROCESSOR = """name: "ours"
family: AARCH64
code { triple: "aarch64-unknown-linux-gnu" cpu: "neoverse-v1" features: "neon" features: "fp-armv8" }
registers { vector_bits: 128 vector_count: 32 }
memory { name: "L1" capacity_bytes: 65536 bandwidth_bytes_per_cycle: 48 line_bytes: 64 associativity: 4 shared_by: 1 }
memory { name: "L2" capacity_bytes: 1048576 bandwidth_bytes_per_cycle: 32 line_bytes: 64 associativity: 8 shared_by: 1 }
memory { name: "DRAM" bandwidth_bytes_per_cycle: 5 line_bytes: 64 shared_by: 4 }
units { name: "core" count: 4 lanes: 4 frequency_ghz: 2.6 ops_per_cycle: 32 }
"""
MATRICES = """intrinsics {
  name: "our.%(name)s"
  iterations { name: "row" extent: 2 }
  iterations { name: "column" extent: 2 }
  iterations { name: "step" extent: 8 reduction: true }
  operands { name: "sum" dtype: DATA_TYPE_I32 subscripts: "row" subscripts: "column" }
  operands { name: "a" dtype: DATA_TYPE_%(first)s8 subscripts: "row" subscripts: "step" }
  operands { name: "b" dtype: DATA_TYPE_%(second)s8 subscripts: "column" subscripts: "step" }
  arithmetic { form: MULTIPLY_ADD intermediate: DATA_TYPE_I32 overflow: WRAP }
  latency_cycles: 3
  cycles_per_issue: 0.25
  features: "neon"
  emit: "llvm.aarch64.neon.%(name)s.v4i32.v16i8"
}
"""
SIGNS = {"smmla": ("I", "I"), "ummla": ("U", "U"), "usmmla": ("U", "I")}


def described(service, *names):
    """The processor with the instructions of these names in its text file."""
    path = service.scratch("ours.textproto")
    path.write_text(PROCESSOR + "".join(MATRICES % {"name": name, "first": SIGNS[name][0], "second": SIGNS[name][1]}
                                        for name in names))
    return path


EXTENTS = ((1, 1, 1), (2, 8, 2), (1, 13, 7), (3, 4, 5), (13, 17, 19), (37, 83, 50), (64, 64, 64), (5, 127, 3))  # m, k, n


def byte_products(service, first, second):
    """Products of matrices of bytes over odd extents: the model, its inputs, and the exact results."""
    of = {"I": np.int8, "U": np.uint8}
    def bytes_of(kind, *shape):
        limits = np.iinfo(of[kind])
        return random.integers(limits.min, limits.max + 1, shape, of[kind])
    nodes, inputs, constants, right = [], {}, {}, {}
    for i, (m, k, n) in enumerate(EXTENTS):
        a, w = bytes_of(first, m, k), bytes_of(second, k, n)
        nodes.append(node("MatMulInteger", [f"a{i}", f"w{i}"], [f"y{i}"]))
        inputs[f"a{i}"], constants[f"w{i}"] = a, w
        right[f"y{i}"] = a.astype(np.int32) @ w.astype(np.int32)
    graph = helper.make_graph(
        nodes, "products",
        [helper.make_tensor_value_info(key, mapping.NP_TYPE_TO_TENSOR_TYPE[array.dtype], array.shape) for key, array in inputs.items()],
        [helper.make_tensor_value_info(key, onnx.TensorProto.INT32, array.shape) for key, array in right.items()],
        [numpy_helper.from_array(array, key) for key, array in constants.items()])
    path = service.scratch("products.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path, inputs, right


@pytest.mark.parametrize("name", SIGNS)
def test_a_new_matrix_instruction_is_a_text_file(service, name):
    """Only the text file names the instruction. Code uses it exactly if the file describes it, and sums are exact."""
    path, inputs, right = byte_products(service, *SIGNS[name])
    for target, wanted in ((described(service, name), {name}), (described(service), set()), ("neoverse-v1", {name})):
        artifact = service.compile(path, shapes_of(inputs), target=target).artifact
        for key, array in emulated(service, artifact, inputs, right).items():
            check_equal(array.tolist(), right[key].tolist(), f"{key} for {target}")
        check_equal({each for each in mnemonics(artifact) if each.endswith("mmla")}, wanted, f"instructions for {target}")


def test_products_of_halves_use_matrix_instructions(service):
    """Integers of few bits, whose sums are exact in f32, so that only the result is rounded to bf16."""
    nodes, inputs, constants, right = [], {}, {}, {}
    for i, (m, k, n) in enumerate(EXTENTS):
        a, w = (random.integers(-8, 9, shape).astype(np.float32) for shape in ((m, k), (k, n)))
        nodes += [node("Cast", [f"a{i}"], [f"h{i}"], to=onnx.TensorProto.BFLOAT16),
                  node("Cast", [f"w{i}"], [f"g{i}"], to=onnx.TensorProto.BFLOAT16),
                  node("MatMul", [f"h{i}", f"g{i}"], [f"p{i}"]), node("Cast", [f"p{i}"], [f"y{i}"], to=onnx.TensorProto.FLOAT)]
        inputs[f"a{i}"], constants[f"w{i}"] = a, w
        right[f"y{i}"] = rounded_to_bf16(a @ w)
    info = lambda arrays: [helper.make_tensor_value_info(key, onnx.TensorProto.FLOAT, array.shape) for key, array in arrays.items()]
    graph = helper.make_graph(nodes, "halves", info(inputs), info(right),
                              [numpy_helper.from_array(array, key) for key, array in constants.items()])
    path = service.scratch("halves.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    artifact = service.compile(path, shapes_of(inputs), target="neoverse-v1").artifact
    for key, array in emulated(service, artifact, inputs, right).items():
        check_equal(array.tolist(), right[key].tolist(), key)
    check("bfmmla" in mnemonics(artifact), "products of bf16 use another instruction")


def test_a_description_that_llvm_cannot_emit_is_refused(service):
    path, inputs, _ = byte_products(service, "I", "I")
    chip = described(service, "smmla")
    text = chip.read_text()
    for part, other, said in ((".v4i32.v16i8", ".v2i32.v8i8", "our.smmla\" does not have the operands of llvm.aarch64.neon.smmla"),
                              ('cpu: "neoverse-v1"', 'cpu: "neoverse-n1"', "our.smmla\" needs the feature i8mm")):
        chip.write_text(text.replace(part, other))
        failed = service.cli("compile", path, "--target", chip, expect=None)
        check(failed.code != 0 and said in failed.err, f"{failed}")
