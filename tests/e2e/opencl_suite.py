"""Whole models compiled to OpenCL C: the first OpenCL device of the machine (PoCL where no other is) runs the artifact, and
its outputs are compared with ONNX Runtime's."""

import ctypes
import json
import zipfile

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from checks import check, check_equal
from conformance import onnx_data
from e2e.matching import matches
from e2e.tessera_e2e import model_inputs, model_path, shapes_of

pytestmark = pytest.mark.service(workers=2)

PRODUCT = "gemm:m=33,k=65,n=17,transb=1"
SMALL = "mlp:inputs=37,hidden=19,layers=2,classes=7"
# Few functions each: PoCL takes a third of a second to compile one.
MODELS = ("mlp", "resnet18:size=33", "bert_tiny", "conv:h=17,w=19,stride=2,group=2",
          "conv:kh=5,kw=1,pad=2,dilation=2,bias=0", PRODUCT, "matmul:m=7,k=33,n=65")
# ONNX's node tests of different shapes of code: reductions, windows, gathers, scatters, padding, integers, types, loops.
NODES = ("argmax_default_axis_example", "averagepool_2d_pads_count_include_pad", "cast_FLOAT_to_FLOAT16",
         "convtranspose", "depthtospace_example", "einsum_batch_matmul", "gather_elements_1",
         "layer_normalization_3d_axis1_epsilon", "matmulinteger", "maxpool_2d_dilations", "mod_mixed_sign_int32",
         "lrn", "qlinearconv", "instancenorm_example", "scatternd_add", "softmax_large_number",
         "where_example", "if", "scan9_sum", "scan_sum")


def missing_device():
    """Why no OpenCL device runs artifacts here; empty if one does."""
    try:
        library = ctypes.CDLL("libOpenCL.so.1")
    except OSError as error:
        return f"no OpenCL library: {error}"
    platforms = ctypes.c_uint(0)
    if library.clGetPlatformIDs(0, None, ctypes.byref(platforms)) != 0 or platforms.value == 0:
        return "no OpenCL platform"
    return ""


needs_device = pytest.mark.skipif(bool(missing_device()), reason=missing_device() or "a device is there")


def test_an_artifact_has_readable_source_and_its_launches(service):
    arrays = model_inputs(PRODUCT, 1)
    compiled = service.compile(model_path(PRODUCT), shapes_of(arrays), target="opencl")
    with zipfile.ZipFile(compiled.artifact) as artifact:
        names = artifact.namelist()
        source = artifact.read("kernels.cl").decode()
        manifest = json.loads(artifact.read("manifest.json"))
        check("code.so" not in names and "launches.pb" in names, f"{names}")
        check_equal(artifact.read("target.txt").decode(), "tessera-requirements 1\nopencl opencl\n", "target.txt")
    check(manifest["opencl"] is True, f"{manifest}")
    check("__kernel" in source and "__local float rows" in source and "barrier(" in source, source[:2000])
    shown = service.cli("inspect", compiled.artifact).out
    check("OpenCL" in shown, shown)


@needs_device
@pytest.mark.parametrize("spec", MODELS)
def test_models_are_right(service, oracle, spec):
    matches(service, oracle, spec, 1, target="opencl")


@needs_device
def test_plain_loops_are_right(service, oracle):
    matches(service, oracle, "conv:h=17,w=19,stride=2,group=2", 1, target="opencl", flags=("--opt-level", "1"))


@needs_device
@pytest.mark.parametrize("name", NODES)
def test_onnx_nodes_are_right(service, name):
    case = onnx_data.load(f"node/test_{name}")
    compiled = service.compile(case.model, shapes_of(case.inputs), target="opencl")
    outputs, answer = service.run(compiled.artifact, case.inputs, "--steps")
    check(answer["device"] and all(step["ms"] >= 0 for step in answer["steps"]), f"{answer}")
    for output, wanted in case.outputs.items():
        found = outputs[output]
        check_equal((found.shape, found.dtype), (wanted.shape, wanted.dtype), f"shape and type of {output}")
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-6, equal_nan=True, err_msg=output)


def write_loop(path):
    """y = 1.5 * y + x, at most 20 times, as long as the sum of y is below 100."""
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Mul", ["y_in", "factor"], ["scaled"]), helper.make_node("Add", ["scaled", "x"], ["y_out"]),
         helper.make_node("ReduceSum", ["y_out"], ["sum"], keepdims=0), helper.make_node("Less", ["sum", "limit"], ["go_on"])],
        "body",
        [value("i", TensorProto.INT64, []), value("go_in", TensorProto.BOOL, []), value("y_in", TensorProto.FLOAT, [3, 5])],
        [value("go_on", TensorProto.BOOL, []), value("y_out", TensorProto.FLOAT, [3, 5])])
    constants = {"factor": np.float32(1.5), "limit": np.float32(100), "trips": np.int64(20), "go": np.bool_(True)}
    graph = helper.make_graph(
        [helper.make_node("Loop", ["trips", "go", "x"], ["y"], body=body)], "loop",
        [value("x", TensorProto.FLOAT, [3, 5])], [value("y", TensorProto.FLOAT, [3, 5])],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()])
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=8).SerializeToString())


@needs_device
def test_the_device_decides_how_often_a_loop_runs(service, oracle):
    model = service.scratch("loop.onnx")
    write_loop(model)
    compiled = service.compile(model, target="opencl")
    session = oracle.load(model)
    for scale in (0.01, 1, 20, -1):
        x = np.arange(15, dtype=np.float32).reshape(3, 5) * np.float32(scale)
        expected, _ = session.run({"x": x})
        outputs, _ = service.run(compiled.artifact, {"x": x})
        np.testing.assert_allclose(outputs["y"], expected["y"], rtol=1e-5)
    session.close()


@needs_device
def test_a_device_describes_itself_and_models_compile_for_it(service, oracle):
    path = service.scratch("device.textproto")
    path.write_text(service.cli("targets", "--opencl").out)
    matches(service, oracle, PRODUCT, 1, target=path)


def test_what_does_not_run_is_refused_by_name(service):
    arrays = model_inputs(SMALL, 1)
    compiled = service.compile(model_path(SMALL), shapes_of(arrays), target="opencl")
    given = service.scratch("in.npz")
    np.savez(given, **arrays)
    for command in (("execute", "--input", given), ("profile",)):
        answer = service.cli(*command, "--job", compiled.job["id"], expect=None)
        check(answer.code != 0 and "OpenCL" in answer.out + answer.err, f"{answer}")
    answer = service.cli("compile", model_path(SMALL), "--target", "opencl", "--verify", *[
        word for name, shape in shapes_of(arrays).items() for word in ("--shape", f"{name}={'x'.join(map(str, shape))}")],
        expect=None)
    check(answer.code != 0 and "verified on a device" in answer.out + answer.err, f"{answer}")
    answer = service.cli("run", compiled.artifact, "--random", "--threads", "2", expect=None)
    check(answer.code != 0 and "OpenCL" in answer.err, f"{answer}")
    answer = service.cli("tune", model_path(SMALL), "--target", "opencl", *[
        word for name, shape in shapes_of(arrays).items() for word in ("--shape", f"{name}={'x'.join(map(str, shape))}")],
        expect=None)
    check(answer.code != 0 and "no worker measures" in answer.out + answer.err, f"{answer}")


def test_a_machine_without_a_device_says_so(service):
    arrays = model_inputs(SMALL, 1)
    compiled = service.compile(model_path(SMALL), shapes_of(arrays), target="opencl")
    answer = service.cli("run", compiled.artifact, "--random", expect=None,
                         env={"OCL_ICD_VENDORS": "/nonexistent", "OPENCL_VENDOR_PATH": "/nonexistent"})
    check(answer.code != 0 and "OpenCL" in answer.err and "install" in answer.err, f"{answer}")
