"""A service with TLS and two workers on other hosts, by the documentation's lines alone: four network namespaces, each
with its own folder and /etc/hosts. Prints the time from nothing to a running model."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time
import uuid

import pytest

from checks import check, check_equal
from e2e import page_samples, processes
from e2e.tessera_e2e import BIN, ROOT, wait_until
from models import catalog

PAGE = ROOT / "clients" / "docs" / "pages" / "operations.md"
SECTION = "### A server and two workers on other hosts"
SERVER = "build.example.com"


def blocks_of_the_section():
    """(start, tokens, worker, client): shell text."""
    text = PAGE.read_text().split(SECTION, 1)[1]
    section = re.split(r"^#{2,3} ", text, maxsplit=1, flags=re.MULTILINE)[0]
    return [block.text for block in page_samples.blocks(section, "sh")]


class Host:
    """A machine: its network, its host names, its folder."""

    def __init__(self, root, name, mark):
        self.folder, self.name, self.mark = root / name, name, mark
        self.folder.mkdir()
        self._life = subprocess.Popen(["unshare", "--net", "--mount", "sleep", "600"], env=self._env())
        self.pid = self._life.pid
        wait_until(lambda: processes.command_name(self.pid) == "sleep", f"{name} is there", 20)

    def _env(self):
        return {"PATH": f"{BIN}:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(self.folder), processes.MARK: self.mark}

    def command(self, *words):
        return ["nsenter", f"--target={self.pid}", "--net", "--mount", f"--wd={self.folder}", *map(str, words)]

    def call(self, *words, expect=0):
        done = subprocess.run(self.command(*words), capture_output=True, text=True, timeout=120, check=False, env=self._env())
        check(expect is None or done.returncode == expect,
              f"{self.name}: {words} ended with {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done

    def shell(self, text, **options):
        """Runs lines as a person would type them; background commands write to a log."""
        with open(self.folder / "log", "ab") as log:
            done = subprocess.run(self.command("bash", "-ec", text), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
                                  if options.get("answer") else log, stderr=log, text=True, timeout=120, check=False,
                                  env=self._env())
        check_equal(done.returncode, 0, f"{self.name}: {text}: {self.log[-2000:]}{done.stdout or ''}")
        return done.stdout

    @property
    def log(self):
        return (self.folder / "log").read_text(errors="replace") if (self.folder / "log").exists() else ""

    def knows(self, address):
        hosts = self.folder / "hosts"
        hosts.write_text(f"127.0.0.1 localhost\n{address} {SERVER}\n")
        self.call("mount", "--bind", hosts, "/etc/hosts")
        self.call("ip", "link", "set", "lo", "up")


def connect(server, others):
    """A link from the server to each of the others, which cannot reach each other."""
    server.knows("127.0.0.1")
    for number, other in enumerate(others, 1):
        near, far = f"near{number}", f"far{number}"
        server.call("ip", "link", "add", near, "type", "veth", "peer", "name", far, "netns", other.pid)
        for host, wire, last in ((server, near, 1), (other, far, 2)):
            host.call("ip", "address", "add", f"10.77.{number}.{last}/24", "dev", wire)
            host.call("ip", "link", "set", wire, "up")
        other.knows(f"10.77.{number}.1")


def need_namespaces():
    if os.geteuid() != 0 or not all(shutil.which(tool) for tool in ("ip", "nsenter", "unshare")):
        pytest.skip("namespaces take root, and the packages iproute2 and util-linux")
    tried = subprocess.run(["unshare", "--net", "--mount", "ip", "link", "add", "near", "type", "veth", "peer", "name", "far"],
                           capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"this machine has no network namespaces: {tried.stderr.strip()}")


def test_by_the_documentation_alone():
    need_namespaces()
    start, tokens, worker, client = blocks_of_the_section()
    root, mark = pathlib.Path(tempfile.mkdtemp(prefix="tessera-hosts-")), uuid.uuid4().hex
    try:
        server, first, second, ada = (Host(root, name, mark) for name in ("build", "build-1", "build-2", "ada"))
        connect(server, (first, second, ada))
        model = catalog.build("tiny:seed=1", 1).SerializeToString(deterministic=True)
        (ada.folder / "model.onnx").write_bytes(model)
        begun = time.monotonic()
        server.shell(start)
        wait_until(lambda: (server.folder / "data" / "operator.addr").exists(), "the service runs", 60)
        server.shell(tokens)
        served_s = time.monotonic() - begun
        for host, token in ((first, "build-1"), (second, "build-2"), (ada, "ada")):
            shutil.copy(server.folder / "keys" / "ca.pem", host.folder)
            shutil.copy(server.folder / f"{token}.token", host.folder)
        first.shell(worker)
        second.shell(worker.replace("build-1", "build-2"))
        setting, *_ = client.splitlines()

        def both_work():
            shown = ada.shell(f"{setting}\ntessera workers --json", answer=True)
            return shown.count('"IDLE"') == 2
        wait_until(both_work, "both workers are there", 60)
        worked_s = time.monotonic() - begun
        said = ada.shell(client, answer=True)
        whole_s = time.monotonic() - begun
        check("median" in said and "build-1" in said and "build-2" in said, said)
        print(f"   from nothing: the service and its tokens {served_s:.1f} s, both workers {worked_s:.1f} s, a model compiled "
              f"and run {whole_s:.1f} s")
        # The page's statements about anonymous clients hold on this network.
        check_equal(ada.call("tessera", "--server", f"{SERVER}:7400", "--tls-ca", "ca.pem", "jobs", expect=None).returncode,
                    11, "without a token")
        check_equal(ada.call("tessera", "--server", f"{SERVER}:7400", "jobs", expect=None).returncode, 8, "without TLS")
        check_equal(first.call("tessera", "--server", f"{SERVER}:7400", "--tls-ca", "ca.pem", "--token-file",
                               "build-1.token", "jobs", expect=None).returncode, 11, "a worker as a client")
    except AssertionError as error:
        logs = "".join(f"\n--- {path}\n{path.read_text(errors='replace')[-1500:]}" for path in root.glob("*/log"))
        raise AssertionError(f"{error}{logs}") from None
    finally:
        processes.kill_marked(mark)
        shutil.rmtree(root, ignore_errors=True)
