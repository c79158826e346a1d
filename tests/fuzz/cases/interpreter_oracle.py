"""The second oracle: importer and interpreter alone, without compiled code (`interpret_model`, compiler/import/testing)."""

import pathlib
import subprocess
import tempfile

import numpy as np

from e2e.tessera_e2e import BIN
from fuzz.cases import model, types, tolerance

PATIENCE_S = 300


class NotInterpreted(RuntimeError):
    """The message is the program's own."""


def run(made, arrays):
    """{output: array} of a model."""
    with tempfile.TemporaryDirectory(prefix="tessera-second-") as folder:
        path, given, wanted = (pathlib.Path(folder) / name for name in ("model.onnx", "in", "out"))
        path.write_bytes(made.SerializeToString())
        given.write_bytes(b"".join(np.ascontiguousarray(arrays[value.name]).tobytes() for value in made.graph.input))
        try:
            answer = subprocess.run([BIN / "interpret_model", path, given, wanted], capture_output=True, text=True,
                                    timeout=PATIENCE_S, check=False)
        except subprocess.TimeoutExpired:
            raise NotInterpreted(f"not done within {PATIENCE_S} s") from None
        if answer.returncode:
            raise NotInterpreted(f"exit code {answer.returncode}: {answer.stderr.strip()[-600:]}")
        return _arrays(answer.stdout, wanted.read_bytes())


def _arrays(lines, content):
    found, at = {}, 0
    for line in lines.splitlines():
        name, kind, *extents = line.split(" ")
        shape = tuple(map(int, extents))
        size = int(np.prod(shape)) * np.dtype(types.ARRAYS[kind]).itemsize
        found[name] = np.frombuffer(content[at:at + size], types.ARRAYS[kind]).reshape(shape)
        at += size
    return found


def of_cases(cases):
    """[{result name: array}, or the reason of the failure] for each case."""
    if not cases:
        return []
    made, arrays, results = model.of_cases(cases)
    try:
        found = run(made, arrays)
    except NotInterpreted as error:
        if len(cases) == 1:
            return [str(error)]
        half = len(cases) // 2
        return of_cases(cases[:half]) + of_cases(cases[half:])
    names = {value.name: name for name, value in results.items()}
    return [{value.name: found[names[value.name]] for value in case.results} for case in cases]


def first_difference(case):
    """(step, its arrays here) at which this oracle and the first one differ for the first time, each on its own values;
    (None, None) if they agree."""
    every = {name for step in case.steps for name, _ in step.outputs}
    made, arrays, results = model.of_cases([case], every)
    found = run(made, arrays)
    answers = {value.name: found[name] for name, value in results.items()}
    for step in case.steps:
        own = [answers[name] for name, _ in step.outputs]
        if any(tolerance.compared(case, case.value_named(name), array).wrong for (name, _), array in zip(step.outputs, own)):
            return step, own
    return None, None
