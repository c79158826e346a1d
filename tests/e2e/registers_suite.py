"""Register use of the innermost loops of a long chain, read from the code for a described chip."""

import pathlib
import re
import subprocess
import zipfile

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from checks import check

pytestmark = pytest.mark.service(workers=1)

# All hosts generate the same code for it.
CHIP = """
name: "registers"
family: X86_64
code { triple: "x86_64-unknown-linux-gnu" cpu: "znver5" }
registers { vector_bits: 512 vector_count: 32 }
memory { name: "L1" capacity_bytes: 49152 bandwidth_bytes_per_cycle: 128 line_bytes: 64 associativity: 12 shared_by: 1 }
memory { name: "L2" capacity_bytes: 1048576 bandwidth_bytes_per_cycle: 64 line_bytes: 64 associativity: 16 shared_by: 1 }
memory { name: "L3" capacity_bytes: 33554432 bandwidth_bytes_per_cycle: 16 line_bytes: 64 associativity: 16 shared_by: 8 }
memory { name: "DRAM" bandwidth_bytes_per_cycle: 6 line_bytes: 64 shared_by: 2 }
units { name: "core" count: 2 lanes: 16 frequency_ghz: 3.2 ops_per_cycle: 64 }
intrinsics {
  name: "fma.f32.512" iterations { name: "i" extent: 16 }
  operands { name: "acc" dtype: DATA_TYPE_F32 subscripts: "i" }
  operands { name: "a" dtype: DATA_TYPE_F32 subscripts: "i" }
  operands { name: "b" dtype: DATA_TYPE_F32 subscripts: "i" }
  latency_cycles: 4 emit: "llvm.fma.v16f32"
}
"""
# Of MobileNet at 56x56: input and output channels, kernel, stride.
LAYERS = ((64, 128, 1, 1), (128, 128, 3, 1), (128, 128, 1, 1), (128, 128, 3, 2))
# Multiply-adds in one iteration of a full tile. Depthwise kernels and remainder tiles have fewer, or separate sums.
MANY = range(64, 112)


def chain(path):
    """A pointwise convolution, a depthwise one, and both again, each clipped to 0 and 6."""
    random = np.random.default_rng(7)
    nodes, weights, value = [], [numpy_helper.from_array(np.float32(limit), f"limit{limit}") for limit in (0, 6)], "x"
    for number, (channels, outputs, kernel, stride) in enumerate(LAYERS):
        group = channels if kernel > 1 else 1
        for name, shape in ((f"w{number}", (outputs, channels // group, kernel, kernel)), (f"b{number}", (outputs,))):
            weights.append(numpy_helper.from_array(random.standard_normal(shape, np.float32), name))
        nodes += [helper.make_node("Conv", [value, f"w{number}", f"b{number}"], [f"c{number}"], strides=[stride] * 2,
                                   pads=[kernel // 2] * 4, group=group),
                  helper.make_node("Clip", [f"c{number}", "limit0", "limit6"], [f"y{number}"])]
        value = f"y{number}"
    graph = helper.make_graph(nodes, "chain", [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 64, 56, 56))],
                              [helper.make_tensor_value_info(value, TensorProto.FLOAT, None)], weights)
    onnx.save(onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])), path)


def innermost_loops(library):
    """The instructions of each innermost loop: [(operation, operands)]."""
    text = subprocess.run(["llvm-objdump-22", "-d", "--no-show-raw-insn", library], stdout=subprocess.PIPE, text=True,
                          check=True).stdout
    code = [(int(address, 16), operation, operands) for address, operation, operands
            in re.findall(r"^\s+([0-9a-f]+):\s+(\S+)[ \t]*(.*)$", text, re.MULTILINE)]
    loops = set()
    for address, operation, operands in code:
        target = re.match(r"0x([0-9a-f]+)", operands)
        if operation.startswith("j") and target and int(target.group(1), 16) <= address:
            loops.add((int(target.group(1), 16), address))
    for first, last in sorted(loops):
        if not any((first, last) != other and first <= other[0] and other[1] <= last for other in loops):
            yield [(operation, operands) for address, operation, operands in code if first <= address <= last]


def test_sums_stay_in_registers(service):
    model, chip, artifact = (service.scratch(name) for name in ("chain.onnx", "chip.txtpb", "chain.tsra"))
    chain(model)
    chip.write_text(CHIP)
    service.cli("compile", model, "--target", chip, "-o", artifact)
    with zipfile.ZipFile(artifact) as files:
        library = pathlib.Path(files.extract("code.so", artifact.with_suffix(".code")))
    tiles = 0
    for loop in innermost_loops(library):
        products = sum(operation.startswith("vfmadd") for operation, _ in loop)
        stored = sum(operation.startswith("vmov") and re.search(r"%[xyz]mm\d+, -?\w*\(%rsp\)$", operands) is not None
                     for operation, operands in loop)
        if products in MANY:
            tiles += 1
            check(stored == 0, f"a round of {products} multiply-adds stores {stored} vectors on the stack")
    check(tiles >= 3, f"{tiles} loops of tiles were found")
