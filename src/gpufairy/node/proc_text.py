"""Text that strangers chose (names and command lines of processes, names of containers), made fit for one line of a page or a metric."""


def printable(text: bytes | str, most: int) -> str:
    """Bytes that are no UTF-8 become the replacement mark; control characters, line breaks and marks that turn text around become `?`."""
    read = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    cut = read if len(read) <= most else read[: most - 1] + "…"
    return cut if cut.isprintable() else "".join(character if character.isprintable() else "?" for character in cut)
