"""Compiles, runs, interprets and compares many cases in one model, isolates failures, and reports which sides disagree."""

import dataclasses

import numpy as np

from e2e.tessera_e2e import save_npz
from fuzz.cases import model, disagreement, interpreter_oracle, tolerance

PATIENCE_S = 600
UNSUPPORTED = 4  # exit code: a model that is rejected with a reason
NOT_OUR_FAULTS = frozenset(("refused", "oracle"))  # kinds of findings that are no fault of compiler or interpreter


@dataclasses.dataclass
class Finding:
    """`kind`: refused, not compiled, crashed, differs; interpreter (it alone differs); not interpreted; oracle (the
    first one differs, and the third agrees with Tessera)."""
    case: object
    kind: str
    text: str

    def __str__(self):
        return f"{self.kind}: {described(self.case)}: {self.text}"


def described(case):
    """The steps of a case on one line."""
    return f"seed {case.seed} opset {case.opset} " + " -> ".join(
        f"{step.operator}({', '.join(shown(case.value_named(name)) for name in step.needs[:3])})" for step in case.steps)


def shown(value):
    return f"{value.type}{list(value.shape)}".replace(" ", "")


@dataclasses.dataclass
class Outcome:
    findings: list = dataclasses.field(default_factory=list)
    compared: int = 0  # cases
    excused: int = 0  # by conditioning
    largest: dict = dataclasses.field(default_factory=dict)  # type -> largest used share of its bound
    errors: dict = dataclasses.field(default_factory=dict)  # type -> largest relative error within the bound


class Trial:
    """Runs cases through a service, for one target. `flags`: of compile, such as ("-O", "1"); `patience`: seconds for a
    command; `builder`: compiles in place of the service, which then reports what the builder rejects."""

    def __init__(self, service, reference, target="host", flags=(), patience=PATIENCE_S, builder=None):
        self.service, self.reference, self.target = service, reference, target
        self.flags, self.patience, self.builder = tuple(flags), patience, builder

    def run(self, cases, threads=1):
        """The Outcome of all cases."""
        outcome = Outcome()
        self._run(list(cases), threads, outcome)
        return outcome

    def _run(self, cases, threads, outcome):
        if not cases:
            return
        made, arrays, results = model.of_cases(cases)
        path, artifact = self.service.scratch("cases.onnx"), self.service.scratch("cases.tsra")
        path.write_bytes(made.SerializeToString())
        try:
            if self.builder and self.builder.built(path, self.target, self.flags, artifact):
                self._ran(cases, threads, outcome, artifact, arrays, results)
                return
            answer = self.service.cli("compile", path, "--target", self.target, "--json", "-o", artifact, *self.flags,
                                      expect=None, timeout=self.patience)
            if answer.code:
                self._not_compiled(cases, threads, outcome, answer)
                return
            self._ran(cases, threads, outcome, artifact, arrays, results)
        finally:
            path.unlink(missing_ok=True)
            artifact.unlink(missing_ok=True)
            artifact.with_name(artifact.name + ".sig").unlink(missing_ok=True)

    def _not_compiled(self, cases, threads, outcome, answer):
        """Puts aside the case whose node the error names; otherwise bisects."""
        failure = answer.failure
        blamed = [case for case in cases if case.prefix in str(failure)] if len(cases) > 1 else cases
        kind = "refused" if answer.code == UNSUPPORTED else "not compiled"
        if len(blamed) == 1:
            text = failure.get("message") or str(failure) or str(answer)
            outcome.findings.append(Finding(blamed[0], kind, f"exit code {answer.code}: {text[:600]}"))
            self._run([case for case in cases if case is not blamed[0]], threads, outcome)
            return
        half = len(cases) // 2
        self._run(cases[:half], threads, outcome)
        self._run(cases[half:], threads, outcome)

    def _ran(self, cases, threads, outcome, artifact, arrays, results):
        given, wanted = self.service.scratch("in.npz"), self.service.scratch("out")
        save_npz(given, arrays)
        answer = self.service.cli("run", artifact, "--input", given, "--output-dir", wanted, "--json", "--threads", threads,
                                  "--warmup", 0, "--untrusted", expect=None, timeout=self.patience)
        given.unlink()
        if answer.code:
            if len(cases) == 1:
                outcome.findings.append(Finding(cases[0], "crashed", f"run ended with {answer.code}: {answer.err[-300:]}"))
                return
            half = len(cases) // 2
            self._run(cases[:half], threads, outcome)
            self._run(cases[half:], threads, outcome)
            return
        found = {}
        for file in wanted.glob("*.npy"):
            found[file.stem] = np.load(file)
            file.unlink()
        wanted.rmdir()
        names = {value.name: name for name, value in results.items()}
        for case, interpreted in zip(cases, interpreter_oracle.of_cases(cases)):
            self._judged(case, {value.name: found.get(names[value.name]) for value in case.results}, interpreted, outcome)

    def _judged(self, case, found, interpreted, outcome):
        outcome.compared += 1
        differences, excused = self._held(case, found)
        outcome.excused += excused
        for difference in differences:
            if not difference.wrong and not difference.excused and difference.bound:
                outcome.errors[difference.type] = max(outcome.errors.get(difference.type, 0), difference.share)
                outcome.largest[difference.type] = max(outcome.largest.get(difference.type, 0),
                                                       difference.share / difference.bound)
        wrong = [difference for difference in differences if difference.wrong]
        if isinstance(interpreted, str):
            outcome.findings.append(Finding(case, "not interpreted", interpreted))
            if wrong:
                outcome.findings.append(Finding(case, "differs", described_all(case, wrong)))
            return
        of_second = [difference for difference in self._held(case, interpreted)[0] if difference.wrong]
        if wrong or of_second:
            kind, who = disagreement.of(case, found, interpreted, bool(wrong), bool(of_second))
            outcome.findings.append(Finding(case, kind, f"{described_all(case, wrong or of_second)}; {who}"))

    def _held(self, case, found):
        """([Difference] of the results from the first oracle's, whether conditioning excuses all of them)."""
        differences = [tolerance.compared(case, value, found[value.name]) for value in case.results]
        wrong = [difference for difference in differences if difference.wrong]
        if wrong:
            runs = tolerance.noisy_runs(case, self.reference)
            for difference in wrong:
                tolerance.excuse(difference, case.value_named(difference.name), found[difference.name], runs)
        return differences, bool(wrong) and not any(difference.wrong for difference in wrong)


def described_all(case, differences):
    return "; ".join(f"{d.name} {d.type}{list(case.value_named(d.name).shape)} {d.what} off by {d.share:.3g} of the largest "
                     f"magnitude, bound {d.bound:.3g}" for d in differences)
