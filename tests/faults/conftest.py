"""Fixtures of suites that inject faults."""

import pytest

from faults.fault_service import FaultService


@pytest.fixture(scope="module")
def service_type():
    return FaultService


@pytest.fixture(scope="module")
def expected(service):
    """The digest of the artifact of an undisturbed compilation."""
    return service.baseline_artifact()[0]
