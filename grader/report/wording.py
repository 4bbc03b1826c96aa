"""Words and numbers as every report writes them."""

from __future__ import annotations


def plain(text: str) -> str:
    r"""``text`` with control characters escaped (ESC becomes ``\x1b``); newlines stay, tabs widen."""
    return "".join(
        character if character.isprintable() or character == "\n" else _escaped(character)
        for character in text.expandtabs(4)
    )


def points(value: float) -> str:
    """Points without needless decimals: 100, 12.5, 0.25."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
