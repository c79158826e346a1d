#!/usr/bin/python3
"""The three oracles of the drawn cases hold each other: NumPy's formulas and the interpreter against ONNX Runtime on what is
drawn, and what is said of a case of which one of them, or the compiled code, was changed on purpose."""
# suite: timeout=600

import collections
import dataclasses
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from fuzz import rotating_suite
from fuzz.cases import fixed, opinions, plan, second, third, verdict
from fuzz.cases.case import Case
from fuzz.cases.reference import Reference
from fuzz.cases.table import operators
from fuzz.cases.trial import described
from suite import Reported, Skip, check, check_equal, run

DRAWN = range(0, 768)  # pairs


def beyond(case, reference, found):
    """Names of the results that differ from ONNX Runtime's by more than conditioning excuses."""
    differences = [verdict.compared(case, value, found[value.name]) for value in case.results]
    if any(difference.wrong for difference in differences):
        runs = verdict.noisy_runs(case, reference)
        for difference in differences:
            if difference.wrong:
                verdict.excuse(difference, case.known(difference.name), found[difference.name], runs)
    return [f"{difference.name} {difference.what} {difference.share:.3g}" for difference in differences if difference.wrong]


def formulas_agree(cases):
    """NumPy and ONNX Runtime, step by step, wherever there is a formula."""
    seen = collections.Counter()
    for case in cases:
        for step in case.steps:
            values = {name: case.known(name) for name in step.needs}
            if third.stands_in(step, values):
                continue
            arrays = third.opinion(step, values)
            for (name, _), array in zip(step.outputs, arrays or ()):
                difference = verdict.compared(case, case.known(name), array)
                check(not difference.wrong, f"{described(case)}: {step.operator} {difference.what} off by {difference.share:.3g}, "
                                            f"bound {difference.bound:.3g}")
                seen[step.operator] += 1
    print(f"   {sum(seen.values())} steps of {len(seen)} operators")
    check(len(seen) > len(third.FORMULAS) // 2, f"only {sorted(seen)}")


def interpreter_agrees(reference, cases):
    by_opset = collections.defaultdict(list)
    for case in cases:
        by_opset[case.opset].append(case)
    wrong, refused = [], []
    for some in by_opset.values():
        for case, found in zip(some, second.of_cases(some)):
            if isinstance(found, str):
                refused.append(f"{described(case)}: {found}")
            elif differ := beyond(case, reference, found):
                wrong.append(f"{described(case)}: {differ}")
    check(not wrong and not refused, "\n".join(wrong + refused))


def drawn(reference, operator, steps=1, nodes=1):
    """A case that begins with this operator, whose result is a float that is not all zero."""
    table = [spec for spec in operators() if spec.name == operator]
    for seed in range(1000):
        case = reference.grown([Case(seed, table, steps)])
        if not case or len(case[0].steps) < steps or len(case[0].steps[0].nodes) != nodes:
            continue
        value = case[0].results[-1]
        if value.type == "f32" and value.size and np.isfinite(value.array).all() and np.abs(value.array).max() > 0:
            return case[0]
    raise AssertionError(f"no case of {operator}")


def told(reference, operator, change):
    """(kind, text) after `change(case, found, interpreted)`."""
    case = drawn(reference, operator)
    found = second.of_cases([case])[0]
    check(not isinstance(found, str), found)
    interpreted = dict(found)
    change(case, found, interpreted)
    code, other = (any(verdict.compared(case, value, each[value.name]).wrong for value in case.results)
                   for each in (found, interpreted))
    check(code or other, "the change makes no difference")
    return opinions.of(case, found, interpreted, code, other)


def spoil(arrays, case):
    name = case.results[-1].name
    arrays[name] = arrays[name] + np.float32(2 * np.abs(arrays[name]).max())


def compiled_code_alone(reference):
    kind, text = told(reference, "MatMul", lambda case, found, _: spoil(found, case))
    check_equal(kind, "differs", text)
    check("ONNX Runtime and the interpreter agree against the compiled code" in text, text)


def interpreter_alone(reference):
    kind, text = told(reference, "MatMul", lambda case, _, interpreted: spoil(interpreted, case))
    check_equal(kind, "interpreter", text)
    check("ONNX Runtime and the compiled code agree" in text, text)


def first_oracle_alone(reference):
    """Its value is changed: what stood there is what the two others say."""
    def change(case, _, __):
        value = case.results[-1]
        at = case.values.index(value)
        case.values[at] = dataclasses.replace(value, array=value.array + np.float32(2 * np.abs(value.array).max()))
    kind, text = told(reference, "MatMul", change)
    check_equal(kind, "oracle", text)
    check("first at MatMul, where NumPy agrees with the interpreter" in text, text)
    kind, text = told(reference, "AveragePool", change)
    check_equal(kind, "differs", text)
    check("first at AveragePool, where NumPy has no formula" in text, text)


def all_differ(reference):
    def change(case, found, interpreted):
        spoil(found, case)
        interpreted[case.results[-1].name] = -4 * found[case.results[-1].name]
    kind, text = told(reference, "MatMul", change)
    check_equal(kind, "differs", text)
    check("all differ" in text, text)


def products_over_nothing(reference):
    """ONNX Runtime leaves what was there: cases of seed 100192 are zeros, times after time."""
    for _ in range(4):
        case = reference.grown([plan.pair(100192)])[0]
        check(case.steps[0].operator == "MatMul" and case.known(case.steps[0].needs[0]).shape[-1] == 0, described(case))
        check(not case.known(case.steps[0].outputs[0][0]).array.any(), "a product over nothing is zero")


def interpreter_keeps_what_was_found(path):
    """A case of found/."""
    arrays, wanted, bounds = fixed.load(path)
    outputs = second.run(fixed.model_of(path), arrays)
    check_equal(sorted(outputs), sorted(wanted), "outputs")
    for name, right in wanted.items():
        difference = verdict.distance(outputs[name], right)
        check(not difference.what and difference.share <= bounds[name],
              f"{fixed.text_of(path)}: {name} {difference.what} off by {difference.share:.3g}, bound {bounds[name]:.3g}")


def rotating_seeds():
    """Given, of the commit, and without one; what is found there fails only where it was asked for."""
    before = dict(os.environ)
    for name in list(os.environ):  # a hook's git would be taken for the folder's
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
    for decides, expected in ((False, Reported), (True, AssertionError)):
        try:
            rotating_suite.timed(wrong, time.monotonic(), decides)()
        except (Reported, AssertionError) as raised:
            check_equal((type(raised), str(raised)), (expected, "tests/fuzz/campaign.py pairs 1 1"), "what a finding is")
    try:
        rotating_suite.timed(wrong, time.monotonic() - rotating_suite.NO_MORE_S - 1, True)()
    except Skip:
        return
    raise AssertionError("a case began after the time was over")


def main():
    with Reference() as reference:
        cases = [case for _, made in plan.batches("pairs", DRAWN.start, len(DRAWN)) for case in reference.grown(made)]
        return run("oracles", [
            ("NumPy's formulas agree with ONNX Runtime", lambda: formulas_agree(cases)),
            ("the interpreter agrees with ONNX Runtime", lambda: interpreter_agrees(reference, cases)),
            ("compiled code alone differs", lambda: compiled_code_alone(reference)),
            ("the interpreter alone differs", lambda: interpreter_alone(reference)),
            ("ONNX Runtime alone differs", lambda: first_oracle_alone(reference)),
            ("all differ", lambda: all_differ(reference)),
            ("rotating seeds", rotating_seeds),
            ("products over nothing", lambda: products_over_nothing(reference)),
            *((f"interpreted: found/{path.stem}", lambda p=path: interpreter_keeps_what_was_found(p))
              for path in fixed.cases())])


if __name__ == "__main__":
    sys.exit(main())
