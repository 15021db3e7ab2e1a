"""The sentences of core in Korean: every one that a page can show has words, and what strangers wrote passes through them unharmed."""
import re
from fnmatch import fnmatch
from functools import cache

import pytest
from sentences_in_source import HOLE, SRC, Said, all_said, returned_in
from test_told_here import read_by

from gpufairy.core.errors import BadInput
from gpufairy.core.lifecycle import Happening
from gpufairy.web.asked import Language
from gpufairy.web.event_words import what_words
from gpufairy.web.sentences import PARTS, met, told
from gpufairy.wire.bookings import BookingBody
from gpufairy.wire.people import UserBody
from gpufairy.wire.read import read
from gpufairy.wire.submit import SubmitBody

FOLDERS = ("core", "wire", "control", "engines", "store", "devices", "api", "web")
NOT_ON_PAGES = {
    "core/replay*": "fairy simulate reads traces",
    "core/naming_rule.py": "settings, read when a server or an agent starts",
    "core/believe.py": "an agent's report",
    "core/k3s_plan.py": "fairy cluster plan prints it",
    "core/doctor_checks.py": "fairy doctor --only",
    "core/moved_block.py": "fairy move asks",
    "core/past.py": "fairy move asks",
    "store/history_move.py": "fairy move asks",
    "control/moving_homes.py": "fairy move asks; what it notes is in sentences.txt",
    "wire/config.py": "settings, read when the server starts",
    "wire/oidc.py": "settings",
    "wire/apps.py": "settings",
    "wire/tariff.py": "settings",
    "wire/disk.py": "settings",
    "wire/disk_report.py": "an agent's report",
    "wire/leaks.py": "settings",
    "wire/limits.py": "settings",
    "core/source.py": "settings",
    "wire/upkeep.py": "settings",
    "core/upkeep.py": "settings",
    "core/unit_file.py": "fairy up --install",
    "core/backup_manifest.py": "fairy restore",
    "store/restore.py": "fairy restore",
    "store/backup_archive.py": "fairy restore",
    "wire/report.py": "an agent's report",
    "wire/gateway.py": "the gateway asks",
    "control/intake.py": "an agent's report",
    "engines/build_native.py": "the server does not start",
    "engines/tools*.py": "the server does not start",
    "engines/cdi*.py": "the server does not start",
    "engines/docker_network.py": "the server does not start",
    "engines/fake*.py": "for tests",
    "engines/home_files.py": "fairy move asks",
    "engines/kube/*": "the server does not start, or its log has it",
    "store/database.py": "the server does not start",
    "store/leader.py": "the server does not start",
    "store/migrate.py": "the server does not start",
    "api/[!d]*.py": "programs ask: answered as a problem",
    "devices/simulated.py": "the server does not start",
    "devices/sample_line.py": "an agent's own",
    "devices/nvml_processes.py": "another Busy",
}  # fmt: skip
# Modules of words: all that they return is shown.
WORDS = (
    "core/image.py", "core/mig_plan.py", "core/mig_could.py", "core/isolation.py", "core/quota_check.py", "core/over_share.py",
    "core/idle.py", "engines/docker_words.py", "engines/run_folder.py", "devices/mps_keeper.py",
)  # fmt: skip
# Where a hole holds a word of ours, and not a name or an amount.
IN_FULL = {"{} is {}": "{} is drained", "{} is {}: {}": "{} is silent: {}"}
SAMPLES = ("ax", "bx", "cx", "dx", "ex", "fx", "gx", "hx")
PLAIN = re.compile(rf"(?:{'|'.join(SAMPLES)}|UTC|[^A-Za-z])*|--[a-z-]+ \S+")
HANGUL = re.compile("[가-힣]")


def is_known(text: str) -> bool:
    """By a pattern, and so is what stands in its holes; a single word there is a name."""
    if PLAIN.fullmatch(text):
        return True
    for _, holes in met(text, Language.KO):
        return all(" " not in value or is_known(value) for value in holes.values())
    return False


def is_told(text: str) -> bool:
    sample = IN_FULL.get(text, text).rstrip(": ")
    for place in range(sample.count(HOLE)):
        sample = sample.replace(HOLE, SAMPLES[place % len(SAMPLES)], 1)
    parts, (_, about, rest) = PARTS.split(sample)[::2], sample.partition(": ")
    return is_known(sample) or all(map(is_known, parts)) or (bool(about) and is_known(rest))


@cache
def shown() -> list[Said]:
    words = [said for name in WORDS for said in returned_in(SRC / "gpufairy" / name)]
    found = [*words, *all_said(FOLDERS)]
    return [said for said in found if not any(fnmatch(said.where.partition(":")[0], pattern) for pattern in NOT_ON_PAGES)]


@pytest.mark.slow
def test_every_sentence_that_an_error_or_a_deed_is_made_of_can_be_read_in_the_source():
    unread = [said.where for said in shown() if said.text is None]
    assert not unread, "write it as a text, or give it a name beside where it is raised"


@pytest.mark.slow
def test_every_sentence_that_a_page_can_show_is_there_in_korean():
    missing = sorted({said.text for said in shown() if said.text and " " in said.text and not is_told(said.text)})
    assert not missing, "add them to web/catalogues/sentences.txt with names in the braces, run tests/web/catalogue.py, translate"


def test_every_event_has_words_of_its_own():
    names = {*Happening, *event_names()}
    with read_by(Language.KO):
        untold = sorted(name for name in names if not HANGUL.search(what_words(name)))
    assert len(names) > 40
    assert not untold


def event_names() -> set[str]:
    """As they stand in the source, where events are made."""
    made = re.compile(r'\b(?:note|noted|event|gpu_event|booking_event|_note|_put)\([^"\n]*(?:f?"[^"]*", )?"([a-z]+(?:_[a-z]+)*)"[,)]')
    files = [file for folder in ("core", "control", "web") for file in (SRC / "gpufairy" / folder).glob("*.py")]
    return {name for file in files for name in made.findall(file.read_text())}


@pytest.mark.parametrize(
    ("body", "sent"),
    [
        (SubmitBody, {"gpus": [1]}), (SubmitBody, {"comand": "x"}), (UserBody, {"name": "x" * 300}), (SubmitBody, {"count": "two"}),
        (SubmitBody, {"preemptible": "yes"}), (SubmitBody, {"mounts": "a"}), (SubmitBody, {"ports": ["a"]}), (SubmitBody, {"env": {"A": [1]}}),
        (UserBody, {}), (UserBody, {"name": 3}), (UserBody, {"name": "kim", "role": None}), (BookingBody, {"gpus": "two"}),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_field_is_told_in_korean(body, sent):
    with pytest.raises(BadInput) as refused:
        read(body, sent, "session")
    with read_by(Language.KO):
        for words in (refused.value.detail, refused.value.next_step):
            assert HANGUL.search(told(words)), words


@pytest.mark.parametrize("nasty", ["<b>x</b>", "a; rm -rf /", "{0} {name} {", "\\1 %s %(x)s", "x" * 400, "끝; 3 ahead of it", ". Ask an admin."])
def test_what_a_stranger_wrote_is_told_as_it_is(nasty: str):
    with read_by(Language.KO):
        assert nasty in told(f"command: {nasty!r} has a quote that is not closed")


def test_a_guess_at_what_was_meant_is_told_beside_the_sentence():
    with read_by(Language.KO):
        assert told("image x is not on this machine (did you mean xy?), and none are fetched here").endswith("내려받지 않습니다 (혹시 xy?)")


def test_of_two_sentences_in_a_row_each_is_told():
    with read_by(Language.KO):
        assert told("Try again in a minute. Ask an admin.") == "1분 뒤에 다시 해 보십시오. 관리자에게 문의하십시오."


def test_english_stays_english():
    with read_by(Language.EN):
        assert told("Ask an admin.") == "Ask an admin."
