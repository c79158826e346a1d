"""The steps of tests/run. Each takes a Context and returns a Result; its docstring's first line is its title."""

import dataclasses
import pathlib
import re
import shutil
import subprocess
import time
from typing import Callable

import clang_tidy
import results
from process import run_logged

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINT_PLUGIN = "tessera_lint_scope"  # tests/lint
LIT = "/usr/lib/llvm-22/bin/lit"
SUITE_FOLDERS = ("models", "oracle", "runner", "conformance", "e2e", "faults", "fuzz", "lint")


@dataclasses.dataclass
class Context:
    preset: str
    jobs: int
    sizes: frozenset  # of suites that are run beside the plain ones: slow, large
    selected: Callable[[str], bool]  # whether --only lets a name through
    sanitizer: str = ""  # one of SANITIZED, or turn
    until: float | None = None  # on the monotonic clock: when what may be left out for lack of time ends; None: never

    @property
    def build(self):
        return ROOT / "build" / self.preset

    @property
    def logs(self):
        folder = ROOT / "build" / "test-logs"
        folder.mkdir(parents=True, exist_ok=True)
        return folder


def _command(context, name, command, timeout, fatal=False):
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
    """The result, its failures a line for each as they come; the summary at the end has all that they printed."""
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
    return _command(context, "configure", ["cmake", "--preset", context.preset], 600, fatal=True)


def build(context):
    """build"""
    command = ["cmake", "--build", str(context.build), "--parallel", str(context.jobs)]
    return _command(context, "build", command, 3600, fatal=True)


def sources(*patterns):
    """Our files, tracked or about to be."""
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns], cwd=ROOT,
                            capture_output=True, text=True, check=True).stdout
    return [name for name in listed.splitlines() if (ROOT / name).exists()]


def check_format(context):
    """format (clang-format)"""
    files = sources("*.h", "*.cpp", "*.c")
    return _command(context, "format", ["clang-format-22", "--dry-run", "-Werror", *files], 300)


def lint_packages(context):
    """packages for lint"""
    return _command(context, "lint-packages", ["deploy/install-packages", "deploy/packages-lint.txt"], 900)


def lint_plugin(context):
    """plugin for lint"""
    return _command(context, "lint-plugin", ["cmake", "--build", str(context.build), "--target", LINT_PLUGIN], 600, fatal=True)


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
    return _ctest(context, context.build, names, "ctest", {})


def _ctest(context, build, names, log, env, timeout=3000):
    """These tests of a build folder."""
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


@dataclasses.dataclass(frozen=True)
class Group:
    """Tests that are built anew and run with a sanitizer beneath them."""
    preset: str  # asan or tsan
    tests: tuple


# None links MLIR, or the server's services: each of these takes longer to build than TURN_S. Task processes have bounds on
# their address space, which shadow memory exceeds: their tests are left out.
SANITIZED = {
    "storage": Group("asan", ("sqlite_store_test", "memory_store_test", "blob_store_test", "backup_test", "store_fault_test")),
    "scheduler": Group("asan", ("scheduler_test", "simulation_test", "every_operation_test", "action_key_test",
                                "task_result_fuzz")),
    "clients": Group("asan", ("blob_cache_test", "cancellation_test", "cores_test", "progress_stream_test", "supervisor_test",
                              "failure_test", "requirements_test", "cli_test", "await_job_test", "trust_test",
                              "watch_versions_test", "job_timeline_test", "storage_filter_test", "storage_filter_fuzz",
                              "operator_list_test", "page_token_fuzz")),
    "decisions": Group("asan", ("schedule_text_test", "schedule_pins_test", "target_test", "host_test",
                                "cuts_test", "movement_test", "block_planner_test", "chain_decision_test", "slice_plan_test",
                                "region_planner_test", "fusion_profit_test", "cache_simulator_test", "intrinsic_test",
                                "plan_view_test", "zip_writer_test", "module_check_test",
                                "artifact_signature_test", "signature_fuzz", "worker_team_test", "grid_part_test")),
    "searches": Group("asan", ("search_test", "simulator_test")),
    "threads": Group("tsan", ("sqlite_store_test", "memory_store_test", "blob_store_test", "scheduler_test", "blob_cache_test",
                              "cancellation_test", "worker_test")),
}
TURN_S = 480  # a turn's build and tests


def group_in_turn():
    """The name of the group that this commit's turn is: each commit draws one."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return sorted(SANITIZED)[int(commit[:12], 16) % len(SANITIZED)]


SANITIZER_OPTIONS = {
    # Each fault at every seventieth operation, and a tenth of the seeds: the same code, ten times as slow.
    "TESSERA_FAULT_STRIDE": "70",
    "TESSERA_SIMULATION_SEEDS": "1 200",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "TSAN_OPTIONS": f"halt_on_error=1:suppressions={ROOT}/tests/runner/tsan.supp",
}


def sanitized_tests(context):
    """tests under a sanitizer"""
    in_turn = context.sanitizer == "turn"
    name = group_in_turn() if in_turn else context.sanitizer
    tests = [test for test in SANITIZED[name].tests if context.selected(test)]
    if not tests:
        return results.Result()
    print(f"   {name}: {' '.join(tests)}", flush=True)
    until = min(time.monotonic() + TURN_S, context.until or float("inf")) if in_turn else None
    return _sanitized(context, name, tests, until)


def _sanitized(context, group, tests, until):
    """Builds and runs them; what is left at `until` ends then, and is reported."""
    preset, begin = SANITIZED[group].preset, time.monotonic()
    def left(most):
        return most if until is None else max(1, min(most, until - time.monotonic()))
    def late(failures):
        told = results.Report(f"{group}: no time was left of {max(0, until - begin):.0f} s", "\n".join(map(str, failures)))
        print(f"   {told.name}", flush=True)
        return results.Result(reports=[told])
    def unless_late(result):
        return result if not result.failed or until is None or time.monotonic() < until else late(result.failures)
    if until is not None and until <= begin:
        return late([])
    folder = ROOT / "build" / preset
    for name, command, timeout in (
            ("configure", ["cmake", "--preset", preset], 600),
            ("build", ["cmake", "--build", str(folder), "--parallel", str(context.jobs), "--target", *tests], 2400)):
        result = _command(context, f"{preset}-{name}", command, left(timeout))
        if result.failed:
            return unless_late(result)
    result = _ctest(context, folder, tests, preset, SANITIZER_OPTIONS, left(3000))
    # With results, or a test that CTest told had failed before it was ended: that decides.
    told = (context.logs / f"{preset}.xml").exists() or "***" in (context.logs / f"{preset}.log").read_text(errors="replace")
    return result if told else unless_late(result)


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


def _declared(path):
    """The settings in a suite's line `# suite: slow timeout=600` (or large), all optional."""
    match = re.search(r"^# suite:(.*)$", path.read_text(), re.MULTILINE)
    words = match.group(1).split() if match else []
    size = next((word for word in words if word in ("slow", "large")), "")
    return size, next((int(w[8:]) for w in words if w.startswith("timeout=")), 300)


def suites(context):
    """suites (Python)"""
    total = results.Result()
    for folder in SUITE_FOLDERS:
        for path in sorted((ROOT / "tests" / folder).glob("*_suite.py")):
            name = f"{folder}/{path.stem.removesuffix('_suite')}"
            size, timeout = _declared(path)
            if not context.selected(name) or (size and size not in context.sizes):
                continue
            log = context.logs / f"{folder}-{path.stem}.log"
            start = time.monotonic()
            returncode, output = run_logged(["/usr/bin/python3", str(path)], log, timeout, cwd=ROOT,
                                            env={"TESSERA_BUILD_DIR": str(context.build)})
            result = _reported(results.suite(name, output, returncode))
            seconds = time.monotonic() - start
            print(f"   {name}: {result} ({seconds:.0f} s)" + (f", see {log}" if result.failed else ""), flush=True)
            total += result
    return total
