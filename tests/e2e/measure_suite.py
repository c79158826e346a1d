"""`tessera target measure`: a description of this machine that says for each figure how it was measured and how noisy
it is, and that works like any other target."""

import re

import pytest

from checks import check, check_equal
from e2e.matching import matches

pytestmark = [pytest.mark.alone, pytest.mark.service(workers=1)]

NOWHERE = {"TESSERA_SERVER": "127.0.0.1:1"}
BRIEF = ("--repeat", "3")


def test_figures_say_what_they_are(service):
    answer = service.cli("target", "measure", *BRIEF, "--json", env=NOWHERE).json
    figures = {(figure["field"], figure["cores"] > 1): figure for figure in answer["figures"]}
    for (field, _), figure in figures.items():
        check_equal(figure["repetitions"], 3, field)
        check(figure["median"] > 0 and figure["deviation"] >= 0 and figure["unit"] and figure["how"], f"{figure}")
        check_equal(figure["noisy"], figure["deviation"] > 0.05 * figure["median"] or figure["away"] > 0.05, field)
    levels = answer["target"]["memory"]
    for level, described in enumerate(levels):
        measured = figures[f"memory[{level}].bandwidth_bytes_per_cycle", False]["median"]
        written = described["bandwidth_bytes_per_cycle"]
        check(abs(written - measured) < 0.01 * measured, f"{described['name']}: {written} of {measured}")
    bandwidths = [level["bandwidth_bytes_per_cycle"] for level in levels]
    check(bandwidths[0] > bandwidths[-1], f"the near level is no faster than the memory: {bandwidths}")
    unit, = answer["target"]["units"]
    check(unit["ops_per_cycle"] > unit["lanes"], f"less than a vector of operations a cycle: {unit}")


def test_the_file_is_a_target(service, oracle):
    path = service.scratch("measured.textproto")
    told = service.cli("target", "measure", *BRIEF, "--name", "this-machine", "--out", path, env=NOWHERE)
    check("memory[0].bandwidth_bytes_per_cycle" in told.out and "this-machine; hash " in told.out, told.out)
    check("measure: " in told.err, f"no progress: {told.err}")
    text = path.read_text()
    for part in (r"^# Measured by `tessera target measure` on 20\d\d-", r"  # Measured: one core reads \S+ \S+ again and again\.\n",
                 r"\(median of 3, deviation \d+\.\d %", r"^# Not measured, and so as the family has them.*:\n(#   .*\n)*#   prefetching\.always_followed_runs 8$"):
        check(re.search(part, text, re.MULTILINE), f"{part} is not in\n{text}")
    check(service.cli("target", "check", path, env=NOWHERE).out.startswith("valid; "), "check")
    shown = service.cli("target", "show", path, env=NOWHERE).out
    check(re.search(r"^# overheads\.phase_cycles +\S+ +description$", shown, re.MULTILINE), "a price that was measured")
    check(re.search(r"^# overheads\.nest_cycles +\S+ +family$", shown, re.MULTILINE), "a price that was not")
    for spec, batch in (("mlp", 3), ("squeezenet1_1:size=64", 1)):
        matches(service, oracle, spec, batch, target=path)


def test_output_is_the_description(service):
    path = service.scratch("printed.textproto")
    answer = service.cli("target", "measure", *BRIEF, "--quiet", env=NOWHERE)
    path.write_text(answer.out)
    check(service.cli("target", "check", path, env=NOWHERE).out.startswith("valid; "), "what was printed")


def test_mistakes_are_told_before(service):
    path = service.scratch("none") / "there.textproto"
    answer = service.cli("target", "measure", "--out", path, expect=3, env=NOWHERE)
    check(str(path) in answer.err and "measure: " not in answer.err, answer.err)
    answer = service.cli("target", "measure", "--name", "My Machine", "--json", expect=3, env=NOWHERE)
    check("name" in answer.failure["message"] and "lower-case" in answer.failure["message"], f"{answer.failure}")
    service.cli("target", "measure", "--repeat", "2", expect=2, env=NOWHERE)
