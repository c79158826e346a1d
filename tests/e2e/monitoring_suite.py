"""Monitoring: a real scrape is valid and contains each metric of the dashboard and the alerts, readiness reports
problems, and a JSON log has one object on each line."""

import json
import re
import shutil
import subprocess
import urllib.error
import urllib.request

import pytest

from checks import check, check_equal
from e2e.tessera_e2e import BIN, ROOT, Service, model_inputs, model_path, save_npz, wait_until

MONITORING = ROOT / "deploy" / "monitoring"
ARGUMENTS = ("--metrics-listen", "127.0.0.1:0", "--log-format", "json")
MODEL, DIM = "mlp", ("--dim", "N=1")
MOST_BYTES = 300_000  # small limits for the project

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
SAMPLE = re.compile(rf'({NAME})(?:\{{((?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*",?)*)\}})? (\S+)')
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"')
# Metrics in queries: ours and the process's, with the suffixes of histograms.
ASKED = re.compile(r"\b(?:tessera|process)_[a-z0-9_]+\b")


def fetch(service, path):
    """(status, body) of a monitoring address."""
    address = (service.data / "metrics.addr").read_text().strip()
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def parse(text):
    """{sample name: {labels: value}} of Prometheus' text format 0.0.4; checks all rules of the format."""
    samples, types, helped = {}, {}, set()
    check(text.endswith("\n"), "the text does not end with a line")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name = line.split(" ", 3)[2]
            check(name not in helped, f"{name} is explained twice")
            helped.add(name)
        elif line.startswith("# TYPE "):
            name, kind = line.split(" ")[2:]
            check(name not in types, f"{name} is typed twice")
            check(kind in ("counter", "gauge", "histogram"), line)
            types[name] = kind
        else:
            match = SAMPLE.fullmatch(line)
            check(match, f"no sample: {line!r}")
            name, labels, value = match.groups()
            family = next((name.removesuffix(end) for end in ("_bucket", "_sum", "_count")
                           if types.get(name.removesuffix(end)) == "histogram"), name)
            check(family in types and family in helped, f"{name} comes before its TYPE or HELP")
            key = tuple(sorted(LABEL.findall(labels or "")))
            check(key not in samples.setdefault(name, {}), f"twice: {line}")
            samples[name][key] = float(value)
    for name, kind in types.items():
        check(kind != "counter" or name.endswith("_total"), f"the counter {name} is not called ..._total")
        check(kind == "counter" or not name.endswith("_total"), f"{name} is no counter")
        if kind == "histogram":
            check(name.endswith(("_seconds", "_bytes")), f"{name} does not say its unit")
            buckets_hold(name, samples)
    return samples


def buckets_hold(name, samples):
    """The buckets of a histogram sum up to its count."""
    for labels, count in samples[f"{name}_count"].items():
        buckets = sorted((float(dict(key)["le"]), value) for key, value in samples[f"{name}_bucket"].items()
                         if tuple(label for label in key if label[0] != "le") == labels)
        values = [value for _, value in buckets]
        check(values == sorted(values), f"{name}{labels}: buckets go down: {values}")
        check_equal(buckets[-1], (float("inf"), count), f"last bucket of {name}{labels}")
        check(labels in samples[f"{name}_sum"], f"{name}{labels} has no sum")


def work(service):
    """Causes each kind of event on the dashboard: work, a cache hit, a failure, a rejection."""
    model = model_path(MODEL)
    compiled = service.compile(model, None, *DIM)
    service.compile(model, None, *DIM)
    inputs = service.scratch("in.npz")
    save_npz(inputs, model_inputs(MODEL, 1))
    service.cli("execute", compiled.job["compile_result"]["artifact_id"], "--input", inputs)
    broken = service.scratch("broken.onnx")
    broken.write_bytes(b"no model")
    service.cli("compile", broken, expect=None)
    member = {"TESSERA_TOKEN": service.operator("--project", "small", "admin", "token", "create", "--name", "ada", "--role",
                                                "client", "--json").json["secret"]}
    service.cli("compile", model_path("tiny:seed=3"), "--target", "host", "--shape", "x=1x8", env=member)
    broken.write_bytes(b"no model, and much of it" * (MOST_BYTES // 10))
    check_equal(service.cli("compile", broken, "--json", env=member, expect=8).failure["attribute"], "stored_bytes",
                "the quota that is used up")
    check(service.cli("admin", "token", "list", expect=None).code != 0, "a stranger is no operator")
    return compiled.job


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    quotas = tmp_path_factory.mktemp("quotas") / "quotas.textproto"
    quotas.write_text(f'of {{ project: "small" quota {{ stored_bytes: {MOST_BYTES} }} }}')
    with Service(workers=2, arguments=(*ARGUMENTS, "--quotas", quotas)) as started:
        started.wait_for_workers(2)
        yield started


@pytest.fixture(scope="module", autouse=True)
def compiled(service):
    """All that the service does before its figures are read."""
    return work(service)


def test_a_scrape_is_valid(service):
    status, text = fetch(service, "/metrics")
    check_equal(status, 200, "status")
    samples = parse(text)
    check_equal(samples["tessera_store_up"], {(): 1.0}, "tessera_store_up")
    check_equal(samples["tessera_workers"][(("state", "idle"),)], 2.0, "idle workers")
    check_equal(samples["tessera_worker_slots"][()], 2.0, "slots")


def test_promtool_agrees(service):
    tool = shutil.which("promtool")
    if not tool:
        pytest.skip("no promtool; Debian's package prometheus has it")
    _, text = fetch(service, "/metrics")
    for command, given in ((["check", "metrics"], text), (["check", "rules", MONITORING / "tessera.rules.yml"], None),
                           (["check", "config", MONITORING / "prometheus.yml"], None)):
        done = subprocess.run([tool, *command], input=given, capture_output=True, text=True, timeout=60, check=False)
        check_equal((done.returncode, done.stderr), (0, ""), f"promtool {command}: {done.stdout}")


def test_everything_asked_for_is_there(service):
    samples = parse(fetch(service, "/metrics")[1])
    dashboard = json.loads((MONITORING / "grafana-dashboard.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    check(len(queries) > 20, f"{len(queries)} queries in the dashboard")
    queries += [note["expr"] for note in dashboard["annotations"]["list"]]
    queries += re.findall(r"expr: (?:>\s*)?(.+)", (MONITORING / "tessera.rules.yml").read_text())
    asked = {name for query in queries for name in ASKED.findall(query)}
    check_equal(sorted(asked - samples.keys()), [], "metrics that nothing tells")
    families = {re.sub("_(bucket|sum|count)$", "", name) for name in samples}
    shown = {re.sub("_(bucket|sum|count)$", "", name) for name in asked}
    check_equal(sorted(families - shown - {"tessera_build_info"}), [], "metrics that neither dashboard nor alerts show")
    for query in queries:
        for name, labels in re.findall(rf"({ASKED.pattern})\{{([^}}]*)\}}", query):
            for label in re.findall(r'(\w+)[=!]~?"', labels):
                known = {key for sample in samples[name] for key, _ in sample} | {"instance", "job"}
                check(label in known, f"{name} has no label {label}: {query}")


def test_numbers_are_those_of_the_work(service):
    jobs = service.operator("--project", "-", "jobs", "--json", "--limit", "1000").json["jobs"]

    def counted():
        samples = parse(fetch(service, "/metrics")[1])
        return samples if sum(samples["tessera_jobs_total"].values()) == len(jobs) else None
    samples = wait_until(counted, "all jobs are counted", 20)
    for state in ("SUCCEEDED", "FAILED"):
        there = sum(value for key, value in samples["tessera_jobs_total"].items() if ("state", state.lower()) in key)
        check_equal(there, sum(job["state"] == state for job in jobs), state)
    hits = samples["tessera_cache_lookups_total"][(("cache", "artifact"), ("reason", "stored"), ("result", "hit"))]
    check_equal(hits, sum(bool(job.get("cached")) for job in jobs), "cache hits")
    check_equal(samples["tessera_job_phase_seconds_count"][(("phase", "import"),)], 2.0, "imports")
    attempts = samples["tessera_task_attempts_total"]
    check_equal(attempts[(("end", "succeeded"), ("kind", "execute"))], 1.0, "executions")
    check_equal(attempts[(("end", "invalid_model"), ("kind", "plan"))], 1.0, "plans of an invalid model")
    refused = [value for key, value in samples["tessera_rpcs_total"].items() if ("code", "PERMISSION_DENIED") in key]
    check(sum(refused) >= 1, "the refused call is not counted")
    check_equal(samples["tessera_project_quota"], {(("project", "small"), ("quota", "stored_bytes")): float(MOST_BYTES)},
                "quotas")
    check(samples["tessera_project_refusals_total"][(("project", "small"), ("quota", "stored_bytes"))] >= 1,
          "the call that a quota ended is not counted")
    check(samples["tessera_store_transactions_total"][()] >= samples["tessera_store_commit_seconds_count"][()] > 0,
          "commits hold at least a transaction each")


def test_readiness_tells_what_is_wrong(service):
    check_equal(fetch(service, "/readyz"), (200, "store: ok\nblobs: ok\ndraining: no\n"), "a well service")
    uploads = service.data / "blobs" / "tmp"
    uploads.rename(uploads.with_name("away"))
    try:
        status, text = fetch(service, "/readyz")
        check_equal(status, 503, "status without a folder for uploads")
        check("store: ok\n" in text and "blobs: ok" not in text, text)
        check_equal(fetch(service, "/healthz")[0], 200, "it lives")
    finally:
        uploads.with_name("away").rename(uploads)
    check_equal(fetch(service, "/readyz")[0], 200, "status with it again")


def test_logs_are_json(service, compiled):
    entries = []
    for line in service.log.splitlines():
        if line.startswith("tesserad ready on "):  # output for the program that started it
            continue
        try:
            entries.append(json.loads(line))
        except json.JSONDecodeError:
            raise AssertionError(f"no JSON: {line!r}") from None
    for entry in entries:
        check({"time", "level", "program", "message"} <= entry.keys(), entry)
    own = [entry for entry in entries if entry.get("job") == compiled["id"]]
    check_equal({entry["program"] for entry in own}, {"tesserad", "tessera-worker"}, "programs that speak of the job")
    ended = [entry for entry in own if entry["program"] == "tesserad"]
    check_equal([(entry["request_id"], entry["state"], entry["kind"]) for entry in ended],
                [(compiled["request_id"], "succeeded", "compile")], "what the server says of it")
    check(all(entry["task"] and entry["worker"] for entry in own if entry["program"] == "tessera-worker"),
          "workers name their tasks")


def test_others_see_nothing_without_tls(service):
    folder = service.scratch("exposed")
    done = subprocess.run([BIN / "tesserad", "--data-dir", folder, "--listen", "127.0.0.1:0", "--workers", "0",
                           "--metrics-listen", "0.0.0.0:0"], capture_output=True, text=True, timeout=60, check=False)
    check_equal(done.returncode, 2, done.stderr)  # configuration errors, for which no unit restarts it
    check("0.0.0.0:0 can be reached by others" in done.stderr, done.stderr)
