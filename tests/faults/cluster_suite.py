"""Seeded faults on a whole cluster under load: three servers, four workers, a replicated database, an S3 service. Nothing that
a client was told is contradicted later. `tests/faults/cluster/run` runs more seeds, and repeats one."""

import subprocess

import pytest

from checks import check_equal
from e2e.postgres_suite import PROGRAMS
from faults.cluster import campaign

SECONDS = 8  # in which faults begin


@pytest.fixture(autouse=True)
def programs():
    if not (PROGRAMS / "postgres").exists():
        pytest.skip("PostgreSQL 15 is not installed; install Debian's package postgresql-15")
    if subprocess.run(["/usr/bin/python3", "-c", "import swift"], check=False, capture_output=True).returncode != 0:
        pytest.skip("Swift is not installed; install Debian's package python3-swift")


@pytest.mark.slow
@pytest.mark.seeds((1, 2))
def test_nothing_acknowledged_is_contradicted(seed, tmp_path):
    check_equal(campaign.run(seed, SECONDS, tmp_path), [], f"violations; history and logs are in {tmp_path}")
