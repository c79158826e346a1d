"""Which oracles disagree: compiled code, interpreter, ONNX Runtime, and NumPy if it has a formula for the operator."""

from fuzz.cases import interpreter_oracle, numpy_oracle, tolerance


def of(case, found, interpreted, code_differs, interpreter_differs):
    """(kind of the finding, text) of a case in which code or interpreter differ from ONNX Runtime beyond what
    conditioning excuses."""
    if not interpreter_differs:
        return "differs", "ONNX Runtime and the interpreter agree against the compiled code: `tessera compile --verify` names the step"
    if not code_differs:
        text = "ONNX Runtime and the compiled code agree against the interpreter"
    elif all(_near(case, value, found[value.name], interpreted[value.name]) for value in case.results):
        text = "the compiled code and the interpreter agree against ONNX Runtime"
    else:
        text = "the compiled code, the interpreter and ONNX Runtime all differ"
    kind = "differs" if code_differs else "interpreter"
    vote, step = _third(case)
    if step is not None:
        text += f"; first at {step.operator}, where NumPy " + {
            None: "has no formula", "both": "is within the bound of both", "neither": "agrees with neither",
            "first": "agrees with ONNX Runtime", "second": "agrees with the interpreter"}[vote]
    if vote == "second" and text.startswith("the compiled code and the interpreter agree"):
        kind = "oracle"
    return kind, text


def _third(case):
    """(side that NumPy agrees with at the first step where the two oracles differ, that step)."""
    try:
        step, own = interpreter_oracle.first_difference(case)
    except interpreter_oracle.NotInterpreted:
        return None, None
    if step is None:
        return None, None
    arrays = numpy_oracle.formula_result(step, {name: case.value_named(name) for name in step.needs})
    if arrays is None:
        return None, step
    values = [case.value_named(name) for name, _ in step.outputs]
    first = all(_near(case, value, value.array, array) for value, array in zip(values, arrays))
    other = all(_near(case, value, mine, array) for value, mine, array in zip(values, own, arrays))
    return {(True, True): "both", (True, False): "first", (False, True): "second", (False, False): "neither"}[first, other], step


def _near(case, value, found, wanted):
    difference = tolerance.distance(found, wanted)
    return not difference.what and difference.share <= tolerance.bound_of(case, value)
