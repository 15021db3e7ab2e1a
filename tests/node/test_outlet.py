"""Where samples go out: the page, the textfile, and counts that outlive the collector."""
import json
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gpufairy.core.reading import LostGpu, Xid
from gpufairy.node.exporter import Page
from gpufairy.node.outlet import COUNTS_FILE, Outlet
from gpufairy.node.textfile import Textfile
from prometheus import NOON, a_sample

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
    again = Outlet(Page(), data=tmp_path)
    again.put(a_sample())
    assert errors(again) == errors(first)
    again.put(a_sample(xids=(XID,)))
    assert errors(again) == ['fairy_gpu_xid_errors_total{gpu="0",xid="79"} 3']


def test_without_a_folder_they_begin_at_nothing():
    outlet = Outlet(Page())
    outlet.put(a_sample(xids=(XID,)))
    assert errors(outlet) == ['fairy_gpu_xid_errors_total{gpu="0",xid="79"} 1']
    again = Outlet(Page())
    again.put(a_sample())
    assert errors(again) == []


@pytest.mark.parametrize("spoilt", [b"", b"{", b"null", b'[["GPU-0", 79', b"\xff" * 100, b"[" * 100_000, b'[["GPU-0", 79, -5, NaN, "0"], 3, ["a"]]', b" " * (2 << 20)])
def test_a_spoilt_file_of_counts_stops_nobody(tmp_path: Path, spoilt: bytes):
    (tmp_path / COUNTS_FILE).write_bytes(spoilt)
    outlet = Outlet(Page(), data=tmp_path)
    outlet.put(a_sample(xids=(XID,)))
    assert errors(outlet) == ['fairy_gpu_xid_errors_total{gpu="0",xid="79"} 1']
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
    assert file.stat().st_mtime == pytest.approx(at.timestamp(), abs=0.01)
    assert "fairy_host_" not in file.read_text(), "node-exporter tells of the host itself"
    outlet.close()
    assert list(tmp_path.iterdir()) == []


def test_a_silent_driver_leaves_no_series_in_either(tmp_path: Path):
    outlet = Outlet(Page(), Textfile(tmp_path))
    outlet.put(a_sample())
    outlet.put(a_sample(gpus_known=False))
    for text in (page_of(outlet), (tmp_path / "gpu_sessions.prom").read_text()):
        assert "gpu_session_count" not in text
        assert 'fairy_collector_success{collector="gpu"} 0' in text
        assert f'fairy_collector_last_success_timestamp_seconds{{collector="gpu"}} {int(NOON.timestamp())}' in text


def test_a_textfile_that_cannot_be_written_is_told_once_and_the_page_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    folder = tmp_path / "textfiles"
    outlet = Outlet(Page(), Textfile(folder))
    for _ in range(3):
        outlet.put(a_sample())
    assert len(caplog.records) == 1
    assert "gpu_total_sessions 3" in page_of(outlet)
    folder.mkdir()
    outlet.put(a_sample())
    assert os.listdir(folder) == ["gpu_sessions.prom"]
    (folder / "gpu_sessions.prom").unlink()
    folder.rmdir()
    outlet.put(a_sample())
    assert len(caplog.records) == 2, "and again when it goes wrong anew"
