"""kill -9 of tesserad at random moments: acknowledged work is finished once after a restart."""

import subprocess
import time

import pytest

from checks import check_equal
from e2e.tessera_e2e import model_path, wait_until
from faults import fault_service as faults
from faults.campaign import Campaign


class ServerCampaign(Campaign):
    number = 0  # number of requests so far

    def compile_words(self, request_id):
        return ["compile", model_path(faults.WORKLOAD), "--target", "host", *faults.SHAPES, "--detach", "--no-cache",
                "--json", "--request-id", request_id]

    def kill_and_restart(self, _):
        children = [*self.service.workers().values(), *self.service.tasks()]
        self.service.kill()
        wait_until(lambda: not any(faults.command_line(pid) for pid in children), "workers and tasks went with the server")
        self.service.start()

    def kill_once(self):
        self.number += 1
        request_id = f"request-{self.number}"
        # One command watches through kill and restart: it resumes at its cursor.
        job, follower, reasons = self.run_with_fault(self.kill_and_restart, "--request-id", request_id)
        check_equal(follower.returncode, 0, "exit code of `tessera watch`")
        self.note_lost(reasons)
        again = self.service.cli(*self.compile_words(request_id)).json
        check_equal(again["id"], job, "job of the repeated request")

    def kill_while_acknowledging(self):
        """The kill happens around CreateJob. The client repeats its request until it is answered; one job is created."""
        for _ in range(5):
            self.number += 1
            request_id = f"request-{self.number}"
            client = self.service.spawn(*self.compile_words(request_id))
            time.sleep(self.random.uniform(0, 0.1))
            self.service.kill()
            self.service.start()
            client.communicate(timeout=faults.PATIENCE_S)
            job = self.service.cli(*self.compile_words(request_id)).json["id"]
            made = self.service.cli("jobs", "--json", "--filter", f'request_id = "{request_id}"').json["jobs"]
            check_equal([made_job["id"] for made_job in made], [job], "jobs of one request")
            self.check_finished(job)

    def kill_while_recovering(self):
        job = self.service.submit()
        follower = self.service.follow(job)
        for _ in range(5):
            time.sleep(self.random.uniform(0, 0.5))
            self.service.kill()
            self.service.start()
        self.check_finished(job, follower)

    def kill_while_uploading(self):
        """An incomplete upload leaves no blob: the same command, repeated, succeeds."""
        model = model_path("resnet18")
        words = ["compile", model, "--target", "host", "--shape", "x=1x3x224x224", "--validate-only", "--json"]
        upload = ["compile", model, "--target", "host", "--shape", "x=1x3x224x224", "--detach", "--json"]
        client = self.service.spawn(*upload)
        time.sleep(self.random.uniform(0.02, 0.2))
        self.service.kill()
        self.service.start()
        try:
            client.communicate(timeout=faults.PATIENCE_S)
        except subprocess.TimeoutExpired:
            client.kill()
            raise AssertionError("the client neither went on nor gave up") from None
        job = self.service.cli(*upload).json["id"]
        self.service.cli(*words)
        fetched = self.service.scratch("model.onnx")
        self.service.cli("fetch", faults.digest(model), "--blob", "-o", fetched)
        check_equal(faults.digest(fetched), faults.digest(model), "digest of the uploaded model")
        self.service.cli("cancel", job)


@pytest.fixture(scope="module")
def campaign(service):
    return ServerCampaign(service, "kill_server")


@pytest.mark.parametrize("number", range(10))
def test_kill(campaign, number):
    campaign.kill_once()


def test_some_kill_hit_a_task(campaign):
    campaign.some_kill_hit_a_task()


def test_kill_while_acknowledging(campaign):
    campaign.kill_while_acknowledging()


def test_kill_while_recovering(campaign):
    campaign.kill_while_recovering()


def test_kill_while_uploading(campaign):
    campaign.kill_while_uploading()


def test_one_artifact_each(service, campaign):
    faults.check_one_artifact_each(service)
