"""The steps of tests/run. Each takes a Context and returns a Result; its docstring's first line is its title."""

import dataclasses
import pathlib
import re
import shutil
import subprocess
from typing import Callable

import clang_tidy
import results
from process import run_logged

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINT_PLUGIN = "tessera_lint_scope"  # tests/lint
LIT = "/usr/lib/llvm-22/bin/lit"
PYTEST_NO_TESTS = 5  # exit code if the markers select nothing
SUITE_FOLDERS = ("models", "oracle", "runner", "conformance", "e2e", "faults", "fuzz", "lint")


@dataclasses.dataclass
class Context:
    preset: str
    jobs: int
    sizes: frozenset  # of suites that run in addition to the plain ones: slow, large
    selected: Callable[[str], bool]  # whether --only selects a name
    group: str = ""  # one of test_groups.GROUPS, or "by-commit"
    until: float | None = None  # monotonic time after which optional work is left out; None: no limit

    @property
    def build(self):
        return ROOT / "build" / self.preset

    @property
    def logs(self):
        folder = ROOT / "build" / "test-logs"
        folder.mkdir(parents=True, exist_ok=True)
        return folder


def command(context, name, command, timeout, fatal=False):
    """Runs one command as a step that either works or fails."""
    log = context.logs / f"{name}.log"
    returncode, output = run_logged(command, log, timeout, cwd=ROOT)
    if returncode == 0:
        return results.Result()
    print(f"{results.excerpt(output, 40)}\n{name} failed (code {returncode}), whole log: {log}")
    result = results.Result(fatal=fatal)
    result.fail(f"{name} (exit code {returncode})", results.excerpt(output))
    return result


def _reported(result):
    """Prints one line for each failure and returns the result; the summary at the end has the full output."""
    for failure in result.failures:
        print(": ".join([f"FAILED {failure.name}", *failure.detail.splitlines()[:1]])[:400])
    return result


def _lost(name, log):
    """The result of tests that ended without a report."""
    result = results.Result()
    result.fail(f"{name} (no report: did not finish, see {log})", results.excerpt(log.read_text(errors="replace")))
    return _reported(result)


def configure(context):
    """configure"""
    return command(context, "configure", ["cmake", "--preset", context.preset], 600, fatal=True)


def build(context):
    """build"""
    words = ["cmake", "--build", str(context.build), "--parallel", str(context.jobs)]
    return command(context, "build", words, 3600, fatal=True)


def sources(*patterns):
    """Our files, tracked or new."""
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns], cwd=ROOT,
                            capture_output=True, text=True, check=True).stdout
    return [name for name in listed.splitlines() if (ROOT / name).exists()]


def check_format(context):
    """format (clang-format)"""
    files = sources("*.h", "*.cpp", "*.c")
    return command(context, "format", ["clang-format-22", "--dry-run", "-Werror", *files], 300)


def lint_packages(context):
    """packages for lint"""
    return command(context, "lint-packages", ["deploy/install-packages", "deploy/packages-lint.txt"], 900)


def lint_plugin(context):
    """plugin for lint"""
    return command(context, "lint-plugin", ["cmake", "--build", str(context.build), "--target", LINT_PLUGIN], 600, fatal=True)


def lint(context):
    """lint (clang-tidy)"""
    result = results.Result()
    outcome = clang_tidy.run(ROOT, context.build, context.logs / "lint.log", sources("*.cpp", "*.c"), context.jobs,
                             context.until, context.build / "lib" / f"lib{LINT_PLUGIN}.so",
                             [".clang-tidy", *sources("tests/lint/*")])
    print(f"   {outcome}", flush=True)
    for name in outcome.findings:
        result.fail(f"clang-tidy {name}")
    return _reported(result)


def unit_tests(context):
    """unit tests (GoogleTest through CTest)"""
    listing = subprocess.run(["ctest", "--test-dir", context.build, "--show-only"], capture_output=True, text=True,
                             check=True).stdout
    names = [name for name in re.findall(r"Test +#\d+: (\S+)", listing) if context.selected(name)]
    if not names:
        return results.Result()
    return ctest(context, context.build, names, "ctest", {})


def ctest(context, build, names, log, env, timeout=3000):
    """Runs these tests of a build folder."""
    reports = context.logs / f"{log}-gtest"
    shutil.rmtree(reports, ignore_errors=True)
    junit = context.logs / f"{log}.xml"
    junit.unlink(missing_ok=True)
    # Each binary writes <its name>.json into a folder named with a trailing slash.
    run_logged(["ctest", "--test-dir", str(build), "--parallel", str(context.jobs), "--output-on-failure",
                "--timeout", "600", "--output-junit", str(junit), "-R", f"^({'|'.join(map(re.escape, names))})$"],
               context.logs / f"{log}.log", timeout, cwd=ROOT,
               env={"GTEST_OUTPUT": f"json:{reports}/", **env})
    return _reported(results.ctest(junit, reports)) if junit.exists() else _lost(log, context.logs / f"{log}.log")


def lit_tests(context):
    """lit tests"""
    tests = [name for name in sources("tests/lit/*.mlir", "tests/lit/*.test") if context.selected(name)]
    if not tests:
        return results.Result()
    report = context.logs / "lit.json"
    report.unlink(missing_ok=True)
    run_logged(["/usr/bin/python3", LIT, "-v", f"-j{context.jobs}", "--timeout=120", f"--output={report}",
                f"--param=build={context.build}", *tests], context.logs / "lit.log", 1800, cwd=ROOT)
    return _reported(results.lit(report)) if report.exists() else _lost("lit", context.logs / "lit.log")


def suite_path(name):
    """The path of "folder/stem"."""
    return ROOT / "tests" / f"{name}_suite.py"


def suites(context):
    """suites (Python, through pytest)"""
    names = [f"{folder}/{path.stem.removesuffix('_suite')}" for folder in SUITE_FOLDERS
             for path in sorted((ROOT / "tests" / folder).glob("*_suite.py"))]
    names = [name for name in names if context.selected(name)]
    left_out = [f"not {size}" for size in ("slow", "large") if size not in context.sizes]
    return (pytest(context, names, "suites", " and ".join(["not alone", *left_out]), context.jobs)
            + pytest(context, names, "suites-alone", " and ".join(["alone", *left_out]), 1))


def pytest(context, names, log, markers, jobs, env=None, timeout=7200):
    """Runs these suites, given as folder/name, in `jobs` processes; one suite stays in one process."""
    if not names:
        return results.Result()
    junit = context.logs / f"{log}.xml"
    junit.unlink(missing_ok=True)
    parallel = ["-n", str(jobs), "--dist", "loadfile"] if jobs > 1 else []
    returncode, _ = run_logged(["/usr/bin/python3", "-m", "pytest", "-q", *parallel, "-m", markers, f"--junitxml={junit}",
                                "--continue-on-collection-errors", "--durations=10", *map(str, map(suite_path, names))],
                               context.logs / f"{log}.log", timeout, ROOT, {"TESSERA_BUILD_DIR": str(context.build), **(env or {})},
                               show=True)
    if not junit.exists():
        return _lost(log, context.logs / f"{log}.log")
    result, by_suite = results.pytest(junit)
    for name, (cases, seconds) in by_suite.items():
        print(f"   {name}: {cases} ({seconds:.0f} s)", flush=True)
    if returncode not in (0, 1, PYTEST_NO_TESTS):
        result.fail(f"{log}: pytest ended with {returncode}, see {context.logs / log}.log")
    return _reported(result)
