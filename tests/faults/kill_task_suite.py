"""kill -9 of a task process at random moments: the task is retried silently, and quarantined after the third crash."""

import threading
import time

import pytest

from checks import check, check_equal
from faults import fault_service as faults
from faults.campaign import Campaign

CRASHES_BEFORE_QUARANTINE = 3
# Import and planning of this model take long enough to be interrupted.
VICTIM, VICTIM_SHAPES = "resnet18", ["--shape", "x=1x3x224x224"]


def kill_tasks_of(service, name, stop, killed):
    """Kills each task process that plans a model with this name (the name is in the task's description)."""
    while not stop.is_set():
        for pid, folder in service.tasks().items():
            try:
                if name.encode() in (folder / "task.pb").read_bytes() and pid not in killed and faults.kill(pid):
                    killed.append(pid)
            except OSError:
                pass  # ended in the meantime
        time.sleep(0.002)


def quarantined_job(service, name):
    """A job whose planning never survives, and a concurrent one: (events, job, kills, the other job)."""
    stop, killed = threading.Event(), []
    killer = threading.Thread(target=kill_tasks_of, args=(service, name, stop, killed))
    killer.start()
    try:
        victim = service.submit("--name", name, model=VICTIM, shapes=VICTIM_SHAPES)
        other = service.submit()
        events, job = service.history(victim)
        other_events, other_job = service.history(other)
    finally:
        stop.set()
        killer.join()
    faults.check_finished_once(other_events, other_job)
    check_equal(faults.failed_attempts(other_events), [], "failed attempts of the concurrent job")
    return events, job, len(killed)


def reproducer_can_be_had(service, job):
    path, wanted = service.scratch("reproducer.pb"), job["failure"]["reproducer"]
    service.cli("fetch", wanted["sha256"], "--blob", "-o", path)
    check_equal(faults.digest(path), wanted["sha256"], "digest of the reproducer")
    content = path.read_bytes()
    check_equal(len(content), int(wanted["size_bytes"]), "size of the reproducer")
    model = job["compile"]["model"]["sha256"]
    check(model.encode() in content, f"the reproducer does not name the model {model}")
    blob = service.scratch("model.onnx")
    service.cli("fetch", model, "--blob", "-o", blob)
    check_equal(faults.digest(blob), model, "digest of the model that the reproducer names")


class TaskCampaign(Campaign):
    def kill_a_task(self, follower):
        """Kills a task process, unless the compilation ends before there is one."""
        while follower.poll() is None:
            tasks = self.service.tasks()
            if tasks and faults.kill(self.random.choice(sorted(tasks))):
                break
            time.sleep(0.002)

    def kill_once(self):
        tries = 40
        for _ in range(tries):  # the process, or the job, may have ended before the signal
            _, _, reasons = self.run_with_fault(self.kill_a_task)
            if reasons:
                check_equal(reasons, ["CRASHED"], "reasons of failed attempts")
                return
        raise AssertionError(f"{tries} times no kill hit a task that was at work")

    def repeated_crash_is_quarantined(self):
        name = "crashes-whenever-it-is-planned"
        for _ in range(5):
            events, job, kills = quarantined_job(self.service, name)
            if kills >= CRASHES_BEFORE_QUARANTINE:
                break
            print(f"   only {kills} kills hit the planning in time, once more")
        # More kills if a process was killed before it became the task: its attempt starts another, which is not a crash
        # of the job.
        check(kills >= CRASHES_BEFORE_QUARANTINE, f"only {kills} task processes of the job were killed")
        check_equal((job["state"], job["failure"]["reason"]), ("FAILED", "QUARANTINED"), "state and reason")
        check_equal(faults.failed_attempts(events), ["CRASHED"] * CRASHES_BEFORE_QUARANTINE, "reasons of failed attempts")
        check_equal(job["failure"]["signal"], 9, "signal")
        faults.check_gapless(events)
        answer = self.service.cli("watch", job["id"], "--json", expect=10)
        check(job["failure"]["reproducer"]["sha256"] in answer.out, "`watch` does not tell of the reproducer")
        reproducer_can_be_had(self.service, job)


@pytest.fixture(scope="module")
def campaign(service):
    return TaskCampaign(service, "kill_task")


@pytest.mark.parametrize("number", range(10))
def test_kill(campaign, number):
    campaign.kill_once()


def test_repeated_crash_is_quarantined(campaign):
    campaign.repeated_crash_is_quarantined()


def test_one_artifact_each(service, campaign):
    faults.check_one_artifact_each(service)
