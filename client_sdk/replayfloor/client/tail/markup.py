"""HTML and SVG elements, escaped: text becomes markup in one place only. Pure."""

from __future__ import annotations

import html

from replayfloor.client.tail.words import plain


class Markup(str):
    """Text that is markup already. Only this module and the page's own constants make any."""

    __slots__ = ()


def escape(text: str) -> Markup:
    """Return text as markup that shows it, whatever is in it."""
    return text if isinstance(text, Markup) else Markup(html.escape(plain(text)))


def join(*parts: str) -> Markup:
    """Return the parts one after the other, each escaped unless it is markup."""
    return Markup("".join(map(escape, parts)))


def element(name: str, *children: str, **attributes: str | float) -> Markup:
    """Return an element with its children, each escaped unless it is markup.

    An attribute's name may end in `_` where Python has a word of its own, and has `_` for `-`.
    """
    told = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for key, value in attributes.items()
    )
    return Markup(f"<{name}{told}>{join(*children)}</{name}>")


def _value(value: str | float) -> str:
    # A tenth of a pixel is finer than any screen.
    return escape(value) if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")
