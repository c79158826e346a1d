"""Pictures of the web page for the documentation, and a check that they are up to date.

`web_suite.py --pictures` takes them into clients/docs/pages/pictures, with the headings of each in pictures.json. The
suite fails if a page's headings differ from that file, so outdated pictures are noticed.
"""

import dataclasses
import json

from e2e.browser import DESKTOP, PHONE
from e2e.tessera_e2e import ROOT
from checks import check, check_equal

FOLDER = ROOT / "clients" / "docs" / "pages" / "pictures"
INDEX = FOLDER / "pictures.json"
MOST_BYTES = 90_000
AGAIN = "take them again: /usr/bin/python3 tests/e2e/web_suite.py --pictures"
# Panels and tables by their headings; their contents differ from run to run.
HEADINGS = """return [...document.querySelectorAll('nav a, main h2, main th[scope=col]')]
    .filter((each) => each.checkVisibility()).map((each) => each.textContent.replace(/[ ↑↓↕]+$/, '').trim())
    .filter((text) => text && !text.startsWith('The chip it is for'))"""
BOX = """const boxes = [...document.querySelectorAll('main .panel')]
    .filter((panel) => arguments[0].includes(panel.querySelector('h2').textContent))
    .map((panel) => panel.getBoundingClientRect());
return boxes.length && [Math.min(...boxes.map(({left}) => left)), Math.min(...boxes.map(({top}) => top)) + scrollY,
    Math.max(...boxes.map(({right}) => right)), Math.max(...boxes.map(({bottom}) => bottom)) + scrollY]"""


@dataclasses.dataclass
class Picture:
    path: str           # path of the page; {tuned} and similar are attributes of Work
    panels: tuple = ()  # headings of the picture; none: the visible part of the page
    size: tuple = DESKTOP
    colours: str = "light"


PICTURES = {
    "page-overview": Picture("/", size=(1280, 760)),
    "page-graph": Picture("/jobs/{explained}", ("Graph",)),
    "page-roofline": Picture("/artifacts/{artifacts[0]}", ("Times", "Roofline")),
    "page-search": Picture("/jobs/{tuned}", ("Versions", "Search", "Who worked when")),
    "page-compare": Picture("/compare?a={artifacts[0]}&b={artifacts[1]}", size=(1280, 820), colours="dark"),
    "page-records": Picture("/records", ("Best of each workload",)),
    "page-target": Picture("/targets/cascadelake", ("What it is", "Memories around the units")),
    "page-phone": Picture("/jobs/{compiled}", size=PHONE, colours="dark"),
}


def _open(browser, work, picture):
    browser.look(picture.size, picture.colours)
    browser.open(picture.path.format(**vars(work)))
    if "{" in picture.path:  # content that appears after the first view
        browser.wait("!document.querySelector('main .panel').textContent.includes('Reading')", "all of it")
    if "{tuned}" in picture.path:
        browser.wait("document.querySelector('.chart .faint-line')", "curves")
    if "/jobs/" in picture.path:
        browser.wait("document.querySelector('.timeline')", "the timeline")
        browser.wait("document.getElementById('live').dataset.now === 'ended'", "all events")
    return browser.script(HEADINGS)


def take(browser, work):
    """Takes all pictures."""
    index = {}
    for name, picture in PICTURES.items():
        headings = _open(browser, work, picture)
        left, top, right, bottom = [0, 0, *picture.size]
        if picture.panels:
            left, top, right, bottom = browser.script(BOX, picture.panels)
        image = browser.webp(left, top, right - left, bottom - top)
        (FOLDER / f"{name}.webp").write_bytes(image)
        index[name] = {"width": round(right - left), "height": round(bottom - top), "headings": headings}
        print(f"{name}.webp: {len(image)} bytes")
    INDEX.write_text(json.dumps(index, indent=1, ensure_ascii=False) + "\n")


def show_what_there_is(browser, work):
    index = json.loads(INDEX.read_text())
    check_equal(sorted(index), sorted(PICTURES), f"pictures; {AGAIN}")
    check_equal(sorted(path.stem for path in FOLDER.glob("page-*")), sorted(PICTURES), "files of pictures")
    pages = "".join(path.read_text() for path in FOLDER.parent.glob("*.md"))
    for name, picture in PICTURES.items():
        check(f"(pictures/{name}.webp)" in pages, f"no page of the documentation shows {name}.webp")
        size = (FOLDER / f"{name}.webp").stat().st_size
        check(size <= MOST_BYTES, f"{name}.webp has {size} bytes, at most {MOST_BYTES}")
        check_equal(_open(browser, work, picture), index[name]["headings"], f"headings of {picture.path} on {name}.webp; {AGAIN}")
