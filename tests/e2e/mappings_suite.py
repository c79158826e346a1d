"""Chips as data, from the command line: descriptions are checked with locations and compared, operators are mapped to
instructions as counted in the thesis, and a new instruction from a text file works like a built-in one."""

import pytest

from checks import check, check_equal
from e2e.tessera_e2e import model_path

pytestmark = pytest.mark.service(workers=1)

TABLE_5_3 = {"GMV": 1, "GMM": 1, "C1D": 6, "C2D": 35, "C3D": 180, "T2D": 7, "GRP": 35, "DIL": 35, "DEP": 11, "CAP": 105,
             "BCV": 11, "GFC": 1, "MEN": 1, "VAR": 1, "SCN": 1}
ENGINE = """name: "our-engine"
family: SPATIAL
memory { name: "buffer" capacity_bytes: 65536 bandwidth_bytes_per_cycle: 64 shared_by: 1 }
memory { name: "DRAM" bandwidth_bytes_per_cycle: 8 shared_by: 1 }
units { name: "array" count: 1 lanes: 64 frequency_ghz: 1 ops_per_cycle: 128 }
intrinsics {
  name: "mac8"
  iterations { name: "i" extent: 8 }
  iterations { name: "j" extent: 8 }
  iterations { name: "r" extent: 8 reduction: true }
  operands { name: "c" dtype: DATA_TYPE_I32 subscripts: "i" subscripts: "j" memory: "buffer" }
  operands { name: "a" dtype: DATA_TYPE_I8 subscripts: "i" subscripts: "r" memory: "buffer" }
  operands { name: "b" dtype: DATA_TYPE_I8 subscripts: "r" subscripts: "j" memory: "buffer" }
  arithmetic { form: MULTIPLY_ADD overflow: WRAP }
  latency_cycles: 8
  emit: "mac8"
}
"""
NOWHERE = {"TESSERA_SERVER": "127.0.0.1:1"}


def test_counts_are_those_of_the_thesis(service):
    for target in ("sm_70", "sm_80", "sm_90", "ascend-910-like"):
        printed = service.cli("mappings", "--target", target, "--json", env=NOWHERE).json
        check_equal({row["operator"]: row["mappings"] for row in printed["operators"]}, TABLE_5_3, target)
    c3d = {}
    for engine in ("axpy", "gemv", "conv"):
        rows = service.cli("mappings", "--target", f"{engine}-engine", "--json", env=NOWHERE).json["operators"]
        c3d[engine] = next((row["mappings"], row["thesis"]) for row in rows if row["operator"] == "C3D")
    check_equal(c3d["axpy"], (15, 15), "C3D on AXPY, here and in the thesis")
    check_equal({name: thesis for name, (_, thesis) in c3d.items()}, {"axpy": 15, "gemv": 7, "conv": 31}, "the thesis")
    check("rule of admission" in service.cli("mappings", "--target", "gemv-engine").out, "a deviation is not explained")


def test_a_mapping_is_explained(service):
    shown = service.cli("mappings", "--target", "ascend-910-like", "--op", "C2D", "--explain", "0", env=NOWHERE).out
    for part in ("X, arrays by loops", "Z * Y = X and X * Y^T = Z hold", "fractal zZ", "fractal nZ", "base ", "price",
                 "program C2D on ascend-910-like\n", "copy L1.a -> L0A.a\n", "call cube.f16", "copy UB.c -> HBM.O\n"):
        check(part in shown, f"{part!r} is not in\n{shown}")
    listed = service.cli("mappings", "--target", "sm_80", "--op", "O[i, j] += A[i, k] * B[k, j]", "--extents", "64x32x128",
                         "--instruction", "mma.m16n8k16.f16.f32", "--json").json
    check_equal(sorted(row["calls"] for row in listed["mappings"]), [4 * 4 * 8, 2 * 8 * 8], "calls, rows as 16 and as 8")
    service.cli("mappings", "--target", "sm_80", "--op", "C2D", "--explain", "1000", expect=5)
    service.cli("mappings", "--target", "sm_80", "--op", "C4D", expect=5)
    service.cli("mappings", "--target", "sm_80", "--instruction", "none", expect=5)


def test_a_new_instruction_is_a_text(service):
    path = service.scratch("engine.textproto")
    path.write_text(ENGINE)
    check(service.cli("target", "check", path, env=NOWHERE).out.startswith("valid; 1 instructions"), "check")
    rows = service.cli("mappings", "--target", path, "--json", env=NOWHERE).json["operators"]
    check_equal({row["operator"]: row["mappings"] for row in rows}, TABLE_5_3, "on an engine of a file")
    service.cli("targets", "--register", path)
    check("c:s32[i, j] += a:s8[i, r] * b:s8[r, j]" in service.cli("target", "show", "our-engine").out, "registered")


def test_faults_have_places(service):
    path = service.scratch("engine.textproto")
    path.write_text(ENGINE.replace('subscripts: "r" subscripts: "j"', 'subscripts: "r" subscripts: "k"'))
    answer = service.cli("target", "check", path, expect=3, env=NOWHERE)
    check(f"{path}:13:" in answer.err and "'k' is no iteration of this intrinsic; accepted: i, j, r" in answer.err,
          answer.err)
    problem, = service.cli("target", "check", path, "--json", expect=3).json["problems"]
    check_equal((problem["line"], problem["field"]), (13, "intrinsics[0].operands[2].subscripts[1]"), "the place")


def test_descriptions_are_compared(service):
    found = service.cli("target", "diff", "skylake-avx512", "cascadelake", "--json", env=NOWHERE).json["differences"]
    fields = {entry["field"] for entry in found}
    check({"code.cpu", "intrinsics[vpdpbusd.512].emit"} <= fields, f"{sorted(fields)}")
    check_equal(service.cli("target", "diff", "haswell", "haswell").out, "no difference\n", "equal ones")


def test_operators_of_models_are_counted(service):
    covered = service.cli("coverage", model_path("mlp"), "--shape", "x=1x784", "--target", "sm_80", "--json").json
    model, = covered["models"]
    linear = [entry for entry in model["operators"] if entry["op"] in ("Gemm", "MatMul")]
    check(linear and all(entry["mappings"] > 0 for entry in linear), f"{model['operators']}")
    check_equal(model["mapped"], len(linear), "what is no product does not map")


def test_code_is_refused_by_its_reason(service):
    for target in ("sm_80", "sm_90"):
        failure = service.cli("compile", model_path("mlp"), "--shape", "x=1x784", "--target", target, "--json",
                              expect=3).failure
        check_equal(failure["reason"], "INVALID_TARGET", target)
        check(f"target {target} is of family" in failure["message"], f"{failure}")
