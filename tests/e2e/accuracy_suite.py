"""`tessera verify` in a CI job: an artifact is compared with reference outputs, and a JUnit report is written."""

import xml.etree.ElementTree

import numpy as np
import pytest

from checks import check, check_equal
from e2e.tessera_e2e import model_inputs, model_path, save_npz, shapes_of
from oracle.oracle import Oracle

MODEL = "conv:h=17,w=19,stride=2,relu=1"


class Case:
    """An artifact, its inputs, and ONNX Runtime's outputs."""

    def __init__(self, service):
        self.service = service
        self.model = model_path(MODEL)
        arrays = model_inputs(MODEL, 3)
        self.artifact = service.compile(self.model, shapes_of(arrays)).artifact
        self.given = service.scratch("in.npz")
        save_npz(self.given, arrays)
        with Oracle() as oracle:
            self.expected, _ = oracle.load(self.model).run(arrays)

    def verify(self, reference, *words, expect=0, model=None):
        path = self.service.scratch("reference.npz")
        save_npz(path, reference)
        return self.service.cli("verify", model or self.model, self.artifact, "--reference", path, "--input", self.given,
                                *words, expect=expect)


@pytest.fixture(scope="module")
def case(service):
    return Case(service)


def test_right_outputs_pass(case):
    report = case.service.scratch("report.xml")
    for threads in ("1", "2"):
        answer = case.verify(case.expected, "--threads", threads, "--junit", report, "--json").json
        check(answer["passed"] and all(output["passed"] for output in answer["outputs"]), f"{answer}")
    check_equal([output["name"] for output in answer["outputs"]], list(case.expected), "outputs")
    root = xml.etree.ElementTree.parse(report).getroot()
    check_equal((root.get("tests"), root.get("failures")), (str(len(case.expected)), "0"), "the report's sums")
    check("within 0.0001" in case.verify(case.expected).out, "no sentence for people")


def test_wrong_outputs_fail_with_the_error(case):
    report = case.service.scratch("report.xml")
    name, right = next(iter(case.expected.items()))
    wrong = right.copy()
    wrong.flat[-1] += 0.01 * np.abs(right).max()
    answer = case.verify({**case.expected, name: wrong}, "--junit", report, "--json", expect=1).json
    check_equal(answer["passed"], False, "passed")
    output = next(output for output in answer["outputs"] if output["name"] == name)
    check(0.005 < output["relative_error"] < 0.02, f"relative error of {output}")
    failures = xml.etree.ElementTree.parse(report).getroot().findall(".//failure")
    check_equal(len(failures), 1, "failures in the report")
    check("tolerance 0.0001" in failures[0].get("message"), f"{failures[0].attrib}")
    case.verify({**case.expected, name: wrong}, "--tolerance", "0.1")


def test_what_cannot_be_compared_fails(case):
    name, right = next(iter(case.expected.items()))
    for reference, why in (({**case.expected, name: right[:1]}, "the reference float32[1,"),
                           ({**case.expected, name: right.astype(np.float64)}, "the reference float64["),
                           ({**case.expected, "<other>": right}, "no output of that name"),
                           ({name: np.full_like(right, np.nan)}, "NaN")):
        report = case.service.scratch("report.xml")
        answer = case.verify(reference, "--junit", report, "--json", expect=1).json
        check(any(why in output["why"] for output in answer["outputs"]), f"no '{why}' in {answer}")
        xml.etree.ElementTree.parse(report)  # names are escaped
    answer = case.verify({"other": right}, "--json", expect=1).json
    check(any("no array of that name" in output["why"] for output in answer["outputs"]), f"{answer}")


def test_another_model_is_refused(case):
    failure = case.verify(case.expected, "--json", model=model_path("mlp"), expect=3).failure
    check_equal(failure["reason"], "INVALID_MODEL", "reason")
    check(failure["found"] != failure["accepted"], f"digests: {failure}")
    case.verify(case.expected, model="/nowhere/m.onnx", expect=5)
