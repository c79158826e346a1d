"""The command line without a running service: --local, also of several commands at once."""

import pathlib
import socket
import subprocess

import pytest

from checks import check, check_equal
from e2e import processes
from e2e.tessera_e2e import BIN, PATIENCE_S, model_path, wait_until

pytestmark = pytest.mark.service(workers=0)

TINY = "tiny:seed=1"


def tiny_locally(service, data):
    return ["compile", model_path(TINY), "--local", "--data-dir", data, "--workers", "1", "--target", "host", "--shape",
            "x=1x8", "-o", service.scratch("local.tsra"), "--json"]


def test_what_is_built_in_needs_no_service(service):
    env = {"TESSERA_SERVER": "", "HOME": str(service.folder)}
    free = socket.socket()
    free.bind(("127.0.0.1", 0))  # bound but not listening: no server answers here
    nowhere = f"127.0.0.1:{free.getsockname()[1]}"
    served = {word: service.cli(word, "--json", "--limit", "0").json for word in ("targets",)}
    if "from" in service.cli("targets", "--json", env=env).json:  # no server on this machine's default address
        for word, plural in (("targets", "targets"), ("ops", "operators")):
            printed = service.cli(word, "--json", "--limit", "0", env=env).json
            check_equal(printed["from"], "built-in", f"{word}: origin of the address")
            check(len(printed[plural]) > 10, f"{word}: {printed}")
            if word in served:
                names = sorted(each["target"]["name"] for each in served[word]["targets"])
                check_equal(sorted(each["target"]["name"] for each in printed["targets"]), names, "targets of a service")
            check_equal(len(service.cli(word, "--json", "--limit", "3", env=env).json[plural]), 3, f"{word} --limit")
            people = service.cli(word, env=env)
            check("no service answers at localhost:7400" in people.err, f"{word}: not said whose they are: {people.err}")
            service.cli(word, "--filter", "name = \"x\"", env=env, expect=8)
    service.cli("targets", "--server", nowhere, env=env, expect=8)  # an explicit server address takes precedence
    check_equal(service.cli("targets", "--show", "haswell", "--json", env=env).json["name"], "haswell", "--show")
    for word in ("targets", "ops", "compile", "run"):
        check("--help" in service.cli(word, "--help", env=env).out, f"{word} --help")


def test_local_needs_no_server(service):
    words = tiny_locally(service, service.scratch("local-data"))
    check(not service.cli(*words, env={"TESSERA_SERVER": ""}).json["job"]["cached"], "the first answer was cached")
    check(service.cli(*words, env={"TESSERA_SERVER": ""}).json["job"]["cached"], "a second --local finds a cold cache")
    service.cli("run", words[words.index("-o") + 1], "--random")


def test_a_killed_command_leaves_no_service(service):
    """Ctrl-C before the job exists ends a command at once, together with its temporary service."""
    data = service.scratch("local")
    command = service.spawn("compile", model_path("resnet50"), "--local", "--data-dir", data, "--shape", "x=1x3x224x224",
                            "-o", service.scratch("r.tsra"))
    announced = data / "tesserad.build"  # before it answers
    wait_until(announced.exists, "the service starts")
    process = pathlib.Path(f"/proc/{announced.read_text().split()[1]}")
    check("tesserad" in (process / "comm").read_text(), "its process")
    command.kill()
    command.communicate()
    wait_until(lambda: not process.exists(), "the service ends", 20)


def as_of_another_command(service, data):
    """A service as --local starts one, without workers, and the process whose end stops it."""
    data.mkdir(mode=0o700)
    tesserad = f"{BIN}/tesserad --data-dir {data} --listen unix:{data}/tesserad.sock --workers 0 --die-with-parent"
    parent = subprocess.Popen(["/bin/sh", "-c", f"{tesserad} >>{data}/tesserad.log 2>&1 & read line"], stdin=subprocess.PIPE,
                              env={**service._env, processes.MARK: service.mark})
    wait_until((data / "tesserad.addr").exists, "the other command's service starts")
    return parent


def queued_in(data):
    """Whether the service in that folder has a job. Its log does not name jobs, so this reads the store."""
    import sqlite3
    try:
        with sqlite3.connect(f"file:{data}/tessera.db?mode=ro", uri=True) as store:
            return store.execute("SELECT count(*) FROM jobs").fetchone()[0] > 0
    except sqlite3.OperationalError:
        return False


def test_commands_that_share_a_service_outlive_it(service):
    """The job waits in a service without workers until that ends; then the second command's own service does it."""
    for how in ("done", "killed"):
        data = service.scratch(f"shared-{how}")
        other = as_of_another_command(service, data)
        second = service.spawn(*tiny_locally(service, data))
        wait_until(lambda: queued_in(data), "the second command's job is there")
        if how == "done":
            other.kill()
            other.wait()
        else:
            process = int((data / "tesserad.build").read_text().split()[1])
            subprocess.run(["kill", "-KILL", str(process)], check=True)
        out, err = second.communicate(timeout=PATIENCE_S)
        check_equal(second.returncode, 0, f"{how}: exit code\n{out}\n{err}")
        other.kill()
        other.wait()
        check(not (data / "tesserad.addr").exists(), f"{how}: its own service is left behind")


def test_commands_that_start_at_once_share_one(service):
    data = service.scratch("raced")
    commands = [service.spawn(*tiny_locally(service, data)) for _ in range(4)]
    for command in commands:
        out, err = command.communicate(timeout=PATIENCE_S)
        check_equal(command.returncode, 0, f"exit code\n{out}\n{err}")
    check(not (data / "tesserad.addr").exists(), "a service is left behind")
