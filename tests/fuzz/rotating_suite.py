"""Fresh cases: pairs, graphs and kernels of seeds that change with the commit.

A finding most likely existed before the commit. It is reported in the summary of tests/run with the command that
repeats it, and fails nothing. With TESSERA_FUZZ_SEED=N the seeds start there, and findings fail.
"""

import functools
import re
import subprocess
import time

import pytest

from checks import check
from e2e.tessera_e2e import BIN
from fuzz.cases import plan
from fuzz.cases.batch_check import agree

MODELS = {"pairs": 4, "graphs": 3}
KERNELS = 100  # as built, and with random schedules
NO_MORE_S, CASE_S, PATIENCE_S = 240, 180, 90  # last start of a case, limit of a case, limit of one command
SEED, WHENCE, DECIDES = plan.rotating_seed()
pytestmark = pytest.mark.timeout(CASE_S)


def within(begun, decides, case):
    """Runs the case, unless the suite's time is over. Reports its finding, or that it takes too long, unless findings fail."""
    if time.monotonic() - begun > NO_MORE_S:
        pytest.skip(f"no time was left of {NO_MORE_S} s")
    try:
        case()
    except (Exception, pytest.fail.Exception) as error:  # pylint: disable=broad-except
        if decides:
            raise
        pytest.xfail(f"{error}")


def kernels(seed, *flags):
    command = [BIN / "kernel_fuzz", f"--seed={seed}", f"--count={KERNELS}", *flags]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    print("   " + " ".join(map(str, ["kernel_fuzz", *command[1:]])))
    # Seeds of failures from the output, or after a crash the last test that began.
    failed = dict.fromkeys(re.findall(r"^\[  FAILED  \] \S+\.(\d+)$", answer.stdout, re.MULTILINE))
    begun = re.findall(r"^\[ RUN      \] \S+\.(\d+)$", answer.stdout, re.MULTILINE)
    if answer.returncode and not failed and begun:
        failed = {begun[-1]: None}
    text = " ".join(flags)
    check(not answer.returncode, "\n".join([f"kernel_fuzz ended with {answer.returncode}"] + [
        f"build/release/bin/kernel_fuzz --seed={number} --count=1 {text}".rstrip() for number in failed]))


@pytest.fixture(scope="module")
def begun():
    print(f"rotating: TESSERA_FUZZ_SEED={SEED} ({WHENCE}), findings {'fail' if DECIDES else 'are reported'}")
    return time.monotonic()


@pytest.mark.parametrize("flags", ((), ("--schedules",)), ids=("", "schedules"))
def test_kernels(begun, flags):
    within(begun, DECIDES, functools.partial(kernels, SEED % 2**32, *flags))


@pytest.mark.parametrize("kind, number, models", [
    pytest.param(kind, number, models, id=f"{kind}_{number * plan.KINDS[kind][1]}")
    for kind, count in MODELS.items() for number, models in plan.models(kind, SEED, count)])
def test_drawn(begun, service, reference, builder, here, kind, number, models):
    within(begun, DECIDES, functools.partial(agree, service, reference, kind, models, here[number % len(here)], PATIENCE_S, builder))
