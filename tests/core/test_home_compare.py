"""What of a home must be sent to make another like it."""
from gpufairy.core.home_compare import Difference, FileKind, FileSeen, compare


def a_file(path: str, size: int = 10, at: int = 1_000_000, **more) -> FileSeen:
    return FileSeen(path, FileKind.FILE, size, at, **more)


def difference(source: list[FileSeen], target: list[FileSeen]) -> Difference:
    return compare(source, {file.path: file for file in target})


def test_what_is_missing_is_sent_and_a_folder_is_made_before_what_is_in_it():
    found = difference([a_file("a/b/c"), FileSeen("a/b", FileKind.FOLDER), FileSeen("a", FileKind.FOLDER), FileSeen("l", FileKind.LINK, target="a")], [])
    assert [file.path for file in found.make] == ["a", "a/b", "l"]
    assert [file.path for file in found.send] == ["a/b/c"]


def test_the_same_size_and_time_is_the_same():
    assert difference([a_file("a")], [a_file("a")]) == Difference(same=1)
    assert difference([a_file("a", at=1_000_400)], [a_file("a", at=1_000_000)]).same == 1, "not every file system keeps nanoseconds"


def test_of_the_same_size_only_the_content_tells():
    assert [file.path for file in difference([a_file("a", at=9)], [a_file("a", at=9_000_000)]).doubt] == ["a"]


def test_what_somebody_worked_on_at_the_target_is_left_alone():
    found = difference([a_file("a", size=5, at=1), a_file("b", size=5, at=9)], [a_file("a", size=7, at=5), a_file("b", size=7, at=5)])
    assert (found.newer, [file.path for file in found.send]) == (("a",), ["b"])


def test_another_kind_under_the_same_name_is_not_replaced():
    assert difference([a_file("a")], [FileSeen("a", FileKind.FOLDER)]).blocked == ("a",)


def test_nothing_is_said_of_what_only_the_target_has():
    assert difference([], [a_file("mine")]) == Difference()
