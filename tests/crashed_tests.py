"""A pytest plugin: a test that ended its process fails, and no other process tries it again."""

import pytest


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(crashitem, sched):
    suite = crashitem.split("::", 1)[0]
    for work in (sched.workqueue, *sched.assigned_work.values()):
        if suite in work:
            work[suite][crashitem] = True  # done
