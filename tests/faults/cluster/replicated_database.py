"""PostgreSQL as a primary and a standby that confirms each commit."""

import contextlib
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import tempfile
import time

from e2e.postgres_suite import PROGRAMS
from e2e.server_fleet import free_port
from e2e.tessera_e2e import wait_until


class Instance:
    """One PostgreSQL server, as a user other than root."""

    def __init__(self, folder, name, user):
        self.name, self.user = name, user
        self.folder = folder / name
        self.port = free_port()
        self.process = None
        self.options = []

    def run(self, program, *arguments, check=True):
        return subprocess.run([PROGRAMS / program, *map(str, arguments)], user=self.user, cwd="/", check=check,
                              capture_output=True, text=True, timeout=120)

    def start(self):
        """Starts the server; again, once all processes of the one before have ended."""
        give_up = time.monotonic() + 60
        while True:
            with open(self.folder.parent / f"{self.name}.log", "ab") as log:
                self.process = subprocess.Popen(
                    [PROGRAMS / "postgres", "-D", self.folder, "-p", str(self.port), "-h", "127.0.0.1", "-k",
                     self.folder.parent, "-c", "fsync=off", "-c", "shared_buffers=32MB", "-c", "max_connections=60", "-c", "wal_level=replica",
                     "-c", "hot_standby=on", *self.options],
                    user=self.user, cwd="/", stderr=log, stdout=log, start_new_session=True)
            while self.process.poll() is None:
                if self.run("pg_isready", "-q", "-h", "127.0.0.1", "-p", self.port, check=False).returncode == 0:
                    return
                time.sleep(0.05)
            if time.monotonic() > give_up:
                log = (self.folder.parent / f"{self.name}.log").read_text(errors="replace")
                raise AssertionError(f"{self.name} does not start: {log[-2000:]}")
            time.sleep(0.1)

    def processes(self):
        """Ids of the server and of its sessions."""
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        try:
            return [self.process.pid, *map(int, children.read_text().split())]
        except OSError:
            return []

    def signal(self, number):
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill(self):
        self.signal(signal.SIGKILL)
        self.process.wait()

    def query(self, sql, name="service"):
        done = self.run("psql", "-h", "127.0.0.1", "-p", self.port, "-U", "tessera", "-Atqc", sql, name)
        return done.stdout.strip()


class ReplicatedDatabase:
    """A primary, and a standby that follows it through a link of `network`."""

    def __init__(self, network):
        self.network = network
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tessera-replicated-"))
        self.user = "postgres" if os.geteuid() == 0 else None
        if self.user:
            entry = pwd.getpwnam(self.user)
            os.chown(self.folder, entry.pw_uid, entry.pw_gid)
        self.primary = Instance(self.folder, "database-0", self.user)
        self.standby = Instance(self.folder, "database-1", self.user)
        self.instances = [self.primary, self.standby]

    def __enter__(self):
        self.primary.run("initdb", "-D", self.primary.folder, "-U", "tessera", "-A", "trust", "-E", "UTF8",
                         "--locale=C.UTF-8", "--no-sync")
        self.primary.start()
        self.primary.query("CREATE DATABASE service", "template1")
        port = self.network.link("database-1", "database-0", self.primary.port)
        self.standby.run("pg_basebackup", "-h", "127.0.0.1", "-p", port, "-U", "tessera", "-D", self.standby.folder,
                         "--write-recovery-conf", "--checkpoint=fast", "--no-sync")
        self.standby.start()
        # From now on each commit waits for the standby.
        self.primary.options = ["-c", "synchronous_standby_names=*"]
        self.primary.query("ALTER SYSTEM SET synchronous_standby_names = '*'")
        self.primary.query("SELECT pg_reload_conf()")
        wait_until(lambda: self.primary.query("SELECT sync_state FROM pg_stat_replication") == "sync", "the standby follows")
        return self

    def __exit__(self, *_):
        for instance in self.instances:
            if instance.process and instance.process.poll() is None:
                instance.signal(signal.SIGCONT)
                instance.process.send_signal(signal.SIGQUIT)
                instance.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def promote(self):
        """The primary is dead. The standby takes its place, without a standby of its own."""
        self.standby.run("pg_ctl", "promote", "-D", self.standby.folder, "--wait")
        self.primary, self.standby = self.standby, None
