"""kill -9 of a worker at random moments of a compilation: the job finishes elsewhere, once, with the same bytes."""

import pytest

from checks import check
from e2e.tessera_e2e import wait_until
from faults import fault_service as faults
from faults.campaign import Campaign


class WorkerCampaign(Campaign):
    def kill_once(self):
        worker = self.random.choice(["local-0", "local-1"])
        killed = []

        def kill(_):
            killed.append(wait_until(lambda: self.service.workers().get(worker), f"{worker} is there", interval_s=0.005))
            faults.kill(killed[0])

        _, _, reasons = self.run_with_fault(kill)
        self.note_lost(reasons)
        restarted = wait_until(lambda: self.service.workers().get(worker), f"{worker} is started again")
        check(restarted != killed[0], f"{worker} has the same process")

    def all_workers_at_once(self):
        job = self.service.submit()
        follower = self.service.follow(job)
        self.service.wait_for_task()
        for pid in self.service.workers().values():
            faults.kill(pid)
        self.check_finished(job, follower)

    def task_dies_with_its_worker(self):
        job = self.service.submit()
        task, folder = self.service.wait_for_task()
        with faults.paused(task):
            worker = next(name for name in self.service.workers() if f"/{name}/" in str(folder))
            faults.kill(self.service.workers()[worker])
            wait_until(lambda: task not in self.service.tasks(), "the stopped task has gone with its worker")
        events, finished = self.service.history(job)
        faults.check_finished_once(events, finished)


@pytest.fixture(scope="module")
def campaign(service):
    return WorkerCampaign(service, "kill_worker")


@pytest.mark.parametrize("number", range(10))
def test_kill(campaign, number):
    campaign.kill_once()


def test_some_kill_hit_a_task(campaign):
    campaign.some_kill_hit_a_task()


def test_all_workers_at_once(campaign):
    campaign.all_workers_at_once()


def test_task_dies_with_its_worker(campaign):
    campaign.task_dies_with_its_worker()


def test_one_artifact_each(service, campaign):
    faults.check_one_artifact_each(service)
