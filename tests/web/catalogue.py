"""The Korean catalogue of the pages: what they say, found in their source; `python tests/web/catalogue.py` adds what is new and compiles it."""
import io
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

WEB = Path(__file__).parents[2] / "src" / "gpufairy" / "web"
PO, MO, SENTENCES = (WEB / "catalogues" / name for name in ("ko.po", "ko.mo", "sentences.txt"))
METHODS = [("**.py", "python"), ("templates/**.html", "jinja2")]
KEYWORDS = {"_": None, "gettext": None, "ngettext": (1, 2)}
CONTEXT = "sentence"


def said() -> Catalog:
    """All that pages say, and the sentences of core that they show."""
    catalogue = Catalog(locale="ko", charset="utf-8")
    for file, line, message, _, _ in extract_from_dir(WEB, METHODS, keywords=KEYWORDS):
        catalogue.add(message, locations=[(Path(file).as_posix(), line)])
    for sentence in SENTENCES.read_text().splitlines():
        if sentence and not sentence.startswith("#"):
            catalogue.add(sentence, context=CONTEXT)
    return catalogue


def written() -> Catalog:
    with PO.open("rb") as stream:
        return read_po(stream, locale="ko")


def compiled(catalogue: Catalog) -> bytes:
    packed = io.BytesIO()
    write_mo(packed, catalogue)
    return packed.getvalue()


def main() -> None:
    catalogue = said()
    if PO.exists():
        for known in written():
            if known.id and (known.id in catalogue or catalogue.get(known.id, known.context)):
                message = catalogue.get(known.id, known.context)
                if message is not None:
                    message.string = known.string
    catalogue.header_comment = "# What the pages say, in Korean."
    with PO.open("wb") as stream:
        write_po(stream, catalogue, width=0, sort_output=True, omit_header=False, no_location=True)
    MO.write_bytes(compiled(written()))
    missing = [message.id for message in written() if message.id and not all(strings_of(message))]
    print(f"{len(catalogue)} messages, {len(missing)} without a translation")


def strings_of(message) -> list[str]:
    return list(message.string) if isinstance(message.string, tuple | list) else [message.string]


if __name__ == "__main__":
    main()
