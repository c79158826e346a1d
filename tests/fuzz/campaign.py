#!/usr/bin/python3
"""Runs ranges of seeds through the product, rotating over targets: campaign.py KIND FIRST COUNT [options]

KIND is pairs (two or three consecutive operators) or graphs (6 to 24 operators). Prints each finding with the command
that repeats it, and totals at the end; the exit code is 1 if there are findings. With --ledger FILE, each finished
model adds a line to that file and is skipped later, so a campaign can be stopped at any time and continued (`ledger.py`
adds up).
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import sys
import tempfile
import threading
import time

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from e2e.tessera_e2e import Service
from fuzz import ledger
from fuzz.cases import stored_cases, plan, targets
from fuzz.cases.builder import Builder
from fuzz.cases.batch_check import shortest, verified
from fuzz.cases.onnxruntime_oracle import Reference
from fuzz.cases.trial import NOT_OUR_FAULTS, Trial, described

EVERY_NTH_THROUGH_SERVICE = 64  # one model in 64; models that the builder fails to build go through the product too
EVERY_NTH_AT_O1 = 16  # one model in 16 is compiled with -O 1


class Campaign:
    def __init__(self, options):
        self.options = options
        self.totals, self.by_target, self.findings = collections.Counter(), collections.Counter(), []
        self.errors = {}
        self._lock = threading.Lock()

    def run(self):
        self.started = time.monotonic()
        done = ledger.models_of(self.options.ledger, self.options.kind) if self.options.ledger else ()
        with Service(workers=2) as service:
            service.wait_for_workers(2)
            waiting = ((number, cases) for number, cases in
                       plan.batches(self.options.kind, self.options.first, self.options.count) if number not in done)
            with concurrent.futures.ThreadPoolExecutor(self.options.workers) as threads:
                for ended in [threads.submit(self._work, service, waiting) for _ in range(self.options.workers)]:
                    ended.result()
        self.totals["seconds"] = int(time.monotonic() - self.started)
        print(json.dumps({"kind": self.options.kind, "first": self.options.first, **self.totals,
                          "targets": self.by_target, "largest_errors": self.errors}), flush=True)
        return 1 if self.findings else 0

    def _work(self, service, waiting):
        """Runs models one after the other, in parallel with other threads."""
        chosen = self.options.target
        with Reference() as reference, Builder() as builder:
            while not self.options.minutes or time.monotonic() - self.started < 60 * self.options.minutes:
                with self._lock:
                    number, cases = next(waiting, (None, None))
                if cases is None:
                    return
                grown_at = time.monotonic()
                cases = reference.completed(cases)
                grown_ms = int(1000 * (time.monotonic() - grown_at))
                target = chosen[number % len(chosen)]
                direct = None if self.options.service or number % EVERY_NTH_THROUGH_SERVICE == 7 else builder
                flags = ("-O", "1") if number % EVERY_NTH_AT_O1 == EVERY_NTH_AT_O1 - 1 else ()
                trial = Trial(service, reference, target, flags, builder=direct)
                outcome = trial.run(cases, threads=1 + number % 2)
                with self._lock:
                    self.totals["grown_ms"] += grown_ms
                    self._account(target, cases, outcome, trial, reference)
                    if self.options.ledger and self._is_whole(number):
                        ledger.add(self.options.ledger, self.options.kind, number, targets.name_of(target), len(cases), outcome)

    def _is_whole(self, number):
        size = plan.KINDS[self.options.kind][1]
        return self.options.first <= number * size and (number + 1) * size <= self.options.first + self.options.count

    def _account(self, target, cases, outcome, trial, reference):
        self.totals["cases"] += len(cases)
        self.totals["steps"] += sum(len(case.steps) for case in cases)
        self.totals["compared"] += outcome.compared
        self.totals["excused"] += outcome.excused
        self.by_target[targets.name_of(target)] += outcome.compared
        for kind, error in outcome.errors.items():
            self.errors[kind] = max(self.errors.get(kind, 0), error)
        for finding in outcome.findings:
            self.totals[finding.kind] += 1
            if finding.kind == "refused" and not self.options.refusals:
                continue
            self._report(target, finding, trial, reference)

    def _report(self, target, finding, trial, reference):
        seed = plan.seed_of(self.options.kind, finding.case)
        if finding.kind not in NOT_OUR_FAULTS:
            self.findings.append(finding)
            finding = verified(trial, shortest(trial, reference, self.options.kind, finding))
            if self.options.save:
                stored_cases.save(finding.case, self.options.save, f"{self.options.kind}_{seed}")
        flags = f" with {' '.join(trial.flags)}" if trial.flags else ""
        print(f"{finding.kind} {targets.name_of(target)}{flags}: {described(finding.case)}: {finding.text}\n"
              f"  tests/fuzz/campaign.py {self.options.kind} {seed} 1 --target {targets.name_of(target)}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=sorted(plan.KINDS))
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--target", action="append", help="one or several, used in rotation; default: all of fuzz.cases.targets")
    parser.add_argument("--minutes", type=float, help="begin no model after this long")
    parser.add_argument("--workers", type=int, default=(os.cpu_count() or 1) + 1, help="models at a time")
    parser.add_argument("--service", action="store_true", help="compile every model through the product")
    parser.add_argument("--refusals", action="store_true", help="print what is not supported as well")
    parser.add_argument("--save", type=pathlib.Path, help="a folder for the failing cases, as models with inputs and answers")
    parser.add_argument("--ledger", type=pathlib.Path, help="file of finished models, which are skipped")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tessera-targets-") as folder:
        known = {targets.name_of(target): target for target in targets.runnable(folder)}
        options.target = [known.get(name, name) for name in options.target] if options.target else list(known.values())
        return Campaign(options).run()


if __name__ == "__main__":
    sys.exit(main())
