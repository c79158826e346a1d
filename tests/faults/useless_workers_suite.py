#!/usr/bin/python3
"""Local workers that can never work: tesserad ends and says why, and loses nothing, instead of letting jobs wait."""
# suite: timeout=300

import pathlib
import sys

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from e2e.tessera_e2e import BIN, PATIENCE_S, Service, model_path
from suite import check, check_equal, run

ANOTHER_RELEASE = "#!/bin/sh\necho 'the server refuses this worker' >&2\nexit 3\n"


def detached_job(service):
    """A job that nobody can do yet."""
    return service.cli("compile", model_path("tiny:seed=1"), "--target", "host", "--shape", "x=1x8", "--detach", "--json").json["id"]


def ends_with(service, *arguments):
    """What tesserad says when it is started with these and ends by itself."""
    before = len(service.log)
    service._arguments = ["--workers", "1", *arguments]  # the next start's
    try:
        service.start()
    except AssertionError:
        pass  # it was quicker than the first answer
    check_equal(service.process.wait(timeout=PATIENCE_S), 1, "exit code")
    return service.log[before:]


def a_job_outlives_them(service):
    job = detached_job(service)
    service.stop()
    program = service.scratch("tessera-worker")
    program.write_text(ANOTHER_RELEASE)
    program.chmod(0o755)
    said = ends_with(service, "--worker-binary", program)
    for text in ("worker local-0 ended: exit code 3", "of one release", "no job is lost"):
        check(text in said, f"tesserad does not say {text!r}:\n{said}")
    said = ends_with(service, "--worker-arg=--no-such-flag")
    check("worker local-0 ended: exit code 2" in said and "--worker-arg" in said, said)
    service._arguments = ["--workers", "1", "--worker-binary", BIN / "tessera-worker"]
    service.start()
    service.cli("watch", job)
    check_equal(service.cli("job", job, "--json").json["state"], "SUCCEEDED", "state with a worker that can")


def main():
    with Service(workers=0) as service:
        return run("useless_workers", [("a_job_outlives_them", lambda: a_job_outlives_them(service))])


if __name__ == "__main__":
    sys.exit(main())
