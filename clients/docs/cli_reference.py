"""Generates the reference of a command line from CLI11's --help of the program and each of its commands."""

import dataclasses
import html
import re
import subprocess

NOTE = re.compile(r"^ *\[(.*)\]$")
SECTION = re.compile(r"^( *)(\w[\w ]*):$")
ENTRY = re.compile(r"^(\S+(?: \S+)*)( {2,}(\S.*))?$")  # the text is in a column of its own


@dataclasses.dataclass
class Entry:
    """An option, positional argument or subcommand: its syntax and its help text."""
    name: str
    text: str

    @property
    def flags(self):
        """The option's names: "--filter", "-o"."""
        return set(re.findall(r"(?<![\w-])(--?[\w][\w-]*)", self.name.split(" ")[0]))


@dataclasses.dataclass
class Command:
    """One command: its words, its description, its sections of entries."""
    words: tuple
    summary: str
    usage: str
    sections: dict

    @property
    def name(self):
        return " ".join(self.words)

    @property
    def flags(self):
        return {flag for entries in self.sections.values() for entry in entries for flag in entry.flags}


def parse(words, text):
    """Parses the text of a command's --help."""
    lines = text.splitlines()
    usage = next(index for index, line in enumerate(lines) if line.startswith("Usage: "))
    sections, entries, indent, note = {}, [], 2, ""
    for line in lines[usage + 1:]:
        if found := NOTE.match(line):  # an option group starts with its name and the number of required options
            note = "" if found[1].startswith("Option Group") else f" ({found[1]})"
        elif found := SECTION.match(line):
            entries = sections.setdefault(found[2] + note, [])
            indent = len(found[1]) + 2
        elif found := ENTRY.match(line[indent:]) if line[:indent].isspace() else None:
            entries.append(Entry(found[1], found[3] or ""))
        elif line[:indent].isspace() and line.strip():  # after a long name the text starts on the next line
            entries[-1].text = f"{entries[-1].text} {line.strip()}".strip()
        elif line.strip():
            break  # the footer
    return Command(words, " ".join(line.strip() for line in lines[:usage]).strip(), lines[usage][len("Usage: "):], sections)


def help_of(program, words):
    done = subprocess.run([program, *words[1:], "--help"], capture_output=True, text=True, check=True)
    return done.stdout


def commands(program, name):
    """The program and all its commands, in the order of their help."""
    found, ahead = [], [(name,)]
    while ahead:
        words = ahead.pop(0)
        command = parse(words, help_of(program, words))
        found.append(command)
        below = command.sections.get("Subcommands", [])
        ahead = [words + (entry.name.split(" ")[0],) for entry in below] + ahead
    return found


def anchor(words):
    return "-".join(words)


def entries_html(entries):
    rows = "".join(f"<dt><code>{html.escape(entry.name)}</code></dt><dd>{html.escape(entry.text)}</dd>\n" for entry in entries)
    return f'<dl class="entries">\n{rows}</dl>\n'


def render(program, name, introduction):
    """The body of the page."""
    found = commands(program, name)
    parts = [introduction]
    for command in found:
        parts.append(f'<h2 id="{anchor(command.words)}"><code>{html.escape(command.name)}</code></h2>\n'
                     f"<p>{html.escape(command.summary)}</p>\n"
                     f'<pre tabindex="0"><code>{html.escape(command.usage)}</code></pre>\n')
        for title, entries in command.sections.items():
            if title == "Subcommands":
                links = "".join(
                    f'<dt><a href="#{anchor(command.words + (entry.name,))}"><code>{html.escape(entry.name)}</code></a></dt>'
                    f"<dd>{html.escape(entry.text)}</dd>\n" for entry in entries)
                parts.append(f'<dl class="entries">\n{links}</dl>\n')
                continue
            shown = [entry for entry in entries if "--help" not in entry.flags]
            if shown:
                parts.append(f'<p class="label">{html.escape(title)}</p>\n{entries_html(shown)}')
    return "".join(parts)
