#!/usr/bin/python3
"""Pairs and triples of operators with all their attributes, many in one model, compared with ONNX Runtime operator by
operator; the cases of found/, which failed once; and larger random graphs. The seeds are fixed; rotating_suite.py draws
others with each commit.
"""
# suite: timeout=900

import pathlib
import sys

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from e2e.tessera_e2e import Service
from fuzz.cases import fixed, plan, targets, verdict
from fuzz.cases.builder import Builder
from fuzz.cases.drawn import agree
from fuzz.cases.reference import Reference
from suite import check, run

MODELS = {"pairs": 4, "graphs": 3}  # from seed 0


def stays_right(service, builder, path, *flags, target="host"):
    """A case that failed once. `flags`: of compile."""
    arrays, wanted, bounds = fixed.load(path)
    artifact = service.scratch("case.tsra")
    check(builder.built(path, target, flags, artifact), f"{fixed.text_of(path)} is not compiled")
    outputs, _ = service.run(artifact, arrays, "--guard", "--untrusted")
    check(sorted(outputs) == sorted(wanted), f"outputs {sorted(outputs)}, expected {sorted(wanted)}")
    for name, right in wanted.items():
        difference = verdict.distance(outputs[name], right)
        check(not difference.what and difference.share <= bounds[name],
              f"{fixed.text_of(path)}: {name} {difference.what} off by {difference.share:.3g}, bound {bounds[name]:.3g}")


def main():
    with Service(workers=2) as service, Reference() as reference, Builder() as builder:
        chosen = targets.here(service.folder)
        print(f"operator_pairs: targets {' '.join(map(targets.name_of, chosen))}", flush=True)
        service.wait_for_workers(2)
        cases = [(f"found/{path.stem}", lambda p=path: stays_right(service, builder, p)) for path in fixed.cases()]
        if "x86-64-v3" in chosen:  # without bf16 instructions, and without the rewrites of higher levels, which may hide faults
            cases += [(f"found/{path.stem} plainly", lambda p=path: stays_right(service, builder, p, "-O", "1", target="x86-64-v3"))
                      for path in fixed.cases()]
        for kind, models in MODELS.items():
            for number, made in plan.models(kind, 0, models):
                direct = builder if number else None  # the first one of each kind goes through the product
                cases.append((f"{kind}_{number * plan.KINDS[kind][1]}",
                              lambda k=kind, m=made, t=chosen[number % len(chosen)], b=direct:
                              agree(service, reference, k, m, t, builder=b)))
        return run("operator_pairs", cases)


if __name__ == "__main__":
    sys.exit(main())
