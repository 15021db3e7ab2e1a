"""The agent's own key: made once, kept from others, and never replaced behind anybody's back."""
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gpufairy.core.errors import BadInput
from gpufairy.node.identity import KEY_FILE, own_identity


def test_the_key_is_made_at_the_first_start_and_the_same_ever_after(tmp_path: Path):
    first = own_identity(tmp_path / "node")
    assert own_identity(tmp_path / "node").public == first.public
    assert own_identity(tmp_path / "other").public != first.public


def test_nobody_else_can_read_it_whatever_the_umask(tmp_path: Path):
    before = os.umask(0)
    try:
        own_identity(tmp_path / "node")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "node" / KEY_FILE).stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "node").stat().st_mode) == 0o700


def test_nothing_is_left_beside_it(tmp_path: Path):
    own_identity(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [KEY_FILE]


@pytest.mark.parametrize("content", [b"", b"half of it", b"k" * 31, b"k" * 33])
def test_a_half_written_key_is_told_and_not_replaced(tmp_path: Path, content: bytes):
    file = tmp_path / KEY_FILE
    file.write_bytes(content)
    file.chmod(0o600)
    with pytest.raises(BadInput, match=f"it has {len(content)} bytes, not 32"):
        own_identity(tmp_path)
    assert file.read_bytes() == content


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_a_key_that_others_may_read_is_not_used(tmp_path: Path, mode: int):
    own_identity(tmp_path)
    (tmp_path / KEY_FILE).chmod(mode)
    with pytest.raises(BadInput, match="others may read it"):
        own_identity(tmp_path)


def test_what_cannot_be_a_key_file_is_told_in_words(tmp_path: Path):
    (tmp_path / KEY_FILE).mkdir()
    with pytest.raises(BadInput, match="Is a directory"):
        own_identity(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="cannot be used"):
        own_identity(tmp_path / "file" / "node")


def test_a_part_left_by_a_crash_is_in_nobodys_way(tmp_path: Path):
    (tmp_path / KEY_FILE).with_suffix(f".{os.getpid()}").write_bytes(b"half")
    assert own_identity(tmp_path).public == own_identity(tmp_path).public


def test_the_secret_is_in_nothing_that_is_shown(tmp_path: Path):
    identity = own_identity(tmp_path)
    secret = (tmp_path / KEY_FILE).read_bytes()
    shown = f"{identity!r} {identity.public} {identity.fingerprint} {identity.signature('gpu01', 'e', 1, b'')}"
    assert secret.hex() not in shown
    assert str(secret) not in shown


@pytest.mark.slow
def test_two_that_start_at_once_have_one_key(tmp_path: Path):
    with ThreadPoolExecutor(8) as many:
        made = list(many.map(lambda _: subprocess.run([sys.executable, "-c", MADE, str(tmp_path)], capture_output=True, text=True, check=True).stdout, range(8)))
    assert len(set(made)) == 1
    assert [path.name for path in tmp_path.iterdir()] == [KEY_FILE]


MADE = "import sys; from pathlib import Path; from gpufairy.node.identity import own_identity; print(own_identity(Path(sys.argv[1])).public)"
