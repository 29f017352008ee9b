"""What others say, in one line that a terminal takes as text."""

_LONGEST = 160


def one_line(text: str, longest: int = _LONGEST) -> str:
    """Return ``text`` without line breaks and without what a terminal would obey."""
    words = " ".join(text.split())
    plain = "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in words)
    return plain if len(plain) <= longest else f"{plain[: longest - 3]}..."
