"""Lists as tables: rows are items with attributes, columns are lists of values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar, overload

from tessera import _html

T = TypeVar("T")
_SHOWN = 50  # rows in a repr


class Table(Sequence[T], Generic[T]):
    """A list of items with columns: ``table[0]`` is an item, ``table["median_ms"]`` a column."""

    def __init__(self, items: Sequence[T], columns: Mapping[str, Callable[[T], Any]], next_page_token: str = "") -> None:
        self._items = tuple(items)
        self._columns = dict(columns)
        self.next_page_token = next_page_token  #: token for the next page; empty at the end of the list

    @property
    def columns(self) -> dict[str, list[Any]]:
        """All columns by name, as accepted by ``pandas.DataFrame(...)``."""
        return {name: self[name] for name in self._columns}

    @overload
    def __getitem__(self, key: str) -> list[Any]: ...
    @overload
    def __getitem__(self, key: int) -> T: ...
    @overload
    def __getitem__(self, key: slice) -> Table[T]: ...

    def __getitem__(self, key: str | int | slice) -> Any:
        if isinstance(key, str):
            if key not in self._columns:
                raise KeyError(f"no column '{key}'; there are {', '.join(self._columns)}")
            return [self._columns[key](item) for item in self._items]
        if isinstance(key, slice):
            return Table(self._items[key], self._columns)
        return self._items[key]

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[T]:
        return iter(self._items)

    def rows(self) -> list[dict[str, Any]]:
        """Each item as a dictionary of its columns."""
        return [{name: read(item) for name, read in self._columns.items()} for item in self._items]

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame``; ImportError without pandas."""
        import pandas

        return pandas.DataFrame(self.columns)

    def __repr__(self) -> str:
        names = list(self._columns)
        rows = [[_html.text_of(self._columns[name](item)) for name in names] for item in self._items[:_SHOWN]]
        widths = [max(len(name), *(len(row[i]) for row in rows), 0) if rows else len(name)
                  for i, name in enumerate(names)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in [names, *rows]]
        return "\n".join([*lines, self._note()])

    def _repr_html_(self) -> str:
        rows = [[read(item) for read in self._columns.values()] for item in self._items[:_SHOWN]]
        return _html.table(list(self._columns), rows, self._note())

    def _note(self) -> str:
        left_out = f", the first {_SHOWN} shown" if len(self) > _SHOWN else ""
        more = ", more on the service" if self.next_page_token else ""
        return f"{len(self)} row{'' if len(self) == 1 else 's'}{left_out}{more}"
