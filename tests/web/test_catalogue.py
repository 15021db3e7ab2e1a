"""The pages in Korean: nothing that they say is missing, and what stands in braces is the same in both tongues."""
import re

from catalogue import MO, WEB, compiled, said, strings_of, written

HOLES = re.compile(r"%\([a-z_]+\)[sd]|\{[a-z_]+\}")


def test_all_that_pages_say_is_there_in_korean():
    there = written()
    missing = [message.id for message in said() if message.id and not has(there, message)]
    assert not missing, f"run `python tests/web/catalogue.py`, then translate in ko.po: {missing[:10]}"


def test_no_words_stand_within_a_text_where_the_catalogue_does_not_find_them():
    hidden = re.compile(r"\{(?:_|ngettext)\(")
    assert [file.name for file in WEB.glob("*.py") if hidden.search(file.read_text())] == []


def test_what_changes_in_a_sentence_changes_in_korean_too():
    for message in written():
        if message.id:
            english = message.id[-1] if isinstance(message.id, tuple | list) else message.id
            for korean in strings_of(message):
                assert set(HOLES.findall(korean)) == set(HOLES.findall(english)), message.id


def test_the_compiled_catalogue_is_that_of_the_text():
    assert MO.read_bytes() == compiled(written()), "run `python tests/web/catalogue.py`"


def has(there, message) -> bool:
    found = there.get(message.id, message.context)
    return found is not None and all(strings_of(found))
