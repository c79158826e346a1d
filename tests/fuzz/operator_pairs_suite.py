#!/usr/bin/python3
"""Operators in pairs and triples, with all their attributes, many in one model, against ONNX Runtime operator by operator;
the cases of found/, which were wrong once; and deeper random graphs.

TESSERA_FUZZ_SEED=N draws pairs and graphs, from seed N on. What fails is printed with the command that shows it alone
(tests/fuzz/campaign.py).
"""
# suite: timeout=900

import pathlib
import sys

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from e2e.tessera_e2e import Service
from fuzz.campaign import shortest
from fuzz.cases import fixed, plan, targets, verdict
from fuzz.cases.reference import Reference
from fuzz.cases.trial import FAULTS_OF_OTHERS, Trial, described
from suite import check, run

PAIRS, GRAPHS = 4, 3  # models


def agree(service, reference, kind, cases, target):
    """Every case of the model is right; errors are printed."""
    cases = reference.grown(cases)
    trial = Trial(service, reference, target)
    outcome = trial.run(cases)
    worst = ", ".join(f"{name} {error:.2g} ({outcome.largest[name]:.0%} of its bound)"
                      for name, error in sorted(outcome.errors.items()))
    print(f"   {outcome.compared} cases for {targets.name_of(target)}, {outcome.excused} by conditioning; largest errors: {worst}")
    wrong = [finding for finding in outcome.findings if finding.kind not in FAULTS_OF_OTHERS]
    for finding in wrong:
        seed = finding.case.seed if kind == "pairs" else -1 - finding.case.seed
        finding = shortest(trial, reference, kind, finding)
        print(f"   {finding.kind}: {described(finding.case)}: {finding.text}\n"
              f"   tests/fuzz/campaign.py {kind} {seed} 1 --target {targets.name_of(target)}")
    check(not wrong, f"{len(wrong)} of {len(cases)} cases are wrong, see above")
    check(outcome.compared > len(cases) // 2, f"only {outcome.compared} of {len(cases)} cases could be compared")


def stays_right(service, path):
    """A case that was wrong once."""
    arrays, wanted, bounds = fixed.load(path)
    outputs, _ = service.run(service.compile(path).artifact, arrays)
    check(sorted(outputs) == sorted(wanted), f"outputs {sorted(outputs)}, expected {sorted(wanted)}")
    for name, right in wanted.items():
        difference = verdict.distance(outputs[name], right)
        check(not difference.what and difference.share <= bounds[name],
              f"{fixed.text_of(path)}: {name} {difference.what} off by {difference.share:.3g}, bound {bounds[name]:.3g}")


def main():
    first = plan.first_seed()
    with Service(workers=2) as service, Reference() as reference:
        chosen = targets.here(service.folder)
        print(f"operator_pairs: seeds from {first} (TESSERA_FUZZ_SEED), "
              f"targets {' '.join(map(targets.name_of, chosen))}", flush=True)
        service.wait_for_workers(2)
        cases = [(f"found/{path.stem}", lambda p=path: stays_right(service, p)) for path in fixed.cases()]
        for kind, models in (("pairs", PAIRS), ("graphs", GRAPHS)) if first is not None else ():
            size = plan.KINDS[kind][1]
            start = first // size * size
            for number, made in plan.batches(kind, start, models * size):
                cases.append((f"{kind}_{number * size}", lambda k=kind, m=made, t=chosen[number % len(chosen)]:
                              agree(service, reference, k, m, t)))
        return run("operator_pairs", cases)


if __name__ == "__main__":
    sys.exit(main())
