"""The first oracle: computes steps of cases with ONNX Runtime, one operator at a time for many cases, and with NumPy
where ONNX Runtime is known not to follow the standard (`third`).

ONNX Runtime's optimizer is off, so a fault of its fused kernels does not become the reference. 16-bit floats are
computed in f32 and rounded after each step.
"""

import collections
import pathlib
import tempfile

import numpy as np

from fuzz.cases import model, numpy_oracle, types
from oracle.oracle import Oracle, OracleError

LACKING = ("Could not find an implementation", "NOT_IMPLEMENTED", "Type Error", "tensor(")


class Reference:
    """A context manager. `refused`: reasons why steps were rejected, with counts."""

    def __init__(self):
        self._oracle = None
        self._folder = tempfile.TemporaryDirectory(prefix="tessera-fuzz-")
        self._lacking = set()
        self.refused = collections.Counter()

    def __enter__(self):
        self._oracle = Oracle()
        return self

    def __exit__(self, *_):
        self._oracle.__exit__()
        self._folder.cleanup()

    def run(self, made, arrays):
        """{output: array} of a model; raises OracleError if it is rejected."""
        path = pathlib.Path(self._folder.name) / "model.onnx"
        path.write_bytes(made.SerializeToString())
        try:
            session = self._oracle.load(path, optimize="disabled")
            try:
                return session.run(arrays)[0]
            finally:
                session.close()
        except (BrokenPipeError, OracleError) as error:
            if self._oracle.ended:
                self._oracle = Oracle()
            raise OracleError(str(error)) from None

    def completed(self, cases):
        """Grows all cases to their ends."""
        waiting = [(case, case.grow()) for case in cases]
        waiting = [(case, growing, step) for case, growing in waiting if (step := next(growing, None)) is not None]
        while waiting:
            answers = self.evaluated([(case, step) for case, _, step in waiting])
            still = []
            for (case, growing, _), arrays in zip(waiting, answers):
                try:
                    still.append((case, growing, growing.send(arrays)))
                except StopIteration:
                    pass
            waiting = still
        return [case for case in cases if case.steps]

    def evaluated(self, steps, overlaid=None, noise=None):
        """For each (case, step): its arrays, or None if it is rejected. `overlaid`: replacements for values; `noise`:
        perturbation within steps (model.with_rounding_noise)."""
        with_values = []
        for case, step in steps:
            values = {name: case.value_named(name) for name in step.needs}
            if overlaid:
                values = {name: overlaid.get(name, value) for name, value in values.items()}
            with_values.append((case, step, values, self._signature(case, step, values)))
        answers = {}
        for i, (_, step, values, _) in enumerate(with_values):
            if numpy_oracle.replaces_onnxruntime(step, values) and (arrays := numpy_oracle.formula_result(step, values)):
                answers[i] = arrays
        usual = [i for i, each in enumerate(with_values) if i not in answers and each[3] not in self._lacking]
        by_opset = collections.defaultdict(list)
        for i in usual:
            by_opset[with_values[i][0].opset].append(i)
        for chosen in by_opset.values():
            self._together(chosen, with_values, answers, noise)
        for i, (case, step, values, _) in enumerate(with_values):
            if i not in answers and step.promote:
                answers[i] = self._promoted(case, step, values)
        return [answers.get(i) for i in range(len(steps))]

    @staticmethod
    def _signature(case, step, values):
        return (tuple(node.op_type for node in step.nodes), tuple(value.type for value in values.values()),
                tuple(kind for _, kind in step.outputs), case.opset)

    def _together(self, chosen, steps, answers, noise=None):
        """Runs these in one model; bisects if the model is rejected."""
        if not chosen:
            return
        values = {name: value for i in chosen for name, value in steps[i][2].items()}
        made, arrays = model.of_steps([(steps[i][1], steps[i][0].constants) for i in chosen], values, steps[chosen[0]][0].opset,
                                      noise=noise)
        try:
            found = self.run(made, arrays)
        except OracleError as error:
            if len(chosen) > 1:
                half = len(chosen) // 2
                self._together(chosen[:half], steps, answers, noise)
                self._together(chosen[half:], steps, answers, noise)
                return
            case, step, _, signature = steps[chosen[0]]
            self.refused[f"{step.operator} {'/'.join(signature[1])} opset {case.opset}: {str(error)[:300]}"] += 1
            if any(text in str(error) for text in LACKING):
                self._lacking.add(signature)
            return
        for i in chosen:
            answers[i] = [found[name] for name, _ in steps[i][1].outputs]

    def _promoted(self, case, step, values):
        """The step computed in i64, cut to its own type."""
        if any(value.type == "u64" for value in values.values()):
            return None
        made, arrays = model.of_steps([(step, case.constants)], values, case.opset, integers=True)
        try:
            found = self.run(made, arrays)
        except OracleError as error:
            self.refused[f"{step.operator} in i64: {str(error)[:300]}"] += 1
            return None
        return [types.stored(kind, found[name]) for name, kind in step.outputs]


def with_noise(array, kind, share, random, way=None):
    """The array with each element changed by up to `share` of the largest magnitude. `way`: by the full amount
    "upwards", or "inwards" (towards zero); "settled" replaces values within that distance of an integer by the integer."""
    wide = np.asarray(array, np.float64)
    finite = np.isfinite(wide)
    largest = np.abs(wide[finite]).max(initial=0)
    if way == "settled":
        whole = np.rint(wide)
        with np.errstate(invalid="ignore"):  # of infinities
            settled = np.abs(wide - whole) <= share * largest
        wide = np.where(settled, whole, wide)
        finite &= ~settled
    noise = {"upwards": np.ones_like(wide), "inwards": -np.sign(wide)}.get(way, random.uniform(-1, 1, size=wide.shape))
    with np.errstate(over="ignore"):
        return types.stored(kind, wide + np.where(finite, share * largest * noise, 0))
