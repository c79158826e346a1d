"""Counts of test cases and their failures, read from GoogleTest, CTest, lit and pytest."""

import dataclasses
import json
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


def pytest(junit):
    """(cases of a pytest run, {suite: (its cases, seconds)}). An expected failure is a finding that fails nothing."""
    total, by_suite = Result(), {}
    for case in xml.etree.ElementTree.parse(junit).getroot().iter("testcase"):
        file, test = case.get("file"), case.get("name")
        if not test:  # it was running when pytest was interrupted
            continue
        if not file:  # a crash has the file in its name, and a suite that cannot be imported is a module
            file, _, test = test.rpartition("::")
            file = file or test
        name, result = f"tests/{file}::{test}", Result()
        bad = next((child for child in case if child.tag in ("failure", "error")), None)
        skipped = case.find("skipped")
        if bad is not None:
            said = "\n".join(filter(None, (bad.get("message"), bad.text)))
            result.fail(name, "\n".join(said.strip().splitlines()[:EXCERPT_LINES]))
        elif skipped is None:
            result.passed = 1
        elif skipped.get("type") == "pytest.xfail":
            result.reports.append(Report(name, skipped.get("message", "")))
        else:
            result.skipped = 1
        suite = file.removesuffix("_suite.py")
        before, seconds = by_suite.get(suite, (Result(), 0))
        by_suite[suite] = (before + result, seconds + float(case.get("time", 0)))
        total += result
    return total, by_suite
