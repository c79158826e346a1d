"""Runs the commands of the first page and of the examples on the command line's page, as a newcomer would copy them.
All blocks of a page run in one folder, each in its own shell, and each line must succeed."""

import os
import pathlib
import re
import subprocess

import pytest

from checks import check
from e2e.tessera_e2e import BIN, ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

PAGES = (("README.md", "Five minutes", 2), ("clients/docs/pages/cli.md", "Examples", 4))  # file, section, minimum number of blocks
# Replacements that make a line run here, or in less time. The suite starts the service itself.
INSTEAD = ((r"^tesserad .*&.*$", "true"), (r"^tests/", f"{ROOT}/tests/"), (r"--budget \S+", "--budget 20s"), (r"/tmp/models", "models"))
# On a busy machine times differ by more than a few percent.
MAY_FAIL = "--fail-above"


def blocks(file, title):
    """The shell blocks of a page's section."""
    section = (ROOT / file).read_text().split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"```sh\n(.*?)```", section, re.DOTALL)


def run_as_written(service, block, folder):
    lines = block.replace("\\\n", " ").splitlines()
    for pattern, words in INSTEAD:
        lines = [re.sub(pattern, words, line) for line in lines]
    script = "\n".join(f"{line}\necho \"@$? {number}\" >&2" for number, line in enumerate(lines))
    done = subprocess.run(["bash", "-c", script], cwd=folder, text=True, capture_output=True, check=False, timeout=800,
                          stdin=subprocess.DEVNULL,
                          env={**os.environ, "TESSERA_SERVER": service.address, "PATH": f"{BIN}:{os.environ['PATH']}"})
    said = done.stderr
    for number, line in enumerate(lines):
        before, mark, said = re.split(rf"@(\d+) {number}\n", said, maxsplit=1)
        check(mark == "0" or (mark == "1" and MAY_FAIL in line), f"`{line}` ends with {mark}: {before[-1500:]}")


def samples():
    """The blocks of all pages. python_client_suite installs the Python package into a folder."""
    for file, title, _ in PAGES:
        for number, block in enumerate((block for block in blocks(file, title) if "pip install" not in block), 1):
            yield pytest.param(file, block, id=f"{file}, block {number} ({len(block.splitlines())} lines)")


SAMPLES = list(samples())


@pytest.mark.parametrize("file, _, least", PAGES, ids=[file for file, *_ in PAGES])
def test_pages_have_samples(file, _, least):
    found = sum(sample.values[0] == file for sample in SAMPLES)
    check(found >= least, f"{found} blocks in {file}")


@pytest.mark.parametrize("file, block", SAMPLES)
def test_runs_as_written(service, file, block):
    folder = service.folder / pathlib.Path(file).stem
    folder.mkdir(exist_ok=True)
    run_as_written(service, block, folder)
