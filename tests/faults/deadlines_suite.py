"""Hangs, deadlines and cancellation: abandoned work ends soon, with its whole process group."""

import os
import time

from checks import check, check_equal
from e2e.tessera_e2e import wait_until
from faults import fault_service as faults

# Seconds from cancellation, or from a deadline, to the end of the group's last process.
SOON_S = 2
OTHER, OTHER_SHAPES = "mlp", ["--shape", "x=3x784"]
LONG, LONG_SHAPES = "resnet18", ["--shape", "x=1x3x224x224"]


def members(group):
    """Live processes of a process group."""
    found = []
    for entry in os.scandir("/proc"):
        try:
            if entry.name.isdigit() and os.getpgid(int(entry.name)) == group and faults.command_line(entry.name):
                found.append(int(entry.name))
        except ProcessLookupError:
            pass
    return found


def seconds_until_gone(group):
    start = time.monotonic()
    wait_until(lambda: not members(group), f"process group {group} has ended", interval_s=0.01)
    return time.monotonic() - start


def test_hung_task_meets_its_deadline(service):
    job = service.submit("--timeout", "2s")
    with service.paused_task() as (task, _):
        events, finished = service.history(job)
        check(task not in service.tasks(), "the hung process is still there")
    check_equal((finished["state"], finished["failure"]["reason"]), ("FAILED", "RUN_DEADLINE_EXCEEDED"), "state and reason")
    check(finished["failure"].get("reproducer", {}).get("sha256"), f"no reproducer is kept: {finished['failure']}")
    check_equal(faults.failed_attempts(events), ["RUN_DEADLINE_EXCEEDED"], "reasons of failed attempts")
    faults.check_gapless(events)
    service.cli("watch", job, expect=6)


def test_workers_go_on_after_hangs(service):
    """Two hangs at a time, one for each worker: no worker slot is lost."""
    job = service.submit("--timeout", "2s")
    with service.paused_task() as (first, _):
        other = service.submit("--timeout", "2s", model=OTHER, shapes=OTHER_SHAPES)
        second = wait_until(lambda: next((pid for pid in service.tasks() if pid != first), None),
                            "the other worker is at work", interval_s=0.002)
        with faults.paused(second):
            _, finished = service.history(job)
            check_equal(finished["state"], "FAILED", "state of the job that hung")
            service.history(other)
    for worker in ("local-0", "local-1"):
        with service.drained(worker):
            faults.check_finished_once(*service.history(service.submit()))


def test_cancel_ends_the_group_soon(service):
    """Alternates clean and hung tasks. Checks the median of each against the limit, since the machine is shared."""
    times = []
    for number in range(6):
        job = service.submit(model=LONG, shapes=LONG_SHAPES)
        task, _ = service.wait_for_task()
        group = os.getpgid(task)
        check_equal(group, task, "process group of a task process")
        if number % 2:
            faults.kill(task, faults.signal.SIGSTOP)
        service.cli("cancel", job)
        times.append(seconds_until_gone(group))
        _, finished = service.history(job)
        check_equal(finished["state"], "CANCELLED", "state")
        wait_until(lambda: not service.tasks(), "no task process is left")
    print(f"   gone after {', '.join(f'{seconds:.2f}' for seconds in times)} s")
    for kind, its in (("clean", times[0::2]), ("hung", times[1::2])):
        check(sorted(its)[len(its) // 2] < SOON_S, f"a {kind} task mostly takes longer than {SOON_S} s")


def test_cancelled_while_queued_never_starts(service):
    with service.drained("local-1"):
        running = service.submit()
        with service.paused_task():
            waiting = service.submit(model=OTHER, shapes=OTHER_SHAPES)
            service.cli("cancel", waiting)
            events, finished = service.history(waiting)
        faults.check_finished_once(*service.history(running))
    check_equal((finished["state"], int(finished["start_time_us"])), ("CANCELLED", 0), "state and start")
    check(not any("attempt" in event for event in events), "a cancelled job was attempted")


def test_queue_deadline_spares_what_runs(service):
    """The only worker is busy with a stopped task: the waiting job ends at its queue deadline, and no other job does."""
    with service.drained("local-1"):
        running = service.submit("--queue-timeout", "1s")
        with service.paused_task():
            waiting = service.submit("--queue-timeout", "1s", model=OTHER, shapes=OTHER_SHAPES)
            events, finished = service.history(waiting)
        faults.check_finished_once(*service.history(running))
    check_equal((finished["state"], finished["failure"]["reason"]), ("FAILED", "QUEUE_DEADLINE_EXCEEDED"), "state and reason")
    faults.check_gapless(events)
    check(not any("attempt" in event for event in events), "a job past its queue deadline was attempted")
