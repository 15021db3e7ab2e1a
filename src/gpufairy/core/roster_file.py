"""Roster file: a class list as schools export it, read into students. Whatever bytes come, what is wrong is told by its line, never raised.

Columns are found by their names, in English or Korean; lines above them, which exports put there, are passed over.
"""
import codecs
import csv
import io
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from gpufairy.core.amounts import shown
from gpufairy.core.errors import BadInput
from gpufairy.core.names import USER_NAME
from gpufairy.core.ssh_key import parse_key

LARGEST_FILE = 512 * 1024  # bytes: a thousand students with keys are 600 of them each
MOST_STUDENTS = 2000
MOST_FAULTS = 200  # told: who has more of them has the wrong file
HEADER_WITHIN = 20  # lines, of titles and dates above it
LONGEST_NAME, LONGEST_MAIL = 100, 254
DELIMITERS = ",;\t|"
BEFORE_FIGURES = "s"  # user names begin with a letter: 20231234 comes in as s20231234
SOME_DAY = datetime(1970, 1, 1, tzinfo=UTC)  # keys are only looked at here

# By what each column is known, the surest first: a file may have a student number and a login beside it.
COLUMNS: Mapping[str, Sequence[str]] = {
    "login": (
        "login", "username", "userid", "user", "account", "아이디", "사용자아이디", "로그인", "계정", "사용자", "id", "studentid",
        "studentnumber", "studentno", "학번", "학생번호",
    ),
    "name": ("name", "fullname", "studentname", "이름", "성명", "학생명", "학생이름", "성함"),
    "email": ("email", "mail", "emailaddress", "이메일", "이메일주소", "메일", "메일주소", "전자우편"),
    "key": ("sshkey", "sshpublickey", "publickey", "key", "ssh키", "ssh공개키", "공개키"),
}  # fmt: skip
MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_MAIL = re.compile(r"[^@\s]{1,64}@[^@\s]{1,189}")
_WHOLE_AS_FLOAT = re.compile(r"([0-9]{1,20})\.0")  # what spreadsheets make of a student number


@dataclass(frozen=True, slots=True)
class Student:
    line: int
    login: str
    name: str = ""
    email: str = ""
    key: str = ""  # a public SSH key as it stood there


@dataclass(frozen=True, slots=True)
class Fault:
    line: int  # 0: of the file as a whole
    words: str


@dataclass(frozen=True, slots=True)
class RosterFile:
    students: tuple[Student, ...] = ()
    faults: tuple[Fault, ...] = ()
    encoding: str = ""
    delimiter: str = ""
    columns: tuple[str, ...] = ()  # those that were found


def read_roster(data: bytes) -> RosterFile:
    if len(data) > LARGEST_FILE:
        return _refused(f"the file is larger than {LARGEST_FILE // 1024} KiB: is it the roster?")
    encoding, text = decoded(data)
    if text is None:
        return _refused("the file is in no encoding that is known here: save it as CSV in UTF-8")
    for delimiter in delimiters_of(text):
        rows = list(rows_of(text, delimiter))
        found = next(((place, columns) for place, (_, row) in enumerate(rows[:HEADER_WITHIN]) if (columns := columns_of(row))), None)
        if found is not None:
            students, faults = _students(rows[found[0] + 1 :], found[1])
            return RosterFile(tuple(students), tuple(faults[:MOST_FAULTS]), encoding, delimiter, tuple(found[1]))
    return _refused("no line names the columns: one must be called login, id or 학번 (or email), others may be name, email and ssh key")


def _refused(words: str) -> RosterFile:
    return RosterFile(faults=(Fault(0, words),))


def decoded(data: bytes) -> tuple[str, str | None]:
    """The encoding, and the text; None: in none that we know. CP949 holds all of EUC-KR."""
    for mark, encoding in MARKS:
        if data.startswith(mark):
            return encoding, _tried(data[len(mark) :], encoding)
    if b"\0" in data:
        even, odd = data[::2].count(0), data[1::2].count(0)
        encoding = "utf-16-le" if odd >= even else "utf-16-be"
        return encoding, _tried(data, encoding)
    for encoding in ("utf-8", "cp949"):
        if (text := _tried(data, encoding)) is not None:
            return encoding, text
    return "", None


def _tried(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        return None


def delimiters_of(text: str) -> list[str]:
    """The likeliest first: what parts the lines at the top."""
    top = text[:4096]
    return sorted(DELIMITERS, key=lambda delimiter: -top.count(delimiter))


def rows_of(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """With the number of the line that each begins on. What no CSV can be ends there, and is told as a row of its own."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True)
    line = 1
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield line, [f"\0{error}"]
            return
        if any(cell.strip() for cell in row):
            yield line, [_clean(cell) for cell in row]
        line = reader.line_num + 1


def _clean(cell: str) -> str:
    return unicodedata.normalize("NFKC", cell).strip().strip("\ufeff").strip()


def columns_of(row: Sequence[str]) -> dict[str, int] | None:
    """Which column stands where; None: this line does not name them."""
    words = [re.sub(r"[\s_.()\[\]*#-]", "", cell.casefold()) for cell in row]
    found = {column: words.index(word) for column, known in COLUMNS.items() if (word := next((w for w in known if w in words), None))}
    return found if "login" in found or ("email" in found and len(found) > 1) else None


def _students(rows: Sequence[tuple[int, list[str]]], columns: Mapping[str, int]) -> tuple[list[Student], list[Fault]]:
    students: list[Student] = []
    faults: list[Fault] = []
    seen: dict[str, int] = {}  # logins and keys, by the line that has them
    for line, row in rows:
        if row[0].startswith("\0"):
            faults.append(Fault(line, f"the file cannot be read from here on: {row[0][1:]}"))
            continue
        try:
            student = _student(line, {column: row[place] for column, place in columns.items() if place < len(row)})
            _check_new(student, seen)
        except BadInput as error:
            faults.append(Fault(line, error.detail))
            continue
        students.append(student)
    if len(students) > MOST_STUDENTS:
        faults.append(Fault(0, f"{len(students):,} students; one class has at most {MOST_STUDENTS:,}"))
    if not students and not faults:
        faults.append(Fault(0, "nobody stands below the line that names the columns"))
    return students, faults


def _student(line: int, cells: Mapping[str, str]) -> Student:
    email, key = cells.get("email", ""), cells.get("key", "")
    login = login_of(cells["login"] if "login" in cells else email.partition("@")[0])
    name = "".join(letter for letter in cells.get("name", "") if letter.isprintable())
    if len(name) > LONGEST_NAME:
        raise BadInput(f"name: longer than {LONGEST_NAME} letters")
    if email and (len(email) > LONGEST_MAIL or not email.isprintable() or _MAIL.fullmatch(email) is None):
        raise BadInput(f"email: {shown(email)} is no address")
    if key:
        parse_key(key, login, SOME_DAY)
    return Student(line, login, name, email, key)


def login_of(text: str) -> str:
    """As user names are here: small letters, and a letter first. Of an address, what stands before the @."""
    whole = _WHOLE_AS_FLOAT.fullmatch(text)
    login = (whole[1] if whole else text).partition("@")[0].strip().lower()
    if not login:
        raise BadInput("login: none given")
    login = f"{BEFORE_FIGURES}{login}" if login[0].isdecimal() else login
    if USER_NAME.fullmatch(login) is None:
        raise BadInput(f"login: {shown(text)} is no user name (up to 31 of a-z, 0-9, _ and -)")
    return login


def _check_new(student: Student, seen: dict[str, int]) -> None:
    """A login or a key that stands there twice is told by the line that has it already."""
    marks = {f"login {student.login}": student.login}
    if student.key:
        marks["this SSH key"] = parse_key(student.key, student.login, SOME_DAY).fingerprint
    for words, mark in marks.items():
        if mark in seen:
            raise BadInput(f"{words} stands in line {seen[mark]} already")
    seen |= dict.fromkeys(marks.values(), student.line)
