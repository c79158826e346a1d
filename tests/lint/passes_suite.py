"""Every graph pass has a lit test that runs it, except passes that change nothing without the bytes of weights, which no MLIR
text holds, and analyses."""

import pathlib
import re

from checks import check, check_equal

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ROOT / "compiler/graph/graph_pass.cpp"
PIPELINE = ROOT / "compiler/graph/pipeline.cpp"
ENTRY = re.compile(r'^    \{"([a-z0-9-]+)", "[a-z0-9-]+",(.*?)\[\]\(PassState', re.MULTILINE | re.DOTALL)
# Pass -> where it is tested instead.
TESTED_ELSEWHERE = {
    "count-layout-transforms": "compiler/graph/layout/layout_test.cpp",
    "mark-narrow-pairs": "compiler/graph/layout/narrow_pairs_test.cpp",
}


def passes():
    names = [name for name, _ in ENTRY.findall(TABLE.read_text())]
    check(len(names) > 40, f"passes of the table: {names}")
    return names


def test_every_pass_is_in_a_lit_test():
    tests = [*(ROOT / "tests/lit").rglob("*.mlir"), *(ROOT / "tests/lit").rglob("*.test")]
    runs = [line for test in tests for line in test.read_text().splitlines() if "RUN:" in line]
    lacking = [name for name in passes() if name not in TESTED_ELSEWHERE
               and not any(re.search(rf"-tessera-{name}(?![\w-])", line) for line in runs)]
    check_equal(lacking, [], "passes without a lit test")
    check_equal([path for path in TESTED_ELSEWHERE.values() if not (ROOT / path).is_file()], [], "tests that are gone")


def test_every_pass_is_in_the_pipeline_with_a_reason():
    steps = re.findall(r'^    \{(?:"([a-z0-9-]+)"|kCleanUp),\s*"([^"]*)"', PIPELINE.read_text(), re.MULTILINE)
    check(len(steps) > 60, f"{len(steps)} steps of the pipeline were found")
    check_equal([name for name, reason in steps if not reason], [], "steps without a reason")
    named = {name for name, _ in steps} | {"remove-dead-code", "eliminate-duplicates", "canonicalize"}  # of clean-up
    check_equal(sorted(set(passes()) - named), [], "passes that nothing runs")
