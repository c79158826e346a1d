"""A service with --store postgresql://...: jobs are compiled, answered from the cache, and kept across a restart and a
database that ends all connections."""

import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import tempfile

import pytest

from checks import check, check_equal
from e2e.tessera_e2e import BIN, Service, model_path, wait_until

PROGRAMS = pathlib.Path("/usr/lib/postgresql/15/bin")
MODEL = "mlp"


class Database:
    """A PostgreSQL server on a socket in a temporary folder. It refuses to run as root, so it runs as `postgres` then."""

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tessera-postgres-"))
        self.user = "postgres" if os.geteuid() == 0 else None
        if self.user:
            entry = pwd.getpwnam(self.user)
            os.chown(self.folder, entry.pw_uid, entry.pw_gid)
        subprocess.run([PROGRAMS / "initdb", "-D", self.folder / "data", "-U", "tessera", "-A", "trust", "-E", "UTF8",
                        "--locale=C.UTF-8", "--no-sync"], user=self.user, cwd="/", check=True, stdout=subprocess.DEVNULL)
        self.process = subprocess.Popen([PROGRAMS / "postgres", "-D", self.folder / "data", "-k", self.folder, "-c",
                                         "listen_addresses=", "-c", "fsync=off"], user=self.user, cwd="/",
                                        stderr=subprocess.DEVNULL)
        wait_until(lambda: subprocess.run([PROGRAMS / "pg_isready", "-q", "-h", self.folder], check=False).returncode == 0,
                   "PostgreSQL answers")
        self.query("CREATE DATABASE service", "template1")
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def uri(self):
        return f"postgresql:///service?host={self.folder}&user=tessera"

    def query(self, sql, name="service"):
        done = subprocess.run([PROGRAMS / "psql", "-h", self.folder, "-U", "tessera", "-Atqc", sql, name], check=True,
                              capture_output=True, text=True)
        return done.stdout.strip()


@pytest.fixture(scope="module")
def database():
    if not (PROGRAMS / "postgres").exists():
        pytest.skip("PostgreSQL 15 is not installed; install Debian's package postgresql-15")
    with Database() as started:
        yield started


@pytest.fixture(scope="module")
def service(database, tmp_path_factory):
    blobs = tmp_path_factory.mktemp("blobs")
    with Service(arguments=("--store", database.uri, "--blobs", blobs)) as started:
        started.wait_for_workers(2)
        yield started


def test_a_job_goes_through(service, database):
    first = service.compile(model_path(MODEL), None, "--dim", "N=1")
    check_equal(first.job["state"], "SUCCEEDED", "state")
    check_equal(database.query(f"SELECT state FROM jobs WHERE id = '{first.job['id']}'"), "3", "state in the database")
    check(service.compile(model_path(MODEL), None, "--dim", "N=1").job["cached"], "the second job is not from the cache")
    check_equal(database.query("SELECT count(*) FROM task_queue"), "0", "rows of the queue of an idle service")


def test_connections_may_end(service, database):
    database.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tesserad'")
    check(service.compile(model_path(MODEL), None, "--dim", "N=1").job["cached"], "the job is not from the cache")
    database.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tesserad'")
    service.compile(model_path(MODEL), None, "--dim", "N=2")


def test_a_restart_keeps_all(service):
    before = service.cli("jobs", "--json", "--limit", "0").json["jobs"]
    service.kill()
    service.start()
    check_equal(service.cli("jobs", "--json", "--limit", "0").json["jobs"], before, "jobs after a restart")


def test_a_folder_belongs_to_one_store(service, database):
    service.stop()
    with Service(workers=0) as other:
        other.stop()
        elsewhere = ("--store", database.uri, "--blobs", "/tmp")
        for data, options, words in ((service.data, (), "--store"), (other.data, elsewhere, "tessera.db"),
                                     (other.data, elsewhere[:2], "--blobs")):
            done = subprocess.run([BIN / "tesserad", "--data-dir", data, "--listen", "127.0.0.1:0", *options], check=False,
                                  capture_output=True, text=True, timeout=60)
            check(done.returncode != 0 and words in done.stderr, f"{options}: {done.returncode} {done.stderr}")
    done = subprocess.run([BIN / "tesserad", "--store", "mysql://x"], check=False, capture_output=True, text=True, timeout=60)
    check("postgresql://" in done.stderr and done.returncode == 2, f"{done.returncode} {done.stderr}")
