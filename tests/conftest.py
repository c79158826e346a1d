"""Fixtures, options and markers of all Python suites."""

import os
import pathlib

import pytest

os.environ.setdefault("TESSERA_BUILD_DIR", str(pathlib.Path(__file__).resolve().parents[1] / "build" / "release"))

from crashed_tests import pytest_handlecrashitem
from e2e.tessera_e2e import Service
from oracle.oracle import Oracle


def _range(text):
    first, count = map(int, text.split(":"))
    return range(first, first + count)


def pytest_addoption(parser):
    parser.addoption("--seeds", type=_range, metavar="FIRST:COUNT", help="seeds of random suites in place of CI's")
    parser.addoption("--target", help="the target of random suites")


def pytest_generate_tests(metafunc):
    seeds = metafunc.definition.get_closest_marker("seeds")
    if seeds:
        metafunc.parametrize("seed", metafunc.config.getoption("seeds") or seeds.args[0])


def pytest_collection_modifyitems(items):
    """The longest suites start first, so that at the end no process waits for one that started late."""
    items.sort(key=lambda item: not item.get_closest_marker("slow"))


@pytest.fixture(scope="session")
def chosen_target(request):
    """The value of --target; None without it."""
    return request.config.getoption("target")


@pytest.fixture(scope="module")
def service_type():
    """The class of `service`."""
    return Service


@pytest.fixture(scope="module")
def service(request, service_type):
    """The module's own service, ready for work. `pytestmark = pytest.mark.service(workers=1)` sets its parameters."""
    marker = request.node.get_closest_marker("service")
    parameters = {"workers": 2, **(marker.kwargs if marker else {})}
    with service_type(**parameters) as started:
        if parameters["workers"]:
            started.wait_for_workers(parameters["workers"])
        yield started


@pytest.fixture(scope="module")
def oracle():
    """ONNX Runtime."""
    with Oracle() as started:
        yield started
