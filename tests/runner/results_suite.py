"""The test command counts all cases: failures, crashes and suites that end early are never lost."""

import contextlib
import io
import json
import os
import pathlib
import subprocess
import tempfile
import time

import results
import steps
import test_groups
from checks import check, check_equal
from process import run_logged


def counts(result):
    return result.passed, result.failed, result.skipped


def gtest_report(path, outcomes):
    cases = [{"name": f"case{i}", "result": "SKIPPED" if outcome == "skip" else "COMPLETED",
              **({"failures": [{"failure": "file.cpp:1\nExpected: 1"}]} if outcome == "fail" else {})} for i, outcome in enumerate(outcomes)]
    path.write_text(json.dumps({"testsuites": [{"name": "Suite", "testsuite": cases}]}))


def test_ctest_counts_cases():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        gtest_report(folder / "a_test.json", ["pass", "pass", "fail", "skip"])
        gtest_report(folder / "leaky_test.json", ["pass"])
        junit = folder / "ctest.xml"
        junit.write_text('<testsuite><testcase name="a_test" status="fail"/>'
                         '<testcase name="crashed_test" status="fail"><system-out>one\ntwo</system-out></testcase>'
                         '<testcase name="leaky_test" status="fail"/><testcase name="script" status="run"/>'
                         '<testcase name="off" status="disabled"/></testsuite>')
        result = results.ctest(junit, folder)
    check_equal(counts(result), (4, 3, 2), "passed, failed, skipped")
    check_equal([(f.name.split()[0], f.detail) for f in result.failures],
                [("Suite.case2", "file.cpp:1\nExpected: 1"), ("crashed_test", "one\ntwo"), ("leaky_test", "")], "failures")


def test_lit_counts_tests():
    with tempfile.TemporaryDirectory() as name:
        path = pathlib.Path(name) / "lit.json"
        path.write_text(json.dumps({"tests": [{"name": code, "code": code, "output": f"said {code}"} for code in
                                              ("PASS", "FAIL", "XFAIL", "XPASS", "TIMEOUT", "UNRESOLVED", "UNSUPPORTED")]}))
        result = results.lit(path)
    check_equal(counts(result), (2, 4, 1), "lit")
    check_equal([str(f) for f in result.failures],
                [f"FAILED {code}\n    said {code}" for code in ("FAIL", "XPASS", "TIMEOUT", "UNRESOLVED")], "failures")


SUITE = """
import os
import pytest

@pytest.fixture(params=("starts", "fails"))
def service(request):
    assert request.param == "starts", "no service"

def test_passes(service): pass
def test_fails(): assert 1 == 2, "a reason"
def test_is_left_out(): pytest.skip("not here")
def test_is_reported(): pytest.xfail("found, repeat it")
"""


def pytest_of(folder, text, *arguments):
    """The result of tests/run for this suite, and what pytest printed."""
    (folder / "e2e").mkdir(parents=True)
    (folder / "pytest.ini").write_text(f"[pytest]\npython_files = *_suite.py\njunit_family = xunit1\npythonpath = {steps.ROOT}/tests\n")
    (folder / "conftest.py").write_text("from crashed_tests import pytest_handlecrashitem\n")
    (folder / "e2e" / "some_suite.py").write_text(text)
    done = subprocess.run(["/usr/bin/python3", "-m", "pytest", f"--junitxml={folder}/some.xml", *arguments, folder], capture_output=True, text=True, check=False)
    return results.pytest(folder / "some.xml"), done.stdout


def test_pytest_counts_cases(tmp_path):
    for number, arguments in enumerate(((), ("-n", "2", "--dist", "loadfile"))):
        (result, by_suite), said = pytest_of(tmp_path / f"{number}", SUITE, *arguments)
        check_equal(counts(result), (1, 2, 1), f"passed, failed, skipped of\n{said}")
        check_equal(sorted(each.name for each in result.failures),
                    ["tests/e2e/some_suite.py::test_fails", "tests/e2e/some_suite.py::test_passes[fails]"], "failures")
        check("a reason" in "".join(map(str, result.failures)) and "no service" in "".join(map(str, result.failures)), "reasons")
        check_equal([(each.name, each.detail) for each in result.reports], [("tests/e2e/some_suite.py::test_is_reported", "found, repeat it")], "reports")
        check_equal([(name, counts(cases)) for name, (cases, _) in by_suite.items()], [("e2e/some", (1, 2, 1))], "suites")


def test_crashes_and_broken_suites_fail(tmp_path):
    for name, text, arguments in (("crash", "import os\ndef test_crashes(): os.abort()\ndef test_next(): pass\n", ("-n", "2", "--dist", "loadfile")),
                                  ("syntax", "def test_(:\n", ()), ("import", "import nothing_of_this_name\n", ())):
        (result, _), said = pytest_of(tmp_path / name, text, *arguments)
        check_equal(counts(result), (int(name == "crash"), 1, 0), f"{name}: {said}")


def lives(pid):
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    # A zombie that init has not reaped yet counts as ended.
    return stat.rsplit(")", 1)[1].split()[0] != "Z"


def test_nothing_survives():
    with tempfile.TemporaryDirectory() as name:
        log = pathlib.Path(name) / "log"
        returncode, output = run_logged(["bash", "-c", "sleep 1000 & echo $!; setsid sleep 1000 & echo $!; wait"], log, 1, cwd=name)
        check_equal(returncode, 124, "exit code after the timeout")
        check("timed out" in log.read_text(), "the log does not say that it timed out")
        children = [int(word) for word in output.split()[:2]]
        give_up = time.monotonic() + 30  # a killed process dies when it is next scheduled
        while any(map(lives, children)) and time.monotonic() < give_up:
            time.sleep(0.01)
        check(not any(map(lives, children)), f"one of the processes {children} still runs")


@contextlib.contextmanager
def group_run(cmake, ctest, seconds, within=None, preset="pretended"):
    """Runs a group with these scripts as its tools; returns its result. `within`: seconds left of the run."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for tool, script in (("cmake", cmake), ("ctest", ctest)):
            (folder / tool).write_text(f"#!/bin/bash\n{script}\n")
            (folder / tool).chmod(0o755)

        class Context(steps.Context):
            logs = folder

        before = os.environ["PATH"], test_groups.GROUPS, test_groups.GROUP_SECONDS
        os.environ["PATH"] = f"{name}:{before[0]}"
        test_groups.GROUPS, test_groups.GROUP_SECONDS = {"some": test_groups.Group(preset, ("a_test",))}, seconds
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                until = None if within is None else time.monotonic() + within
                result = test_groups.group_tests(Context("pretended", 1, frozenset(), lambda _: True, "by-commit", until))
            yield result
        finally:
            os.environ["PATH"], test_groups.GROUPS, test_groups.GROUP_SECONDS = before


def test_a_group_that_ran_out_of_time_fails_nothing():
    report = """while [ "$1" != --output-junit ]; do shift; done
                echo '<testsuite><testcase name="a_test" status="STATUS"/></testsuite>' > "$2" """
    builds_for_ever, builds_not = ('[ "$1" = --build ] && %s; exit 0' % end for end in ("exec sleep 100", "exit 1"))
    for seconds, cmake, ctest, failed in (
            (1, "exec sleep 100", "exit 0", 0),
            (1, builds_for_ever, "exit 0", 0),
            (1, "exit 0", "exec sleep 100", 0),
            (5, "exit 0", "echo '1/2 Test #1: a_test ...***Failed'; exec sleep 100", 1),
            (100, builds_not, "exit 0", 1),
            (100, "exit 0", "exit 1", 1),
            (100, "exit 0", report.replace("STATUS", "fail"), 1),
            (100, "exit 0", report.replace("STATUS", "run"), 0)):
        late = [f"some: no time was left of {seconds} s"] if seconds == 1 else []
        with group_run(cmake, ctest, seconds) as result:
            check_equal((result.failed, [each.name for each in result.reports]), (failed, late), f"cmake: {cmake}; ctest: {ctest}")
            check_equal(len(result.failures), failed, "failures")


def test_a_group_takes_what_the_run_has_left():
    for seconds, within, left in ((100, 1, 1), (1, 100, 1), (100, -5, 0)):
        with group_run("exec sleep 100", "exit 0", seconds, within) as result:
            check_equal((result.failed, [each.name for each in result.reports]), (0, [f"some: no time was left of {left} s"]),
                        f"{seconds} s of a group, {within} s of the run")


def test_an_avx2_group_builds_nothing_and_hides_other_features():
    ctest = """while [ "$1" != --output-junit ]; do shift; done
               case ",$TESSERA_HOST_FEATURES," in *avx512*) exit 1;; *,avx2,*) status=run;; *) status=fail;; esac
               echo "<testsuite><testcase name='a_test' status='$status'/></testsuite>" > "$2" """
    with group_run("exit 1", ctest, 100, preset="") as result:
        check_equal((counts(result), result.failures), ((1, 0, 0), []), "a group limited to AVX2")
    with group_run("exit 1", "exec sleep 100", 1, preset="") as result:
        check_equal((result.failed, len(result.reports)), (0, 1), "one that had no time")


def test_every_group_names_existing_tests():
    for name, group in test_groups.GROUPS.items():
        check(group.tests or group.suites, f"{name} is empty")
        for suite in group.suites:
            check(steps.suite_path(suite).exists(), f"{name}: there is no suite {suite}")
