"""Operators as C++ for FPGAs, from the command line: the sources build and pass their test bench, designs fit, and what has no
design is refused by name."""

import json
import pathlib
import subprocess

import pytest

from checks import check, check_equal
from e2e.tessera_e2e import BIN

CONVOLUTION = ("--op", "O[n, k, p, q] += I[n, c, 2 * p + r, 2 * q + s] * W[k, c, r, s]", "--extents", "1x13x7x5x11x3x3")
SOFTMAX = ("--op", "M[i] = max(A[i, j]); E[i, j] = exp(A[i, j] - M[i]); S[i] += E[i, j]; O[i, j] = E[i, j] / S[i]",
           "--extents", "17x29")


class Designs:
    """`tessera kernel` for FPGAs in its own folder. A built-in chip needs no service."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    def kernel(self, *arguments, target="vu9p", expect=0):
        done = subprocess.run([BIN / "tessera", "--server", "127.0.0.1:1", "kernel", "--target", target, *arguments],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, cwd=self.folder)
        check_equal(done.returncode, expect, f"exit code of kernel {' '.join(arguments)}: {done.stderr}")
        return done.stderr if expect else done.stdout

    def bench(self, *arguments, target="vu9p"):
        """The JSON of a design whose test bench was built by a C++ compiler and found no difference."""
        answer = json.loads(self.kernel("--json", "--name", "design", "-o", "sources", *arguments, target=target))
        folder = self.folder / "sources"
        subprocess.run(["c++", "-std=c++17", "-O1", "-Wall", "-Wno-unknown-pragmas", "-Wno-unused-function", "-Werror",
                        folder / "design.cpp", folder / "design_test.cpp", "-o", folder / "bench"], check=True, timeout=120)
        done = subprocess.run([folder / "bench"], capture_output=True, text=True, check=False, timeout=60)
        check_equal((done.returncode, done.stdout), (0, "design: 0 wrong\n"), "the test bench")
        return answer


@pytest.fixture(scope="module")
def designs(tmp_path_factory):
    return Designs(tmp_path_factory.mktemp("fpga"))


@pytest.mark.parametrize("target", ("vu9p", "u280", "zcu104"))
def test_designs_pass_their_test_bench_and_fit(designs, target):
    for arguments in ((*CONVOLUTION, "--type", "s8"), CONVOLUTION, SOFTMAX):
        answer = designs.bench(*arguments, target=target)
        for name, used in answer["resources"].items():
            check(used <= answer["available"][name], f"{name} of {answer['resources']}")
        check(abs(answer["cycles"] / answer["simulated_cycles"] - 1) <= 0.05, f"{answer['cycles']} cycles predicted, {answer}")
        check(0 < answer["dsp_share"] <= 1 and 0 < answer["bandwidth_share"] <= 1, f"{answer}")


def test_the_sources_are_printed(designs):
    text = designs.kernel(*CONVOLUTION)
    for part in ("#pragma HLS dataflow", "#pragma HLS pipeline II=", "#pragma HLS interface mode=m_axi", "kernel_engine0_compute("):
        check(part in text, f"{part!r} is not in\n{text}")
    check_equal(designs.kernel(*CONVOLUTION), text, "the same design")
    check("Pipe" in designs.kernel(*CONVOLUTION, "-o", "sources"), "the tile tree is not printed")


def test_refusals_name_what_is_missing(designs):
    check("has no cost for powf of type f32" in designs.kernel("--op", "O[i] = pow(A[i], B[i])", "--extents", "8", expect=4), "pow")
    check("no cost for mulf of type f64" in designs.kernel(*CONVOLUTION, "--type", "f64", expect=4), "f64")
    for option in (["--plain"], ["--seed", "2"], ["--epilogue", "relu"]):
        check(f"{option[0]} is for PTX" in designs.kernel(*CONVOLUTION, *option, expect=3), "an option of PTX")
