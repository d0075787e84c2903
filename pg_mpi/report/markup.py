"""HTML that is escaped unless it says that it is markup already: no text from a file can become a tag."""

import html


class Markup(str):
    """Text that is HTML. Nothing else may become one than what this package writes itself."""


def escaped(value):
    """``value`` as markup: itself if it is, its text without any meaning to a browser if it is not."""
    if isinstance(value, Markup):
        return value
    whole = str(value).encode("utf-8", "replace").decode()  # JSON and file names may hold half characters
    return Markup(
        html.escape("".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in whole))
    )


def join(parts, between=""):
    """Parts after each other, those that are None left out."""
    return Markup(escaped(between).join(escaped(part) for part in parts if part is not None))


def element(tag, *parts, **attributes):
    """A tag around its parts. ``class_`` is written ``class``; attributes that are None are left out."""
    named = ((name.rstrip("_").replace("_", "-"), value) for name, value in attributes.items() if value is not None)
    words = "".join(f' {name}="{escaped(value)}"' for name, value in named)
    return Markup(f"<{tag}{words}>{join(parts)}</{tag}>")


def table(head, rows, **attributes):
    """A table that scrolls on its own where it is wider than the screen. The first cell of a row is its header.

    Args:
        rows: lists of cells; a cell may be markup of a whole ``td``, as ``cell`` makes it.
    """
    top = element("thead", element("tr", *(element("th", name, scope="col") for name in head)))
    body = [
        element("tr", element("th", row[0], scope="row"), *(each if is_cell(each) else cell(each) for each in row[1:]))
        for row in rows
    ]
    return element("div", element("table", top, element("tbody", *body), **attributes), class_="scroll")


class Cell(Markup):
    """A whole ``td``."""


def cell(value, **attributes):
    """One cell of a table."""
    return Cell(element("td", value, **attributes))


def is_cell(value):
    """True for what ``cell`` made."""
    return isinstance(value, Cell)
