"""A chip described by a text file runs models: mapped, lowered to programs, executed on its memories, compared, timed."""

import re

import pytest

from checks import check, check_equal
from e2e.tessera_e2e import model_path

pytestmark = pytest.mark.service(workers=1)

CHIP = """name: "two-rooms"
family: SPATIAL
memory { name: "room" capacity_bytes: 4096 bandwidth_bytes_per_cycle: 32 shared_by: 1 alignment_bytes: 16
         energy_pj_per_byte: 0.5 }
memory { name: "hall" capacity_bytes: 65536 bandwidth_bytes_per_cycle: 16 shared_by: 1 alignment_bytes: 16
         energy_pj_per_byte: 3 }
memory { name: "street" bandwidth_bytes_per_cycle: 8 shared_by: 1 energy_pj_per_byte: 100 }
units { name: "array" count: 2 lanes: 64 frequency_ghz: 0.5 ops_per_cycle: 128 }
intrinsics {
  name: "mac"
  iterations { name: "i" extent: 8 }
  iterations { name: "j" extent: 4 }
  iterations { name: "r" extent: 8 reduction: true }
  operands { name: "c" dtype: DATA_TYPE_F32 subscripts: "i" subscripts: "j" memory: "room" }
  operands { name: "a" dtype: DATA_TYPE_BF16 subscripts: "i" subscripts: "r" memory: "room" }
  operands { name: "b" dtype: DATA_TYPE_BF16 subscripts: "r" subscripts: "j" memory: "room" }
  arithmetic { form: MULTIPLY_ADD rounding: FUSED }
  latency_cycles: 6
  cycles_per_issue: 2
  emit: "mac"
  transfers { operand: "a" from: "memory" to: "hall" strides: "free" strides: "1" alignment_bytes: 32 pads: true }
  transfers { operand: "a" from: "hall" to: "room" strides: "8" strides: "1" block_order: "i" block_order: "r" }
  transfers { operand: "b" from: "memory" to: "hall" strides: "free" strides: "1" alignment_bytes: 32 pads: true }
  transfers { operand: "b" from: "hall" to: "room" strides: "1" strides: "8" block_order: "r" block_order: "j" }
  transfers { operand: "c" from: "room" to: "memory" strides: "free" strides: "1" }
}
"""
NOWHERE = {"TESSERA_SERVER": "127.0.0.1:1"}
PRODUCT = ("--op", "O[i, j] += A[i, k] * B[k, j]", "--extents", "61x1x83")


def described(service, text=CHIP):
    path = service.scratch("chip.textproto")
    path.write_text(text)
    return path


def are_right(operators):
    for entry in operators:
        check_equal((entry["wrong"], entry["unchecked"]), (0, ""), entry["loops"])
        check(entry["compared"] > 0 and entry["share_of_bound"] <= 1, f"{entry}")
        check(entry["cycles"] > 0 and entry["predicted_cycles"] > 0 and 0 < entry["utilization"] <= 1, f"{entry}")


def test_a_model_runs_on_a_chip_that_is_described(service):
    for target in ("ascend-910-like", described(service)):
        answer = service.cli("simulate", model_path("resnet18"), "--shape", "x=1x3x224x224", "--target", target,
                             "--points", str(1 << 21), "--json").json
        are_right(answer["operators"])
        check_equal(sum(len(entry["nodes"]) for entry in answer["operators"]), answer["mapped"], "nests that are mapped")
        check(answer["mapped"] >= 21, f"{answer['mapped']} of 20 convolutions and a product")
        check(all(entry["converted"] for entry in answer["operators"]), "a model of f32 on a unit of narrower types")
        reasons = {entry["why"] for entry in answer["not_mapped"]}
        check("sums nothing" in reasons and all(reasons), f"{reasons}")
        check(answer["cycles"] > 0 and answer["picojoules"] > 0, f"{answer}")


def test_one_operator_shows_its_program(service):
    chip = described(service)
    shown = service.cli("simulate", "--target", chip, *PRODUCT, env=NOWHERE).out
    for part in ("memory room, 4096 bytes", "tensor [61, 83]", "copy street.A -> hall.a", "copy hall.a -> room.a",
                 "fill room.c", "call mac", "copy room.c -> street.O", "1 of 1 nests on two-rooms"):
        check(part in shown, f"{part!r} is not in\n{shown}")
    text = service.scratch("program.txt")
    answer = service.cli("simulate", "--target", chip, *PRODUCT, "--program-out", text, "--json", env=NOWHERE).json
    are_right(answer["operators"])
    check_equal(answer["operators"][0]["compared"], 61, "all results")
    check(shown.startswith(text.read_text()), "the program that is written is not the one that is shown")
    again = service.cli("simulate", "--target", chip, *PRODUCT, "--json", env=NOWHERE).json
    check_equal(again, answer, "a second run")
    check(answer["picojoules"] > 0, f"{answer}")
    silent = described(service, re.sub(r"energy_pj_per_byte: [\d.]+", "", CHIP))
    answer = service.cli("simulate", "--target", silent, *PRODUCT, "--json", env=NOWHERE).json
    check_equal(answer["picojoules"], 0, "energy of a chip that states none")


def test_what_does_not_fit_says_what(service):
    small = described(service, CHIP.replace("capacity_bytes: 4096", "capacity_bytes: 112"))
    answer = service.cli("simulate", "--target", small, *PRODUCT, env=NOWHERE, expect=4)
    check("mac: operand c of mac has 128 bytes, room of two-rooms fewer" in answer.err, answer.err)
    tight = described(service, CHIP.replace("capacity_bytes: 4096", "capacity_bytes: 200"))
    answer = service.cli("simulate", "--target", tight, *PRODUCT, env=NOWHERE, expect=4)
    check("room" in answer.err and "too small" in answer.err, answer.err)
    service.cli("simulate", "--target", small, env=NOWHERE, expect=3)
    answer = service.cli("simulate", "--target", "conv-engine", "--op", "O[i] += A[i, k]", "--extents", "4x4", env=NOWHERE,
                         expect=4)
    check("conv: computes y:f16[k, h, w] += " in answer.err, answer.err)


def test_mappings_are_ranked(service):
    answer = service.cli("simulate", "--target", described(service), "--op", "C2D", "--extents", "1x16x9x9x12x3x3",
                         "--rank", "--json", env=NOWHERE).json
    check_equal(answer["operators"][0]["mappings"] + answer["operators"][0]["refused"], 70, "mappings in any order")
    check(0 < answer["pairs"] <= 1 and 0 < answer["apart"] <= 1 and 0 < answer["recall"] <= 1, f"{answer}")
