"""The one way to files that users may change: by the kernel's own rule, and by steps where it has none. Both refuse the same."""
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpufairy.engines.beneath import FILE, FOLDER, open_beneath, open_by_steps, open_if_there, open_top

Way = Callable[[int, str, int], int]


@pytest.fixture(params=[open_beneath, open_by_steps])
def way(request: pytest.FixtureRequest) -> Way:
    found: Way = request.param
    return found


@pytest.fixture
def top(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "secret").write_text("of the host")
    home = tmp_path / "home"
    (home / "deep" / "er").mkdir(parents=True)
    (home / "deep" / "er" / "file").write_text("mine")
    (home / "out").symlink_to(tmp_path / "secret")
    (home / "folder").symlink_to(tmp_path)
    (home / "inside").symlink_to("deep")
    os.mkfifo(home / "pipe")
    descriptor = open_top(home)
    yield descriptor
    os.close(descriptor)


def test_a_file_deep_below_is_opened_at_once(way, top):
    found = way(top, "deep/er/file", FILE)
    with os.fdopen(found) as file:
        assert file.read() == "mine"
        assert not os.get_inheritable(found)


@pytest.mark.parametrize("path", ["out", "folder/secret", "inside/er/file", "../secret", "deep/../../secret", "/etc/passwd", ""])
def test_links_ways_out_and_whole_paths_are_refused(way, top, path):
    before = set(os.listdir("/proc/self/fd"))
    refused = None
    try:
        os.close(way(top, path, FILE))
    except OSError as error:
        refused = error.errno
    assert refused in (errno.ELOOP, errno.EXDEV, errno.ENOTDIR, errno.ENOENT)
    assert set(os.listdir("/proc/self/fd")) == before


def test_a_name_is_taken_whole_or_not_at_all(top):
    with pytest.raises(OSError, match="Invalid argument"):
        open_beneath(top, "deep\0/er")
    assert open_if_there(top, "deep\0/er") is None


def test_what_is_not_what_was_asked_for_is_as_if_it_were_not_there(top):
    assert open_if_there(top, "deep/er/file", FOLDER) is None
    assert open_if_there(top, "inside") is None
    assert open_if_there(top, "nowhere") is None
    found = open_if_there(top, "pipe", FILE)  # opened at once: whoever reads asks first what it is
    assert found is not None
    os.close(found)


def test_an_old_kernel_is_served_by_steps(top, monkeypatch):
    monkeypatch.setattr("gpufairy.engines.beneath.OPENAT2", 100_000)  # a call that no kernel has
    os.close(open_beneath(top, "deep/er/file", FILE))
    with pytest.raises(OSError, match=r"[Ll]ink"):
        open_beneath(top, "out", FILE)


def test_a_folder_of_ours_that_became_a_link_is_no_top(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(OSError, match=r"link|directory"):
        open_top(tmp_path / "link")
