"""Counts of test cases, and how to read them from GoogleTest, CTest, lit and our own suites."""

import dataclasses
import json
import re
import xml.etree.ElementTree


@dataclasses.dataclass
class Result:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    fatal: bool = False  # nothing after this step can work

    def __add__(self, other):
        return Result(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped,
                      self.fatal or other.fatal)

    def __str__(self):
        return f"{self.passed} passed, {self.failed} failed" if self.passed or self.failed else "ok"


def gtest(path):
    """Cases of one GoogleTest JSON report, and the names of those that failed."""
    result, failures = Result(), []
    for group in json.loads(path.read_text())["testsuites"]:
        for case in group["testsuite"]:
            if case.get("failures"):
                result.failed += 1
                failures.append(f"{group['name']}.{case['name']}")
            elif case.get("result") == "COMPLETED":
                result.passed += 1
            else:
                result.skipped += 1
    return result, failures


def ctest(junit, reports):
    """Cases of a CTest run. A test with a GoogleTest report counts as its cases, any other as one.

    A binary that crashed or ran out of time leaves no report, so it counts as one failure; one that
    reports no failing case but exits with an error (a sanitizer's finding, say) adds one.
    """
    result, failures = Result(), []
    for test in xml.etree.ElementTree.parse(junit).getroot().iter("testcase"):
        name, status = test.get("name"), test.get("status")
        report = reports / f"{name}.json"
        cases, failed = gtest(report) if report.exists() else (Result(), [])
        result += cases
        failures += failed
        if status == "fail" and not failed:
            result.failed += 1
            failures.append(f"{name} (no result: crashed, timed out, or failed outside a test case)")
        elif status == "run" and not report.exists():
            result.passed += 1
        elif status not in ("run", "fail"):
            result.skipped += 1
    return result, failures


def lit(path):
    """Tests of a lit JSON report."""
    result, failures = Result(), []
    for test in json.loads(path.read_text())["tests"]:
        if test["code"] in ("PASS", "XFAIL", "FLAKYPASS"):
            result.passed += 1
        elif test["code"] in ("UNSUPPORTED", "SKIPPED", "EXCLUDED"):
            result.skipped += 1
        else:
            result.failed += 1
            failures.append(test["name"])
    return result, failures


def suite(name, output, returncode):
    """Cases of a suite by its last line `name: N passed, N failed[, N skipped]`; none at all is a failure."""
    lines = re.findall(r"^\S+: (\d+) passed, (\d+) failed(?:, (\d+) skipped)?$", output, re.MULTILINE)
    if not lines:
        return Result(failed=1), [f"{name} (no result line: crashed or timed out)"]
    passed, failed, skipped = (int(number or 0) for number in lines[-1])
    failures = re.findall(r"^FAILED (\S+)", output, re.MULTILINE)
    if passed + failed == 0 and not skipped:
        return Result(failed=1), [f"{name} (ran no case)"]
    if returncode != 0 and failed == 0:
        return Result(passed, 1, skipped), [f"{name} (exit code {returncode} though no case failed)"]
    return Result(passed, failed, skipped), failures
