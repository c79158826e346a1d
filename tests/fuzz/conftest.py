"""Fixtures of suites that compare random operators with the oracles."""

import pytest

from fuzz.cases import targets
from fuzz.cases.builder import Builder
from fuzz.cases.onnxruntime_oracle import Reference


@pytest.fixture(scope="module")
def reference():
    with Reference() as started:
        yield started


@pytest.fixture(scope="module")
def builder():
    with Builder() as started:
        yield started


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """Values of --target that this machine runs."""
    found = targets.runnable(tmp_path_factory.mktemp("targets"))
    print(f"targets {' '.join(map(targets.name_of, found))}")
    return found
