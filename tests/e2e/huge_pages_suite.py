"""A worker keeps the compiler's code in huge pages, which all of its tasks share, and gives the same bytes without them."""

import pathlib

import pytest

from checks import check, check_equal
from e2e import processes
from e2e.tessera_e2e import Service, model_path

SETTING = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")


def compiled(*arguments):
    """Artifact bytes from a service's worker, and MB of huge pages in the process that forks its tasks."""
    with Service(workers=1, arguments=arguments) as service:
        artifact = service.compile(model_path("tiny:seed=1"), {"x": [1, 8]}).artifact.read_bytes()
        waiting = [pid for pid in processes.family(service.mark) if processes.command_name(pid) == "tessera-task"]
        check_equal(len(waiting), 1, "task programs, all tasks done")
        rollup = pathlib.Path(f"/proc/{waiting[0]}/smaps_rollup").read_text().splitlines()
        return artifact, next(int(line.split()[1]) for line in rollup if line.startswith("AnonHugePages:")) / 1024


def test_code_is_in_huge_pages_unless_told():
    if not SETTING.exists() or "[never]" in SETTING.read_text():
        pytest.skip("this kernel gives no huge pages")
    artifact, huge = compiled()
    plain, small = compiled("--worker-arg=--no-huge-pages")
    print(f"   {huge:.0f} MB in huge pages, {small:.0f} with --no-huge-pages")
    check(huge > 20 and small < 4, "the compiler's code is not where it should be")
    check(artifact == plain, "the artifact differs by where the code lies")
