#!/usr/bin/python3
"""ONNX's own backend tests through the service: compiled by a job, run from the artifact, compared elementwise.

A test in passing.txt must pass. others.txt lists the rest with reasons. A test that is rejected with
UNSUPPORTED_OPERATOR, or whose data does not fit its model, counts as skipped. A wrong result, a crash or any other
failure counts as failed, listed or not, unless others.txt marks it as `known`. README.md counts both, by suite and by
kind of reason; a wrong count fails. --update rewrites the lists and the counts; it never removes a test from
passing.txt. --data FOLDER takes the tests of another release: onnx/backend/test/data of ONNX's sources. All of them must
pass, except those in newest.txt; releases newer than the one in README.md may have others.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import os
import pathlib
import re
import sys

import numpy as np
import pytest

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1]))  # where this file is a program

from checks import check, check_equal
from conformance import onnx_data
from e2e.tessera_e2e import Service

pytestmark = pytest.mark.service(workers=os.cpu_count())

PASSING = pathlib.Path(__file__).with_name("passing.txt")
OTHERS = pathlib.Path(__file__).with_name("others.txt")
NEWEST = pathlib.Path(__file__).with_name("newest.txt")  # like others.txt, for the release that README.md names
README = pathlib.Path(__file__).with_name("README.md")
# Kinds of reasons in others.txt, for README.md: the first expression that matches a reason decides its kind.
KINDS = (("strings", r"STRING|StringNormalizer"),
         ("training", r"ai\.onnx\.preview\.training|training mode"),
         ("random numbers", r"Bernoulli|Random|Multinomial"),
         ("sequences and optionals as inputs or outputs of the model", r"is not a tensor"),
         ("the test's own data contradict its model", r"the test's own data"),
         ("another answer, as ONNX Runtime and PyTorch have it", r"^known: corners"),
         ("other", r""))
OTHERS_HEAD = """\
# ONNX's backend tests that do not pass, and why. Written by `onnx_backend_suite.py --update`.
# test reason
"""
# The tolerances of ONNX's own runner.
RTOL, ATOL = 1e-3, 1e-7
# For newer releases those of import_conformance: their f16 results are rounded after each step, and some sums cancel to
# 0.
NEWEST_RTOL, NEWEST_RTOL_16, NEWEST_ATOL = 1e-3, 8e-3, 1e-5


def tolerance(array, newest):
    if not newest or array.dtype.kind != "f":
        return {"rtol": RTOL, "atol": ATOL}
    return {"rtol": NEWEST_RTOL_16 if array.dtype.itemsize == 2 else NEWEST_RTOL, "atol": NEWEST_ATOL}


def attempt(service, case, newest):
    """None if the test passes, the reason if it is out of scope; AssertionError if it fails."""
    if case.contradiction:
        return case.contradiction
    artifact = service.scratch("case.tsra")
    flags = [word for name, array in case.inputs.items() if array is not None
             for word in ("--shape", f"{name}={'x'.join(map(str, array.shape))}")]
    fixed = set()
    while True:
        answer = service.cli("compile", case.model, "--target", "host", "--json", "-o", artifact, *flags, expect=None)
        if answer.code != 4:
            break
        check_equal(answer.failure["reason"], "UNSUPPORTED_OPERATOR", "reason of exit code 4")
        # If a shape depends on an input's value, the error names the input, and its advice must be correct.
        wanted = set(re.findall(r"--fix (\S+)=\.\.\.", answer.failure.get("fix", ""))) & set(case.inputs)
        if not wanted - fixed:
            return answer.failure["message"]
        for name in wanted - fixed:
            value = service.scratch("fixed.npy")
            np.save(value, case.inputs[name])
            flags += ["--fix", f"{name}=@{value}"]
        fixed |= wanted
    check(answer.code == 0, f"refused: {answer.failure or answer}")
    check(case.runnable, "compiled, though its inputs or outputs are no dense tensors")
    outputs, _ = service.run(artifact, case.inputs)
    artifact.unlink()
    check_equal(len(outputs), len(case.outputs), "number of outputs")
    for name, wanted in case.outputs.items():
        found = outputs[name.replace("/", "_")]
        check_equal((found.shape, found.dtype), (wanted.shape, wanted.dtype), f"shape and type of {name}")
        np.testing.assert_allclose(found, wanted, **tolerance(wanted, newest), equal_nan=True, err_msg=name)
    return None


def short(message):
    """The reason as in others.txt: without node names, which mean nothing in a table."""
    found = re.match(r"\d+ nodes? uses? (?:an operator|operators) that Tessera does not compile: (.*)", message)
    if found:
        return "operator " + ", ".join(sorted(set(re.findall(r"node '[^']*': ([\w.]+)", found[1]))))
    return re.sub(r"^node '[^']*' \((\w+)\): ", r"\1: ", message)


def outcome(service, name, data):
    """(ok, skipped or FAILED; the reason). `data`: the folder of another release, or None."""
    try:
        refused = attempt(service, onnx_data.load(name, data or onnx_data.FOLDER), data)
        return ("skipped", short(refused)) if refused else ("ok", "")
    except AssertionError as error:
        return "FAILED", " ".join(str(error).split())[:600]


@contextlib.contextmanager
def outcomes(service, names, data=None):
    """name -> future of its outcome. More requests than cores: a request waits for processes and disks half of its time."""
    with concurrent.futures.ThreadPoolExecutor(2 * os.cpu_count()) as pool:
        try:
            yield {name: pool.submit(outcome, service, name, data) for name in names}
        finally:
            pool.shutdown(cancel_futures=True)


def table(path):
    """Reasons by name."""
    rows = path.read_text().splitlines() if path.exists() else []
    return dict(row.split(" ", 1) for row in rows if not row.startswith("#"))


def listed(names, newest):
    """The tests that must pass, and those known to fail with their reasons, which start with `known:`."""
    reasons = table(NEWEST if newest else OTHERS)
    passing = set(names) - set(reasons) if newest else set(PASSING.read_text().split()) if PASSING.exists() else set()
    return passing, {name: reason for name, reason in reasons.items() if reason.startswith("known:")}


def groups(names):
    return collections.Counter(name.split("/")[0] for name in names)


def share(passed, total):
    return f"{100 * passed / total:.1f} %"


def counts_text(names, reasons):
    """The two tables of README.md: counts of all tests, and kinds of reasons."""
    total, missing = groups(names), groups(reasons)
    lines = ["| suite | tests | pass | |", "|---|---|---|---|"]
    lines += [f"| {suite} | {total[suite]} | {total[suite] - missing[suite]} | "
              f"{share(total[suite] - missing[suite], total[suite])} |" for suite in sorted(total)]
    kinds = collections.defaultdict(collections.Counter)
    for name, reason in reasons.items():
        kind = next(kind for kind, pattern in KINDS if re.search(pattern, reason))
        kinds[kind].update(groups([name]))
    lines += ["", "| the others need | " + " | ".join(sorted(total)) + " |", "|---|" + "---|" * len(total)]
    lines += [f"| {kind} | " + " | ".join(str(kinds[kind][suite]) for suite in sorted(total)) + " |"
              for kind, _ in KINDS if kind in kinds]
    return "\n".join(lines) + "\n"


def readme_parts():
    """README.md before the counts, the counts, and README.md after them."""
    before, rest = README.read_text().split("<!-- counts -->\n")
    counts, after = rest.split("<!-- end of counts -->")
    return before, counts, after


def write_reasons(path, reasons):
    path.write_text(OTHERS_HEAD + "".join(f"{name} {reasons[name]}\n" for name in sorted(reasons)))


def write_lists(passing, reasons):
    PASSING.write_text("\n".join(sorted(passing)) + "\n")
    write_reasons(OTHERS, reasons)
    before, _, after = readme_parts()
    README.write_text(f"{before}<!-- counts -->\n{counts_text([*passing, *reasons], reasons)}"
                      f"<!-- end of counts -->{after}")


NAMES = onnx_data.names()
MUST_PASS, KNOWN = listed(NAMES, None)


@pytest.fixture(scope="module")
def selected(request, service):
    """The outcomes of the selected tests."""
    names = [item.callspec.params["name"] for item in request.session.items
             if item.path == request.path and getattr(item, "originalname", "") == "test_backend"]
    with outcomes(service, names) as found:
        yield found


@pytest.mark.parametrize("name", NAMES)
def test_backend(selected, name):
    verdict, detail = selected[name].result()
    if verdict == "skipped" and name not in MUST_PASS or verdict == "FAILED" and name in KNOWN:
        pytest.skip(KNOWN.get(name, detail))
    check(verdict == "ok", f"passed before: {detail}" if name in MUST_PASS else detail)
    if name not in MUST_PASS:
        print(f"{name} passes and is not listed: run onnx_backend_suite.py --update")


def test_listed_tests_exist():
    check_equal(sorted(MUST_PASS - set(NAMES)), [], "tests of passing.txt that do not exist")


def test_counts_in_the_readme(selected):
    if len(selected) < len(NAMES):
        pytest.skip("counts are those of all tests")
    reasons = {name: found[1] for name, future in selected.items() if (found := future.result())[0] != "ok"}
    reasons = {name: KNOWN.get(name, reason) for name, reason in reasons.items()}
    check_equal(readme_parts()[1], counts_text(NAMES, reasons), "the counts in README.md, which onnx_backend_suite.py --update writes")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--update", action="store_true", help="write passing.txt and others.txt, or newest.txt with --data")
    parser.add_argument("--data", metavar="FOLDER", type=pathlib.Path, help="the tests of another release")
    options = parser.parse_args()
    names = onnx_data.names(options.data or onnx_data.FOLDER)
    must_pass, known = listed(names, options.data)
    reasons, failed = {}, 0
    with Service(workers=os.cpu_count()) as service:
        service.wait_for_workers(os.cpu_count())
        with outcomes(service, names, options.data) as futures:
            for name, future in futures.items():
                verdict, detail = future.result()
                if verdict == "FAILED" and name in known and name not in must_pass:
                    verdict, detail = "skipped", known[name]
                if verdict != "ok":
                    reasons[name] = detail
                    failed += verdict == "FAILED" or name in must_pass
                    print(f"{verdict} {name}: {detail}", flush=True)
    passing = set(names) - set(reasons)
    if options.update and options.data:
        write_reasons(NEWEST, reasons)
    elif options.update:
        write_lists(must_pass | passing, {name: why for name, why in reasons.items() if name not in must_pass})
    total, passed = groups(names), groups(passing)
    for group in sorted(total):
        print(f"{group}: {passed[group]} of {total[group]} pass, {share(passed[group], total[group])}")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
