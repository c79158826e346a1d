"""`tessera compare`, and the example for CI that uses it: the example's commands run unchanged."""

import json
import os
import re
import shlex
import shutil
import subprocess
import xml.etree.ElementTree

import numpy as np
import pytest

from checks import check, check_equal
from e2e.tessera_e2e import BIN, ROOT, model_inputs, model_path, save_npz

pytestmark = pytest.mark.alone

CI = ROOT / "deploy" / "ci"
CHAIN = "input A[192, 192], B[192, 192]; S[i, j] += A[i, k] * B[k, j]; O[i, j] = max(S[i, j], 0.0);"


class Artifacts:
    """One program, compiled fully and as plain loops, which are much slower."""

    def __init__(self, service):
        source = service.scratch("chain.te")
        source.write_text(CHAIN)
        self.service = service
        self.fast = service.compile(source).artifact
        self.slow = service.compile(source, None, "--opt-level", "1").artifact

    def compare(self, before, after, *flags, expect=0):
        return self.service.cli("compare", before, after, "--rounds", "9", *flags, expect=expect)


@pytest.fixture(scope="module")
def artifacts(service):
    return Artifacts(service)


@pytest.fixture(scope="module")
def repository(service):
    return Repository(service)


def test_itself_is_no_slower(artifacts):
    # Two loads of one file differ by their addresses; chance does not make one ten times slower.
    answer = artifacts.compare(artifacts.fast, artifacts.fast, "--json", "--fail-above", "900%").json
    check(answer["passed"] and answer["same_model"], answer)
    check_equal({step["code"] for step in answer["steps"]}, {"same"}, "code")


def test_slower_is_told_and_where(artifacts):
    report = artifacts.service.scratch("compare.xml")
    answer = artifacts.compare(artifacts.fast, artifacts.slow, "--json", "--fail-above", "5%", "--junit", report,
                               expect=1).json
    check(not answer["passed"] and answer["total"]["verdict"] == "slower", answer)
    check(answer["total"]["change"] > answer["total"]["noise"] >= 0.01, answer)
    changed = [step for step in answer["steps"] if step["code"] != "same"]
    check(changed and any(step.get("verdict") == "slower" for step in changed), answer["steps"])
    suite = xml.etree.ElementTree.parse(report).getroot()
    check_equal(int(suite.get("failures")), 1, "failures in the report")
    check_equal([case.get("name") for case in suite.iter("testcase")][0], "total", "the first case")
    text = artifacts.compare(artifacts.fast, artifacts.slow, "--fail-above", "5", expect=1).out
    check("slower by more than 5" in text and "alternating rounds" in text, text)
    check_equal(artifacts.compare(artifacts.fast, artifacts.slow, "--json").json["passed"], True, "without a bound")


def test_faster_passes(artifacts):
    answer = artifacts.compare(artifacts.slow, artifacts.fast, "--json", "--fail-above", "0%").json
    check(answer["passed"] and answer["total"]["verdict"] == "faster" and answer["total"]["change"] < 0, answer)


def test_wrong_requests_say_what_is_accepted(artifacts):
    answer = artifacts.compare(artifacts.fast, artifacts.fast, "--fail-above", "fast", expect=2)
    check("as in 5%" in answer.err, answer)
    check("there is no file" in artifacts.compare(artifacts.fast, "none.tsra", expect=5).err, "no such file")


class Repository:
    """The files that the examples assume: a model with its inputs and expected outputs, and ci/check-model."""

    def __init__(self, service):
        self.folder = service.folder / "repository"
        (self.folder / "ci").mkdir(parents=True)
        shutil.copy(CI / "check-model", self.folder / "ci")
        shutil.copy(model_path("mlp"), self.folder / "model.onnx")
        inputs = model_inputs("mlp", 1)
        save_npz(self.folder / "model.inputs.npz", inputs)
        outputs, _ = service.run(service.compile(self.folder / "model.onnx", None, "--dim", "N=1").artifact, inputs)
        self.outputs = outputs
        save_npz(self.folder / "model.outputs.npz", outputs)
        self.env = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "TESSERA_SERVER": service.address,
                    "XDG_CACHE_HOME": str(service.folder / "cache")}

    def run(self, command, **more):
        return subprocess.run(shlex.split(command), cwd=self.folder, env={**self.env, **more}, capture_output=True,
                              text=True, timeout=120)


def variables_of(path):
    """The example's settings, and its one command."""
    text = path.read_text(encoding="utf-8")
    command = re.search(r"ci/check-model .*", text).group(0)
    return command, dict(re.findall(r"^\s+(INPUTS|REFERENCE|FAIL_ABOVE): (\S+)$", text, re.MULTILINE))


def test_examples_run_as_they_stand(repository):
    for name in ("github.yml", "gitlab.yml"):
        shutil.rmtree(repository.folder / "last", ignore_errors=True)
        command, variables = variables_of(CI / name)
        check_equal(sorted(variables), ["FAIL_ABOVE", "INPUTS", "REFERENCE"], f"variables of {name}")
        variables["FAIL_ABOVE"] = "900%"  # noise of 50 us on a busy machine is not under test
        for time in ("first", "second"):
            done = repository.run(command, **variables)
            check_equal(done.returncode, 0, f"{name}, the {time} time: {done.stdout}{done.stderr}")
        reports = repository.folder / "reports"
        check(json.loads((reports / "compile.json").read_text())["job"]["cached"], "the second answer is not cached")
        check(json.loads((reports / "compare.json").read_text())["passed"], "the same artifact is no slower")
        for report in ("verify.xml", "compare.xml"):
            check_equal(xml.etree.ElementTree.parse(reports / report).getroot().get("failures"), "0", report)
        check((repository.folder / "last" / "model.tsra").exists(), "the next run has something to compare with")


def test_a_wrong_result_fails_the_example(repository):
    command, variables = variables_of(CI / "github.yml")
    wrong = {name: np.asarray(array) + 1 for name, array in repository.outputs.items()}
    save_npz(repository.folder / "wrong.npz", wrong)
    last = repository.folder / "last" / "model.tsra"
    before = last.read_bytes()
    done = repository.run(command, **{**variables, "REFERENCE": "wrong.npz"})
    check_equal(done.returncode, 1, f"{done.stdout}{done.stderr}")
    check_equal(last.read_bytes() == before, True, "the last good artifact stays")
