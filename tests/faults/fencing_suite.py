"""A worker that is silent longer than its lease: the job finishes elsewhere, and the late result is rejected."""

import pytest

from checks import check, check_equal
from e2e.tessera_e2e import wait_until
from faults import fault_service as faults
from faults.frozen_thread import frozen, thread_named

LEASE_S = 1
pytestmark = [pytest.mark.alone, pytest.mark.service(arguments=("--lease", str(LEASE_S), "--heartbeat", "0.2"))]
# How an attempt that lost its lease ends, in the worker's words: at its report, during the report, or at the heartbeat
# before it. Which one comes first after a worker wakes up is a race, but one of them must come.
REFUSED = "the server discarded the result of token"
ENDS = (REFUSED, "was abandoned: its lease was lost", "abandoned, its lease was lost")


def worker_of(service, folder):
    """(name, process id) of the worker whose attempt is in this folder."""
    return next((name, pid) for name, pid in service.workers().items() if f"/{name}/" in str(folder))


def ends(service):
    return sum(service.log.count(text) for text in ENDS)


def check_finished_elsewhere(service, expected, job, silent_worker):
    events, finished = service.history(job)
    faults.check_finished_once(events, finished)
    check_equal(service.fetch(finished), expected, "artifact")
    lost = [event["attempt"] for event in events if event.get("attempt", {}).get("failure")]
    check_equal([attempt["failure"]["reason"] for attempt in lost], ["LEASE_LOST"], "reasons of failed attempts")
    check_equal(lost[0]["worker"], silent_worker, "worker of the lost attempt")
    others = [event["attempt"] for event in events
              if event.get("attempt", {}).get("task_id") == lost[0]["task_id"] and not event["attempt"].get("failure")]
    check(others[0]["worker"] != silent_worker, f"the silent worker's own result was taken: {others}")
    check(int(others[0]["attempt"]) > int(lost[0]["attempt"]), f"attempts do not rise: {lost + others}")


def test_late_report_is_refused(service, expected):
    """Only the heartbeat thread stands still. Worker and task continue, and the result is reported too late."""
    refused = service.log.count(REFUSED)
    job = service.submit()
    with service.paused_task() as (task, folder):
        name, pid = worker_of(service, folder)
        heartbeat = wait_until(lambda: thread_named(pid, "heartbeat"), "the attempt sends heartbeats", interval_s=0.01)
        with frozen(heartbeat):
            check_finished_elsewhere(service, expected, job, name)
            check_equal(service.log.count(REFUSED), refused, "refusals before the late report")
            faults.kill(task, faults.signal.SIGCONT)
            wait_until(lambda: service.log.count(REFUSED) > refused, "the late report is refused")
            check(f"the report of worker {name} under token" in service.log, "the server does not tell of the late report")
    check_no_effect(service, expected, job, task)


def check_no_effect(service, expected, job, task):
    wait_until(lambda: task not in service.tasks(), "the fenced attempt's process has gone")
    finished = service.cli("job", job, "--json").json
    check_equal(finished["state"], "SUCCEEDED", "state after the late result")
    check_equal(service.fetch(finished), expected, "artifact after the late result")


def test_silent_worker_is_fenced(service, expected):
    """Only the worker is stopped. Its task continues and leaves a complete result, which is reported too late."""
    before = ends(service)
    job = service.submit()
    with service.paused_task() as (task, folder):
        name, pid = worker_of(service, folder)
        with faults.paused(pid):
            faults.kill(task, faults.signal.SIGCONT)
            check_finished_elsewhere(service, expected, job, name)
    wait_until(lambda: ends(service) > before, "the worker says how its attempt ended")
    check_no_effect(service, expected, job, task)


def test_silent_worker_and_task(service, expected):
    """Worker and task are stopped, as on a suspended machine: after waking up the task is killed."""
    before = ends(service)
    job = service.submit()
    with service.paused_task() as (task, folder):
        name, pid = worker_of(service, folder)
        with faults.paused(pid):
            check_finished_elsewhere(service, expected, job, name)
    wait_until(lambda: ends(service) > before, "the late attempt is given up")
    check_no_effect(service, expected, job, task)


def test_it_works_again_afterwards(service, expected):
    service.wait_for_workers(2)
    for worker in ("local-0", "local-1"):
        with service.drained(worker):
            events, finished = service.history(service.submit())
            faults.check_finished_once(events, finished)
            check_equal(service.fetch(finished), expected, "artifact")


def test_server_stands_still(service, expected):
    """The server is silent longer than the lease: attempts are given up or counted, and the job ends once."""
    job = service.submit()
    follower = service.follow(job)
    service.wait_for_task()
    with faults.paused(service.process.pid):
        faults.time.sleep(3 * LEASE_S)
    events, finished = service.history(job, follower)
    faults.check_finished_once(events, finished)
    check_equal(service.fetch(finished), expected, "artifact")


def test_one_artifact_each(service, expected):
    faults.check_one_artifact_each(service)
