"""The convention of Python suites, see tests/README.md: one line for each case, and a result line."""

import sys
import time
import traceback


class Skip(Exception):
    """Raise within a case that cannot run here, with the reason. Counted separately, never as passed."""


class Reported(Exception):
    """Raise within a case whose finding belongs in the summary and fails nothing. Counted separately, never as passed."""


def run(name, cases):
    """Runs (case name, function) pairs; prints `ok`, `FAILED`, `skipped` or `reported` for each. Returns the exit code."""
    passed = failed = skipped = reported = 0
    for case, function in cases:
        start = time.monotonic()
        try:
            function()
        except Skip as reason:
            skipped += 1
            print(f"skipped {case}: {reason}", flush=True)
        except Reported as finding:
            reported += 1
            print(f"reported {case}: {finding}", flush=True)
        except Exception as error:  # pylint: disable=broad-except
            failed += 1
            print(f"FAILED {case}: {error}", flush=True)
            if not isinstance(error, AssertionError) or not str(error):
                traceback.print_exc(file=sys.stdout)
        else:
            passed += 1
            print(f"ok {case} ({time.monotonic() - start:.1f} s)", flush=True)
    tail = (f", {skipped} skipped" if skipped else "") + (f", {reported} reported" if reported else "")
    print(f"{name}: {passed} passed, {failed} failed{tail}", flush=True)
    return 1 if failed else 0


def check(condition, message):
    """An assertion that python -O keeps."""
    if not condition:
        raise AssertionError(message)


def check_equal(actual, expected, what):
    check(actual == expected, f"{what}: {actual!r}, expected {expected!r}")
