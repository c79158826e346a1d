"""Counts of test cases and their failures, read from GoogleTest, CTest, lit and our own suites."""

import dataclasses
import json
import re
import xml.etree.ElementTree


EXCERPT_LINES = 12


def excerpt(text, lines=EXCERPT_LINES):
    """The last lines of an output, for a summary."""
    return "\n".join(text.strip().splitlines()[-lines:])


@dataclasses.dataclass
class Failure:
    name: str
    detail: str = ""  # an excerpt of its output

    def __str__(self):
        return "\n    ".join([f"FAILED {self.name}", *(line[:400] for line in self.detail.splitlines())])


class Report(Failure):
    """A finding that fails nothing."""

    def __str__(self):
        return super().__str__().replace("FAILED", "reported", 1)


@dataclasses.dataclass
class Result:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    fatal: bool = False  # no later step can work
    failures: list[Failure] = dataclasses.field(default_factory=list)
    reports: list[Report] = dataclasses.field(default_factory=list)

    def __add__(self, other):
        return Result(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped,
                      self.fatal or other.fatal, self.failures + other.failures, self.reports + other.reports)

    def fail(self, name, detail=""):
        """Counts one failed case."""
        self.failed += 1
        self.failures.append(Failure(name, detail))

    def __str__(self):
        return f"{self.passed} passed, {self.failed} failed" if self.passed or self.failed else "ok"


def gtest(path):
    """Cases of one GoogleTest JSON report."""
    result = Result()
    for group in json.loads(path.read_text())["testsuites"]:
        for case in group["testsuite"]:
            if case.get("failures"):
                said = "\n".join(failure.get("failure", "") for failure in case["failures"])
                result.fail(f"{group['name']}.{case['name']}", "\n".join(said.splitlines()[:EXCERPT_LINES]))
            elif case.get("result") == "COMPLETED":
                result.passed += 1
            else:
                result.skipped += 1
    return result


def ctest(junit, reports):
    """Cases of a CTest run. A test with a GoogleTest report counts as its cases, any other as one.

    A binary that crashed or ran out of time leaves no report, so it counts as one failure; one that
    reports no failing case but exits with an error (a sanitizer's finding, say) adds one.
    """
    result = Result()
    for test in xml.etree.ElementTree.parse(junit).getroot().iter("testcase"):
        name, status = test.get("name"), test.get("status")
        report = reports / f"{name}.json"
        cases = gtest(report) if report.exists() else Result()
        if status == "fail" and not cases.failed:
            cases.fail(f"{name} (no result: crashed, timed out, or failed outside a test case)",
                       excerpt(test.findtext("system-out", "")))
        elif status == "run" and not report.exists():
            cases.passed += 1
        elif status not in ("run", "fail"):
            cases.skipped += 1
        result += cases
    return result


def lit(path):
    """Tests of a lit JSON report."""
    result = Result()
    for test in json.loads(path.read_text())["tests"]:
        if test["code"] in ("PASS", "XFAIL", "FLAKYPASS"):
            result.passed += 1
        elif test["code"] in ("UNSUPPORTED", "SKIPPED", "EXCLUDED"):
            result.skipped += 1
        else:
            result.fail(test["name"], excerpt(test.get("output", "")))
    return result


def suite(name, output, returncode):
    """Cases of a suite by its last line `name: N passed, N failed[, N skipped][, N reported]`; no case is a failure."""
    result = Result()
    lines = re.findall(r"^\S+: (\d+) passed, (\d+) failed(?:, (\d+) skipped)?(?:, (\d+) reported)?$", output, re.MULTILINE)
    if not lines:
        result.fail(f"{name} (no result line: crashed or timed out)", excerpt(output))
        return result
    result.passed, failed, result.skipped, reported = (int(number or 0) for number in lines[-1])

    def told(word):
        return [(f"{name}: {case.rstrip(':')}", "\n".join(detail.strip().splitlines()[:EXCERPT_LINES])) for case, detail in
                re.findall(rf"^{word} (\S+)(.*?)(?=^(?:ok|FAILED|skipped|reported) |^\S+: \d+ passed)", output,
                           re.MULTILINE | re.DOTALL)]
    result.reports = [Report(*each) for each in told("reported")[:reported]]
    named = told("FAILED")
    for case, detail in named[:failed]:
        result.fail(case, detail)
    for number in range(len(named), failed):
        result.fail(f"{name}: case {number + 1} of the failed, not named", excerpt(output))
    if result.passed + failed == 0 and not result.skipped and not reported:
        result.fail(f"{name} (ran no case)", excerpt(output))
    elif returncode != 0 and failed == 0:
        result.fail(f"{name} (exit code {returncode} though no case failed)", excerpt(output))
    return result
