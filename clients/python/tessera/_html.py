"""Tables for notebooks."""

from __future__ import annotations

import html
import datetime
from collections.abc import Iterable, Sequence
from typing import Any

_LONGEST = 44  # characters in a cell


def text_of(value: Any) -> str:
    """Formats a cell; long values are cut."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, datetime.datetime):
        return value.astimezone().isoformat(" ", "seconds")
    text = "" if value is None else str(value)
    return text if len(text) <= _LONGEST else text[:_LONGEST - 3] + "..."


def table(header: Sequence[str], rows: Iterable[Sequence[Any]], note: str = "") -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(text_of(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    tail = f"<p>{html.escape(note)}</p>" if note else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{tail}"


def fields(title: str, values: dict[str, Any]) -> str:
    """Formats a heading with named values; empty values are omitted."""
    rows = "".join(f"<tr><th>{html.escape(name)}</th><td>{html.escape(str(value))}</td></tr>"
                   for name, value in values.items() if value not in ("", None, [], ()))
    return f"<p><b>{html.escape(title)}</b></p><table><tbody>{rows}</tbody></table>"
