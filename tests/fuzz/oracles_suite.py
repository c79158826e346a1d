"""Compares the three oracles of drawn cases with each other (NumPy's formulas and the interpreter with ONNX Runtime),
and checks the report for cases in which one oracle or the compiled code was changed on purpose."""

import collections
import dataclasses
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
import pytest

from checks import check, check_equal
from fuzz import ledger, rotating_suite
from fuzz.cases import stored_cases, model, disagreement, plan, interpreter_oracle, numpy_oracle, types, tolerance
from fuzz.cases.case import Case, Value
from fuzz.cases.onnxruntime_oracle import with_noise
from fuzz.cases.table import operators
from fuzz.cases.trial import Finding, Outcome, described
from oracle.oracle import OracleError

DRAWN = range(0, 768)  # pairs
INEXACT = {"DFT", "InstanceNormalization"}  # operators for which a formula replaces ONNX Runtime because it is more precise
INEXACT_BOUND = 1e-3  # of the largest magnitude


def beyond(case, reference, found):
    """Names of the results that differ from ONNX Runtime's by more than conditioning excuses."""
    differences = [tolerance.compared(case, value, found[value.name]) for value in case.results]
    if any(difference.wrong for difference in differences):
        runs = tolerance.noisy_runs(case, reference)
        for difference in differences:
            if difference.wrong:
                tolerance.excuse(difference, case.value_named(difference.name), found[difference.name], runs)
    return [f"{difference.name} {difference.what} {difference.share:.3g}" for difference in differences if difference.wrong]


@pytest.fixture(scope="module")
def cases(reference):
    """The drawn pairs, with the values of each step."""
    return [case for _, made in plan.batches("pairs", DRAWN.start, len(DRAWN)) for case in reference.completed(made)]


def test_formulas_agree(reference, cases):
    """Compares NumPy and ONNX Runtime step by step where there is a formula. If the formula replaces ONNX Runtime only
    because it is more precise, ONNX Runtime's own result must be near it."""
    seen, inexact = collections.Counter(), collections.Counter()
    for case in cases:
        for step in case.steps:
            values = {name: case.value_named(name) for name in step.needs}
            arrays = numpy_oracle.formula_result(step, values)
            if arrays is None:
                continue
            wanted, least, counted = [case.value_named(name).array for name, _ in step.outputs], 0, seen
            if numpy_oracle.replaces_onnxruntime(step, values):
                if step.nodes[0].op_type not in INEXACT:
                    continue
                wanted, least, counted = own_answer(reference, case, step, values), INEXACT_BOUND, inexact
            for (name, kind), array, right in zip(step.outputs, arrays, wanted or ()):
                difference = tolerance.compared(case, Value(name, kind, right), array)
                difference.bound = max(difference.bound, least)
                check(not difference.wrong, f"{described(case)}: {step.operator} {difference.what} off by {difference.share:.3g}, "
                                            f"bound {difference.bound:.3g}")
                counted[step.operator] += 1
    print(f"   {sum(seen.values())} steps of {len(seen)} operators; {dict(inexact)} that ONNX Runtime is less exact at")
    check_equal(set(inexact), INEXACT, "operators that the formulas stand in for as the more exact ones")
    check(len(seen) > len(numpy_oracle.FORMULAS) // 2, f"only {sorted(seen)}")


def own_answer(reference, case, step, values):
    """ONNX Runtime's result where a formula replaces it; None if it rejects the step."""
    made, arrays = model.of_steps([(step, case.constants)], values, case.opset)
    try:
        found = reference.run(made, arrays)
    except OracleError:
        return None
    return [types.stored(kind, found[name]) for name, kind in step.outputs]


def test_interpreter_agrees(reference, cases):
    by_opset = collections.defaultdict(list)
    for case in cases:
        by_opset[case.opset].append(case)
    wrong, refused = [], []
    for some in by_opset.values():
        for case, found in zip(some, interpreter_oracle.of_cases(some)):
            if isinstance(found, str):
                refused.append(f"{described(case)}: {found}")
            elif differ := beyond(case, reference, found):
                wrong.append(f"{described(case)}: {differ}")
    check(not wrong and not refused, "\n".join(wrong + refused))


def drawn(reference, operator, steps=1, nodes=1):
    """A case that begins with this operator, whose result is a float that is not all zero."""
    table = [spec for spec in operators() if spec.name == operator]
    for seed in range(1000):
        case = reference.completed([Case(seed, table, steps)])
        if not case or len(case[0].steps) < steps or len(case[0].steps[0].nodes) != nodes:
            continue
        value = case[0].results[-1]
        if value.type == "f32" and value.size and np.isfinite(value.array).all() and np.abs(value.array).max() > 0:
            return case[0]
    raise AssertionError(f"no case of {operator}")


def reported_kind(reference, operator, change):
    """(kind, text) after `change(case, found, interpreted)`."""
    case = drawn(reference, operator)
    found = interpreter_oracle.of_cases([case])[0]
    check(not isinstance(found, str), found)
    interpreted = dict(found)
    change(case, found, interpreted)
    code, other = (any(tolerance.compared(case, value, each[value.name]).wrong for value in case.results)
                   for each in (found, interpreted))
    check(code or other, "the change makes no difference")
    return disagreement.of(case, found, interpreted, code, other)


def spoil(arrays, case):
    name = case.results[-1].name
    arrays[name] = arrays[name] + np.float32(2 * np.abs(arrays[name]).max())


def test_compiled_code_alone(reference):
    kind, text = reported_kind(reference, "MatMul", lambda case, found, _: spoil(found, case))
    check_equal(kind, "differs", text)
    check("ONNX Runtime and the interpreter agree against the compiled code" in text, text)


def test_interpreter_alone(reference):
    kind, text = reported_kind(reference, "MatMul", lambda case, _, interpreted: spoil(interpreted, case))
    check_equal(kind, "interpreter", text)
    check("ONNX Runtime and the compiled code agree" in text, text)


def test_first_oracle_alone(reference):
    """Changes its value; the other two have the original one."""
    def change(case, _, __):
        value = case.results[-1]
        at = case.values.index(value)
        case.values[at] = dataclasses.replace(value, array=value.array + np.float32(2 * np.abs(value.array).max()))
    kind, text = reported_kind(reference, "MatMul", change)
    check_equal(kind, "oracle", text)
    check("first at MatMul, where NumPy agrees with the interpreter" in text, text)
    kind, text = reported_kind(reference, "AveragePool", change)
    check_equal(kind, "differs", text)
    check("first at AveragePool, where NumPy has no formula" in text, text)


def test_all_differ(reference):
    def change(case, found, interpreted):
        spoil(found, case)
        interpreted[case.results[-1].name] = -4 * found[case.results[-1].name]
    kind, text = reported_kind(reference, "MatMul", change)
    check_equal(kind, "differs", text)
    check("all differ" in text, text)


def test_other_shapes_excuse_no_values():
    """Noisy runs with another shape do not count for the values; if no other run is left, the shape depends on the data."""
    value = Value("y", "f32", np.ones(3, np.float32))
    same, other = {"y": value}, {"y": Value("y", "f32", np.ones(4, np.float32))}
    for runs, excused in (([same] * 7 + [other], False), ([other] * 8, True), ([], False)):
        found = np.full(3, 2, np.float32)
        difference = dataclasses.replace(tolerance.distance(found, value.array), bound=1e-6)
        tolerance.excuse(difference, value, found, runs)
        check_equal(difference.excused, excused, f"excused after runs of {[run['y'].shape for run in runs]}")


def test_a_refused_run_is_one_less(reference):
    class Refusing:
        """Rejects the third step that it evaluates."""
        asked = 0

        def evaluated(self, *arguments):
            self.asked += 1
            return [None] if self.asked == 3 else reference.evaluated(*arguments)

    case = drawn(reference, "MatMul")
    check_equal(len(tolerance.noisy_runs(case, Refusing())), tolerance.RUNS - 1, "runs")


def test_noise_stays_in_a_domain_in_some_runs():
    """Half of the random noise moves a value at a domain's edge outside; the directed noise never does."""
    random = np.random.default_rng(0)
    for function, edge, way in ((np.arccosh, 1 - 1e-7, "upwards"), (np.log, 0, "upwards"), (np.arctanh, -1, "inwards"),
                                (np.arcsin, 1 + 1e-7, "inwards")):
        array = np.array([edge] * 64 + [1], np.float32)
        noisy = with_noise(array, "f32", 1e-4, random, way)
        check((noisy != array).all(), f"{function.__name__}, {way}: no noise")
        check(np.isfinite(function(noisy)).all(), f"{function.__name__}, {way}: {noisy}")
    check(set(tolerance.WAYS) < set(range(tolerance.RUNS)), "every way is that of a run")


def test_products_over_nothing(reference):
    """ONNX Runtime leaves memory uninitialized: the cases of seed 100192 are zeros each time."""
    for _ in range(4):
        case = reference.completed([plan.pair(100192)])[0]
        check(case.steps[0].operator == "MatMul" and case.value_named(case.steps[0].needs[0]).shape[-1] == 0, described(case))
        check(not case.value_named(case.steps[0].outputs[0][0]).array.any(), "a product over nothing is zero")


@pytest.mark.parametrize("path", stored_cases.cases(), ids=lambda path: path.stem)
def test_interpreter_keeps_what_was_found(path):
    """A case of found/."""
    arrays, wanted, bounds = stored_cases.load(path)
    outputs = interpreter_oracle.run(stored_cases.model_of(path), arrays)
    check_equal(sorted(outputs), sorted(wanted), "outputs")
    for name, right in wanted.items():
        difference = tolerance.distance(outputs[name], right)
        check(not difference.what and difference.share <= bounds[name],
              f"{stored_cases.text_of(path)}: {name} {difference.what} off by {difference.share:.3g}, bound {bounds[name]:.3g}")


def test_rotating_seeds():
    """The first seed is given, from the commit, or a default without git; findings fail only if it was given."""
    before = dict(os.environ)
    for name in list(os.environ):  # the environment of a git hook would redirect git from this folder
        if name == "TESSERA_FUZZ_SEED" or name.startswith("GIT_"):
            del os.environ[name]
    try:
        seed, whence, decides = plan.rotating_seed()
        check_equal((seed, decides), plan.rotating_seed()[::2], "the seed of one commit")
        check(not decides and ("commit" in whence), whence)
        with tempfile.TemporaryDirectory(prefix="tessera-seeds-") as folder:
            check_equal(plan.rotating_seed(folder)[::2], (plan.WITHOUT_COMMIT, False), "without a commit")
            run_git = lambda *words: subprocess.run(
                ["git", "-c", "commit.gpgsign=false", "-c", "user.name=t", "-c", "user.email=t@t", *words], cwd=folder, check=True, capture_output=True)
            run_git("init")
            seeds = set()
            for number in range(2):
                run_git("commit", "--allow-empty", "-m", f"{number}")
                seeds.add(plan.rotating_seed(folder)[0])
            check_equal(len(seeds), 2, "seeds of two commits")
        os.environ["TESSERA_FUZZ_SEED"] = "4000"
        check_equal(plan.rotating_seed(), (4000, "given", True), "a given seed")
    finally:
        os.environ.clear()
        os.environ |= before

    def wrong():
        raise AssertionError("tests/fuzz/campaign.py pairs 1 1")
    for decides, expected in ((False, pytest.xfail.Exception), (True, AssertionError)):
        with pytest.raises(expected, match="tests/fuzz/campaign.py pairs 1 1"):
            rotating_suite.within(time.monotonic(), decides, wrong)
    with pytest.raises(pytest.skip.Exception):
        rotating_suite.within(time.monotonic() - rotating_suite.NO_MORE_S - 1, True, wrong)


def test_ledgers_add_up():
    """Finished models are skipped the next time, also if the last line is incomplete; that model runs again."""
    outcome = Outcome(compared=63, excused=2, findings=[Finding(None, "oracle", ""), Finding(None, "oracle", "")])
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "ledger"
        check_equal(ledger.models_of(path, "pairs"), set(), "models of no file")
        for kind, number in (("pairs", 7), ("graphs", 7), ("pairs", 8), ("pairs", 11)):
            ledger.add(path, kind, number, "host", 64, outcome)
        with open(path, "a", encoding="utf-8") as file:
            file.write('{"kind": "pairs", "mod')
        check_equal(ledger.models_of(path, "pairs"), {7, 8, 11}, "models of pairs")
        check_equal(ledger.ranges("pairs", {7, 8, 11}), "448 to 575, 704 to 767", "their seeds")
        told = subprocess.run([sys.executable, pathlib.Path(ledger.__file__), path, path], capture_output=True, text=True, check=True)
        check("pairs: 384 in 6 models, 378 compared, 12 excused, found: oracle 12" in told.stdout, told.stdout)
