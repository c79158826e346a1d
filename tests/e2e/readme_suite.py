#!/usr/bin/python3
"""The commands of the first page, as a stranger would copy them: each block of a section is one shell's, in a folder of its
own, and every line of it ends well."""
# suite: slow timeout=900

import os
import pathlib
import re
import subprocess
import sys

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from e2e.tessera_e2e import BIN, ROOT, Service
from suite import check, run

README = (ROOT / "README.md").read_text()
# What a test does elsewhere, or in less time. The service is the suite's own.
INSTEAD = ((r"^tesserad .*&.*$", "true"), (r"^tests/", f"{ROOT}/tests/"), (r"--budget \S+", "--budget 20s"), (r"/tmp/models", "models"))
# On a machine that does other things as well, times differ by more than a few percent.
MAY_FAIL = "--fail-above"


def blocks(title):
    """The shell's blocks of a section, without those of other languages."""
    section = README.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]
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


def main():
    with Service(workers=2) as service:
        folder = service.folder / "stranger"
        folder.mkdir()
        # The last one installs the Python package for the user, which python_client_suite does in a folder.
        cases = [block for block in blocks("Five minutes") if "pip install" not in block]
        check(len(cases) >= 4, f"{len(cases)} blocks")
        return run("readme", [(f"block {number} ({len(block.splitlines())} lines)",
                               lambda block=block: run_as_written(service, block, folder)) for number, block in enumerate(cases, 1)])


if __name__ == "__main__":
    sys.exit(main())
