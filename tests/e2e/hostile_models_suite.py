#!/usr/bin/python3
"""Models made to hurt: each gets the typed failure of the table, naming the place; the service goes on."""
# suite: timeout=900

import json
import pathlib
import sys

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from e2e.processes import MemoryWatch
from e2e.tessera_e2e import Service, model_inputs, model_path
from models import hostile_models
from suite import check, check_equal, run

EXIT_CODES = {"INVALID_MODEL": 3, "UNBOUND_DIMENSION": 3, "LIMIT_EXCEEDED": 3, "UNSUPPORTED_OPERATOR": 4,
              "MISSING_BLOB": 5}
MEMORY_BOUND = 1 << 30


seen_peaks = []  # of task processes, one for each model


def is_refused(service, folder, row):
    # The task's deadline bounds the time: a model that runs into it fails with another reason than the table's.
    with MemoryWatch(service.data) as memory:
        answer = service.cli("compile", folder / row["file"], "--target", "host", "--timeout", "30s", "--json",
                             "-o", service.scratch("refused.tsra"), expect=None)
    check(answer.code != 0, f"accepted: {answer}")
    failure = answer.failure
    reason = failure.get("reason")
    check(reason in row["reasons"], f"reason {reason}, expected {' or '.join(row['reasons'])}: {answer}")
    check_equal(answer.code, EXIT_CODES[reason], "exit code")
    text = json.dumps(failure, ensure_ascii=False)
    for word in row["mentions"]:
        check(word in text, f"the failure does not mention '{word}': {text}")
    check(failure.get("message"), "no message")
    seen_peaks.append(memory.peak_bytes)
    check(memory.peak_bytes < MEMORY_BOUND, f"a process grew to {memory.peak_bytes >> 20} MiB")


def memory_was_watched():
    """A bound on processes that nobody sees holds for ever. On a busy machine most tasks end between two looks, not all."""
    seen = sum(peak > 1 << 20 for peak in seen_peaks)
    print(f"   {seen} of {len(seen_peaks)} tasks seen, {max(seen_peaks) >> 20} MiB at most")
    check(seen > len(seen_peaks) / 8, f"only {seen} of {len(seen_peaks)} models had a task process that was seen")


def goes_on(service, before):
    after = {worker["id"]: worker["pid"] for worker in service.wait_for_workers(len(before))}
    check_equal(after, before, "workers (id: pid) after all hostile models")
    arrays = model_inputs("mlp", 1)
    compiled = service.compile(model_path("mlp"), {name: array.shape for name, array in arrays.items()})
    outputs, _ = service.run(compiled.artifact, arrays)
    check_equal(outputs["y"].shape, (1, 10), "shape of a good model's output")


def main():
    with Service(workers=2) as service:
        before = {worker["id"]: worker["pid"] for worker in service.wait_for_workers(2)}
        folder = service.folder / "hostile"
        rows = hostile_models.write(folder)
        cases = [(row["name"], lambda r=row: is_refused(service, folder, r)) for row in rows]
        cases.append(("memory_was_watched", memory_was_watched))
        cases.append(("the_service_goes_on", lambda: goes_on(service, before)))
        return run("hostile_models", cases)


if __name__ == "__main__":
    sys.exit(main())
