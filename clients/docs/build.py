#!/usr/bin/python3
"""Builds the documentation: pages/*.md and the references become static HTML that needs nothing from elsewhere.

    build.py --cli build/release/bin/tessera --descriptors tessera.pb --out FOLDER
"""

import argparse
import html
import html.parser
import json
import pathlib
import re

import markdown

import api_reference
import cli_reference
import python_reference

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# As a person reads them. The references are made; the rest is pages/<stem>.md.
GROUPS = [
    ("Start", ["index", "tour", "concepts"]),
    ("Use", ["models", "tuning", "page", "python", "ci"]),
    ("Run", ["install", "operations"]),
    ("Extend", ["targets", "operators", "design"]),
    ("Reference", ["cli", "api", "python-reference"]),
]
ORDER = [stem for _, stems in GROUPS for stem in stems]
LINK = re.compile(r'<a href="([^"]*)">(.*?)</a>', re.DOTALL)
IMAGE = re.compile(r'<p><img alt="([^"]*)" src="([^"]*)" ?/?></p>')
TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
TITLE = re.compile(r"<h1[^>]*>(.*?)</h1>", re.DOTALL)
TAGS = re.compile(r"<[^>]+>")


def link(found):
    """Pages lead to pages. What lies elsewhere in the repository is named: a page that is served cannot show it."""
    address, text = found.groups()
    if address.startswith(("http:", "https:", "#", "/")):
        return found[0]
    path, _, place = address.partition("#")
    if not path.startswith("../"):
        if not path.endswith(".md"):
            raise ValueError(f"a link to {address}: pages link to pages (x.md) or to files of the repository (../..)")
        return f'<a href="{path.removesuffix(".md")}.html{"#" + place if place else ""}">{text}</a>'
    file = (HERE / "pages" / path).resolve()
    if not file.exists():
        raise ValueError(f"a link to {address}: there is no {file}")
    name = str(file.relative_to(ROOT))
    shown = f"<code>{name}</code>"
    return shown if TAGS.sub("", text) == name else f"{text} ({shown})"


def picture(found):
    """SVG becomes part of the page: it takes the page's colours, light and dark. Others are files beside the pages."""
    says, path = found.groups()
    name = pathlib.PurePath(path)
    if name.suffix != ".svg":
        size = json.loads((HERE / "pages" / "pictures" / "pictures.json").read_text())[name.stem]
        return (f'<figure class="shot"><img src="{name.name}" alt="{says}" width="{size["width"]}" height="{size["height"]}" '
                f'loading="lazy"><figcaption>{says}</figcaption></figure>')
    svg = (HERE / "pages" / path).read_text()
    svg = re.sub(r"<\?xml.*?\?>|<!--.*?-->", "", svg, flags=re.DOTALL)
    return (f'<figure class="picture" tabindex="0" role="group" aria-label="{says}">'
            + re.sub(r"<svg ", '<svg aria-hidden="true" ', svg.strip(), count=1) + f"<figcaption>{says}</figcaption></figure>")


def page(stem):
    """(title, body) of pages/<stem>.md."""
    text = (HERE / "pages" / f"{stem}.md").read_text()
    body = markdown.markdown(text, extensions=["tables", "fenced_code", "toc", "sane_lists"], output_format="html")
    body = LINK.sub(link, IMAGE.sub(picture, body))
    # What may be wider than a phone scrolls by itself, also for who uses keys.
    body = TABLE.sub(lambda table: f'<div class="scroll" tabindex="0">{table[0]}</div>', body)
    body = body.replace("<pre>", '<pre tabindex="0">')
    return TAGS.sub("", TITLE.search(body)[1]), body


class Sections(html.parser.HTMLParser):
    """The headings of a page with the text below each, for its contents and for the search."""

    def __init__(self, body):
        super().__init__()
        self.found = []  # [level, id, heading, text]
        self._in_heading = self._in_picture = False
        self.feed(body)

    def handle_starttag(self, tag, attributes):
        if tag in ("h1", "h2", "h3"):
            self._in_heading = True
            self.found.append([int(tag[1]), dict(attributes).get("id", ""), "", ""])
        self._in_picture |= tag == "svg"

    def handle_endtag(self, tag):
        self._in_heading &= tag not in ("h1", "h2", "h3")
        self._in_picture &= tag != "svg"

    def handle_data(self, data):
        if self.found and not self._in_picture:
            self.found[-1][2 if self._in_heading else 3] += data


def contents(sections):
    shown = [each for each in sections if each[0] == 2]
    if len(shown) < 3:
        return ""
    items = "".join(f'<li><a href="#{place}">{html.escape(name)}</a></li>' for _, place, name, _ in shown)
    return f'<details class="contents"><summary>On this page</summary><ul>{items}</ul></details>'


def whole(template, stem, title, body, titles):
    groups, here = [], ' aria-current="page"'
    for name, stems in GROUPS:
        items = "".join(f'<li><a href="{each}.html"{here if each == stem else ""}>{html.escape(titles[each])}</a></li>'
                        for each in stems)
        groups.append(f'<p class="label">{name}</p><ul>{items}</ul>')
    at = ORDER.index(stem)
    near = []
    if at > 0:
        near.append(f'<a rel="prev" href="{ORDER[at - 1]}.html">← {html.escape(titles[ORDER[at - 1]])}</a>')
    if at + 1 < len(ORDER):
        near.append(f'<a rel="next" href="{ORDER[at + 1]}.html">{html.escape(titles[ORDER[at + 1]])} →</a>')
    head, rest = body.split("</h1>", 1)
    body = head + "</h1>" + contents(Sections(body).found) + rest
    for name, text in (("TITLE", html.escape(title)), ("PAGES", "".join(groups)), ("BODY", body), ("NEAR", "".join(near))):
        template = template.replace(f"<!--{name}-->", text)
    return template


def index(pages):
    """What the search looks through: a line for each section."""
    lines = []
    for stem, (title, body) in pages.items():
        for _, place, heading, text in Sections(body).found:
            lines.append(json.dumps([f"{stem}.html#{place}", title, " ".join(heading.split()), " ".join(text.split())],
                                    ensure_ascii=False))
    return "window.tesseraDocs = [\n" + ",\n".join(lines) + "\n];\n"


def write(path, content):
    """Only what changed: whoever depends on the file is made anew only then."""
    data = content if isinstance(content, bytes) else content.encode()
    if not path.exists() or path.read_bytes() != data:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--cli", required=True, type=pathlib.Path, help="the program tessera")
    arguments.add_argument("--descriptors", required=True, type=pathlib.Path, help="of proto/tessera/v1, with source info")
    arguments.add_argument("--out", required=True, type=pathlib.Path, help="the pages go to docs/, their style to web/")
    options = arguments.parse_args()

    api = api_reference.Api(options.descriptors.read_bytes(), (ROOT / "server/gateway/routes.cpp").read_text())
    bodies = {
        "cli": lambda introduction: cli_reference.render(options.cli, "tessera", introduction),
        "api": lambda introduction: api_reference.render(api, introduction),
        "python-reference": lambda introduction: python_reference.render(
            python_reference.Package(ROOT / "clients/python/tessera"), introduction),
    }
    pages = {}
    for stem in ORDER:
        title, body = page(stem)
        pages[stem] = (title, bodies[stem](body) if stem in bodies else body)
    titles = {stem: title for stem, (title, _) in pages.items()}
    template = (HERE / "page.html").read_text()
    for stem, (title, body) in pages.items():
        write(options.out / "docs" / f"{stem}.html", whole(template, stem, title, body, titles))
    write(options.out / "docs" / "search-index.js", index(pages))
    for name in ("docs.css", "docs.js"):
        write(options.out / "docs" / name, (HERE / name).read_text())
    for path in (HERE / "pages" / "pictures").glob("*.webp"):
        write(options.out / "docs" / path.name, path.read_bytes())
    for name in ("style.css", "icon.svg"):
        write(options.out / "web" / name, (ROOT / "clients/web" / name).read_text())


if __name__ == "__main__":
    main()
