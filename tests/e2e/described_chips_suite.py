"""Whole models compiled for chips that exist only as a description: the artifact runs on the simulator, and its outputs
are compared with ONNX Runtime."""

import json
import xml.etree.ElementTree as tree

import numpy as np
import pytest

from checks import check, check_equal
from e2e.matching import matches
from e2e.tessera_e2e import model_inputs, model_path, shapes_of
from models import catalog
from oracle.oracle import difference

pytestmark = pytest.mark.service(workers=1)

ASCEND = "ascend-910-like"
SMALL = "mlp:inputs=37,hidden=19,layers=2,classes=7"
# Matrix instructions take f16 (or bf16) and sum in f32; outputs may differ by the rounding of operands.
TOLERANCE = 1e-2  # of the output's largest magnitude
MODELS = ("mlp", "resnet18:size=32", "mobilenet_v1:size=32", "bert_tiny", catalog.REDUCED["mi_lstm"],
          catalog.REDUCED["mi_lstm"] + ",unrolled=1", "conv:h=17,w=19,stride=2,group=2",
          "conv:kh=5,kw=1,pad=2,dilation=2,bias=0", "gemm:m=33,k=65,n=17,transb=1", "matmul:m=7,k=33,n=65")
CHIPS = ("tpu-like", "systolic-128", "edge", "cloud", "axpy-engine", "gemv-engine", "conv-engine", "mali-g76")


def compiled_for(service, spec, chip, *flags):
    arrays = model_inputs(spec, 1)
    return arrays, service.compile(model_path(spec), shapes_of(arrays), *flags, target=chip, timeout=300)


def is_right(service, oracle, spec, chip):
    arrays, compiled = compiled_for(service, spec, chip)
    session = oracle.load(model_path(spec))
    expected, _ = session.run(arrays)
    session.close()
    outputs, answer = service.run(compiled.artifact, arrays, timeout=300)
    check_equal(sorted(outputs), sorted(expected), "outputs")
    for name, wanted in expected.items():
        absolute, relative = difference(outputs[name], wanted)
        print(f"   {spec} on {chip}, {name}: max error {absolute:.3g}, relative {relative:.3g}, tolerance {TOLERANCE:g}")
        check(relative <= TOLERANCE, f"{name} is off by {relative:.3g} of its largest magnitude")
    run = answer["simulated"]
    check_equal(answer["chip"], chip, "chip")
    check(run["cycles"] > 0 and run["seconds"] > 0 and run["energy_pj"] > 0, f"{run}")
    for unit in run["units"]:
        check(0 <= unit["utilization"] <= 1 and unit["busy_cycles"] <= run["cycles"] * 1.000001, f"{unit}")
    for level in run["levels"]:
        capacity = int(level["capacity_bytes"])
        check(capacity == 0 or int(level["peak_bytes"]) <= capacity, f"{level}")
    # The inputs and outputs cross the outermost memory at least once.
    moved = sum(array.nbytes for array in outputs.values())
    check(int(run["levels"][-1]["written_bytes"]) >= moved, f"{run['levels'][-1]}")
    return run


@pytest.mark.parametrize("spec", MODELS)
def test_models_are_right(service, oracle, spec):
    is_right(service, oracle, spec, ASCEND)


@pytest.mark.parametrize("chip", CHIPS)
def test_chips_are_right(service, oracle, chip):
    is_right(service, oracle, "conv:h=7,w=5", chip)


def test_jobs_run_on_workers(service):
    """Execute and profile jobs simulate as `tessera run` does."""
    arrays, compiled = compiled_for(service, "mlp", ASCEND)
    local, answer = service.run(compiled.artifact, arrays, "--steps")
    given = service.scratch("given.npz")
    np.savez(given, **arrays)
    outputs = service.scratch("remote")
    executed = service.cli("execute", "--job", compiled.job["id"], "--input", given, "--output-dir", outputs, "--json").json
    check_equal(executed["result"]["simulated"]["cycles"], answer["simulated"]["cycles"], "cycles")
    for name, wanted in local.items():
        check_equal(np.load(outputs / f"{name}.npy").tobytes(), wanted.tobytes(), name)
    profiled = service.cli("profile", "--job", compiled.job["id"], "--json").json["result"]
    check_equal(profiled["simulated"]["cycles"], answer["simulated"]["cycles"], "cycles")
    check_equal([kernel["symbol"] for kernel in profiled["kernels"]],
                [step["symbol"] for step in answer["simulated"]["steps"]], "kernels")


def test_a_timeline_is_written(service):
    _, compiled = compiled_for(service, "mlp", ASCEND)
    chart, trace = service.scratch("time.svg"), service.scratch("time.json")
    for path in (chart, trace):
        answer = service.cli("run", compiled.artifact, "--cost-only", "--timeline", path, "--json").json
    check_equal(answer["outputs"][0].get("file"), None, "no output is written")
    tree.parse(chart)
    events = [event for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X"]
    check(len(events) > 0 and all(event["dur"] > 0 for event in events), f"{events}")
    ends = max(event["ts"] + event["dur"] for event in events)
    check(abs(ends - answer["simulated"]["seconds"] * 1e6) <= 1e-3 * ends, "the trace ends with the run")


def test_mistakes_are_named(service):
    arrays, compiled = compiled_for(service, "mlp", ASCEND)
    given = service.scratch("given.npz")
    np.savez(given, **{name: array[:, :-1] for name, array in arrays.items()})
    failed = service.cli("run", compiled.artifact, "--input", given, expect=None)
    check(failed.code != 0 and next(iter(arrays)) in failed.err, f"{failed}")
    failed = service.cli("run", compiled.artifact, "--random", "--threads", "2", expect=None)
    check(failed.code != 0 and "--threads" in failed.err, f"{failed}")
    cpu = service.compile(model_path("mlp"), shapes_of(arrays))
    failed = service.cli("run", cpu.artifact, "--random", "--cost-only", expect=None)
    check(failed.code != 0 and "described chip" in failed.err, f"{failed}")
    # A range of sizes needs code that stops early, which programs of described chips do not have.
    failed = service.cli("compile", model_path(SMALL), "--dim", "N=1..4", "--target", ASCEND, expect=None)
    check(failed.code != 0 and "N is a range up to 4" in failed.err and "--dim" in failed.err, f"{failed}")
    failed = service.cli("tune", model_path(SMALL), "--shape", "x=1x37", "--target", ASCEND, expect=None)
    check(failed.code != 0 and "described chip" in failed.err, f"{failed}")


@pytest.mark.parametrize("spec", (SMALL, "resnet20:size=16,width=8", "bert_tiny:layers=1,hidden=32,heads=2,seq=8,vocabulary=50"))
def test_kernels_are_verified(service, oracle, spec):
    """--verify compares each kernel with the interpreted workload, within the bounds of rounding."""
    matches(service, oracle, spec, 1, target=ASCEND, flags=("--verify",), tolerance=TOLERANCE)


def test_both_ways_of_compiling_give_one_program(service):
    remote = service.compile(model_path(SMALL), {"x": [1, 37]}, target=ASCEND)
    local = service.scratch("local.tsra")
    service.cli("compile", model_path(SMALL), "--shape", "x=1x37", "--target", ASCEND, "--local", "--data-dir",
                service.scratch("data"), "--workers", "1", "-o", local)
    check_equal(local.read_bytes(), remote.artifact.read_bytes(), "local and remote artifacts")
    shown = service.cli("inspect", remote.artifact).out
    check("described chip" in shown and "tessera run" in shown, shown)


def test_rounding_is_explained(service):
    shown = service.cli("explain", model_path(SMALL), "--shape", "x=1x37", "--target", ASCEND, expect=None)
    check(shown.code == 0 and "rounded to f16" in shown.out, f"{shown}")


def test_dataflows_are_explained(service):
    """--dataflow searches the dataflow of each group, and of the chain of both products."""
    compiled = service.compile(model_path(SMALL), {"x": [1, 37]}, target=ASCEND)
    picture = service.scratch("trees.svg")
    shown = service.cli("explain", compiled.artifact, "--dataflow", "--time", "300ms", "--svg", picture, "--json").json
    check_equal(shown["chip"], ASCEND, "chip")
    check({"group", "chain"} <= {each["kind"] for each in shown["groups"]}, f"{[each['name'] for each in shown['groups']]}")
    found = [each for each in shown["groups"] if "tree" in each]
    check(found, f"no tree was found: {[each.get('reason') for each in shown['groups']]}")
    for each in found:
        check(each["simulated_cycles"] > 0 and each["bound"]["cycles"] <= each["cycles"], f"{each}")
        check(0 <= each["gap_in_space"] <= each["gap_to_bound"] < 1, f"{each}")
        check(all(level["tensors"] for level in each["levels"]) and "compute nest" in each["tree"], f"{each}")
    boxes = [element for element in tree.parse(picture).iter() if element.tag.endswith("rect")]
    check(len(boxes) > 3 * len(found), f"{len(boxes)} boxes for {len(found)} trees")
    text = service.cli("explain", model_path(SMALL), "--shape", "x=1x37", "--target", ASCEND, "--dataflow", "--time", "100ms").out
    check("GROUP" in text and "as compiled" in text and "gap within the space" in text, text)
    failed = service.cli("explain", model_path(SMALL), "--shape", "x=1x37", "--dataflow", expect=None)
    check(failed.code != 0 and "SPATIAL" in failed.err, f"{failed}")
