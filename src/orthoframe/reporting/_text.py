"""Names that users give, as a picture can show them."""


def plain(name: int | str, longest: int = 18) -> str:
    """A name without the signs that matplotlib takes for mathematics, and not too long for an axis."""
    text = str(name)
    text = text if len(text) <= longest else text[: longest - 1] + "…"
    return text.replace("$", r"\$")
