"""The files under deploy/ that start servers and workers elsewhere: they are well-formed, their flags exist, their metrics are
served, and the batch script passes signals on and leaves nothing behind."""

import json
import os
import re
import shutil
import signal
import subprocess

import pytest

from checks import check, check_equal
from e2e.tessera_e2e import BIN, ROOT, wait_until

KUBERNETES = ROOT / "deploy" / "kubernetes"
SBATCH = ROOT / "deploy" / "slurm" / "tessera-workers.sbatch"

STAND_IN = """#!/bin/bash
printf '%s\\n' "$@" > "$OUT/arguments"
while [ "$1" != --scratch ]; do shift; done
touch "$2/file"
trap 'echo TERM > "$OUT/signal"; sleep 0.3; exit 5' TERM
echo ready > "$OUT/ready"
while true; do sleep 0.05; done
"""


def documents():
    yaml = pytest.importorskip("yaml")
    found = {}
    for path in sorted(KUBERNETES.glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            found[document["kind"], document.get("metadata", {}).get("name", "")] = document
    return found


def flags_of(program):
    shown = subprocess.run([BIN / program, "--help"], check=True, capture_output=True, text=True).stdout
    return set(re.findall(r"--[a-z][a-z0-9-]*", shown))


def pods(found):
    return [document["spec"]["template"]["spec"] for (kind, _), document in found.items() if kind == "Deployment"]


def test_kubernetes_files_are_consistent():
    found = documents()
    listed = found["Kustomization", ""]["resources"]
    check_equal(sorted([*listed, "kustomization.yaml"]), sorted(path.name for path in KUBERNETES.glob("*.yaml")), "resources")
    for (kind, name), document in found.items():
        check(document.get("apiVersion"), f"{kind} {name} has no apiVersion")
    for pod in pods(found):
        volumes = {volume["name"] for volume in pod["volumes"]}
        for container in pod["containers"]:
            program = container["command"][0].rsplit("/", 1)[1]
            for argument in container["args"]:
                check(argument.split("=")[0] in flags_of(program), f"{program} has no flag {argument}")
            check_equal({mount["name"] for mount in container["volumeMounts"]}, volumes, f"volumes of {program}")
            ports = {port["name"] for port in container.get("ports", [])}
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                if probe in container:
                    check(container[probe]["httpGet"]["port"] in ports, f"{probe} of {program}")
    server = found["Deployment", "tessera-server"]["spec"]["template"]
    service = found["Service", "tessera"]["spec"]
    check(service["selector"].items() <= server["metadata"]["labels"].items(), "the Service selects the servers")
    check_equal({port["targetPort"] for port in service["ports"]},
                {port["name"] for port in server["spec"]["containers"][0]["ports"]}, "ports of the Service")
    check_equal(found["ScaledObject", "tessera-worker"]["spec"]["scaleTargetRef"]["name"], "tessera-worker", "scaled")


def test_metrics_of_the_autoscaler_are_served():
    [trigger] = documents()["ScaledObject", "tessera-worker"]["spec"]["triggers"]
    asked = set(re.findall(r"\btessera_[a-z_]+", trigger["metadata"]["query"]))
    code = "".join(path.read_text() for path in (ROOT / "server" / "metrics").glob("*.cpp"))
    check(asked and all(f'"{name}"' in code for name in asked), f"{asked} are not all metrics of tesserad")


def test_kustomize_accepts_the_files():
    if not shutil.which("kubectl"):
        pytest.skip("kubectl is not installed")
    done = subprocess.run(["kubectl", "kustomize", KUBERNETES], check=False, capture_output=True, text=True, timeout=60)
    check_equal(done.returncode, 0, f"kubectl kustomize: {done.stderr}")
    check("image: registry.example.com/tessera:latest" in done.stdout, "the image is replaced")


def test_the_batch_script_ends_its_worker(tmp_path):
    stand_in, settings, scratch = tmp_path / "worker", tmp_path / "slurm.env", tmp_path / "scratch"
    stand_in.write_text(STAND_IN)
    stand_in.chmod(0o755)
    settings.write_text('TESSERA_WORKER_SERVER=build:7401\nTESSERA_WORKER_OPTIONS="--token-file /a --kinds build"\n')
    scratch.mkdir()
    env = {**os.environ, "OUT": str(tmp_path), "TESSERA_WORKER": str(stand_in), "SLURM_ARRAY_JOB_ID": "7",
           "TESSERA_SLURM_SETTINGS": str(settings), "SLURM_ARRAY_TASK_ID": "3", "SLURM_CPUS_PER_TASK": "8",
           "SLURM_TMPDIR": str(scratch)}
    with subprocess.Popen(["bash", SBATCH], env=env) as batch:
        wait_until(lambda: (tmp_path / "ready").exists(), "the worker starts")
        arguments = (tmp_path / "arguments").read_text().split("\n")
        check({"build:7401", "slurm-7-3", "8", "--give-back", "--exit-when-idle", "--token-file"} <= set(arguments), arguments)
        batch.send_signal(signal.SIGTERM)
        check_equal(batch.wait(timeout=60), 5, "exit code: the worker's")
    check_equal((tmp_path / "signal").read_text(), "TERM\n", "the worker's signal")
    check_equal(list(scratch.iterdir()), [], "folders of workers")
    flags = {argument for argument in arguments if argument.startswith("--")}
    check(flags <= flags_of("tessera-worker"), f"tessera-worker lacks some of {flags}")


@pytest.mark.parametrize(("settings", "submitted"), [("", "0-2"), ("TESSERA_MOST_WORKERS=3", "0-1"), ("TESSERA_KIND=plan", None),
                                                     ("TESSERA_KIND=measure\nTESSERA_TARGET=zen4", "0-0")])
def test_as_many_workers_are_submitted_as_are_wanted(tmp_path, settings, submitted):
    """Stand-ins for tessera and Slurm: 27 slots are wanted in all, and one worker of 8 slots is there."""
    def stand_in(name, text):
        path = tmp_path / name
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(0o755)

    wanted = [{"kind": "PLAN", "target": "", "waiting": "2", "running": "1", "slots": "3", "workers": "1"},
              {"kind": "MEASURE", "target": "cascadelake", "waiting": "1", "running": "0", "slots": "8", "workers": "1"},
              {"kind": "MEASURE", "target": "zen4", "waiting": "1", "running": "1", "slots": "16", "workers": "2"}]
    stand_in("tessera", f"""[ "$*" = "workers --wanted --json" ] && echo '{json.dumps({"wanted": wanted})}'""")
    stand_in("squeue", "echo 5_0")
    stand_in("sbatch", f'printf "%s\\n" "$@" > {tmp_path}/submitted')
    (tmp_path / "slurm.env").write_text(settings)
    script = SBATCH.parent / "submit-wanted-workers"
    for flags, expected in ((("--dry-run",), None), ((), submitted)):
        subprocess.run(["bash", script, *flags], check=True, timeout=60, env={
            **os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "TESSERA_SLURM_SETTINGS": str(tmp_path / "slurm.env")})
        arguments = (tmp_path / "submitted").read_text().split() if (tmp_path / "submitted").exists() else None
        check_equal(arguments and arguments[arguments.index("--array") + 1], expected, f"elements with {flags}")
    if submitted:
        check_equal(arguments[-1], str(SBATCH), "the batch script")


def test_the_batch_script_names_missing_settings(tmp_path):
    for text, words in ((None, "cannot read"), ("", "TESSERA_WORKER_SERVER=HOST:PORT")):
        settings = tmp_path / "slurm.env"
        if text is not None:
            settings.write_text(text)
        done = subprocess.run(["bash", SBATCH], check=False, capture_output=True, text=True, timeout=60,
                              env={**os.environ, "TESSERA_SLURM_SETTINGS": str(settings)})
        check(done.returncode == 2 and words in done.stderr, f"{done.returncode} {done.stderr}")
