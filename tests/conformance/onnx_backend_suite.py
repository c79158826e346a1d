#!/usr/bin/python3
"""ONNX's own backend tests through the service: compiled by a job, run from the artifact, compared elementwise.

A test listed in passing.txt must pass. One that is not listed may be refused with UNSUPPORTED_OPERATOR, which
counts as skipped; a wrong result, a crash or any other failure counts as failed, listed or not.
With --update the list is written anew: tests that pass are added, none is ever dropped by it.
"""
# suite: timeout=1500

import collections
import concurrent.futures
import pathlib
import sys

import numpy as np

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from conformance import onnx_data
from e2e.tessera_e2e import Service
from suite import check, check_equal

LIST = pathlib.Path(__file__).with_name("passing.txt")
# The tolerances of ONNX's own runner.
RTOL, ATOL = 1e-3, 1e-7


def attempt(service, case):
    """None when the test passes; the failure's text when its operators are not supported; else AssertionError."""
    artifact = service.scratch("case.tsra")
    shapes = [word for name, array in case.inputs.items() if array is not None
              for word in ("--shape", f"{name}={'x'.join(map(str, array.shape))}")]
    answer = service.cli("compile", case.model, "--target", "host", "--json", "-o", artifact, *shapes, expect=None)
    if answer.code == 4:
        check_equal(answer.failure["reason"], "UNSUPPORTED_OPERATOR", "reason of exit code 4")
        return answer.failure["message"]
    check(answer.code == 0, f"refused: {answer.failure or answer}")
    check(case.runnable, "compiled, though its inputs or outputs are no dense tensors")
    outputs, _ = service.run(artifact, case.inputs)
    artifact.unlink()
    check_equal(len(outputs), len(case.outputs), "number of outputs")
    for name, wanted in case.outputs.items():
        found = outputs[name.replace("/", "_")]
        check_equal((found.shape, found.dtype), (wanted.shape, wanted.dtype), f"shape and type of {name}")
        np.testing.assert_allclose(found, wanted, rtol=RTOL, atol=ATOL, equal_nan=True, err_msg=name)
    return None


def outcome(service, case):
    try:
        refused = attempt(service, case)
        return ("skipped", refused) if refused else ("ok", "")
    except AssertionError as error:
        return "FAILED", " ".join(str(error).split())[:600]


def main():
    update = "--update" in sys.argv
    listed = set(LIST.read_text().split()) if LIST.exists() else set()
    counts, unsupported, passing = collections.Counter(), collections.Counter(), set()
    with Service(workers=2) as service, concurrent.futures.ThreadPoolExecutor(4) as pool:
        service.wait_for_workers(2)
        cases = list(onnx_data.cases())
        for case, (verdict, detail) in zip(cases, pool.map(lambda c: outcome(service, c), cases)):
            if verdict == "skipped" and case.name in listed:
                verdict, detail = "FAILED", f"was supported: {detail}"
            if verdict == "ok":
                passing.add(case.name)
            elif verdict == "skipped":
                unsupported.update(case.operators[:1] if len(case.operators) == 1 else [detail])
            counts[verdict] += 1
            if verdict != "ok":
                print(f"{verdict} {case.name}: {detail}", flush=True)
    known = {case.name for case in cases}
    for name in sorted(listed - known):
        counts["FAILED"] += 1
        print(f"FAILED {name}: listed in passing.txt, but there is no such test")
    if update:
        LIST.write_text("\n".join(sorted(listed | passing)) + "\n")
    elif passing - listed:
        print(f"pass and are not listed (onnx_backend_suite.py --update): {' '.join(sorted(passing - listed))}")
    print(f"unsupported: {', '.join(f'{name} {count}' for name, count in unsupported.most_common(40))}")
    print(f"onnx_backend: {counts['ok']} passed, {counts['FAILED']} failed, {counts['skipped']} skipped")
    return 1 if counts["FAILED"] else 0


if __name__ == "__main__":
    sys.exit(main())
