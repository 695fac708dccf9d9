"""Small pieces of HTML: everything that is said in them is escaped. Pure."""

from collections.abc import Iterable, Sequence
from html import escape

__all__ = ["Markup", "element", "join", "table", "text"]


class Markup(str):
    """HTML that is ready; any other string is text, and is escaped."""

    __slots__ = ()


def text(value: object) -> Markup:
    """Write a value as text; what is HTML already stays as it is.

    Example:
        >>> text("a < b")
        'a &lt; b'
    """
    return value if isinstance(value, Markup) else Markup(escape(_visible(str(value))))


def _visible(said: str) -> str:
    """Show what would turn the direction of a line, and drop what no page may hold."""
    kept = (c if c.isprintable() or c in "\n\t" or c.isspace() else "\ufffd" for c in said)
    return "".join(kept)


def join(pieces: Iterable[object]) -> Markup:
    """Put pieces one after the other."""
    return Markup("".join(text(piece) for piece in pieces))


def element(name: str, *inside: object, **attributes: object) -> Markup:
    """Write an element.

    Args:
        name: Of the element.
        *inside: Texts and elements.
        **attributes: Those that are None are left out; `_` at the end of a name is for Python.

    Example:
        >>> element("p", "1 < 2 ", element("b", "!"), class_="x")
        '<p class="x">1 &lt; 2 <b>!</b></p>'
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{given}>{join(inside)}</{name}>")


def table(heads: Sequence[str], rows: Iterable[Sequence[object]], *, numbers: int = 0) -> Markup:
    """Write a table.

    Args:
        heads: Of the columns.
        rows: Of texts and elements.
        numbers: The last so many columns are numbers.
    """
    first = len(heads) - numbers

    def kind(place: int) -> str | None:
        return "number" if place >= first else None

    head = [element("th", each, scope="col", class_=kind(n)) for n, each in enumerate(heads)]
    body = [
        element("tr", *(element("td", each, class_=kind(n)) for n, each in enumerate(row)))
        for row in rows
    ]
    whole = element("table", element("thead", element("tr", *head)), element("tbody", *body))
    return element("div", whole, class_="wide")
