#!/usr/bin/python3
"""Builds the documentation: converts pages/*.md, design/*.md and the generated references to static HTML without external
resources.

    build.py --cli build/release/bin/tessera --descriptors tessera.pb --out FOLDER
"""

import argparse
import functools
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
# Reading order. The bodies of the references are generated; every other page is pages/<stem>.md.
GROUPS = [
    ("Start", ["index", "tour", "concepts"]),
    ("Use", ["models", "state", "training", "tuning", "page", "python", "ci"]),
    ("Run", ["install", "operations"]),
    ("Extend", ["targets", "described-chips", "fpga", "dataflows", "dataflow-search", "operators"]),
    ("Reference", ["cli", "api", "python-reference"]),
]
# design/METHOD.md becomes design-METHOD.html: one flat folder of pages, so that links between them need no folders.
METHODS = "design-"
LINK = re.compile(r'<a href="([^"]*)">(.*?)</a>', re.DOTALL)
IMAGE = re.compile(r'<p><img alt="([^"]*)" src="([^"]*)" ?/?></p>')
TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
TITLE = re.compile(r"<h1[^>]*>(.*?)</h1>", re.DOTALL)
TAGS = re.compile(r"<[^>]+>")


def source(stem):
    """The Markdown file of a page."""
    return HERE / "design" / f"{stem.removeprefix(METHODS)}.md" if stem.startswith(METHODS) else HERE / "pages" / f"{stem}.md"


def groups():
    """(name, stems) of each group of pages. Every file of design/ is a page of the last group."""
    return GROUPS + [("Design", ["design", *sorted(METHODS + path.stem for path in (HERE / "design").glob("*.md"))])]


def link(folder, found):
    """Converts a link of a page in `folder`. A link to another page leads to its HTML. A link to any other file of the
    repository becomes the file's path as text, because a served page cannot show the file."""
    address, text = found.groups()
    if address.startswith(("http:", "https:", "#", "/")):
        return found[0]
    path, _, place = address.partition("#")
    file = (folder / path).resolve()
    if not file.exists():
        raise ValueError(f"a link to {address}: there is no {file}")
    if file.suffix == ".md" and file.parent in (HERE / "pages", HERE / "design"):
        stem = METHODS + file.stem if file.parent == HERE / "design" else file.stem
        return f'<a href="{stem}.html{"#" + place if place else ""}">{text}</a>'
    if not path.startswith("../"):
        raise ValueError(f"a link to {address}: pages link to pages (x.md) or to files of the repository (../../../x)")
    name = str(file.relative_to(ROOT))
    shown = f"<code>{name}</code>"
    return shown if TAGS.sub("", text) == name else f"{text} ({shown})"


def picture(folder, found):
    """Embeds an SVG in the page, so that it takes the page's light and dark colours. Other images stay files of their own."""
    says, path = found.groups()
    name = pathlib.PurePath(path)
    if name.suffix != ".svg":
        size = json.loads((HERE / "pages" / "pictures" / "pictures.json").read_text())[name.stem]
        return (f'<figure class="shot"><img src="{name.name}" alt="{says}" width="{size["width"]}" height="{size["height"]}" '
                f'loading="lazy"><figcaption>{says}</figcaption></figure>')
    svg = (folder / path).read_text()
    svg = re.sub(r"<\?xml.*?\?>|<!--.*?-->", "", svg, flags=re.DOTALL)
    return (f'<figure class="picture" tabindex="0" role="group" aria-label="{says}">'
            + re.sub(r"<svg ", '<svg aria-hidden="true" ', svg.strip(), count=1) + f"<figcaption>{says}</figcaption></figure>")


def page(stem):
    """(title, body) of a page's Markdown."""
    file = source(stem)
    body = markdown.markdown(file.read_text(), extensions=["tables", "fenced_code", "toc", "sane_lists"], output_format="html")
    body = IMAGE.sub(functools.partial(picture, file.parent), body)
    body = LINK.sub(functools.partial(link, file.parent), body)
    # Elements that can be wider than a phone's screen scroll on their own; tabindex makes them scrollable by keyboard.
    body = TABLE.sub(lambda table: f'<div class="scroll" tabindex="0">{table[0]}</div>', body)
    body = body.replace("<pre>", '<pre tabindex="0">')
    return TAGS.sub("", TITLE.search(body)[1]), body


class Sections(html.parser.HTMLParser):
    """The headings of a page with the text below each, for the table of contents and the search index."""

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


def methods(pages):
    """The list of the design pages, with the first sentence of each, that ends the page `design`."""
    items = []
    for stem, (title, body) in pages.items():
        if stem.startswith(METHODS):
            first = html.unescape(TAGS.sub("", re.search(r"<p>(.*?)</p>", body, re.DOTALL)[1]))
            first = " ".join(re.split(r"(?<=[.!?])\s", first, maxsplit=1)[0].split())
            items.append(f'<li><a href="{stem}.html">{html.escape(title)}</a>: {html.escape(first)}</li>')
    return f'<h2 id="methods">Methods</h2><ul>{"".join(items)}</ul>'


def whole(template, stem, title, body, titles):
    """A complete HTML page: the template around a body, with the lists of pages and sections."""
    shown, here = [], ' aria-current="page"'
    for name, stems in groups():
        # The design pages are many: the navigation lists them only on pages of their group.
        listed = stems if stem in stems else [each for each in stems if not each.startswith(METHODS)]
        items = "".join(f'<li><a href="{each}.html"{here if each == stem else ""}>{html.escape(titles[each])}</a></li>'
                        for each in listed)
        shown.append(f'<p class="label">{name}</p><ul>{items}</ul>')
    order = list(titles)
    at = order.index(stem)
    near = []
    if at > 0:
        near.append(f'<a rel="prev" href="{order[at - 1]}.html">← {html.escape(titles[order[at - 1]])}</a>')
    if at + 1 < len(order):
        near.append(f'<a rel="next" href="{order[at + 1]}.html">{html.escape(titles[order[at + 1]])} →</a>')
    head, rest = body.split("</h1>", 1)
    body = head + "</h1>" + contents(Sections(body).found) + rest
    for name, text in (("TITLE", html.escape(title)), ("PAGES", "".join(shown)), ("BODY", body), ("NEAR", "".join(near))):
        template = template.replace(f"<!--{name}-->", text)
    return template


def index(pages):
    """The search index: one line for each section."""
    lines = []
    for stem, (title, body) in pages.items():
        for _, place, heading, text in Sections(body).found:
            lines.append(json.dumps([f"{stem}.html#{place}", title, " ".join(heading.split()), " ".join(text.split())],
                                    ensure_ascii=False))
    return "window.tesseraDocs = [\n" + ",\n".join(lines) + "\n];\n"


def write(path, content):
    """Leaves an unchanged file untouched, so that the build does not remake the files that depend on it."""
    data = content if isinstance(content, bytes) else content.encode()
    if not path.exists() or path.read_bytes() != data:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--cli", required=True, type=pathlib.Path, help="the built program tessera")
    arguments.add_argument("--descriptors", required=True, type=pathlib.Path, help="descriptor set of proto/tessera/v1, with source info")
    arguments.add_argument("--out", required=True, type=pathlib.Path, help="output folder: pages go to docs/, the style sheet to web/")
    options = arguments.parse_args()

    api = api_reference.Api(options.descriptors.read_bytes(), (ROOT / "server/gateway/routes.cpp").read_text())
    bodies = {
        "cli": lambda introduction: cli_reference.render(options.cli, "tessera", introduction),
        "api": lambda introduction: api_reference.render(api, introduction),
        "python-reference": lambda introduction: python_reference.render(
            python_reference.Package(ROOT / "clients/python/tessera"), introduction),
    }
    pages = {}
    for stem in (stem for _, stems in groups() for stem in stems):
        title, body = page(stem)
        pages[stem] = (title, bodies[stem](body) if stem in bodies else body)
    title, body = pages["design"]
    pages["design"] = (title, body + methods(pages))
    titles = {stem: title for stem, (title, _) in pages.items()}
    template = (HERE / "page.html").read_text()
    for left in set((options.out / "docs").glob("*.html")) - {options.out / "docs" / f"{stem}.html" for stem in pages}:
        left.unlink()  # of a page that is gone
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
