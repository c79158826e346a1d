#!/usr/bin/python3
"""Fresh cases: pairs, graphs and kernels of seeds that change with the commit.

A finding most likely existed before the commit. It is reported in the summary of tests/run with the command that
repeats it, and fails nothing. With TESSERA_FUZZ_SEED=N the seeds start there, and findings fail.
"""
# suite: timeout=600

import pathlib
import re
import signal
import subprocess
import sys
import time

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from e2e.tessera_e2e import BIN, Service
from fuzz.cases import plan, targets
from fuzz.cases.builder import Builder
from fuzz.cases.drawn import agree
from fuzz.cases.reference import Reference
from suite import Reported, Skip, check, run

MODELS = {"pairs": 4, "graphs": 3}
KERNELS = 100  # as built, and with random schedules
NO_MORE_S, ALL_S, PATIENCE_S = 240, 420, 90  # last start of a case, end of all cases, limit of one command


class OutOfTime(RuntimeError):
    pass


def timed(case, begun, decides):
    """The case within the suite's time; reports its finding unless findings fail."""
    def within():
        left = ALL_S - (time.monotonic() - begun)
        if time.monotonic() - begun > NO_MORE_S:
            raise Skip(f"no time was left of {NO_MORE_S} s")
        signal.alarm(max(1, int(left)))
        try:
            case()
        except Skip:
            raise
        except Exception as error:  # pylint: disable=broad-except
            if decides:
                raise
            raise Reported(f"{error}") from error
        finally:
            signal.alarm(0)
    return within


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


def out_of_time(*_):
    raise OutOfTime(f"cut off after {ALL_S} s")


def main():
    seed, whence, decides = plan.rotating_seed()
    signal.signal(signal.SIGALRM, out_of_time)
    begun = time.monotonic()
    with Service(workers=2) as service, Reference() as reference, Builder() as builder:
        chosen = targets.here(service.folder)
        print(f"rotating: TESSERA_FUZZ_SEED={seed} ({whence}), findings {'fail' if decides else 'are reported'}; "
              f"targets {' '.join(map(targets.name_of, chosen))}", flush=True)
        service.wait_for_workers(2)
        cases = [(f"kernels_{seed % 2**32}{flag}", lambda f=flag: kernels(seed % 2**32, *f.split()))
                 for flag in ("", " --schedules")]
        for kind, models in MODELS.items():
            for number, made in plan.models(kind, seed, models):
                cases.append((f"{kind}_{number * plan.KINDS[kind][1]}",
                              lambda k=kind, m=made, t=chosen[number % len(chosen)]:
                              agree(service, reference, k, m, t, PATIENCE_S, builder)))
        return run("rotating", [(name.replace(" ", ""), timed(case, begun, decides)) for name, case in cases])


if __name__ == "__main__":
    sys.exit(main())
