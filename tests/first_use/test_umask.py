"""A server that was started with umask 077, by an admin whose files are nobody else's: what is for sessions is still theirs to read."""
import os
import stat

import pytest

from gpufairy.main.containers import api_folder, make_readable


@pytest.fixture(autouse=True)
def umask_077():
    before = os.umask(0o077)
    yield
    os.umask(before)


def mode(path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_folder_with_the_socket_of_the_api_is_open_to_all(tmp_path):
    assert mode(api_folder(tmp_path)) == 0o755


def test_one_that_an_earlier_server_made_too_narrow_is_opened(tmp_path):
    (tmp_path / "door").mkdir(mode=0o700)
    assert mode(api_folder(tmp_path)) == 0o755


def test_what_all_sessions_share_is_open_to_all(tmp_path):
    make_readable(tmp_path / "shared")
    assert mode(tmp_path / "shared") == 0o755


def test_a_shared_folder_that_its_admin_made_narrower_stays_so(tmp_path):
    (tmp_path / "shared").mkdir(mode=0o750)
    (tmp_path / "shared").chmod(0o750)
    make_readable(tmp_path / "shared")
    assert mode(tmp_path / "shared") == 0o750
