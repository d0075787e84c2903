"""HTML with automatic escaping: all text except ``Markup`` is escaped, so no text from a file becomes a tag."""

import html
from collections.abc import Iterable, Sequence


class Markup(str):
    """Text that is HTML. Use it only for text that this package writes itself."""


def escaped(value: object) -> Markup:
    """Return ``value`` as markup: unchanged if it is ``Markup``, else escaped."""
    if isinstance(value, Markup):
        return value
    return Markup(html.escape(printable(value)))


def printable(value: object) -> str:
    """Return ``value`` as text in which other characters than printable ones and line breaks are replaced."""
    whole = str(value).encode("utf-8", "replace").decode()  # JSON and file names may hold lone surrogates
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in whole)


def element(tag: str, *parts: object, **attributes: object) -> Markup:
    """Return a tag around its parts; parts that are None are left out. ``class_`` is written ``class``."""
    words = "".join(f' {name.rstrip("_").replace("_", "-")}="{escaped(value)}"' for name, value in attributes.items())
    if tag == "img":  # has no content
        return Markup(f"<{tag}{words}>")
    return Markup(f"<{tag}{words}>{''.join(escaped(part) for part in parts if part is not None)}</{tag}>")


def table(head: Iterable[object], rows: Iterable[Sequence[object]]) -> Markup:
    """Return a table that scrolls if it is wider than the screen. The first cell of a row is its header."""
    top = element("thead", element("tr", *(element("th", name, scope="col") for name in head)))
    body = [element("tr", element("th", row[0], scope="row"), *(element("td", it) for it in row[1:])) for row in rows]
    return element("div", element("table", top, element("tbody", *body)), class_="scroll")
