"""Arrays are unchanged on the way to ONNX Runtime and back, and the comparison finds differences."""

import json
import subprocess

import numpy as np
import pytest
from onnx import helper
from onnx.mapping import NP_TYPE_TO_TENSOR_TYPE

from checks import check, check_equal
from models import catalog
from models.builder import seeded
from oracle.oracle import FOLDER, OracleError, difference

DTYPES = ["f4", "f8", "f2", "i8", "u8", "i4", "u4", "i2", "u2", "i1", "u1", "?"]


def identity(path, dtype, shape):
    """y = x, written to `path`."""
    kind = NP_TYPE_TO_TENSOR_TYPE[np.dtype(dtype)]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "identity",
                              [helper.make_tensor_value_info("x", kind, shape)],
                              [helper.make_tensor_value_info("y", kind, shape)])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    made.ir_version = 8
    path.write_bytes(made.SerializeToString())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("oracle")


@pytest.mark.parametrize("dtype, shape", [*((dtype, [2, 3, 5]) for dtype in DTYPES), ("f4", []), ("f4", [0, 3])], ids=str)
def test_round_trip(oracle, folder, dtype, shape):
    path = folder / "identity.onnx"
    identity(path, dtype, shape)
    array = seeded("oracle", dtype).integers(0, 256, shape).astype(dtype)
    outputs, _ = oracle.load(path).run({"x": array})
    check_equal(outputs["y"].dtype, array.dtype, "dtype")
    check_equal(outputs["y"].shape, array.shape, "shape")
    check(np.array_equal(outputs["y"], array), "values differ")


def test_gemm_is_right(oracle, folder):
    written = catalog.write("gemm:bias=0", folder, input_batches=(3,))
    with np.load(written["inputs"][3]) as stored:
        x = stored["x"]
    weight = np.frombuffer(catalog.build("gemm:bias=0").graph.initializer[0].raw_data, "<f4").reshape(256, 256)
    outputs, _ = oracle.load(written["model"]).run({"x": x})
    _, relative = difference(outputs["y"].astype(np.float64), x.astype(np.float64) @ weight)
    check(relative < 1e-6, f"relative difference to NumPy in f64 is {relative}")


def test_errors_are_answered(oracle, folder):
    path = folder / "broken.onnx"
    path.write_bytes(b"broken")
    for request, word in (({"op": "load", "model": str(path)}, "Protobuf"), ({"op": "dance"}, "dance"),
                          ({"op": "run", "session": 999}, "999")):
        try:
            oracle.call(**request)
        except OracleError as error:
            check(word in str(error), f"'{error}' does not mention {word}")
        else:
            raise AssertionError(f"{request} succeeded")


def test_command_line(folder):
    written = catalog.write("mlp", folder, input_batches=(3,))
    done = subprocess.run([FOLDER / "run.mjs", written["model"], "--input", written["inputs"][3], "--output",
                           folder / "out", "--repeat", "5", "--json"], capture_output=True, text=True, check=True)
    printed = json.loads(done.stdout)
    check_equal((printed["runs"], len(printed["times_ms"]), printed["threads"]), (5, 5, 1), "runs, times and threads")
    check(printed["latency_ms"]["min"] <= printed["latency_ms"]["median"] <= printed["latency_ms"]["p90"], "not in order")
    check_equal(np.load(folder / "out" / "y.npy").shape, (3, 10), "shape of the written output")


def test_compare_command(folder):
    base = np.array([1.0, -4.0, 2.0], np.float32)
    wrong_shape, within, beyond = base[None], base + np.float32(0.0003), base + np.float32(0.0005)
    np.savez(folder / "base.npz", y=base)
    for name, array, code in (("same", base, 0), ("within", within, 0), ("beyond", beyond, 1), ("shape", wrong_shape, 1),
                              ("dtype", base.astype(np.float64), 1), ("nan", np.array([1, np.nan, 2], np.float32), 1)):
        np.savez(folder / "other.npz", y=array)
        done = subprocess.run([FOLDER / "compare", folder / "other.npz", folder / "base.npz"], capture_output=True,
                              text=True)
        check_equal(done.returncode, code, f"exit code for {name} ({done.stdout.strip()})")
    np.savez(folder / "other.npz", z=base, w=base)
    done = subprocess.run([FOLDER / "compare", folder / "other.npz", folder / "base.npz"], capture_output=True)
    check_equal(done.returncode, 1, "exit code for a missing array")


def test_difference_of_special_values():
    check_equal(difference(np.array([np.inf, 1.0]), np.array([np.inf, 1.0])), (0.0, 0.0), "equal infinities")
    check_equal(difference(np.array([-np.inf, 1.0]), np.array([np.inf, 1.0]))[0], np.inf, "infinity of the other sign")
    check_equal(difference(np.array([np.nan]), np.array([1.0]))[0], np.inf, "NaN for a number")
    check_equal(difference(np.array([1.0]), np.array([np.nan]))[0], np.inf, "number for a NaN")
    check_equal(difference(np.array([2 ** 62]), np.array([2 ** 62 + 1]))[0], 1.0, "i64 beyond f64's precision")
    check_equal(difference(np.array([True, False]), np.array([True, True]))[0], 1.0, "booleans")
