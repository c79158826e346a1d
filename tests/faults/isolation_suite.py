"""Two jobs at once, one of them hostile: the other one is unaffected. And a service that shuts down gracefully."""

import concurrent.futures
import contextlib
import os

import pytest

from checks import check, check_equal
from e2e.tessera_e2e import Service, wait_until
from faults import fault_service as faults
from models import hostile_models


def check_unharmed(service, expected, job):
    events, finished = service.history(job)
    faults.check_finished_once(events, finished)
    check_equal(faults.failed_attempts(events), [], "failed attempts of the harmless job")
    check_equal(service.fetch(finished), expected, "artifact of the harmless job")


def refuse(service, hostile):
    """e2e/hostile_models checks the reasons of the rejections."""
    model = service.scratch(f"{hostile.name}.onnx")
    model.write_bytes(hostile.make())
    answer = service.cli("compile", model, "--target", "host", "--json", expect=None)
    check(answer.code in (3, 4, 5, 6), f"{hostile.name}: exit code {answer.code}: {answer.failure}")
    check(answer.failure["reason"] and answer.failure["message"], f"{hostile.name}: no typed failure: {answer}")


def test_hostile_models_harm_nobody(service, expected):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        refusals = [pool.submit(refuse, service, hostile) for hostile in hostile_models.TABLE]
        beside = 0
        while beside == 0 or not all(refusal.done() for refusal in refusals):
            check_unharmed(service, expected, service.submit())
            beside += 1
        for refusal in refusals:
            refusal.result()
    print(f"   {len(refusals)} hostile models were refused, {beside} harmless jobs compiled concurrently")


def test_hanging_job_harms_nobody(service, expected):
    hanging = service.submit("--timeout", "3s", model="mlp", shapes=["--shape", "x=3x784"])
    with service.paused_task():
        check_unharmed(service, expected, service.submit())
        _, finished = service.history(hanging)
    check_equal(finished["failure"]["reason"], "RUN_DEADLINE_EXCEEDED", "reason of the hanging job")


def test_drain_finishes_what_runs(service, expected):
    """SIGTERM: running tasks finish, no task starts, and a restart does the rest."""
    job = service.submit()
    service.wait_for_task()
    check_equal(service.stop(), 0, "exit code after SIGTERM")
    wait_until(lambda: not service.tasks() and not service.workers(), "nothing of the service is left")
    service.start()
    check_unharmed(service, expected, job)


def test_second_sigterm_ends_at_once(service, expected):
    """A task that never ends does not block the shutdown; the job continues after the restart."""
    job = service.submit()
    with service.paused_task() as (task, _):
        service.process.terminate()
        wait_until(lambda: "drain" in service.log.lower(), "the server drains")
        service.process.terminate()
        service.process.wait(timeout=faults.PATIENCE_S)
        wait_until(lambda: task not in service.tasks(), "the stopped task went with the server")
    service.start()
    events, finished = service.history(job)
    faults.check_finished_once(events, finished)
    check_equal(service.fetch(finished), expected, "artifact")


def test_all_that_holds_tasks_in(expected):
    """As root all isolation measures are available. The artifact is the same, and the service reports them."""
    if os.geteuid() != 0:
        pytest.skip("only root can give tasks another user")
    with faults.FaultService(workers=1) as service:
        service.wait_for_workers(1)
        missing = {name: measure for name, measure in measures_of(service).items() if name in ("files", "namespaces")
                   and not measure.get("in_force")}
    if missing:
        pytest.skip(f"this machine has not all there is: {missing}")
    with faults.FaultService(workers=1, arguments=("--sandbox-user", "nobody", "--require-sandbox", "full")) as service:
        service.wait_for_workers(1)
        made, _ = service.baseline_artifact()
        check_equal(made, expected, "artifact")
        measures = measures_of(service)
        check(len(measures) >= 8 and all(measure.get("in_force") for measure in measures.values()), measures)
        check("full" in service.cli("workers").out, "the list says so")
        service.submit()
        wait_until(lambda: 65534 in owners(service.tasks()), "a task is nobody's", faults.PATIENCE_S, 0.002)


def measures_of(service):
    """Names of the isolation measures of the only worker."""
    worker, = service.cli("workers", "--json").json["workers"]
    return {measure["name"]: measure for measure in worker["sandbox"]}


def owners(pids):
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            found.add(os.stat(f"/proc/{pid}").st_uid)
    return found


def test_less_than_required_does_not_start():
    service = Service(workers=1, arguments=("--require-sandbox", "full"))
    try:
        with contextlib.suppress(AssertionError):  # it may end before the first answer
            service.start()
        check(service.process.wait(timeout=faults.PATIENCE_S) != 0, "tesserad ends")
        check("not in force here: " in service.log and "--sandbox-user" in service.log, service.log[-2000:])
    finally:
        service.close()
