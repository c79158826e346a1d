"""Compares one model of drawn cases with the oracles and prints the result, as suites do for each batch."""

import dataclasses

from fuzz.cases import model, plan, targets
from fuzz.cases.trial import NOT_OUR_FAULTS, Trial, described
from checks import check


def shortest(trial, reference, kind, finding):
    """The finding for the shortest prefix of its case that fails in the same way."""
    make, _ = plan.KINDS[kind]
    seed = plan.seed_of(kind, finding.case)
    for steps in range(1, len(finding.case.steps)):
        again = trial.run(reference.completed([make(seed, steps)])).findings
        if any(each.kind == finding.kind for each in again):
            return again[0]
    return finding


def verified(trial, finding):
    """The finding; for wrong compiled code also the step and operation that `tessera compile --verify` names."""
    if finding.kind not in ("differs", "crashed"):
        return finding
    path, artifact = trial.service.scratch("case.onnx"), trial.service.scratch("case.tsra")
    path.write_bytes(model.of_cases([finding.case])[0].SerializeToString())
    answer = trial.service.cli("compile", path, "--target", trial.target, "--verify", "--json", "-o", artifact, *trial.flags,
                               expect=None, timeout=trial.patience)
    found = answer.failure.get("message") or str(answer) if answer.code else "finds every step right"
    return dataclasses.replace(finding, text=f"{finding.text}; --verify: {found[:600]}")


def agree(service, reference, kind, cases, target, patience=None, builder=None):
    """Raises unless all cases of the model are right. Prints errors, and for each finding the command that repeats it.
    `builder`: compiles in place of the service."""
    cases = reference.completed(cases)
    trial = Trial(service, reference, target, builder=builder, **({"patience": patience} if patience else {}))
    outcome = trial.run(cases)
    worst = ", ".join(f"{name} {error:.2g} ({outcome.largest[name]:.0%} of its bound)"
                      for name, error in sorted(outcome.errors.items()))
    print(f"   {outcome.compared} cases for {targets.name_of(target)}, {outcome.excused} by conditioning; largest errors: {worst}")
    wrong, told = [finding for finding in outcome.findings if finding.kind not in NOT_OUR_FAULTS], []
    for finding in wrong:
        seed = plan.seed_of(kind, finding.case)
        finding = verified(trial, shortest(trial, reference, kind, finding))
        told.append(f"tests/fuzz/campaign.py {kind} {seed} 1 --target {targets.name_of(target)}   "
                    f"{finding.kind}: {described(finding.case)}: {finding.text}")
    check(not wrong, "\n".join([f"{len(wrong)} of {len(cases)} cases are wrong", *told]))
    check(outcome.compared > len(cases) // 2, f"only {outcome.compared} of {len(cases)} cases could be compared")
