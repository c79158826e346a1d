"""Stops one thread of a process with ptrace, as SIGSTOP stops a whole process."""

import contextlib
import ctypes
import os
import pathlib

import pytest

from checks import check

PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
WALL = 0x40000000  # __WALL: threads too

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


def thread_named(pid, name):
    """Id of a thread with this name; None if there is none."""
    for thread in pathlib.Path(f"/proc/{pid}/task").glob("*"):
        try:
            if (thread / "comm").read_text().strip() == name:
                return int(thread.name)
        except OSError:
            pass  # ended in the meantime
    return None


def _ptrace(request, thread):
    if _libc.ptrace(request, thread, None, None) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


@contextlib.contextmanager
def frozen(thread):
    """The thread stands still within the block. ptrace requires that one thread makes all calls."""
    try:
        _ptrace(PTRACE_SEIZE, thread)
    except PermissionError:
        pytest.skip("ptrace is not permitted here")
    _ptrace(PTRACE_INTERRUPT, thread)
    _, status = os.waitpid(thread, WALL)
    check(os.WIFSTOPPED(status), f"thread {thread} ended instead of stopping")
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            _ptrace(PTRACE_DETACH, thread)
