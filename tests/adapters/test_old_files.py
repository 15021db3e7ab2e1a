"""Our own logs stay short whoever writes to them, and tools of old versions go when nobody can have them."""
import os
from datetime import UTC, datetime, timedelta

from builders import a_session
from gpufairy.engines.old_files import CURRENT, OldFiles, read_used, use_tools

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def old_files(folder, log_bytes=100):
    return OldFiles(folder / "tools", (folder / "server.log",), log_bytes)


def make_tools(folder, *names):
    for name in names:
        (folder / "tools" / name / "bin").mkdir(parents=True)
        (folder / "tools" / name / "bin" / "porter").write_text("x")


def test_a_long_log_is_begun_anew_and_three_old_ones_stay(tmp_path):
    log, files = tmp_path / "server.log", old_files(tmp_path)
    for number in range(6):
        log.write_text(f"{number}" * 101)
        files.look(NOW)
        assert log.read_text() == ""
    assert sorted(path.name for path in tmp_path.glob("server.log*")) == ["server.log", "server.log.1", "server.log.2", "server.log.3"]
    assert [(tmp_path / f"server.log.{n}").read_text()[0] for n in (1, 2, 3)] == ["5", "4", "3"]
    assert (tmp_path / "server.log.1").stat().st_mode & 0o077 == 0


def test_whoever_has_the_log_open_writes_on_at_its_new_end(tmp_path):
    log = tmp_path / "server.log"
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(descriptor, b"a" * 200)
    old_files(tmp_path).look(NOW)
    os.write(descriptor, b"later")
    os.close(descriptor)
    assert log.read_text() == "later"


def test_a_short_log_and_none_at_all_are_left_alone(tmp_path):
    (tmp_path / "server.log").write_text("short")
    old_files(tmp_path).look(NOW)
    (tmp_path / "server.log").unlink()
    old_files(tmp_path).look(NOW)
    assert list(tmp_path.iterdir()) == []


def test_tools_that_were_replaced_go_after_their_sessions_and_a_week(tmp_path):
    files = old_files(tmp_path)
    make_tools(tmp_path, "one")
    use_tools(tmp_path / "tools", "one", NOW - 40 * DAY)
    files.look(NOW - 30 * DAY)
    make_tools(tmp_path, "two")
    use_tools(tmp_path / "tools", "two", NOW - 29 * DAY)
    files.look(NOW)
    assert files.remove_unused_tools([a_session("a", placed_at=NOW - 31 * DAY)], NOW) == 0
    assert files.remove_unused_tools([a_session("a", placed_at=NOW - 20 * DAY)], NOW) == 1
    assert sorted(path.name for path in (tmp_path / "tools").iterdir() if path.is_dir()) == ["two"]


def test_tools_from_before_this_list_was_kept_count_as_used_until_now(tmp_path):
    make_tools(tmp_path, "ancient", "current")
    use_tools(tmp_path / "tools", "current", NOW)
    assert read_used(tmp_path / "tools") == {"ancient": NOW, "current": NOW}
    assert old_files(tmp_path).remove_unused_tools([], NOW + DAY) == 0


def test_nothing_goes_where_it_is_not_known_what_is_in_use(tmp_path):
    make_tools(tmp_path, "one")
    old_files(tmp_path).look(NOW)
    assert old_files(tmp_path).remove_unused_tools([], NOW + 90 * DAY) == 0
    (tmp_path / "tools" / CURRENT).write_text("gone")
    old_files(tmp_path).look(NOW)
    assert old_files(tmp_path).remove_unused_tools([], NOW + DAY) == 0
