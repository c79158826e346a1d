#!/usr/bin/python3
"""The web page in a browser, over a service that compiled, timed and explained a model; all pages are accessible.

    web_suite.py --pictures      takes the pictures of the page that the documentation shows
"""

import http.client
import json
import pathlib
import os
import ssl
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1]))  # where this file is a program

from checks import check, check_equal
from e2e import page_pictures, processes
from e2e.browser import DESKTOP, PHONE, Browser
from e2e.miscalibrated import miscalibrated
from e2e.tessera_e2e import BIN, Service, model_inputs, model_path, shapes_of, wait_until

MODEL, DIM = "mlp", ("--dim", "N=4")
TUNED = "conv:h=17,w=19,stride=2"
WEB = ("--web-listen", "127.0.0.1:0")
pytestmark = pytest.mark.service(arguments=WEB)
HEADERS = {"X-Tessera": "test"}


def shape_flags(spec):
    return [word for name, shape in shapes_of(model_inputs(spec, 1)).items()
            for word in ("--shape", f"{name}={'x'.join(map(str, shape))}")]


def web_address(service):
    return "http://" + (service.data / "web.addr").read_text().strip()


def fetch(service, path, token=None, body=None):
    """(status, answer) of the JSON API."""
    headers = dict(HEADERS)
    if token:
        headers["Authorization"] = f"Bearer {token}"
    data = None
    if body is not None:
        headers["Content-Type"] = "application/json"
        data = json.dumps(body).encode()
    request = urllib.request.Request(web_address(service) + path, headers=headers, data=data)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


class Work:
    """Work that the service has done before a page is opened."""

    def __init__(self, service):
        self.service = service
        self.links = set()  # paths of pages to their data
        one = service.compile(model_path(MODEL), None, *DIM).job
        other = service.compile(model_path(MODEL), None, "--dim", "N=8").job
        service.compile(model_path(MODEL), None, *DIM)  # from the cache
        self.compiled = one["id"]
        self.artifacts = [job["compile_result"]["artifact_id"] for job in (one, other)]
        for artifact in (*self.artifacts, self.artifacts[0]):
            service.cli("profile", artifact, "--repeat", "3", "--json")
        service.cli("tune", model_path(TUNED), "--trials", "8", "--budget", "30s", "--json", *shape_flags(TUNED))
        service.cli("explain", model_path(MODEL), *DIM, "--json")
        service.cli("check", model_path(MODEL), "--json", expect=None)
        service.cli("compile", model_path(MODEL), "--shape", "x=3", "--json", expect=None)  # fails because of its shape
        _, answer = fetch(service, "/v1/jobs?pageSize=100")
        self.jobs = answer["jobs"]
        find = lambda what: next(job["id"] for job in self.jobs if what(job))  # noqa: E731
        self.profiled = find(lambda job: "profileResult" in job)
        self.explained = find(lambda job: job.get("analyze", {}).get("question") == "EXPLAIN")
        self.checked = find(lambda job: job.get("analyze", {}).get("question") == "CHECK")
        self.tuned = find(lambda job: "tuneResult" in job)
        self.failed = find(lambda job: job["state"] == "FAILED" and "compile" in job)
        _, records = fetch(service, "/v1/records?pageSize=1")
        self.workload = records["records"][0]["workloadHash"]


# All kinds of pages (str.format takes the Work), with texts that must be on them.
PAGES = (("/", "Cache hits"), ("/jobs", MODEL), ("/jobs/{work.compiled}", "Artifact"), ("/jobs/{work.profiled}", "Roofline"),
         ("/jobs/{work.explained}", "Side by side"), ("/jobs/{work.checked}", "Operators it uses"),
         ("/jobs/{work.tuned}", "What was found"), ("/jobs/{work.failed}", "Accepted"),
         ("/artifacts", MODEL), ("/artifacts/{work.artifacts[0]}", "Roofline"), ("/compare", "Choose two"),
         ("/compare?a={work.artifacts[0]}&b={work.artifacts[1]}", "another kernel"),
         ("/compare?a={work.artifacts[0]}&b={work.artifacts[0]}", "Run before"),
         ("/records", "Best of each workload"), ("/records?job={work.tuned}", "Measurements"),
         ("/records?workload={work.workload}", "Best so far"), ("/targets", "cascadelake"), ("/targets/cascadelake", "L2"),
         ("/operators", "Conv"), ("/workers", "System calls"), ("/nothing-here", "no such page"))


@pytest.fixture(scope="module")
def work(service):
    return Work(service)


@pytest.fixture(scope="module")
def browser(service):
    with Browser(web_address(service)) as started:
        yield started


@pytest.mark.parametrize("path, text", PAGES)
def test_page_is_for_everyone(browser, work, path, text):
    path = path.format(work=work)
    browser.look(DESKTOP, "light")
    browser.go(path)
    browser.wait_text("main", text)
    browser.wait("!document.querySelector('.wait')", "all of it is there")
    links = browser.script("return [...document.querySelectorAll('main a.json')].map(({href}) => new URL(href))"
                           ".map((url) => url.pathname + url.search)")
    check(links or path in ("/compare", "/nothing-here"), f"{path} has no link to its data")
    work.links.update(link for link in links if not link.endswith(":watch"))
    check_equal(browser.violations(), [], f"axe on {path} in light")
    browser.look(DESKTOP, "dark")
    check_equal(browser.violations("color-contrast"), [], f"axe on {path} in dark")
    browser.look(PHONE)
    check_equal(browser.overflow(), 0, f"pixels outside of a phone's screen on {path}")
    check_equal(browser.complaints(), [], f"the console of {path}, and requests that left")


def test_filters_and_sorting_are_in_the_address(browser):
    browser.open("/jobs")
    browser.script("const field = document.getElementById('filter-state'); field.value = 'FAILED';"
                   "field.dispatchEvent(new Event('change'))")
    browser.settle()
    check_equal(browser.path(), "/jobs?state=FAILED", "the address")
    states = browser.script("return [...document.querySelectorAll('tbody .badge:not(.plain)')]"
                            ".map((badge) => badge.innerText)")
    check(states and set(states) == {"failed"}, states)
    browser.find("#filter-name").send_keys("no such*\n")
    browser.wait_text("main", "No job matches the filter")
    check(browser.path().startswith("/jobs?state=FAILED&name=no+such"), browser.path())
    browser.open("/jobs?kind=COMPILE&order=create_time")  # a shared link shows the same
    names = browser.script("return [...document.querySelectorAll('tbody td:nth-of-type(2)')]"
                           ".map((cell) => cell.innerText)")
    check(names and set(names) == {"compile"}, names)
    browser.press("#sort-create_time")  # at once: the list is redrawn every few seconds
    browser.settle()
    check_equal(browser.path(), "/jobs?kind=COMPILE&order=create_time+desc", "the address")
    check_equal(browser.complaints(), [], "the console")


def test_a_wrong_filter_says_what_is_accepted(browser):
    browser.go("/jobs?filter=stat%20%3D%20FAILED")
    browser.wait_text(".problem", "request_id")
    browser.complaints()


def test_every_picture_has_its_data(work):
    check(len(work.links) > 15, work.links)
    for link in sorted(work.links):
        status, answer = fetch(work.service, link)
        check_equal(status, 200, f"{link}: {answer}")


def test_pictures_in_the_documentation_show_what_there_is(browser, work):
    page_pictures.show_what_there_is(browser, work)


def test_timeline_shows_attempts(browser, work):
    browser.look(DESKTOP, "light")
    browser.open(f"/jobs/{work.tuned}")
    browser.wait("document.querySelectorAll('.timeline .attempt').length > 10", "attempts are drawn")
    _, trace = fetch(work.service, f"/v1/jobs/{work.tuned}/trace")
    names = {event["name"] for event in trace["traceEvents"] if event["ph"] == "X"}
    check({"plan", "build", "search", "measure"} <= names, names)
    workers = {event["args"]["name"] for event in trace["traceEvents"] if event["ph"] == "M"}
    shown = browser.script("return [...document.querySelectorAll('.timeline .name')].map((text) => text.textContent)")
    check_equal(set(shown), workers, "workers")
    legend = browser.text(".phases")
    for phase in ("search", "build", "measure"):
        check(f"{phase}: " in legend, legend)
    whole = browser.script("return document.querySelector('.timeline title').textContent")
    browser.press("#timeline-in")
    check("from=" in browser.path() and "to=" in browser.path(), browser.path())
    part = browser.script("return document.querySelector('.timeline title').textContent")
    check(part != whole, part)
    browser.open(browser.path())  # a shared link shows the same
    browser.wait("document.querySelector('.timeline')", "the timeline is there")
    check_equal(browser.script("return document.querySelector('.timeline title').textContent"), part, "the part shown")
    for _ in range(2):
        browser.press("#timeline-out")
    check_equal(browser.path(), f"/jobs/{work.tuned}", "all of it needs no parameters")
    browser.script("document.getElementById('attempts').open = true")
    browser.wait_text("#attempts", "measure")


def test_search_is_shown(browser, work):
    browser.open(f"/jobs/{work.tuned}")
    browser.wait("document.querySelector('.chart .faint-line')", "curves are drawn")
    result = fetch(work.service, f"/v1/jobs/{work.tuned}")[1]["job"]["tuneResult"]
    text = browser.text("main")
    for workload in result["workloads"]:
        check(workload["summary"] in text, f"{workload['summary']} is not shown")
    check("trial 1 of workload" in browser.text(".events"), browser.text(".events"))


def test_versions_are_chosen(browser, work):
    """While the search is running."""
    job = work.service.cli("tune", model_path(TUNED), "--target", miscalibrated(work.service), "--trials", "10000", "--budget",
                           "200s", "--detach", *shape_flags(TUNED)).out.strip()
    versions = lambda: fetch(work.service, f"/v1/jobs/{job}/versions")[1].get("versions", [])  # noqa: E731
    wait_until(lambda: len(versions()) > 1, "a second version")
    browser.open(f"/jobs/{job}")
    browser.wait_text("#live", "live")
    browser.wait_text("main", "at most")
    browser.press("#choose-1")
    chosen = wait_until(lambda: next((each for each in versions() if each.get("sameAs") == 1), None), "a choice is a version")
    check_equal(chosen["artifactId"], versions()[0]["artifactId"], "what programs run now")
    browser.wait_text("main", "1 again")
    browser.press("#choose-newest" if browser.script("return document.getElementById('choose-newest')") else "#choose-2")
    wait_until(lambda: versions()[-1]["number"] > chosen["number"] and not versions()[-1].get("held"), "forward again")
    work.service.cli("cancel", job)
    browser.wait_text(".title", "cancelled")
    check_equal(browser.complaints(), [], "the console")


def test_runs_of_an_artifact_are_compared(browser, work):
    one = work.artifacts[0]
    browser.open(f"/compare?a={one}&b={one}")
    runs = browser.script("return [...document.querySelectorAll('#choose-run-a option')].map(({value}) => value)")
    check_equal(len(runs), 2, "runs of an artifact that was timed twice")
    links = browser.script("return [...document.querySelectorAll('tbody a[href^=\"/jobs/\"]')].map((a) => a.pathname)")
    check_equal(sorted(links), sorted(f"/jobs/{run}" for run in runs), "the runs side by side")
    browser.open(f"/compare?a={one}&b={one}&run-a={runs[1]}&run-b={runs[1]}")
    links = browser.script("return [...document.querySelectorAll('tbody a[href^=\"/jobs/\"]')].map((a) => a.pathname)")
    check_equal(links, [f"/jobs/{runs[1]}"] * 2, "the runs that the address names")


def test_graph_tells_of_its_nodes(browser, work):
    browser.open(f"/jobs/{work.explained}")
    browser.wait("document.querySelectorAll('.graph .node').length > 4", "nodes are drawn")
    browser.find("#graph-after").click()
    check(browser.path().endswith("?graph=after"), browser.path())
    browser.script("document.querySelector('.graph .node')"
                   ".dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', bubbles: true}))")
    browser.wait_text(".chosen", "Compulsory traffic")
    browser.open(f"/jobs/{work.explained}?graph=before")
    browser.wait_text(".graph", "Gemm")


def drained(service):
    for worker in service.wait_for_workers(2):
        service.operator("workers", "--drain", worker["id"])


def undrained(service):
    for worker in service.cli("workers", "--json").json["workers"]:
        service.operator("workers", "--undrain", worker["id"])


def waiting_job(service, size):
    """A job that waits because there is no worker, and the client that waits for it."""
    client = service.spawn("compile", model_path(MODEL), "--dim", f"N={size}", "--label", "team=vision", "-o",
                           service.scratch("a.tsra"))
    queued = wait_until(lambda: fetch(service, "/v1/jobs?filter=state%20%3D%20QUEUED")[1].get("jobs"), "the job waits")
    return queued[0]["id"], client


def test_a_job_is_seen_live(browser, service):
    drained(service)
    job, client = waiting_job(service, 2)
    browser.open(f"/jobs/{job}")
    browser.wait_text("#live", "live")
    check("queued" in browser.text(".title"), browser.text(".title"))
    check_equal(browser.text("#labels"), "team=vision", "its labels")
    browser.script("window.stayed = true")
    undrained(service)
    browser.wait_text(".title", "succeeded")
    browser.wait_text("main", "Distinct kernels")
    browser.wait("document.querySelectorAll('.timeline .attempt').length >= 3", "plan, build, assemble on a timeline")
    events = browser.text(".events")
    for event in ("queued", "running", "attempt 1", "succeeded"):
        check(event in events, f"{event} is not among:\n{events}")
    check(browser.script("return window.stayed"), "the page was loaded again")
    client.communicate(timeout=60)


def test_a_job_is_cancelled(browser, service):
    drained(service)
    job, client = waiting_job(service, 16)
    browser.open(f"/jobs/{job}")
    browser.find("#cancel").click()
    browser.wait_text(".title", "cancelled")
    check(not browser.script("return document.getElementById('cancel')"), "what has ended cannot be cancelled")
    check_equal(fetch(service, f"/v1/jobs/{job}")[1]["job"]["state"], "CANCELLED", "the job")
    check_equal(client.wait(timeout=60), 7, "exit code of the client that waited")
    undrained(service)
    check_equal(browser.complaints(), [], "the console")


def test_buttons_make_jobs(browser, work):
    browser.open(f"/artifacts/{work.artifacts[0]}")
    browser.press("#profile")
    browser.wait("location.pathname.startsWith('/jobs/')", "the new job's page")
    browser.wait_text("main", "Median ± spread")
    browser.open(f"/jobs/{work.compiled}")
    browser.press("#explain")
    browser.wait_text("main", "Side by side")


def test_keys_go_places(browser):
    browser.open("/")
    browser.find("body").send_keys("gr")
    browser.wait("location.pathname === '/records'", "g r goes to the records")
    browser.settle()
    browser.find("body").send_keys("/")
    check_equal(browser.script("return document.activeElement.id"), "filter-summary", "/ goes to the first filter")


def test_a_token_is_needed_where_identity_is_on(browser):
    service = Service(workers=0, arguments=WEB)
    try:
        service.start()
        created = service.operator("admin", "token", "create", "--name", "ada", "--role", "reader")
        token = created.out.strip().split()[-1]
        service.stop()
        service._arguments.append("--require-tokens")  # pylint: disable=protected-access
        service._env["TESSERA_TOKEN"] = token          # pylint: disable=protected-access
        service.start()
        check_equal(fetch(service, "/v1/jobs")[0], 401, "without a token")
        check_equal(fetch(service, "/v1/jobs", "tessera-guessed")[0], 401, "with a wrong token")
        check_equal(fetch(service, "/v1/jobs", token)[0], 200, "with a token")
        check_equal(fetch(service, "/v1/jobs/x:cancel", token, {})[0], 403, "a reader cancels")
        browser.base = web_address(service)
        browser.look(DESKTOP, "light")
        browser.go("/jobs")
        browser.wait("document.getElementById('ask').open", "the page requests a token")
        check_equal(browser.violations(), [], "axe on the question")
        browser.find("#token").send_keys(token + "\n")
        browser.wait_text("main", "There are no jobs yet")
        check_equal(browser.text("#who"), "Token set", "the button")
        kept = browser.script("return [localStorage.length, document.cookie, sessionStorage.length]")
        check_equal(kept, [0, "", 1], "where the token is kept")
        browser.open("/workers")
        browser.wait_text("main", "No worker is registered")
    finally:
        service.close()


def test_over_tls_a_certificate_says_who_calls():
    service = Service()  # its folder and its end only: the suites' clients show no certificates
    try:
        keys = service.folder / "keys"
        service.cli("admin", "certificates", keys, "--host", "localhost", "--caller", "reader:ada")
        command = [BIN / "tesserad", "--data-dir", service.data, "--workers", "0", "--listen", "127.0.0.1:0", *WEB,
                   "--tls-cert", keys / "server.pem", "--tls-key", keys / "server.key",
                   "--tls-client-ca", keys / "ca.pem", "--require-tokens"]
        with open(service.folder / "tesserad.log", "ab") as log:
            service.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                               env={**os.environ, processes.MARK: service.mark})
        wait_until((service.data / "tesserad.addr").exists, "tesserad answers")
        port = int(web_address(service).rsplit(":", 1)[1])

        def status(path, *certificate, method="GET"):
            context = ssl.create_default_context(cafile=keys / "ca.pem")
            if certificate:
                context.load_cert_chain(*certificate)
            connection = http.client.HTTPSConnection("localhost", port, context=context, timeout=60)
            connection.request(method, path, headers=HEADERS)
            return connection.getresponse().status

        ada = (keys / "reader-ada.pem", keys / "reader-ada.key")
        check_equal(status("/"), 200, "the page")
        check_equal(status("/v1/jobs"), 401, "without a certificate")
        check_equal(status("/v1/jobs", *ada), 200, "a reader's certificate")
        check_equal(status("/v1/tokens", *ada), 403, "a reader is no operator")
        check_equal(status("/v1/jobs/x:cancel", *ada, method="POST"), 403, "a reader cancels")
        others = service.folder / "others"
        service.cli("admin", "certificates", others, "--host", "localhost", "--caller", "operator:eve")
        try:
            told = status("/v1/tokens", others / "operator-eve.pem", others / "operator-eve.key")
            check(False, f"a certificate that anyone can make was answered: {told}")
        except (OSError, http.client.HTTPException):
            pass
        plain = http.client.HTTPConnection("localhost", port, timeout=60)
        try:
            plain.request("GET", "/v1")
            check(False, f"plain text was answered: {plain.getresponse().status}")
        except (OSError, http.client.HTTPException):
            pass
    finally:
        service.close()


def main():
    if sys.argv[1:] != ["--pictures"]:
        sys.exit(__doc__)
    with Service(workers=2, arguments=WEB) as started:
        done = Work(started)
        with Browser(web_address(started)) as page:
            page_pictures.take(page, done)


if __name__ == "__main__":
    main()
