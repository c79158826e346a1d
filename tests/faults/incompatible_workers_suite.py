"""Local workers that can never work: tesserad exits with the reason and loses no data, instead of letting jobs wait. A
client with its own server (`--local`) reports it at once too."""

import os
import shutil
import signal
import subprocess

import pytest

from checks import check, check_equal
from e2e import python_package
from e2e.tessera_e2e import BIN, PATIENCE_S, Service, model_path, wait_until

pytestmark = pytest.mark.service(workers=0)

REPLACED = "replaced"  # a folder of programs whose worker comes from another build
ANOTHER_RELEASE = "#!/bin/sh\necho 'the server refuses this worker' >&2\nexit 3\n"


@pytest.fixture(scope="module")
def service_type():
    return Service


def detached_job(service):
    """A job that no worker can do yet."""
    return service.cli("compile", model_path("tiny:seed=1"), "--target", "host", "--shape", "x=1x8", "--detach", "--json").json["id"]


def ends_with(service, code, *arguments):
    """Output of tesserad with these arguments, which must exit with that code."""
    before = len(service.log)
    service._arguments = ["--workers", "1", *arguments]  # for the next start
    try:
        service.start()
    except AssertionError:
        pass  # it may exit before the first answer
    check_equal(service.process.wait(timeout=PATIENCE_S), code, "exit code")
    return service.log[before:]


def test_a_job_outlives_them(service):
    job = detached_job(service)
    service.stop()
    program = service.scratch("tessera-worker")
    program.write_text(ANOTHER_RELEASE)
    program.chmod(0o755)
    said = ends_with(service, 3, "--worker-binary", program)
    for text in ("worker local-0 ended: exit code 3", "of one release", "no job is lost"):
        check(text in said, f"tesserad does not say {text!r}:\n{said}")
    said = ends_with(service, 1, "--worker-arg=--no-such-flag")
    check("worker local-0 ended: exit code 2" in said and "--worker-arg" in said, said)
    service._arguments = ["--workers", "1", "--worker-binary", BIN / "tessera-worker"]
    service.start()
    service.cli("watch", job)
    check_equal(service.cli("job", job, "--json").json["state"], "SUCCEEDED", "state with a worker that can")


def put_another_build(program, content, build, other):
    """A copy of a program that reports another build."""
    latter = program.with_name(f"{program.name}.latter")
    latter.write_bytes(content.replace(build.encode(), other.encode()))
    latter.chmod(0o755)
    latter.rename(program)


def test_a_task_program_of_another_build_does_nothing(service):
    """Replaces the program of a running worker, whose process has ended."""
    program = service.scratch("tessera-task")
    shutil.copy2(BIN / "tessera-task", program)
    service.stop()
    service._arguments = ["--workers", "1", "--worker-arg=--task-binary", f"--worker-arg={program}"]
    service.start()
    quick = ["--target", "host", "--shape", "x=1x8"]
    service.cli("compile", model_path("tiny:seed=3"), *quick)
    build = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    other = build[:-12] + "0" * 12
    content = program.read_bytes()
    check(build.encode() in content, f"{program} does not hold its build {build}")
    put_another_build(program, content, build, other)
    service.cli("compile", model_path("tiny:seed=4"), *quick)  # by the processes that have started
    started = subprocess.run(["pgrep", "-f", f"{program} --serve"], capture_output=True, text=True, check=True).stdout.split()
    for process in started:
        os.kill(int(process), signal.SIGKILL)
    before = len(service.log)
    job = service.cli("compile", model_path("tiny:seed=5"), *quick, "--detach", "--json").json["id"]
    check_equal(service.process.wait(timeout=PATIENCE_S), 3, "exit code of tesserad")
    said = service.log[before:]
    for text in (f"this is build {other}, the worker started with {build}", "was replaced by another build", "no job is lost"):
        check(text in said, f"tesserad does not say {text!r}:\n{said}")
    service._arguments = ["--workers", "1"]
    service.start()
    service.cli("watch", job)
    check_equal(service.cli("job", job, "--json").json["state"], "SUCCEEDED", "state with programs of one build")


def local_compile(service, programs, data):
    """Starts `tessera compile --local` with the programs of that folder, on a model that no other case compiles."""
    return subprocess.Popen([programs / "tessera", "compile", model_path("tiny:seed=2"), "--target", "host", "--shape", "x=1x8",
                             "--local", "--data-dir", data, "--workers", "1", "-o", service.scratch("local.tsra")],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=service._env)


def error_of(command):
    """Its standard error up to its end, which comes far sooner than the timeout for an absent server."""
    try:
        return command.communicate(timeout=PATIENCE_S)[1]
    finally:
        command.kill()


def test_programs_replaced_under_a_local_server_are_told(service):
    programs = service.folder / REPLACED
    programs.mkdir()
    for name in ("tessera", "tesserad"):
        shutil.copy2(BIN / name, programs / name)
    worker = programs / "tessera-worker"
    worker.write_text(ANOTHER_RELEASE.replace("exit 3", "sleep 2; exit 3"))  # by then the client waits for its job
    worker.chmod(0o755)
    said = error_of(local_compile(service, programs, service.scratch("replaced-data")))
    for text in ("are of different builds", "build or install all of them", "is kept in", "tesserad.log"):
        check(text in said, f"the client does not say {text!r}:\n{said}")


PYTHON = """
import tessera
with tessera.local({folder!r}, workers=1, binary={binary!r}) as client:
    try:
        client.compile(b"C[i,j] += A[i,k] * B[k,j]", format="te", shapes={{"A": (2, 3), "B": (3, 2)}}).result()
    except tessera.errors.Unreachable as error:
        print(error)
"""


def test_and_to_python_programs(service):
    binary = service.folder / REPLACED / "tesserad"
    program = python_package.script(service.folder, "replaced.py",
                                    PYTHON.format(folder=str(service.scratch("python-data")), binary=str(binary)))
    code, out, err = python_package.run(program)
    check_equal((code, err), (0, ""), "the program's end")
    for text in ("are of different builds", "fix: build or install all of them"):
        check(text in out, f"the package does not say {text!r}:\n{out}")


def test_a_local_server_of_another_build_is_not_used(service):
    told = service.data / "tesserad.build"
    build = told.read_text().split()
    check_equal(build[1], str(service.process.pid), "process that is told")
    told.write_text("0.0.0+of-yesterday\n" + build[1] + "\n")
    said = error_of(local_compile(service, BIN, service.data))
    told.write_text("\n".join(build) + "\n")
    for text in (f"(process {build[1]})", "are of different builds: 0.0.0+of-yesterday and " + build[0], "end that tesserad"):
        check(text in said, f"the client does not say {text!r}:\n{said}")


def test_a_sandbox_of_another_build_is_not_used(service):
    programs = service.scratch("programs")
    programs.mkdir()
    shutil.copy2(BIN / "tessera", programs / "tessera")
    program = programs / "tessera-task"
    build = subprocess.run([BIN / "tessera-task", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    put_another_build(program, (BIN / "tessera-task").read_bytes(), build, build[:-12] + "0" * 12)
    artifact = service.scratch("any.tsra")
    artifact.write_bytes(b"whatever it is")
    done = subprocess.run([programs / "tessera", "run", artifact, "--sandbox", "--random"], capture_output=True, text=True,
                          check=False, timeout=PATIENCE_S, env=service._env)
    check(done.returncode != 0 and "are of different builds" in done.stderr and build in done.stderr, done.stderr)


def test_a_local_command_outlives_the_server_that_another_ended(service):
    """The client starts its own service in the same folder, and the acknowledged job continues there."""
    service.stop()
    service._arguments = ["--workers", "0"]
    service.start()
    command = local_compile(service, BIN, service.data)
    wait_until(lambda: len(service.cli("jobs", "--json", "--filter", "state = QUEUED").json["jobs"]) == 1, "the job is there")
    service.stop()
    said = error_of(command)
    check_equal(command.returncode, 0, f"exit code; it said\n{said}")
