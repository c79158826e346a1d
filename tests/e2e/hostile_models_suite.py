"""Hostile models: each gets the typed failure of its table row, with the place; the service continues."""

import json
import re

import pytest

from checks import check, check_equal
from e2e.tessera_e2e import model_inputs, model_path
from models import hostile_models

pytestmark = pytest.mark.service(arguments=("--log-level", "debug"))

EXIT_CODES = {"INVALID_MODEL": 3, "UNBOUND_DIMENSION": 3, "LIMIT_EXCEEDED": 3, "UNSUPPORTED_OPERATOR": 4,
              "MISSING_BLOB": 5}
MEMORY_BOUND = 1 << 30


# The worker's log line about each ended task process: the kernel's accounting, which does not depend on load.
PEAK = re.compile(r"\(job (\S+)\): attempt \d+ took .* (\d+) KiB resident at the peak")

seen_peaks = []  # bytes of the largest task process of each model that had one


@pytest.fixture(scope="module")
def before(service):
    """The workers before any model: id -> process."""
    return {worker["id"]: worker["pid"] for worker in service.wait_for_workers(2)}


@pytest.fixture(scope="module")
def folder(service, before):
    path = service.folder / "hostile"
    hostile_models.write(path)
    return path


@pytest.mark.parametrize("row", hostile_models.TABLE, ids=lambda row: row.name)
def test_is_refused(service, folder, row):
    # The task's deadline bounds the time: a model that exceeds it fails with another reason than the table's.
    answer = service.cli("compile", folder / f"{row.name}.onnx", "--target", "host", "--timeout", "30s", "--json",
                         "-o", service.scratch("refused.tsra"), expect=None)
    check(answer.code != 0, f"accepted: {answer}")
    failure = answer.failure
    reason = failure.get("reason")
    check(reason in row.reasons, f"reason {reason}, expected {' or '.join(row.reasons)}: {answer}")
    check_equal(answer.code, EXIT_CODES[reason], "exit code")
    text = json.dumps(failure, ensure_ascii=False)
    for word in row.mentions:
        check(word in text, f"the failure does not mention '{word}': {text}")
    check(failure.get("message"), "no message")
    if job := answer.json.get("job"):  # the others are rejected before a process starts
        peaks = [int(kib) << 10 for of, kib in PEAK.findall(service.log) if of == job["id"]]
        check(peaks, f"no task process of {job['id']} is in the log")
        seen_peaks.append(max(peaks))
        check(max(peaks) < MEMORY_BOUND, f"a process grew to {max(peaks) >> 20} MiB")


def memory_was_watched(rows):
    """A bound holds trivially if no process was measured, so some must be."""
    print(f"   task processes of {len(seen_peaks)} of {rows} models, {max(seen_peaks) >> 20} MiB at most")
    check(len(seen_peaks) > rows / 2, f"only {len(seen_peaks)} of {rows} models had a task process")
    check(min(seen_peaks) > 1 << 20, f"a task process of {min(seen_peaks)} bytes")


def goes_on(service, before):
    after = {worker["id"]: worker["pid"] for worker in service.wait_for_workers(len(before))}
    check_equal(after, before, "workers (id: pid) after all hostile models")
    arrays = model_inputs("mlp", 1)
    compiled = service.compile(model_path("mlp"), {name: array.shape for name, array in arrays.items()})
    outputs, _ = service.run(compiled.artifact, arrays)
    check_equal(outputs["y"].shape, (1, 10), "shape of a good model's output")


def test_memory_was_watched():
    memory_was_watched(len(hostile_models.TABLE))


def test_the_service_goes_on(service, before):
    goes_on(service, before)
