"""Groups of tests that run once more after the others. CI has no time for all groups, so each commit selects one."""

import dataclasses
import re
import subprocess
import time

import results
import steps


@dataclasses.dataclass(frozen=True)
class Group:
    """Tests that are rebuilt with a sanitizer, or run as built on a host limited to AVX2."""
    preset: str  # asan or tsan; "": the existing build, on a host limited to AVX2
    tests: tuple
    suites: tuple = ()


# On a host limited to AVX2: tests that generate code for this host and run it.
AVX2_GROUPS = {
    "avx2-kernels": Group("", (
        "codegen_chips_test", "codegen_contraction_test", "codegen_grouped_product_test", "codegen_loops_test",
        "codegen_masked_keys_test", "codegen_math_limits_test", "codegen_math_test", "codegen_nested_blocks_test",
        "codegen_packing_test", "codegen_region_instruction_test", "codegen_region_test", "codegen_region_window_test",
        "codegen_registry_test", "codegen_rescaling_test", "codegen_row_region_test", "codegen_test", "codegen_tile_kernel_test",
        "codegen_transform_test", "codegen_tree_test", "artifact_test", "graph_test", "host_test", "pipeline_test",
        "requirements_test", "variants_pipeline_test")),
    "avx2-searches": Group("", (), ("e2e/tune", "e2e/measure", "e2e/pins", "e2e/hostile_models")),
    "avx2-integers": Group("", (), ("e2e/quantized", "e2e/half_precision", "e2e/kernel")),
    "avx2-networks": Group("", (), ("e2e/chains", "e2e/random_chains", "e2e/random_graphs", "e2e/verify", "e2e/variants")),
}

# No sanitizer group links MLIR or the server's services, which take longer to build than GROUP_SECONDS. Task processes limit
# their address space, which shadow memory exceeds, so their tests are left out.
GROUPS = {
    "storage": Group("asan", ("sqlite_store_test", "memory_store_test", "blob_store_test", "backup_test", "store_fault_test")),
    "scheduler": Group("asan", ("scheduler_test", "simulation_test", "every_operation_test", "action_key_test",
                                "task_result_fuzz")),
    "clients": Group("asan", ("blob_cache_test", "cancellation_test", "cores_test", "progress_stream_test", "supervisor_test",
                              "failure_test", "requirements_test", "cli_test", "await_job_test", "trust_test",
                              "watch_versions_test", "job_timeline_test", "storage_filter_test", "storage_filter_fuzz",
                              "operator_list_test", "page_token_fuzz")),
    "decisions": Group("asan", ("schedule_text_test", "schedule_pins_test", "target_test", "host_test",
                                "grid_bounds_test", "movement_test", "block_planner_test", "chain_decision_test", "slice_plan_test",
                                "region_planner_test", "fusion_profit_test", "cache_simulator_test", "intrinsic_test",
                                "plan_view_test", "zip_writer_test", "module_check_test",
                                "artifact_signature_test", "signature_fuzz", "worker_team_test", "grid_part_test")),
    "searches": Group("asan", ("search_test", "simulator_test")),
    "threads": Group("tsan", ("sqlite_store_test", "memory_store_test", "blob_store_test", "scheduler_test", "blob_cache_test",
                              "cancellation_test", "worker_test")),
    **AVX2_GROUPS,
}
GROUP_SECONDS = 480  # seconds for a group's build and tests


def group_of_commit():
    """The name of the group that this commit selects."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=steps.ROOT, capture_output=True, text=True, check=True).stdout
    return sorted(GROUPS)[int(commit[:12], 16) % len(GROUPS)]


SANITIZER_OPTIONS = {
    # A fault at every seventieth operation, and a tenth of the seeds: the same code runs, ten times as slow.
    "TESSERA_FAULT_STRIDE": "70",
    "TESSERA_SIMULATION_SEEDS": "1 200",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "TSAN_OPTIONS": f"halt_on_error=1:suppressions={steps.ROOT}/tests/runner/tsan.supp",
}


def avx2_environment():
    """Environment that limits this host's description to x86-64 with AVX2; empty on other hosts."""
    level = (steps.ROOT / "compiler/target/builtin/x86-64-v3.textproto").read_text()
    return {"TESSERA_HOST_FEATURES": ",".join(re.findall(r'^  features: "(.*)"$', level, re.MULTILINE))}


def group_tests(context):
    """tests of one group"""
    by_commit = context.group == "by-commit"
    name = group_of_commit() if by_commit else context.group
    group = GROUPS[name]
    group = dataclasses.replace(group, tests=tuple(filter(context.selected, group.tests)),
                                suites=tuple(filter(context.selected, group.suites)))
    if not group.tests and not group.suites:
        return results.Result()
    print(f"   {name}: {' '.join(group.tests + group.suites)}", flush=True)
    budget = _GroupBudget(name, min(time.monotonic() + GROUP_SECONDS, context.until or float("inf")) if by_commit else None)
    if budget.left(1) <= 0:
        return budget.out_of_time([])
    return _sanitized(context, budget, group) if group.preset else _run_on_avx2(context, budget, group)


class _GroupBudget:
    """The time of a group. A group that runs out of time is reported and fails nothing."""

    def __init__(self, name, until):
        self._name, self._begin, self._until = name, time.monotonic(), until

    def left(self, most):
        """Seconds for a step that takes at most `most`; zero or less when the time is over."""
        return most if self._until is None else min(most, self._until - time.monotonic())

    def out_of_time(self, failures):
        report = results.Report(f"{self._name}: no time was left of {max(0, self._until - self._begin):.0f} s",
                              "\n".join(map(str, failures)))
        print(f"   {report.name}", flush=True)
        return results.Result(reports=[report])

    def unless_out_of_time(self, result):
        return self.out_of_time(result.failures) if result.failed and self.left(1) <= 0 else result

    def ctest(self, context, folder, tests, log, env):
        """Unit tests. Test results count, as does a failure that CTest printed before it was stopped."""
        result = steps.ctest(context, folder, tests, log, env, max(1, self.left(3000)))
        finished = (context.logs / f"{log}.xml").exists() or "***" in (context.logs / f"{log}.log").read_text(errors="replace")
        return result if finished else self.unless_out_of_time(result)


def _sanitized(context, budget, group):
    """Builds the tests and runs them."""
    folder = steps.ROOT / "build" / group.preset
    for name, command, timeout in (
            ("configure", ["cmake", "--preset", group.preset], 600),
            ("build", ["cmake", "--build", str(folder), "--parallel", str(context.jobs), "--target", *group.tests], 2400)):
        result = steps.command(context, f"{group.preset}-{name}", command, max(1, budget.left(timeout)))
        if result.failed:
            return budget.unless_out_of_time(result)
    return budget.ctest(context, folder, group.tests, group.preset, SANITIZER_OPTIONS)


def _run_on_avx2(context, budget, group):
    """Runs tests and suites as on a host limited to AVX2. A finding of a suite fails, even if the suite was stopped."""
    total = budget.ctest(context, context.build, group.tests, "avx2-ctest", avx2_environment()) if group.tests else results.Result()
    if group.suites:
        left = budget.left(3600)
        if left <= 0:
            return total + budget.out_of_time([])
        result = steps.pytest(context, group.suites, "avx2-suites", "not large", context.jobs, avx2_environment(), left)
        total += result if any("::" in each.name for each in result.failures) else budget.unless_out_of_time(result)
    return total
