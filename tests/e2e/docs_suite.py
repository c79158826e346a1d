#!/usr/bin/python3
"""The documentation: links have targets, commands work, references are complete, and the pages are accessible.

    docs_suite.py --record [PAGE...]      writes the output of the pages' commands into them
"""

import html.parser
import json
import pathlib
import re
import sys
import tempfile
import urllib.error
import urllib.request

import pytest

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1]))  # where this file is a program

from checks import check, check_equal
from e2e import page_samples, python_package
from e2e.browser import DESKTOP, PHONE, Browser
from e2e.tessera_e2e import BIN, BUILD, ROOT, Service

DOCS = ROOT / "clients" / "docs"
SITE = BUILD / "site" / "docs"
PAGES = {path.stem: path.read_text() for path in sorted((DOCS / "pages").glob("*.md"))}
METHODS = {f"design-{path.stem}": path.read_text() for path in sorted((DOCS / "design").glob("*.md"))}
RUN = {"tour": 200, "models": 120, "targets": 120, "tuning": 200}  # pages whose commands are run, and their time limits
OWN_SERVICE = {"tour"}  # starts its own service
SEARCHES = {"tuning"}
HANDED_ROUND = ("README.md", "clients/README.md", "clients/python/README.md", "server/README.md", "tests/README.md",
                "compiler/intrinsic/README.md", "compiler/search/README.md", "compiler/backends/spatial/README.md")
REPOSITORY = re.compile(r"(?<![\w/.-])((?:proto|compiler|storage|server|workers|clients|deploy|tests)/[\w./-]*\w)")
PROGRAMS = ("tessera", "tesserad", "tessera-worker")
pytestmark = pytest.mark.service(arguments=("--web-listen", "127.0.0.1:0"))

sys.path.insert(1, str(DOCS))
import cli_reference  # noqa: E402


class Page(html.parser.HTMLParser):
    """The links of a page, and its link targets."""

    def __init__(self, path):
        super().__init__()
        self.links, self.ids, self.code, self._in_code = [], [], set(), False
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if "id" in attributes:
            self.ids.append(attributes["id"])
        for name in ("href", "src"):
            if name in attributes:
                self.links.append(attributes[name])
        check("style" not in attributes, f"<{tag}> has a style attribute, which the policy of the page refuses")
        self._in_code |= tag == "code"

    def handle_endtag(self, tag):
        self._in_code &= tag != "code"

    def handle_data(self, data):
        if self._in_code:
            self.code.update(re.findall(r"(?<![\w-])--?\w[\w-]*", data))


def read_site():
    return {path.name: Page(path) for path in sorted(SITE.glob("*.html"))}


@pytest.fixture(scope="module")
def site():
    return read_site()


@pytest.fixture(scope="module")
def programs():
    return Programs()


@pytest.fixture(scope="module")
def server(service):
    return service.address


@pytest.fixture(scope="module")
def address(service):
    return "http://" + (service.data / "web.addr").read_text().strip()


@pytest.fixture(scope="module")
def browser(address):
    with Browser(address) as started:
        yield started


def test_links_lead_somewhere(site):
    check(len(site) >= 15, sorted(site))
    check_equal([stem for stem in (*PAGES, *METHODS) if f"{stem}.html" not in site], [], "pages that the site lacks")
    listed = set(site["design.html"].links)
    check_equal([stem for stem in METHODS if f"{stem}.html" not in listed], [], "methods that design.html does not list")
    for name, page in site.items():
        twice = {place for place in page.ids if page.ids.count(place) > 1}
        check(not twice, f"{name} has {twice} twice")
        check("" not in page.ids, f"{name} has a heading that cannot be led to")
        for link in page.links:
            if link.startswith(("http:", "https:", "/")):
                continue
            path, _, place = link.partition("#")
            check((SITE / path).resolve().is_file() if path else True, f"{name}: {link} leads nowhere")
            if place:
                there = site[path] if path else page
                check(place in there.ids, f"{name}: {link} leads to no such place")


def test_outside_links_are_known(site):
    """The pages work offline: external links are few, and no page needs one to be shown."""
    outside = {link for page in site.values() for link in page.links if re.match(r"https?:|/", link)}
    allowed = re.compile(r"http://127\.0\.0\.1:7480/$|https://google\.aip\.dev/|https://www\.postgresql\.org/docs/|/$")
    check_equal([link for link in outside if not allowed.match(link)], [], "links to elsewhere")


def test_named_paths_exist():
    for stem, text in (PAGES | METHODS).items():
        prose = page_samples.FENCE.sub("", text)
        for path in REPOSITORY.findall(prose):
            check((ROOT / path).exists() or (DOCS / "pages" / path).exists(), f"{stem}.md names {path}")
        for link in re.findall(r"\]\((\.\.[^)#]*)", text):
            check((DOCS / "pages" / link).exists(), f"{stem}.md leads to {link}")


class Programs:
    """The command lines of the programs, from their help."""

    def __init__(self):
        self.commands = {}
        for program in PROGRAMS:
            for command in cli_reference.commands(BIN / program, program):
                self.commands[command.words] = command

    def fault(self, words):
        """The error in a command; empty if there is none."""
        at, rest = (pathlib.PurePath(words[0]).name,), list(words[1:])
        known, positionals = set(self.commands[at].flags), 0
        while rest:
            word = rest.pop(0)
            if at + (word,) in self.commands:
                at += (word,)
                known |= self.commands[at].flags
                positionals = 0
            elif word.startswith("-") and not re.match(r"-\d", word):
                flag = word.split("=")[0]
                if flag not in known:
                    return f"{' '.join(at)} has no {flag}"
                if rest and "=" not in word and self._takes_value(at, flag):
                    rest.pop(0)
            else:
                positionals += 1
        sections = self.commands[at].sections
        if "Subcommands" in sections and "SUBCOMMAND" in self.commands[at].usage and "[SUBCOMMAND]" not in self.commands[at].usage:
            return f"{' '.join(at)} needs one of {[entry.name for entry in sections['Subcommands']]}"
        needed = [entry for entry in sections.get("Positionals", []) if "REQUIRED" in entry.name]
        if positionals < len(needed):
            return f"{' '.join(at)} needs {[entry.name for entry in needed]}"
        many = any("..." in entry.name for entries in sections.values() for entry in entries if entry.flags & set(words) or not entry.flags)
        if positionals > len(sections.get("Positionals", [])) and not many:
            return f"{' '.join(at)} takes no {words[-1]}"
        return ""

    def _takes_value(self, at, flag):
        for depth in range(len(at), 0, -1):
            for entries in self.commands[at[:depth]].sections.values():
                for entry in entries:
                    if flag in entry.flags:
                        return bool(re.match(r"\S+ [A-Z]", entry.name)) and not entry.name.split(" ")[1].startswith(("Excludes", "Needs"))
        return False


def test_commands_are_real(programs):
    seen = 0
    texts = {**{f"{stem}.md": text for stem, text in (PAGES | METHODS).items()}, **{name: (ROOT / name).read_text() for name in HANDED_ROUND}}
    for name, text in texts.items():
        typed = [block.text for block in page_samples.blocks(text, "sh")]
        # Commands that prose names in backquotes may omit required parts, and must be correct otherwise.
        named = [inline for inline in re.findall(r"`(tessera(?:d|-worker)? -?-?\w[^`]*)`", page_samples.FENCE.sub("", text))
                 if not re.search(r"[|\[]|\.\.\.|\bCOMMAND\b", inline)]
        for script in [*typed, *named]:
            for words in page_samples.commands(script):
                if pathlib.PurePath(words[0]).name in PROGRAMS:
                    fault = programs.fault(words)
                    check(not fault or script in named and " needs " in fault, f"{name}: {' '.join(words)}: {fault}")
                    seen += 1
    check(seen > 100, f"only {seen} commands were found")


def test_a_wrong_command_is_noticed(programs):
    """The check above finds faults."""
    for words in (["tessera", "compil", "x"], ["tessera", "compile", "x", "--no-such-flag"], ["tessera", "admin", "token"],
                  ["tesserad", "--data-folder", "x"], ["tessera", "compile"], ["tessera", "records", "best", "--bottom", "3"]):
        check(programs.fault(words), f"{words} passed")
    check_equal(page_samples.commands("a --b=1 'c d' > out 2>&1 | e $(f g) # h\nX=1 i && j &"),
                [["f", "g"], ["a", "--b=1", "c d"], ["e", "SUBSTITUTED"], ["i"], ["j"]], "words of a script")


def test_references_are_complete(site, programs):
    for words, command in programs.commands.items():
        if words[0] == "tessera":
            check("-".join(words) in site["cli.html"].ids, f"the reference lacks {command.name}")
            missing = command.flags - site["cli.html"].code - {"-h", "--help"}
            check(not missing, f"the reference lacks {missing} of {command.name}")
    for path in sorted((ROOT / "proto/tessera/v1").glob("*.proto")):
        text = path.read_text()
        for service, body in re.findall(r"^service (\w+) \{(.*?)^\}", text, re.MULTILINE | re.DOTALL):
            for method in re.findall(r"rpc (\w+)", body):
                check(f"{service}.{method}" in site["api.html"].ids, f"the reference lacks {service}.{method}")
        for name in re.findall(r"^(?:message|enum) (\w+)", text, re.MULTILINE):
            check(name in site["api.html"].ids, f"the reference lacks {name} of {path.name}")
    python_package.install()
    import tessera  # pylint: disable=import-outside-toplevel,import-error
    for name in tessera.__all__:
        if callable(getattr(tessera, name)):
            check(name in site["python-reference.html"].ids, f"the reference lacks tessera.{name}")


def test_comments_reach_the_reference(site):
    text = (SITE / "api.html").read_text()
    for line in ("Binds symbolic dimensions", "A compilation request. The action key", "binds symbolic dimensions by name"):
        check(line.lower() in text.lower(), line)
    for message, field in (("CompileSpec", "model"), ("Failure.Reason", "INVALID_MODEL")):
        section = text[text.index(f'id="{message}"'):]
        check(f"<code>{field}</code>" in section[:section.index("</dl>")], f"{message} lacks {field}")


def test_flags_of_the_service_are_documented(site, programs):
    told = site["operations.html"].code
    for program in ("tesserad", "tessera-worker"):
        missing = programs.commands[(program,)].flags - told - {"-h", "--help", "--version"}
        check(not missing, f"operations.md says nothing of {sorted(missing)} of {program}")


def words_of(text):
    made_up = re.compile(r"\b(?:w_)?[0-9a-f]{12,}\b|(?<=--page-token )\S+")  # digests, names of jobs and kernels, tokens
    return set(re.findall(r"[A-Za-z]{3,}", made_up.sub("", text)))


def answers(stem, server):
    """(shell block, recorded output or None, current output) of a page."""
    pairs = page_samples.recorded(PAGES[stem])
    with tempfile.TemporaryDirectory(prefix="tessera-docs-") as folder:
        shell = page_samples.Shell(pathlib.Path(folder), None if stem in OWN_SERVICE else server)
        said = shell.run([block.text for block, _ in pairs], RUN[stem])
    return [(block, answer, now) for (block, answer), now in zip(pairs, said)]


@pytest.mark.parametrize("stem", RUN)
def test_page_runs(stem, server):
    """Figures and names differ from machine to machine; the words are equal."""
    for block, answer, now in answers(stem, server):
        before = words_of(answer.text) if answer else set()
        if stem in SEARCHES:  # results of a search differ from run to run; headings stay
            before = {word for word in before if word.isupper()}
        lost = before - words_of(now)
        check(len(lost) <= 0.25 * len(before), f"{stem}.md shows {sorted(lost)}, which\n{block.text}does not say now:\n{now}")


def record(stem, server):
    text = PAGES[stem]
    for block, answer, now in reversed(answers(stem, server)):
        shown = re.sub(r"[ \t]+$", "", now, flags=re.MULTILINE).strip("\n")
        after = f"\n```text\n{shown}\n```\n" if shown else ""
        text = text[:block.end] + after + text[answer.end if answer else block.end:]
    (DOCS / "pages" / f"{stem}.md").write_text(text)


def test_python_samples_run():
    code = "\n".join(block.text for block in page_samples.blocks(PAGES["python"], "python"))
    with tempfile.TemporaryDirectory(prefix="tessera-docs-") as folder:
        script = python_package.script(folder, "samples.py", f"import os\nos.chdir({folder!r})\n{code}")
        ended, out, err = python_package.run(script, env={"XDG_DATA_HOME": folder, "HOME": folder})
        check_equal(ended, 0, f"python.md's samples: {out[-2000:]}{err[-2000:]}")
        check("found:" in out and "jobs;" in out, out)


def fetch(address, path):
    class Stay(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_):
            return None
    try:
        with urllib.request.build_opener(Stay).open(address + path, timeout=60) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


def test_service_serves_them(address, site):
    status, headers, _ = fetch(address, "/docs")
    check_equal((status, headers["Location"]), (302, "/docs/"), "/docs")
    for path in sorted(SITE.iterdir()):
        status, headers, body = fetch(address, f"/docs/{path.name}")
        check_equal((status, body == path.read_bytes()), (200, True), path.name)
    check_equal(fetch(address, "/docs/")[2], (SITE / "index.html").read_bytes(), "/docs/")
    check_equal(fetch(address, "/docs/no-such-page.html")[0], 404, "a page that is not there")
    check(b'href="/docs/"' in fetch(address, "/")[2], "the page does not lead to the documentation")
    listed = json.loads(fetch(address, "/v1")[2])["routes"]
    text = (SITE / "api.html").read_text()
    for route in listed:
        check(f"<code>{route['verb']} {route['path']}</code>" in text, f"the reference lacks {route}")
        check(route["method"].removeprefix("tessera.v1.") in site["api.html"].ids, route)


@pytest.mark.parametrize("name", sorted(path.name for path in SITE.glob("*.html")))
def test_page_is_for_everyone(browser, name):
    browser.look(DESKTOP, "light")
    browser.go(f"/docs/{name}")
    check(browser.text("h1"), "no title")
    check_equal(browser.violations(), [], f"axe on {name} in light")
    browser.look(DESKTOP, "dark")
    check_equal(browser.violations("color-contrast"), [], f"axe on {name} in dark")
    browser.look(PHONE)
    check_equal(browser.overflow(), 0, f"pixels outside of a phone's screen on {name}")
    check_equal(browser.complaints(), [], f"the console of {name}, and requests that left")


def test_search_finds(browser):
    browser.look(DESKTOP, "light")
    browser.go("/docs/")
    browser.find("body").send_keys("/")
    check_equal(browser.script("return document.activeElement.id"), "words", "/ goes to the search")
    browser.find("#words").send_keys("drain-timeout")
    browser.wait_text("#results", "Deadlines")
    check_equal(browser.violations(), [], "axe on results")
    browser.find("#words").clear()
    browser.find("#words").send_keys("CreateJob")
    browser.wait("document.querySelector('#results a')?.getAttribute('href') === 'api.html#JobService.CreateJob'", "the method is first")
    browser.find("#words").send_keys("\n")
    browser.wait("location.pathname + location.hash === '/docs/api.html#JobService.CreateJob'", "Enter goes to the first")
    check_equal(browser.complaints(), [], "the console")


def test_pages_work_as_files(browser):
    """Offline, without a service."""
    browser.base = SITE.parent.as_uri()
    browser.go("/docs/concepts.html")
    browser.wait("document.querySelector('h1')?.innerText === 'Concepts'", "the page from a file")
    check(browser.script("return getComputedStyle(document.querySelector('.docs nav a[aria-current]')).display") == "block",
          "the style is there")
    browser.find("#words").send_keys("action key")
    browser.wait_text("#results", "From a request to a file")
    check_equal(browser.complaints(), [], "the console, and requests that left")


def main():
    if sys.argv[1:2] != ["--record"]:
        sys.exit(__doc__)
    with Service(workers=2, arguments=("--web-listen", "127.0.0.1:0")) as started:
        for stem in sys.argv[2:] or RUN:
            record(stem, started.address)


if __name__ == "__main__":
    main()
