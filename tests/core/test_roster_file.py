"""A roster of any bytes is read or its faults are told by line; what schools export is found out without being asked."""
import csv
import io
import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from builders import NOW
from gpufairy.core.classes import Known, Member, Standing, fault_words, plan_roster
from gpufairy.core.names import USER_NAME
from gpufairy.core.people import Role, User
from gpufairy.core.roster_file import BEFORE_FIGURES, LARGEST_FILE, Fault, Student, read_roster

EXPORT = "2026-2학기 수강생 명단\n\n순번,학번,성명,전자우편\n1,20231234,김철수,kim@lab.ac.kr\n2,20231235,이영희,\n"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl kim@laptop"
NOBODY = Known({}, (), {}, frozenset(), {})


def a_file(*lines: str, encoding: str = "utf-8") -> bytes:
    return "\n".join(lines).encode(encoding)


@given(st.one_of(st.binary(max_size=2000), st.text(max_size=800).map(lambda text: text.encode("utf-16"))))
@example(b"login\n\0")
@example(b'login\n"' + b"a" * 200_000)
@example(b"login,key\nkim,ssh-ed25519 AAAA")
@example("학번\n２０２３\n".encode())
@example(b"\xff\xfe\x00")
def test_any_bytes_are_read_or_refused_in_words_and_never_crash(data):
    found = read_roster(data)
    assert found.students or found.faults
    assert all(fault.words and fault.words.isprintable() for fault in found.faults)
    assert all(USER_NAME.fullmatch(student.login) for student in found.students)
    logins = [student.login for student in found.students]
    assert len(set(logins)) == len(logins)


NAMES = st.text(string.ascii_letters + "가나다라마바사김이박최,;\"' ", max_size=20)


@given(
    st.lists(st.tuples(st.from_regex(r"[a-z][a-z0-9_-]{0,20}", fullmatch=True), NAMES), min_size=1, max_size=20, unique_by=lambda row: row[0]),
    st.sampled_from([",", ";", "\t", "|"]),
    st.sampled_from(["utf-8", "utf-8-sig", "cp949", "utf-16"]),
)
def test_what_was_written_is_what_is_read_whatever_the_encoding_and_the_delimiter(rows, delimiter, encoding):
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter).writerows([("학번", "이름"), *rows])
    found = read_roster(out.getvalue().encode(encoding))
    assert found.faults == ()
    assert [student.login for student in found.students] == [login for login, _ in rows]
    assert [student.name for student in found.students] == [name.strip() for _, name in rows]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp949", "euc-kr", "utf-16", "utf-16-le", "utf-16-be"])
def test_a_list_as_a_korean_school_exports_it_is_read_in_every_encoding(encoding):
    found = read_roster(EXPORT.encode(encoding))
    assert found.students == (Student(4, "s20231234", "김철수", "kim@lab.ac.kr"), Student(5, "s20231235", "이영희"))
    assert found.columns == ("login", "name", "email")


@pytest.mark.parametrize("head", ["Login,Name,E-Mail", "ID ,full name,email address", "학번;이름;이메일", "아이디\t성명\t메일", "user_id|Student Name|mail"])
def test_columns_are_found_by_their_names_in_two_tongues(head):
    delimiter = next(letter for letter in ",;\t|" if letter in head)
    found = read_roster(a_file(head, delimiter.join(("kim", "Kim", "kim@lab.org"))))
    assert found.students == (Student(2, "kim", "Kim", "kim@lab.org"),)


def test_without_a_login_the_address_gives_one():
    assert read_roster(a_file("name,email", "Kim,Kim.C@lab.org")).faults == (Fault(2, "login: 'Kim.C' is no user name (up to 31 of a-z, 0-9, _ and -)"),)
    assert [one.login for one in read_roster(a_file("name,email", "Kim,Kim-C@lab.org")).students] == ["kim-c"]


def test_a_student_number_gets_a_letter_before_it_and_a_spreadsheets_point_goes():
    found = read_roster(a_file("학번", "20231234.0", "2023 1235"))
    assert [student.login for student in found.students] == [f"{BEFORE_FIGURES}20231234"]
    assert found.faults[0].line == 3


def test_each_fault_is_told_by_its_line():
    found = read_roster(a_file("login,name,email,ssh key", "kim,Kim,,", "KIM,Other,,", ",Nobody,,", "lee,Lee,no-address,", "park,Park,,ssh-rsa junk", f"a,A,,{KEY}", f"b,B,,{KEY}"))
    assert [fault.line for fault in found.faults] == [3, 4, 5, 6, 8]
    assert "login kim stands in line 2 already" in fault_words(found.faults)
    assert "this SSH key stands in line 7 already" in fault_words(found.faults)
    assert [student.login for student in found.students] == ["kim", "a"]


def test_a_file_that_is_no_roster_says_what_a_roster_is():
    assert "no line names the columns" in read_roster(b"hello\nworld\n").faults[0].words
    assert "larger than" in read_roster(b"x" * (LARGEST_FILE + 1)).faults[0].words
    assert "nobody stands below" in read_roster(b"login,name\n").faults[0].words
    assert "in no encoding" in read_roster(b"login\n\xff\xff\xff\xff").faults[0].words


def a_user(name, role=Role.USER, team=None):
    return User(name, role, NOW, team=team)


def planned(*logins, known=NOBODY, take_users=False):
    return plan_roster("cs", read_roster(a_file("login", *logins)), known, take_users=take_users)


def test_a_login_that_is_somebody_elses_is_refused_by_its_line():
    known = Known({"root": a_user("root", Role.ADMIN), "ann": a_user("ann")}, (), {"bob": "cs101"}, frozenset(), {})
    plan = planned("root", "ann", "bob", "cho", known=known)
    assert [fault.line for fault in plan.faults] == [2, 3, 4]
    assert "is an admin here" in plan.faults[0].words
    assert "--take-users" in plan.faults[1].words
    assert "nobody is in two classes" in plan.faults[2].words


def test_a_user_of_their_own_may_take_part_and_gets_their_team_back():
    [ann] = planned("ann", known=Known({"ann": a_user("ann", team="nlp")}, (), {}, frozenset(), {}), take_users=True).joined
    assert (ann.made_here, ann.team_before) == (False, "nlp")


def test_a_roster_applied_again_adds_the_new_and_names_the_missing():
    there = [Member("cs", "ann", standing=Standing.IN), Member("cs", "bob", standing=Standing.IN), Member("cs", "cho", standing=Standing.LEFT)]
    users = {member.user: a_user(member.user, team="cs") for member in there}
    plan = planned("ann", "cho", "dan", known=Known(users, there, {}, frozenset(users), {}))
    assert [member.user for member in plan.added] == ["dan"]
    assert [member.user for member in plan.back] == ["cho"]
    assert [member.user for member in plan.same] == ["ann"]
    assert [member.user for member in plan.missing] == ["bob"]


@given(st.sets(st.sampled_from("abcdefgh")), st.sets(st.sampled_from("abcdefgh")))
def test_a_roster_applied_twice_changes_nothing_the_second_time(before, after):
    there = [Member("cs", user, standing=Standing.IN) for user in sorted(before)]
    users = {user: a_user(user, team="cs") for user in before | after}
    plan = planned(*sorted(after), known=Known(users, there, {}, frozenset(users), {}))
    assert {member.user for member in plan.members} == after
    assert {member.user for member in plan.missing} == (before - after if after else before)
    again = planned(*sorted(after), known=Known(users, plan.members, {}, frozenset(users), {}))
    assert (again.added, again.back, again.joined) == ((), (), ())
