#!/usr/bin/python3
"""The test command counts all cases: failures, crashes and suites that end early are never lost."""
# suite: timeout=60

import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1])]

import results
import steps
import turns
from process import run_logged
from suite import check, check_equal, run


def counts(result):
    return result.passed, result.failed, result.skipped


def gtest_report(path, outcomes):
    cases = [{"name": f"case{i}", "result": "SKIPPED" if outcome == "skip" else "COMPLETED",
              **({"failures": [{"failure": "file.cpp:1\nExpected: 1"}]} if outcome == "fail" else {})} for i, outcome in enumerate(outcomes)]
    path.write_text(json.dumps({"testsuites": [{"name": "Suite", "testsuite": cases}]}))


def ctest_counts_cases():
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


def lit_counts_tests():
    with tempfile.TemporaryDirectory() as name:
        path = pathlib.Path(name) / "lit.json"
        path.write_text(json.dumps({"tests": [{"name": code, "code": code, "output": f"said {code}"} for code in
                                              ("PASS", "FAIL", "XFAIL", "XPASS", "TIMEOUT", "UNRESOLVED", "UNSUPPORTED")]}))
        result = results.lit(path)
    check_equal(counts(result), (2, 4, 1), "lit")
    check_equal([str(f) for f in result.failures],
                [f"FAILED {code}\n    said {code}" for code in ("FAIL", "XPASS", "TIMEOUT", "UNRESOLVED")], "failures")


def suite_lines():
    for output, code, expected in (
            ("ok a\nmine: 3 passed, 0 failed\n", 0, (3, 0, 0)),
            ("FAILED b: reason\nmine: 3 passed, 1 failed, 2 skipped\n", 1, (3, 1, 2)),
            ("FAILED b: reason\nmine: 3 passed, 2 failed\n", 1, (3, 2, 0)),  # one of them without a name
            ("ok a\nTraceback\n", 1, (0, 1, 0)),
            ("mine: 3 passed, 0 failed\n", 139, (3, 1, 0)),
            ("reported b: found\nmine: 3 passed, 0 failed, 1 reported\n", 0, (3, 0, 0)),
            ("reported b: found\nmine: 0 passed, 0 failed, 1 reported\n", 0, (0, 0, 0)),
            ("mine: 0 passed, 0 failed\n", 0, (0, 1, 0))):
        result = results.suite("mine", output, code)
        check_equal(counts(result), expected, f"counts of {output!r}")
        check_equal(len(result.failures), result.failed, "number of named failures")
    check_equal(str(results.suite("mine", "FAILED b: reason\nmore\nok c\nmine: 1 passed, 1 failed\n", 1).failures[0]),
                "FAILED mine: b\n    reason\n    more", "a failure in the summary")
    told = results.suite("mine", "reported b: found\nrepeat it\nFAILED c: bad\nmine: 1 passed, 1 failed, 1 skipped, 1 reported\n", 1)
    check_equal(counts(told + results.Result()), (1, 1, 1), "counts with a report")
    check_equal([str(each) for each in (told + results.Result()).reports], ["reported mine: b\n    found\n    repeat it"], "reports")
    check_equal([each.name for each in told.failures], ["mine: c"], "failures with a report")


def lives(pid):
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    # A zombie that init has not reaped yet counts as ended.
    return stat.rsplit(")", 1)[1].split()[0] != "Z"


def nothing_survives():
    with tempfile.TemporaryDirectory() as name:
        log = pathlib.Path(name) / "log"
        returncode, output = run_logged(["bash", "-c", "sleep 1000 & echo $!; wait"], log, 1, cwd=name)
        check_equal(returncode, 124, "exit code after the timeout")
        check("timed out" in log.read_text(), "the log does not say that it timed out")
        child = int(output.split()[0])
        give_up = time.monotonic() + 30  # a killed process dies when it is next scheduled
        while lives(child) and time.monotonic() < give_up:
            time.sleep(0.01)
        check(not lives(child), f"process {child} still runs")


@contextlib.contextmanager
def turn_of(cmake, ctest, seconds, within=None, preset="pretended"):
    """Runs a group with these scripts as its tools; returns its result. `within`: seconds left of the run."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for tool, script in (("cmake", cmake), ("ctest", ctest)):
            (folder / tool).write_text(f"#!/bin/bash\n{script}\n")
            (folder / tool).chmod(0o755)

        class Context(steps.Context):
            logs = folder

        before = os.environ["PATH"], turns.GROUPS, turns.TURN_S
        os.environ["PATH"] = f"{name}:{before[0]}"
        turns.GROUPS, turns.TURN_S = {"some": turns.Group(preset, ("a_test",))}, seconds
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                until = None if within is None else time.monotonic() + within
                result = turns.turn_tests(Context("pretended", 1, frozenset(), lambda _: True, "drawn", until))
            yield result
        finally:
            os.environ["PATH"], turns.GROUPS, turns.TURN_S = before


def a_turn_that_ran_out_of_time_fails_nothing():
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
        with turn_of(cmake, ctest, seconds) as result:
            check_equal((result.failed, [each.name for each in result.reports]), (failed, late), f"cmake: {cmake}; ctest: {ctest}")
            check_equal(len(result.failures), failed, "failures")


def a_turn_takes_what_the_run_has_left():
    for seconds, within, left in ((100, 1, 1), (1, 100, 1), (100, -5, 0)):
        with turn_of("exec sleep 100", "exit 0", seconds, within) as result:
            check_equal((result.failed, [each.name for each in result.reports]), (0, [f"some: no time was left of {left} s"]),
                        f"{seconds} s of a turn, {within} s of the run")


def a_limited_turn_builds_nothing_and_hides_what_the_host_has():
    ctest = """while [ "$1" != --output-junit ]; do shift; done
               case ",$TESSERA_HOST_FEATURES," in *avx512*) exit 1;; *,avx2,*) status=run;; *) status=fail;; esac
               echo "<testsuite><testcase name='a_test' status='$status'/></testsuite>" > "$2" """
    with turn_of("exit 1", ctest, 100, preset="") as result:
        check_equal((counts(result), result.failures), ((1, 0, 0), []), "a group limited to AVX2")
    with turn_of("exit 1", "exec sleep 100", 1, preset="") as result:
        check_equal((result.failed, len(result.reports)), (0, 1), "one that had no time")


def every_turn_names_what_there_is():
    for name, group in turns.GROUPS.items():
        check(group.tests or group.suites, f"{name} is empty")
        for suite in group.suites:
            check(steps.suite_path(suite).exists(), f"{name}: there is no suite {suite}")


if __name__ == "__main__":
    sys.exit(run("results", [("ctest_counts_cases", ctest_counts_cases), ("lit_counts_tests", lit_counts_tests),
                             ("suite_lines", suite_lines), ("nothing_survives", nothing_survives),
                             ("a_turn_that_ran_out_of_time_fails_nothing", a_turn_that_ran_out_of_time_fails_nothing),
                             ("a_turn_takes_what_the_run_has_left", a_turn_takes_what_the_run_has_left),
                             ("a_limited_turn_builds_nothing_and_hides_what_the_host_has",
                              a_limited_turn_builds_nothing_and_hides_what_the_host_has),
                             ("every_turn_names_what_there_is", every_turn_names_what_there_is)]))
