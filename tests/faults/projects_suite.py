"""Two projects on one service: each sees only its own data, is limited by its quota, and is audited."""

import json
import os
import signal
import stat

import pytest

from checks import check, check_equal
from e2e.tessera_e2e import Service, model_path, wait_until

NOT_FOUND, TRY_LATER, FORBIDDEN = 5, 8, 11
TINY = ("--target", "cascadelake", "--shape", "x=1x8", "--json", "--detach")


class Governed(Service):
    """Runs no workers, so that queued jobs stay queued."""

    def __init__(self):
        super().__init__(workers=0)
        self.quotas = self.folder / "quotas.textproto"
        self.audit = self.folder / "audit.jsonl"
        self.limit("of { project: 'vision' quota { queued_jobs: 2 } }")
        self._arguments += ["--quotas", self.quotas, "--audit-log", self.audit]

    def limit(self, text):
        fresh = self.quotas.with_suffix(".new")
        fresh.write_text(text)
        fresh.rename(self.quotas)

    def member(self, name, project, role="client"):
        made = self.operator("--project", project, "admin", "token", "create", "--name", name, "--role", role,
                             "--json").json
        check_equal(made["token"]["project"], project, "the token's project")
        return {"TESSERA_TOKEN": made["secret"]}

    def written(self):
        return [json.loads(line) for line in self.audit.read_text().splitlines()]


def seen(service, env, *words):
    return [job["id"] for job in service.cli(*words, "jobs", "--json", env=env).json.get("jobs", [])]


@pytest.fixture(scope="module")
def service():
    with Governed() as started:
        yield started


def test_apart(service):
    ada, bob = service.member("ada", "vision"), service.member("bob", "speech")
    model = model_path("tiny:seed=31")
    job = service.cli("compile", model, *TINY, env=ada).json["id"]
    check_equal(seen(service, ada), [job], "jobs that ada sees")
    check_equal(seen(service, bob), [], "jobs that bob sees")
    check_equal(seen(service, None), [], "jobs that a stranger sees")
    for thief in (bob, None):
        service.cli("job", job, env=thief, expect=NOT_FOUND)
        service.cli("watch", job, env=thief, expect=NOT_FOUND)
        service.cli("cancel", job, env=thief, expect=NOT_FOUND)
    service.cli("--project", "vision", "jobs", env=bob, expect=FORBIDDEN)
    service.cli("--project", "-", "jobs", env=bob, expect=FORBIDDEN)
    mine = service.cli("compile", model, *TINY, env=bob).json["id"]
    everyones = [entry["id"] for entry in service.operator("--project", "-", "jobs", "--json").json["jobs"]]
    check_equal(sorted(everyones), sorted([job, mine]), "jobs that the operator sees of all projects")
    check_equal([entry["id"] for entry in service.operator("--project", "speech", "jobs", "--json").json["jobs"]],
                [mine], "jobs that the operator sees of speech")
    service.operator("--project", "vision", "cancel", job)


def test_quotas(service):
    eve, bob = service.member("eve", "vision"), service.member("carl", "speech")
    for seed in (41, 42):
        service.cli("compile", model_path(f"tiny:seed={seed}"), *TINY, env=eve)
    refused = service.cli("compile", model_path("tiny:seed=43"), *TINY, env=eve, expect=TRY_LATER)
    check_equal((refused.failure["reason"], refused.failure["attribute"]), ("QUOTA_EXCEEDED", "queued_jobs"), "refusal")
    check(int(refused.failure["retry_after_us"]) > 0, f"when to try again: {refused.failure}")
    for seed in (41, 42, 43):
        service.cli("compile", model_path(f"tiny:seed={seed}"), *TINY, env=bob)
    table = service.operator("admin", "quotas").out
    check(any(line.split()[:4] == ["vision", "2", "of", "2"] for line in table.splitlines()), table)
    service.limit("default { queued_jobs: 100 }")

    def more():
        return service.cli("compile", model_path("tiny:seed=43"), *TINY, env=eve, expect=None).code == 0
    wait_until(more, "the new quota is read", 30)


def test_written_down(service):
    check_equal(stat.S_IMODE(service.audit.stat().st_mode), 0o600, "mode of the audit log")
    entries = service.written()
    refused = [e for e in entries if e["method"] == "CancelJob" and e["who"] == "bob"]
    check_equal([e["answer"] for e in refused], ["NOT_FOUND"], "bob's try to cancel ada's job")
    over = [e for e in entries if e["method"] == "CreateJob" and e["answer"] == "RESOURCE_EXHAUSTED"]
    check(over and over[0]["who"] == "eve" and over[0]["project"] == "vision", f"refused for the quota: {over}")
    check("tessera-" not in service.audit.read_text(), "a token in the audit log")
    before = len(entries)
    old = service.audit.with_suffix(".1")
    service.audit.rename(old)
    os.kill(service.process.pid, signal.SIGHUP)
    wait_until(service.audit.exists, "the log is reopened", 30)
    service.member("dora", "vision")
    check_equal([e["method"] for e in service.written()], ["CreateToken"], "the new file")
    check_equal(len(old.read_text().splitlines()), before, "lines of the old one")
    service.process.send_signal(signal.SIGTERM)
    check_equal(service.process.wait(timeout=60), 0, "exit code after SIGHUP and SIGTERM")
