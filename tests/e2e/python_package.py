"""The Python package as users get it: the wheel of the build, installed by pip into its own environment.

    import e2e.python_package as package
    package.install()
    import tessera
"""

import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

from e2e.tessera_e2e import BIN, BUILD, ROOT

EXAMPLES = ROOT / "clients" / "python" / "examples"


def wheel():
    """The wheel of the last build."""
    found = sorted((BUILD / "wheels").glob("tessera-*.whl"))
    if len(found) != 1:
        raise AssertionError(f"{BUILD / 'wheels'} has {len(found)} wheels, expected one; build the target tessera_python")
    return found[0]


def environment():
    """A virtual environment with the wheel, on top of Debian's packages; created once for equal wheels."""
    store = ROOT / "build" / "test-python"
    store.mkdir(parents=True, exist_ok=True)
    state = hashlib.sha256(wheel().read_bytes()).hexdigest()[:12]
    with open(store / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = store / state
        if not (folder / "complete").exists():
            for old in store.iterdir():
                if old.is_dir():
                    shutil.rmtree(old)
            subprocess.run(["/usr/bin/python3", "-m", "venv", "--system-site-packages", folder], check=True)
            # Without an index: all requirements must be installed, from Debian's archive.
            subprocess.run([folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", wheel()],
                           check=True)
            (folder / "complete").touch()
        return folder


def install():
    """Puts the package on this process's import path."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    sys.path.insert(1, str(environment() / "lib" / version / "site-packages"))


def run(program, *arguments, env=None, timeout=120):
    """A program in the environment, as a user would start it: (exit code, standard output, standard error)."""
    variables = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", **(env or {})}
    variables.pop("PYTHONPATH", None)
    done = subprocess.run([environment() / "bin" / "python", program, *map(str, arguments)], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=timeout, env=variables, check=False)
    return done.returncode, done.stdout, done.stderr


def script(folder, name, text):
    path = pathlib.Path(folder) / name
    path.write_text(text)
    return path
