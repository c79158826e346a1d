"""A new instruction is a text file: the description of a chip adds one, code for the chip uses it, and results are right."""

import pathlib
import platform
import re
import subprocess
import zipfile

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from checks import check, check_equal
from e2e.tessera_e2e import model_inputs, model_path, shapes_of
from oracle.oracle import difference

pytestmark = pytest.mark.service(workers=1)

# A processor without AVX: vectors of 128 bits, for which no instruction set of Tessera has products of bytes.
PROCESSOR = """name: "without-avx"
family: X86_64
code { triple: "x86_64-unknown-linux-gnu" cpu: "x86-64-v2" features: "sse4.1" features: "ssse3" }
registers { vector_bits: 128 vector_count: 16 }
memory { name: "L1" capacity_bytes: 32768 bandwidth_bytes_per_cycle: 32 line_bytes: 64 associativity: 8 shared_by: 1 }
memory { name: "L2" capacity_bytes: 262144 bandwidth_bytes_per_cycle: 16 line_bytes: 64 associativity: 8 shared_by: 1 }
memory { name: "DRAM" bandwidth_bytes_per_cycle: 4 line_bytes: 64 shared_by: 2 }
units { name: "core" count: 2 lanes: 4 frequency_ghz: 2.5 ops_per_cycle: 16 }
"""
PAIRS = """intrinsics {
  name: "our.pmaddubsw"
  iterations { name: "i" extent: 8 }
  iterations { name: "r" extent: 2 reduction: true }
  operands { name: "sum" dtype: DATA_TYPE_I16 subscripts: "i" }
  operands { name: "a" dtype: DATA_TYPE_U8 subscripts: "i" subscripts: "r" }
  operands { name: "b" dtype: DATA_TYPE_I8 subscripts: "i" subscripts: "r" }
  arithmetic { form: MULTIPLY intermediate: DATA_TYPE_I32 overflow: SATURATE }
  latency_cycles: 5
  emit: "llvm.x86.ssse3.pmadd.ub.sw.128"
}
intrinsics {
  name: "our.pmaddwd"
  iterations { name: "i" extent: 4 }
  iterations { name: "r" extent: 2 reduction: true }
  operands { name: "sum" dtype: DATA_TYPE_I32 subscripts: "i" }
  operands { name: "a" dtype: DATA_TYPE_I16 subscripts: "i" subscripts: "r" }
  operands { name: "b" dtype: DATA_TYPE_I16 subscripts: "i" subscripts: "r" }
  arithmetic { form: MULTIPLY intermediate: DATA_TYPE_I32 overflow: WRAP }
  latency_cycles: 5
  emit: "llvm.x86.sse2.pmadd.wd"
}
"""

# Two cores of an array whose instruction no other chip has, and a vector unit.
ACCELERATOR = """name: "eight-by-four"
family: SPATIAL
memory { name: "room" unit: "core" capacity_bytes: 16384 bandwidth_bytes_per_cycle: 64 write_bandwidth_bytes_per_cycle: 32
         alignment_bytes: 16 energy_pj_per_byte: 1 write_energy_pj_per_byte: 1.5 }
memory { name: "DRAM" bandwidth_bytes_per_cycle: 8 shared_by: 2 energy_pj_per_byte: 100 }
units { name: "core" count: 2 frequency_ghz: 1 }
units { name: "array" parent: "core" count: 1 lanes: 128 frequency_ghz: 1 ops_per_cycle: 256 }
units {
  name: "vector" parent: "core" count: 1 lanes: 16 frequency_ghz: 1 ops_per_cycle: 16 memory: "room"
  rates { operation: "elementwise" elements_per_cycle: 16 energy_pj: 1 }
  rates { operation: "transcendental" elements_per_cycle: 4 energy_pj: 10 }
  rates { operation: "reduction" elements_per_cycle: 16 energy_pj: 1 }
  rates { operation: "copy" elements_per_cycle: 16 }
  rates { operation: "transpose" elements_per_cycle: 8 }
  rates { operation: "gather" elements_per_cycle: 2 }
}
intrinsics {
  name: "mac.8x4x16"
  iterations { name: "i" extent: 8 }
  iterations { name: "j" extent: 4 }
  iterations { name: "r" extent: 16 reduction: true }
  operands { name: "c" dtype: DATA_TYPE_F32 subscripts: "i" subscripts: "j" memory: "room" }
  operands { name: "a" dtype: DATA_TYPE_F16 subscripts: "i" subscripts: "r" memory: "room" }
  operands { name: "b" dtype: DATA_TYPE_F16 subscripts: "r" subscripts: "j" memory: "room" }
  arithmetic { form: MULTIPLY_ADD rounding: EACH_STEP }
  latency_cycles: 12
  cycles_per_issue: 4
  unit: "array"
  emit: "mac"
  energy_pj: 400
  transfers { operand: "a" from: "memory" to: "room" strides: "free" strides: "1" alignment_bytes: 16 pads: true }
  transfers { operand: "b" from: "memory" to: "room" strides: "free" strides: "1" alignment_bytes: 16 pads: true }
  transfers { operand: "c" from: "room" to: "memory" strides: "free" strides: "1" }
}
"""
NOWHERE = {"TESSERA_SERVER": "127.0.0.1:1"}


def described(service, text):
    path = service.scratch("chip.textproto")
    path.write_text(text)
    return path


def product(service, weights):
    path = service.scratch("product.onnx")
    graph = helper.make_graph([helper.make_node("MatMulInteger", ["x", "w"], ["y"])], "product",
                              [helper.make_tensor_value_info("x", TensorProto.UINT8, (37, weights.shape[0]))],
                              [helper.make_tensor_value_info("y", TensorProto.INT32, (37, weights.shape[1]))],
                              [numpy_helper.from_array(weights, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), path)
    return path


def mnemonics(artifact):
    with zipfile.ZipFile(artifact) as files:
        library = pathlib.Path(files.extract("code.so", artifact.with_suffix(".code")))
    text = subprocess.run(["llvm-objdump-22", "-d", "--no-show-raw-insn", library], stdout=subprocess.PIPE, text=True,
                          check=True).stdout
    return set(re.findall(r"^\s+[0-9a-f]+:\s+(\S+)", text, re.MULTILINE))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="runs code for x86-64")
def test_code_uses_an_instruction_of_the_chips_file(service):
    random = np.random.default_rng(3)
    x = random.integers(0, 256, (37, 83)).astype(np.uint8)
    w = random.integers(-64, 64, (83, 50)).astype(np.int8)
    # The sum of these two products saturates, so the code must use the other instruction there.
    x[5, 20:22], w[20:22, 7] = 255, 127
    model, right = product(service, w), x.astype(np.int32) @ w.astype(np.int32)
    used = {}
    for name, text in (("with", PROCESSOR + PAIRS), ("without", PROCESSOR)):
        artifact = service.compile(model, target=described(service, text)).artifact
        outputs, _ = service.run(artifact, {"x": x})
        check_equal(outputs["y"].tolist(), right.tolist(), f"{name} the instructions")
        used[name] = mnemonics(artifact)
    check({"pmaddubsw", "pmaddwd"} <= used["with"], f"{sorted(used['with'])}")
    check("pmaddubsw" not in used["without"], "an instruction that the chip's file does not describe")
    plan = service.scratch("plan.txt")
    service.cli("explain", model, "--target", described(service, PROCESSOR + PAIRS), "--plan-out", plan)
    check("our.pmaddubsw" in plan.read_text(), "the schedule does not name the instruction")


def test_an_accelerator_with_a_new_instruction_computes_products(service):
    chip = described(service, ACCELERATOR)
    check(service.cli("target", "check", chip, env=NOWHERE).out.startswith("valid; 1 instructions"), "check")
    for extents in ("61x29x83", "8x4x16", "1x1x1", "100x7x33"):
        operators = service.cli("simulate", "--target", chip, "--op", "O[i, j] += A[i, k] * B[k, j]", "--extents", extents,
                                "--json", env=NOWHERE).json["operators"]
        for entry in operators:
            check_equal((entry["wrong"], entry["unchecked"]), (0, ""), extents)
            check(entry["compared"] > 0 and entry["share_of_bound"] <= 1, f"{entry}")
    shown = service.cli("simulate", "--target", chip, "--op", "O[i, j] += A[i, k] * B[k, j]", "--extents", "120x60x90",
                        env=NOWHERE).out
    for part in ("call mac", "memory room, 16384 bytes", "shared by 2 of array"):
        check(part in shown, f"{part!r} is not in\n{shown}")


@pytest.mark.parametrize("spec", ("mlp:inputs=37,hidden=19,layers=2,classes=7", "resnet20:size=16,width=8",
                                  "conv:h=7,w=5,stride=2,group=2", "matmul:m=7,k=33,n=65",
                                  "bert_tiny:layers=1,hidden=32,heads=2,seq=8,vocabulary=50"))
def test_whole_models_run_on_an_accelerator_with_a_new_instruction(service, oracle, spec):
    arrays = model_inputs(spec, 1)
    compiled = service.compile(model_path(spec), shapes_of(arrays), target=described(service, ACCELERATOR))
    session = oracle.load(model_path(spec))
    expected, _ = session.run(arrays)
    session.close()
    outputs, answer = service.run(compiled.artifact, arrays)
    check_equal(sorted(outputs), sorted(expected), "outputs")
    for name, wanted in expected.items():
        check(difference(outputs[name], wanted)[1] <= 1e-2, f"{name}: operands of products are rounded to f16, no more")
    units = {unit["name"]: unit for unit in answer["simulated"]["units"]}
    check(units["array"]["busy_cycles"] > 0, f"the new instruction computes nothing: {units}")


def test_numbers_on_the_chip_are_shown(service):
    shown = service.cli("target", "show", "cloud", env=NOWHERE).out
    check(re.search(r"^# pe +row +65536 +2$", shown, re.MULTILINE), shown)
    check(re.search(r"^# L1 +64 +1310720 +150 +150 +4.5$", shown, re.MULTILINE), shown)
    faults = service.cli("target", "check", described(service, ACCELERATOR.replace('parent: "core"', 'parent: "corps"', 1)),
                         expect=3, env=NOWHERE).err
    check(re.search(r":7:\d+: units\[1\].parent: 'corps' is no unit of this target; accepted: core, array, vector", faults),
          faults)
