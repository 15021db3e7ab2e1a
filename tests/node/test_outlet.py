"""Where samples go out: the page, the textfile, and counts that outlive the collector."""
import json
import os
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gpufairy.core.errors import BadInput
from gpufairy.core.reading import LostGpu, Xid
from gpufairy.node.exporter import Page
from gpufairy.node.outlet import COUNTS_FILE, Outlet
from gpufairy.node.textfile import Textfile
from gpufairy.node.written_aside import WrittenAside
from prometheus import NOON, a_sample
from waits import until

XID = Xid("GPU-0", 79, NOON)


def page_of(outlet: Outlet) -> str:
    return outlet.page.answer(gzipped=False).body.decode()


def errors(outlet: Outlet) -> list[str]:
    return [line for line in page_of(outlet).splitlines() if line.startswith("fairy_gpu_xid_errors_total")]


def test_errors_are_counted_on_over_restarts(tmp_path: Path):
    first = Outlet(Page(), data=tmp_path)
    first.put(a_sample(xids=(XID, XID)))
    first.put(a_sample())
    assert errors(first) == ['fairy_gpu_xid_errors_total{gpu="0",xid="79"} 2']
    first.close()
    again = Outlet(Page(), data=tmp_path)
    again.put(a_sample())
    assert errors(again) == errors(first)
    again.put(a_sample(xids=(XID,)))
    assert errors(again) == ['fairy_gpu_xid_errors_total{gpu="0",xid="79"} 3']


def test_the_gauge_of_pods_is_there_where_somebody_has_to_tell_of_them():
    outlet = Outlet(Page())
    for known, row in ((None, None), (False, "0"), (True, "1"), (False, "0"), (None, None)):
        outlet.put(a_sample(pods_known=known))
        found = [line.rpartition(" ")[2] for line in page_of(outlet).splitlines() if line.startswith('fairy_collector_success{collector="pods"}')]
        assert found == ([] if row is None else [row])


def test_without_a_folder_they_begin_at_nothing():
    outlet = Outlet(Page())
    outlet.put(a_sample(xids=(XID,)))
    assert errors(outlet) == ['fairy_gpu_xid_errors_total{gpu="0",xid="79"} 1']
    again = Outlet(Page())
    again.put(a_sample())
    assert errors(again) == []


@pytest.mark.parametrize("spoilt", [b"", b"{", b"null", b'[["GPU-0", 79', b"\xff" * 100, b"[" * 100_000, b'[["GPU-0", 79, -5, NaN, "0"], 3, ["a"]]', b" " * (2 << 20)], ids=range(8))
def test_a_spoilt_file_of_counts_stops_nobody(tmp_path: Path, spoilt: bytes):
    (tmp_path / COUNTS_FILE).write_bytes(spoilt)
    outlet = Outlet(Page(), data=tmp_path)
    outlet.put(a_sample(xids=(XID,)))
    assert errors(outlet) == ['fairy_gpu_xid_errors_total{gpu="0",xid="79"} 1']
    outlet.close()
    assert json.loads((tmp_path / COUNTS_FILE).read_bytes())


def test_a_folder_that_cannot_be_written_costs_counts_and_not_the_collector(tmp_path: Path):
    outlet = Outlet(Page(), data=tmp_path / "nowhere")
    outlet.put(a_sample(xids=(XID,)))
    assert errors(outlet) == ['fairy_gpu_xid_errors_total{gpu="0",xid="79"} 1']


def test_the_last_word_of_a_gpu_that_is_lost_is_counted(tmp_path: Path):
    sample = a_sample()
    outlet = Outlet(Page(), data=tmp_path)
    outlet.put(replace(sample, devices=sample.devices[1:], xids=(XID,), lost=(LostGpu(0, "GPU-0", "fell off the bus"),)))
    assert errors(outlet) == ['fairy_gpu_xid_errors_total{gpu="0",xid="79"} 1']


def test_a_page_asked_for_twice_counts_once(tmp_path: Path):
    outlet = Outlet(Page(), data=tmp_path)
    outlet.put(a_sample(xids=(XID,)))
    assert page_of(outlet) == page_of(outlet)
    assert outlet.page.answer(gzipped=True).gzipped


def test_a_page_shows_what_was_counted_when_it_was_collected():
    """It is written down only when it is asked for."""
    outlet = Outlet(Page())
    outlet.put(a_sample())
    asked = outlet.page
    outlet.put(a_sample(xids=(XID,)))
    assert "xid=" in asked.answer(gzipped=False).body.decode()


def test_the_textfile_is_as_old_as_what_it_tells_and_goes_with_the_collector(tmp_path: Path):
    outlet = Outlet(Page(), Textfile(tmp_path))
    at = datetime.now(UTC) - timedelta(minutes=7)
    outlet.put(a_sample(at=at))
    file = tmp_path / "gpu_sessions.prom"
    until(file.exists, "the textfile")
    assert file.stat().st_mtime == pytest.approx(at.timestamp(), abs=0.01)
    assert "fairy_host_" not in file.read_text(), "node-exporter tells of the host itself"
    outlet.close()
    assert list(tmp_path.iterdir()) == []


def test_a_silent_driver_leaves_no_series_in_either(tmp_path: Path):
    outlet, file = Outlet(Page(), Textfile(tmp_path)), tmp_path / "gpu_sessions.prom"
    outlet.put(a_sample())
    outlet.put(a_sample(gpus_known=False))
    until(lambda: file.exists() and "gpu_session_count" not in file.read_text(), "the new textfile")
    for text in (page_of(outlet), file.read_text()):
        assert "gpu_session_count" not in text
        assert 'fairy_collector_success{collector="gpu"} 0' in text
        assert f'fairy_collector_last_success_timestamp_seconds{{collector="gpu"}} {int(NOON.timestamp())}' in text


def test_a_textfile_that_cannot_be_written_is_told_once_and_the_page_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    folder = tmp_path / "textfiles"
    textfile = CountingTextfile(folder)
    outlet = Outlet(Page(), textfile)
    for tries in (1, 2, 3):
        outlet.put(a_sample())
        until(lambda tries=tries: textfile.tries == tries, "a try")
    assert len(caplog.records) == 1
    assert "gpu_total_sessions 3" in page_of(outlet)
    folder.mkdir()
    outlet.put(a_sample())
    until(lambda: os.listdir(folder) == ["gpu_sessions.prom"], "the textfile")
    until(lambda: textfile.tries == 4, "its end")
    (folder / "gpu_sessions.prom").unlink()
    folder.rmdir()
    outlet.put(a_sample())
    until(lambda: len(caplog.records) == 2, "it to be told again when it goes wrong anew")


class CountingTextfile(Textfile):
    tries = 0

    def write(self, text: bytes, at: datetime) -> None:
        try:
            super().write(text, at)
        finally:
            self.tries += 1


class DeadDisk(Textfile):
    """Opening a folder of a dead file server waits for ever."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.alive, self.begun, self.written = threading.Event(), threading.Event(), list[datetime]()

    def write(self, text: bytes, at: datetime) -> None:
        self.begun.set()
        assert self.alive.wait(20)
        super().write(text, at)
        self.written.append(at)


def test_a_dead_disk_stops_nobody_and_gets_the_newest_when_it_is_back(tmp_path: Path):
    disk = DeadDisk(tmp_path)
    outlet, threads = Outlet(Page(), disk), threading.active_count()
    first, *rest = [NOON + timedelta(seconds=number) for number in range(20)]
    outlet.put(a_sample(at=first))
    assert disk.begun.wait(20)
    for at in rest:
        outlet.put(a_sample(at=at))
    assert "gpu_total_sessions 3" in page_of(outlet)
    assert threading.active_count() <= threads + 1
    disk.alive.set()
    until(lambda: disk.written == [first, rest[-1]], "the newest")


def test_a_dead_disk_delays_the_end_only_shortly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("gpufairy.node.outlet.CLOSE_S", 0.05)
    disk = DeadDisk(tmp_path)
    outlet = Outlet(Page(), disk)
    outlet.put(a_sample())
    began_s = time.monotonic()
    outlet.close()
    assert time.monotonic() - began_s < 2
    disk.alive.set()
    until(lambda: disk.written and os.listdir(tmp_path) == [], "it to be taken away after all")


def test_counts_are_kept_though_the_textfiles_disk_is_dead(tmp_path: Path):
    disk = DeadDisk(tmp_path)
    outlet = Outlet(Page(), disk, tmp_path)
    outlet.put(a_sample(xids=(XID,)))
    until((tmp_path / COUNTS_FILE).exists, "the counts")
    disk.alive.set()
    outlet.close()


def test_once_all_is_written_when_it_returns(tmp_path: Path):
    outlet = Outlet(Page(), Textfile(tmp_path), tmp_path)
    outlet.put_once(a_sample(xids=(XID,)))
    assert sorted(os.listdir(tmp_path)) == ["gpu_sessions.prom", COUNTS_FILE]
    assert "gpu_total_sessions 3" in page_of(outlet)
    with pytest.raises(BadInput, match="textfile folder"):
        Outlet(Page(), Textfile(tmp_path / "missing")).put_once(a_sample())


def test_a_write_that_raises_is_dropped_and_the_next_is_done(monkeypatch: pytest.MonkeyPatch):
    raised: list[object] = []
    monkeypatch.setattr(threading, "excepthook", lambda found: raised.append(found.exc_type))
    written, done = WrittenAside("test"), list[int]()
    written.put(lambda: done.remove(0))
    assert written.settle(20)
    written.put(lambda: done.append(1))
    assert written.settle(20)
    assert done == [1]
    until(lambda: raised == [ValueError], "it to be told")
