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
LIMITED = {
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

# No sanitizer group links MLIR or the server's services, which take longer to build than TURN_S. Task processes limit
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
                                "cuts_test", "movement_test", "block_planner_test", "chain_decision_test", "slice_plan_test",
                                "region_planner_test", "fusion_profit_test", "cache_simulator_test", "intrinsic_test",
                                "plan_view_test", "zip_writer_test", "module_check_test",
                                "artifact_signature_test", "signature_fuzz", "worker_team_test", "grid_part_test")),
    "searches": Group("asan", ("search_test", "simulator_test")),
    "threads": Group("tsan", ("sqlite_store_test", "memory_store_test", "blob_store_test", "scheduler_test", "blob_cache_test",
                              "cancellation_test", "worker_test")),
    **LIMITED,
}
TURN_S = 480  # seconds for a group's build and tests


def group_in_turn():
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


def avx2_alone():
    """Environment that limits this host's description to x86-64 with AVX2; empty on other hosts."""
    level = (steps.ROOT / "compiler/target/builtin/x86-64-v3.textproto").read_text()
    return {"TESSERA_HOST_FEATURES": ",".join(re.findall(r'^  features: "(.*)"$', level, re.MULTILINE))}


def turn_tests(context):
    """tests of this commit's turn"""
    in_turn = context.turn == "drawn"
    name = group_in_turn() if in_turn else context.turn
    group = GROUPS[name]
    group = dataclasses.replace(group, tests=tuple(filter(context.selected, group.tests)),
                                suites=tuple(filter(context.selected, group.suites)))
    if not group.tests and not group.suites:
        return results.Result()
    print(f"   {name}: {' '.join(group.tests + group.suites)}", flush=True)
    turn = _Turn(name, min(time.monotonic() + TURN_S, context.until or float("inf")) if in_turn else None)
    if turn.left(1) <= 0:
        return turn.late([])
    return _sanitized(context, turn, group) if group.preset else _limited(context, turn, group)


class _Turn:
    """The time of a group. A group that runs out of time is reported and fails nothing."""

    def __init__(self, name, until):
        self._name, self._begin, self._until = name, time.monotonic(), until

    def left(self, most):
        """Seconds for a step that takes at most `most`; zero or less when the time is over."""
        return most if self._until is None else min(most, self._until - time.monotonic())

    def late(self, failures):
        told = results.Report(f"{self._name}: no time was left of {max(0, self._until - self._begin):.0f} s",
                              "\n".join(map(str, failures)))
        print(f"   {told.name}", flush=True)
        return results.Result(reports=[told])

    def unless_late(self, result):
        return self.late(result.failures) if result.failed and self.left(1) <= 0 else result

    def ctest(self, context, folder, tests, log, env):
        """Unit tests. Test results count, as does a failure that CTest printed before it was stopped."""
        result = steps.ctest(context, folder, tests, log, env, max(1, self.left(3000)))
        told = (context.logs / f"{log}.xml").exists() or "***" in (context.logs / f"{log}.log").read_text(errors="replace")
        return result if told else self.unless_late(result)


def _sanitized(context, turn, group):
    """Builds the tests and runs them."""
    folder = steps.ROOT / "build" / group.preset
    for name, command, timeout in (
            ("configure", ["cmake", "--preset", group.preset], 600),
            ("build", ["cmake", "--build", str(folder), "--parallel", str(context.jobs), "--target", *group.tests], 2400)):
        result = steps.command(context, f"{group.preset}-{name}", command, max(1, turn.left(timeout)))
        if result.failed:
            return turn.unless_late(result)
    return turn.ctest(context, folder, group.tests, group.preset, SANITIZER_OPTIONS)


def _limited(context, turn, group):
    """Runs tests and suites as on a host limited to AVX2. A finding of a suite fails, even if the suite was stopped."""
    total = turn.ctest(context, context.build, group.tests, "avx2-ctest", avx2_alone()) if group.tests else results.Result()
    if group.suites:
        left = turn.left(3600)
        if left <= 0:
            return total + turn.late([])
        result = steps.pytest(context, group.suites, "avx2-suites", "not large", context.jobs, avx2_alone(), left)
        total += result if any("::" in each.name for each in result.failures) else turn.unless_late(result)
    return total
