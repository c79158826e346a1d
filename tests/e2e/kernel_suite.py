"""Operators as PTX for Tensor Cores, from the command line: run and compared, launched by a manifest, assembled."""

import json
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from checks import check, check_equal
from e2e.tessera_e2e import BIN

BENCH = pathlib.Path(__file__).resolve().parents[1] / "bench" / "gpu"
PRODUCT = ("--op", "O[i, j] += A[i, k] * B[k, j]", "--extents", "61x43x83")
SQUARE = ("--op", "O[i, j] += A[i, k] * B[k, j]", "--extents", "256x256x256", "--points", "1")
FINISHED = ("--epilogue", "+ bias[j]", "--epilogue", "+ residual[i, j]", "--epilogue", "relu")
STRIDED = ("--op", "O[n, k, p, q] += I[n, c, 2 * p + r, q + s] * W[k, c, r, s]", "--extents", "2x5x3x7x3x3x2")


class Kernels:
    """`tessera kernel` in its own folder. A built-in chip needs no service."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    def answer(self, *arguments, target="sm_80", expect=0):
        done = subprocess.run([BIN / "tessera", "--server", "127.0.0.1:1", "kernel", "--target", target, *arguments],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, cwd=self.folder)
        check_equal(done.returncode, expect, f"exit code of kernel {' '.join(arguments)}: {done.stderr}")
        return done.stderr if expect else done.stdout

    def checked(self, *arguments):
        """The JSON of a kernel whose text was run fully, or for as many points as --points says, with correct results."""
        answer = json.loads(self.answer("--json", "-o", "kernel.ptx", *arguments))
        checked = answer["checked"]
        check_equal(checked["wrong"], 0, "wrong results")
        check(checked["results"] > 0 and checked["share_of_bound"] <= 1, f"{checked}")
        return answer


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    return Kernels(tmp_path_factory.mktemp("kernel"))


def test_odd_shapes_are_right(kernels):
    for type_, result in (("f16", "f32"), ("s8", "s32")):
        answer = kernels.checked(*PRODUCT, "--type", type_)
        check_equal(answer["checked"]["blocks"], answer["kernel"]["grid"], "blocks that were run")
        check_equal(answer["checked"]["results"], 61 * 43, "results that were compared")
        check_equal([(p["name"], p["type"], p["shape"]) for p in answer["kernel"]["parameters"]],
                    [("O", result, [61, 43]), ("A", type_, [61, 83]), ("B", type_, [83, 43])], "parameters")
    convolution = kernels.checked(*STRIDED)
    check_equal(convolution["checked"]["results"], 2 * 5 * 3 * 7, "results of a convolution")
    check_equal([p["shape"] for p in convolution["kernel"]["parameters"]], [[2, 5, 3, 7], [2, 3, 7, 8], [5, 3, 3, 2]],
                "shapes of a convolution")


def test_a_manifest_launches(kernels):
    manifest, text = kernels.folder / "launch.json", kernels.folder / "kernel.ptx"
    answer = kernels.checked(*PRODUCT, "--manifest", manifest.name, "--name", "product")
    launch = json.loads(manifest.read_text())
    check_equal(launch, answer["kernel"], "the manifest and what is printed")
    tile = launch["tile"]
    sizes = (61, 43) if "<- [i " in launch["mapping"] else (43, 61)  # the operands may be swapped
    check_equal(launch["grid"], -(-sizes[0] // tile[0]) * -(-sizes[1] // tile[1]), f"blocks of {tile}")
    check(launch["shared_bytes"] > 0, launch)
    written = text.read_text()
    check(".visible .entry product(" in written, "the entry has another name")
    check_equal(re.findall(r"\.reqntid (\d+), 1, 1", written), [str(launch["threads"])], "threads of the text")
    manifest.unlink()
    check_equal(kernels.answer(*PRODUCT, "--manifest", manifest.name, "--name", "product"), written, "printed text")
    check_equal(json.loads(manifest.read_text()), launch, "the manifest of a printed kernel")


def test_exchanged_rows_do_not_conflict(kernels):
    shared, plain = (kernels.checked(*SQUARE, *more)["fetches"] for more in ((), ("--plain",)))
    check_equal(shared["cycles"], shared["accesses"], "cycles of fetches without conflicts")
    check_equal(plain["accesses"], shared["accesses"], "fetches of plain rows")
    check(plain["cycles"] > 2 * plain["accesses"], f"plain rows do not conflict: {plain}")


def test_many_plans_are_files_of_a_folder(kernels):
    said = kernels.answer(*PRODUCT, "--plans", "12", "-o", "plans", "--name", "plan")
    check(said.startswith("12 plans of "), said)
    manifests = [json.loads((kernels.folder / "plans" / f"plan{i}.json").read_text()) for i in range(12)]
    estimates = [manifest["estimated_cycles"] for manifest in manifests]
    check(estimates == sorted(estimates) and estimates[-1] > 2 * estimates[0], f"estimates: {estimates}")
    check(len({(str(m["tile"]), m["mapping"], m["instruction"]) for m in manifests}) > 6, f"plans alike: {manifests}")
    for i, manifest in enumerate(manifests):
        check(0 < manifest["bound"] < 1e-2, f"bound {manifest['bound']}")
        check(f".entry plan{i}(" in (kernels.folder / "plans" / f"plan{i}.ptx").read_text(), f"entry of plan {i}")
    for more, wanted in (((), "--output"), (("-o", "plans", "--points", "1"), "--points"),
                         (("-o", "plans", "--manifest", "one.json"), "--manifest")):
        errors = kernels.answer(*PRODUCT, "--plans", "2", *more, expect=2)
        check(wanted in errors, errors)
    errors = kernels.answer(*PRODUCT, "--plans", "2", "-o", "kernel.ptx/plans", expect=3)
    check("kernel.ptx/plans" in errors, errors)


def test_without_a_gpu_the_benchmark_says_so(kernels):
    if shutil.which("nvidia-smi"):
        pytest.skip("there is a GPU")
    done = subprocess.run([sys.executable, BENCH, "measure", kernels.folder], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=60)
    check_equal(done.returncode, 2, f"exit code without a GPU: {done.stdout}{done.stderr}")
    check("gpu: PyTorch" in done.stderr, done.stderr)


def test_sources_are_read_where_they_lie(kernels):
    odd = json.loads(kernels.answer("--json", "-o", "kernel.ptx", *PRODUCT, "--instruction", "wgmma.m64n64k16.f16.f32",
                                    target="sm_90"))["checked"]
    check_equal((odd["wrong"], odd["results"]), (0, 61 * 43), "results of wgmma")
    large = ("--op", PRODUCT[1], "--extents", "2048x2048x2048", "--result", "f16", "--points", "0")
    answer = json.loads(kernels.answer("--json", "-o", "kernel.ptx", *large, target="sm_90"))
    check(answer["kernel"]["instruction"].startswith("wgmma.m64n"), answer["kernel"]["instruction"])
    text = (kernels.folder / "kernel.ptx").read_text()
    check("wgmma.mma_async" in text and "ldmatrix" not in text, "the text is of another instruction")
    errors = kernels.answer(*PRODUCT, "--plain", "--instruction", "wgmma.m64n64k16.f16.f32", target="sm_90", expect=4)
    check("no plain ones" in errors, errors)


def test_opaque_fragments_are_stored_by_way_of_rows(kernels):
    for more in ((), ("--result", "f16"), ("--instruction", "wmma.m8n32k16.f16.f16", "--result", "f16")):
        answer = json.loads(kernels.answer("--json", "-o", "kernel.ptx", *PRODUCT, *more, target="sm_70"))
        checked = answer["checked"]
        check_equal((checked["wrong"], checked["results"]), (0, 61 * 43), f"results of wmma {more}")
        check(checked["share_of_bound"] <= 1, f"{checked}")
        check(answer["kernel"]["instruction"].startswith("wmma.m"), answer["kernel"]["instruction"])
        text = (kernels.folder / "kernel.ptx").read_text()
        check("wmma.store.d.sync.aligned" in text and ".target sm_70" in text, "the text is of another instruction")
    padded, plain = (json.loads(kernels.answer("--json", "-o", "kernel.ptx", *SQUARE, *more, target="sm_70"))["fetches"]
                     for more in ((), ("--plain",)))
    check(padded["cycles"] <= 2 * padded["accesses"] < plain["cycles"], f"cycles of padded rows {padded}, of plain {plain}")


def test_epilogues_are_parameters_of_the_kernel(kernels):
    for target, more in (("sm_80", ()), ("sm_80", ("--type", "s8")), ("sm_70", ("--result", "f16")), ("sm_90", ("--result", "f16"))):
        answer = json.loads(kernels.answer("--json", "-o", "kernel.ptx", *PRODUCT, *FINISHED, *more, target=target))
        check_equal((answer["checked"]["wrong"], answer["checked"]["results"]), (0, 61 * 43), f"{target} {more}")
        check_equal(answer["kernel"]["epilogue"], list(FINISHED[1::2]), "steps")
        result = answer["kernel"]["parameters"][0]["type"]
        check_equal([(p["name"], p["type"], p["shape"]) for p in answer["kernel"]["parameters"][3:]],
                    [("bias", result, [43]), ("residual", result, [61, 43])], "what is added")
    errors = kernels.answer(*PRODUCT, "--epilogue", "+ bias[k]", expect=3)
    check("epilogue '+ bias[k]': 'k' is no loop of the result" in errors, errors)


def test_what_has_no_kernel_says_why(kernels):
    errors = kernels.answer(*PRODUCT, "--instruction", "mma.m8n8k4.f16.f32", target="sm_70", expect=4)
    check("mma.m8n8k4.f16.f32: it is not described as threads execute it together" in errors, errors)
    errors = kernels.answer(*PRODUCT, "--type", "f32", "--instruction", "mma.m16n8k16.f16.f32", expect=4)
    check("is f32, not f16" in errors, errors)
    errors = kernels.answer(*PRODUCT, "--type", "i8", expect=3)
    check("--type i8: accepted are f16, bf16, s8" in errors, errors)
    for wrong, said in ((("--name", "1a"), "a letter first"), (("--manifest", "-"), "a file is accepted"),
                        (("--points", "-1"), "--points"), (("--tile", "8"), "--tile")):
        errors = kernels.answer(*PRODUCT, *wrong, expect=2)
        check(said in errors, errors)


def test_the_assembler_takes_the_text(kernels):
    ptxas = shutil.which("ptxas") or shutil.which("ptxas", path="/usr/local/cuda/bin")
    if not ptxas:
        pytest.skip("there is no ptxas")
    for target, arguments in (("sm_80", PRODUCT), ("sm_80", (*PRODUCT, "--type", "s8")), ("sm_80", SQUARE),
                              ("sm_80", STRIDED), ("sm_80", (*PRODUCT, *FINISHED, "--type", "bf16", "--result", "bf16")),
                              ("sm_80", (*PRODUCT, *FINISHED, "--type", "s8")), ("sm_70", (*PRODUCT, *FINISHED, "--result", "f16")),
                              ("sm_80", (*PRODUCT, *FINISHED, "--type", "f64")), ("sm_90", (*SQUARE, *FINISHED)), ("sm_70", SQUARE), ("sm_70", (*STRIDED, "--result", "f16")), ("sm_90", SQUARE), ("sm_90", (*SQUARE, "--type", "s8")),
                              ("sm_90", (*STRIDED, "--instruction", "wgmma.m64n64k16.f16.f32"))):
        kernels.answer(*arguments, "-o", "kernel.ptx", target=target)
        own = re.search(r"^\.target (\w+)", (kernels.folder / "kernel.ptx").read_text(), re.M)[1]
        own = "sm_80" if own == "sm_70" else own  # which newer assemblers accept only as text
        done = subprocess.run([ptxas, f"-arch={own}", "kernel.ptx", "-o", "kernel.cubin"], cwd=kernels.folder,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        if "not defined for option 'gpu-name'" in done.stderr:
            pytest.skip(f"{ptxas} does not know {target}")
        check_equal(done.returncode, 0, f"ptxas on {target}, {' '.join(arguments)}: {done.stdout}{done.stderr}")
        check("serialized" not in done.stderr, f"products wait for each other: {done.stderr}")
