"""Runs each libFuzzer target for half a minute from the seeds in the tree; prints a crashing input in base64.

TESSERA_FUZZ_SECONDS sets the time: TESSERA_FUZZ_SECONDS=1800 pytest tests/fuzz/fuzz_suite.py -k "import or expression" --timeout 0
"""

import os
import pathlib
import re
import subprocess
import tempfile

import pytest

from checks import check

pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TESSERA_BUILD_DIR", ROOT / "build" / "release"))
SECONDS = int(os.environ.get("TESSERA_FUZZ_SECONDS", 30))
# Seconds for a single input before it counts as a hang: generous, since machines are shared.
INPUT_TIMEOUT_S = 20
# target: (longest input in bytes, seeds in addition to seeds/<target>)
TARGETS = {
    "import": (16384, ["/usr/share/libonnx-testdata/data/node"]),
    "expression": (4096, []),
    "target": (8192, [ROOT / "compiler" / "target" / "builtin"]),
    "storage_filter": (4096, []),
    "artifact": (4096, []),
    "web_request": (4096, []),
    "signature": (1024, []),
    "mlir": (4096, []),
    "npy": (4096, []),
    "page_token": (1024, []),
    "task_result": (4096, []),
}


def program(name):
    """The binary to run: the one that instruments the library under test, if it is built."""
    seeing = BUILD / "bin" / f"{name}_edges_fuzz"
    return seeing if seeing.exists() else BUILD / "bin" / f"{name}_fuzz"


def fuzz(name):
    """(exit code, output) of one target. Its corpus starts empty, so that only the seeds decide where it begins."""
    longest, more_seeds = TARGETS[name]
    here = ROOT / "tests" / "fuzz"
    seeds = [here / "seeds" / name, *(path for path in more_seeds if pathlib.Path(path).exists())]
    dictionary = here / f"{name}.dict"
    words = [f"-dict={dictionary}"] if dictionary.exists() else []
    with tempfile.TemporaryDirectory(prefix="tessera-fuzz-") as corpus:
        done = subprocess.run(
            [program(name), f"-max_total_time={SECONDS}", f"-timeout={INPUT_TIMEOUT_S}",
             f"-max_len={longest}", "-rss_limit_mb=2048", f"-artifact_prefix={corpus}/", "-print_final_stats=1",
             *words, corpus, *seeds],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False)
    return done.returncode, done.stderr


def finding(output):
    """libFuzzer's report on the last input: kind, input in base64, innermost calls."""
    kind = re.findall(r"^(?:==\d+==\s*ERROR|SUMMARY|ALARM|untyped error|import|check): .*", output, re.MULTILINE)
    encoded = re.findall(r"^Base64: .*", output, re.MULTILINE)
    calls = [re.sub(r"0x\w+ in | \(BuildId.*", "", call.strip())[:160]
             for call in re.findall(r"^\s+#\d+ .*(?:tessera|mlir|llvm|google)::.*", output, re.MULTILINE)]
    return "\n".join([*kind[:3], *calls[:6], *encoded]) or output[-4000:]


@pytest.mark.parametrize("name", TARGETS)
def test_survives(name):
    code, output = fuzz(name)
    if code != 0:
        print(output[-20000:])
    check(code == 0, f"exit code {code}\n{finding(output)}")
    runs = re.search(r"Done (\d+) runs in (\d+) second", output)
    covered = re.findall(r"cov: (\d+)", output)
    check(runs and int(runs[1]) > 0 and covered, f"nothing was run: {output[-2000:]}")
    print(f"   {program(name).name}: {runs[1]} inputs in {runs[2]} s, {covered[-1]} edges covered")
