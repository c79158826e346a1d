"""Whether a result is right: bounds from types and sum lengths, and conditioning (clients/docs/design/fuzzing.md).

1. The bound. Sums of n terms in another order differ by about sqrt(n) roundings, and a step adds a few. In ulps of the
   type, relative to the largest magnitude of the result: 8 + 2 sqrt(n) for each step up to the value, and at most 1e-4
   for f32; 1e-12 for f64. Integers and booleans are equal; NaN and infinities are where the reference has them.
2. Conditioning decides about results beyond the bound. A step function, a cancellation or a pole magnifies correct
   rounding. The reference computes the case several more times, with noise of the bound's size on each rounded value,
   between steps, within steps of several nodes, and in bodies of control flow: there a bound relative to the result is
   too small. Three runs are special. In one, values within noise of an integer become that integer, as another rounding
   order may make them and drawn noise never does: zero after a cancellation, one at a function's limit, which are poles
   and steps of later functions. In one all noise goes upwards and in one towards zero: a value at the edge of a domain
   (acosh at 1, atanh at 1 and -1) is outside on one side, and drawn noise may push it out in all runs. An element may
   differ by as much as these runs differ.
"""

import dataclasses

import numpy as np

from fuzz.cases import types
from fuzz.cases.case import Value
from fuzz.cases.onnxruntime_oracle import with_noise

RUNS = 8  # with noise
WAYS = {0: "settled", 1: "upwards", 2: "inwards"}  # direction of a run's noise; random in the other runs
WITHIN = 8  # ulps of each rounding within a step: in a loop body, between the nodes of a formula
SLACK = 4  # times the distance between runs, which are only a sample
LARGEST_BOUND = {"f32": 1e-4, "f16": 16 * types.ULP["f16"], "bf16": 16 * types.ULP["bf16"]}
F64_BOUND = 1e-12  # attributes are f32, and their roundings are of this size
WINOGRAD = 256  # ulps of f32, because a 3x3 convolution may have larger intermediate values


@dataclasses.dataclass
class Difference:
    """How one result differs. `share` and `bound` are relative to the largest magnitude."""
    name: str
    type: str
    share: float
    bound: float
    what: str = ""
    excused: bool = False

    @property
    def wrong(self):
        return (self.share > self.bound or bool(self.what)) and not self.excused


def bound_of(case, value):
    """The bound of a value: of all steps of the case up to it, in the coarsest type on the way."""
    ulps, coarsest = 0.0, value.type if types.is_float(value.type) else "f64"
    for step in case.steps:
        ulps += 8 + 2 * np.sqrt(step.reduced) + (WINOGRAD if step.operator == "Conv" else 0)
        for name in step.needs + [name for name, _ in step.outputs]:
            kind = case.value_named(name).type
            if types.is_float(kind) and types.ULP[kind] > types.ULP[coarsest]:
                coarsest = kind
        if any(name == value.name for name, _ in step.outputs):
            break
    if not types.is_float(value.type):
        return 0.0
    if coarsest in types.HALVES:  # a few roundings of the step itself; sums are kept in f32
        ulps = 2.0 * (len(case.steps) + 1)
    if coarsest == "f64":
        return F64_BOUND
    return min(ulps * types.ULP[coarsest], LARGEST_BOUND[coarsest])


def _classes(array):
    """NaN, infinities by sign, and finite, as one array."""
    return np.where(np.isnan(array), 3, np.where(np.isposinf(array), 2, np.where(np.isneginf(array), 1, 0)))


def distance(found, wanted):
    """The Difference of two arrays, without a bound. bf16 arrays are f32."""
    difference = Difference("", types.of(wanted.dtype), 0.0, 0.0)
    if found is None or found.shape != wanted.shape or found.dtype != wanted.dtype:
        difference.what = "missing" if found is None else \
            f"{found.dtype}{list(found.shape)}, not {wanted.dtype}{list(wanted.shape)}"
    elif not np.issubdtype(wanted.dtype, np.floating):
        wrong = int(np.count_nonzero(found != wanted))
        difference.share = wrong / max(1, wanted.size)
        difference.what = f"{wrong} of {wanted.size} elements differ" if wrong else ""
    elif wanted.size:
        wide, right = found.astype(np.float64), wanted.astype(np.float64)
        other = int(np.count_nonzero(_classes(wide) != _classes(right)))
        difference.what = f"{other} of {wanted.size} elements are NaN or infinite on one side only" if other else ""
        finite = np.isfinite(wide) & np.isfinite(right)
        if finite.any():
            largest = np.abs(right[finite]).max()
            worst = np.abs(wide[finite] - right[finite]).max()
            difference.share = float(worst / largest) if largest else float(worst)
    return difference


def compared(case, value, found):
    """The Difference between a found array and the expected value."""
    difference = distance(found, value.array)
    difference.name, difference.type, difference.bound = value.name, value.type, bound_of(case, value)
    return difference


def summands_with_noise(case, step, overlaid, random):
    """Operands of a rounded sum, each element with noise of as many ulps as a rounding within a step. Another summation
    order moves the result by little relative to the terms; if terms cancel, the result's own size does not show that."""
    if step.reduced <= 1 or all(case.value_named(name).exact for name, kind in step.outputs if types.is_float(kind)):
        return {}
    noisy = {}
    for name in step.needs:
        value = overlaid.get(name, case.value_named(name))
        if types.is_float(value.type):
            factor = 1 + WITHIN * types.ULP[value.type] * random.uniform(-1, 1, size=value.array.shape)
            with np.errstate(over="ignore", invalid="ignore"):
                noisy[name] = Value(name, value.type, types.stored(value.type, value.array.astype(np.float64) * factor))
    return noisy


def noisy_runs(case, reference, seed=0):
    """Values by name of each run with noise that the reference accepts."""
    random = np.random.default_rng([abs(case.seed), case.seed < 0, seed])
    runs = []
    for number in range(RUNS):
        overlaid = {}
        for step in case.steps:
            shaken = {**overlaid, **summands_with_noise(case, step, overlaid, random)}
            arrays = reference.evaluated([(case, step)], shaken,
                                         lambda kind: 1 + WITHIN * types.ULP[kind] * random.uniform(-1, 1))[0]
            if arrays is None:
                break
            for (name, kind), array in zip(step.outputs, arrays):
                value = case.value_named(name)
                array = types.stored(kind, array)
                if types.is_float(kind) and not value.exact:
                    array = with_noise(array, kind, max(bound_of(case, value), 0.5 * types.ULP[kind]), random,
                                       WAYS.get(number))
                overlaid[name] = Value(name, kind, array)
        else:
            runs.append(overlaid)
    return runs


def excuse(difference, value, found, runs):
    """Marks a difference that is within what conditioning explains."""
    if not runs or found is None or found.shape != value.array.shape or found.dtype != value.array.dtype:
        return
    others = [array for run in runs if (array := run[value.name].array).shape == found.shape]
    if not others:  # the shape depends on the data, by rounding
        difference.excused = True
        return
    if not types.is_float(value.type):
        possible = np.any([found == other for other in others], axis=0) | (found == value.array)
        if value.type != "bool":  # a rounded value lies between the results of its neighbours
            spread = np.max([np.abs(other.astype("f8") - value.array.astype("f8")) for other in others], axis=0)
            possible |= np.abs(found.astype("f8") - value.array.astype("f8")) <= spread
        difference.excused = bool(possible.all())
        return
    wide, right = found.astype(np.float64), value.array.astype(np.float64)
    others = [other.astype(np.float64) for other in others]
    same = np.any([_classes(wide) == _classes(each) for each in (right, *others)], axis=0)
    with np.errstate(invalid="ignore"):
        spread = np.nanmax([np.nan_to_num(np.abs(each - right), nan=0, posinf=np.inf) for each in others], axis=0)
        largest = np.abs(right[np.isfinite(right)]).max(initial=0)
        near = np.abs(wide - right) <= SLACK * spread + difference.bound * largest
    difference.excused = bool((same & (near | ~np.isfinite(wide) | ~np.isfinite(right))).all())
