"""`fairy exporter` as people start it, on a fake driver that works, hangs, loses GPUs and comes back."""
import os
import shutil
import signal
import stat
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from collector_scene import ServedCollector, alive, labels_of, rows_of

from fake_nvml import FakeGpu, FakeInstance, FakeMachine, FakeNvml, FakeProcess, FakeXid
from waits import until

pytestmark = pytest.mark.slow  # a driver is said to hang after ten seconds
CONTRACT = ("gpu_process_info", "gpu_session_count", "gpu_total_sessions", "gpu_process_utilization", "gpu_process_memory_utilization")
SEEN_S = 15.0  # in which a hung driver must be noticed
KILLS = 3
GPU = 'collector="gpu"'


def machine(pid: int, **more: object) -> FakeMachine:
    """A GPU with a process, one that is cut, an error of the first."""
    cut = FakeGpu(mig=True, instances=(FakeInstance(3, slot=2, processes=(FakeProcess(pid, 256),)), FakeInstance(4, slot=5, start=1)))
    whole = FakeGpu(energy_j=1234.5, ecc_corrected=7, utilisation=85, processes=(FakeProcess(pid, 1024, 85, 60),))
    return replace(FakeMachine((whole, cut), xids=(FakeXid(0, 31),)), **more)


@pytest.fixture
def fake(tmp_path: Path) -> FakeNvml:
    made = FakeNvml(tmp_path)
    made.write(machine(os.getpid()))
    return made


class Scraping(threading.Thread):
    """Somebody who asks for the page ten times a second, and remembers what came, and how soon."""

    @dataclass(frozen=True)
    class Page:
        at_s: float
        took_s: float
        text: str

        def value(self, family: str, labels: str = "") -> float | None:
            return next((float(row["value"]) for row in rows_of(self.text, family) if (row["labels"] or "") == labels), None)

        def has(self, *families: str) -> bool:
            return any(True for family in families for _ in rows_of(self.text, family))

    def __init__(self, exporter: ServedCollector) -> None:
        super().__init__(daemon=True)
        self._exporter, self._over, self.pages = exporter, threading.Event(), [self.look(exporter)]

    @classmethod
    def look(cls, exporter: ServedCollector) -> "Scraping.Page":
        began_s = time.monotonic()
        text = exporter.page()
        return cls.Page(began_s, time.monotonic() - began_s, text)

    def run(self) -> None:
        while not self._over.wait(0.1):
            self.pages.append(self.look(self._exporter))

    def first(self, look, what: str, limit_s: float = 30) -> "Scraping.Page":
        return until(lambda: next((page for page in list(self.pages) if look(page)), None), what, limit_s)

    def __enter__(self) -> "Scraping":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()


@pytest.fixture
def exporter(tmp_path: Path, fake: FakeNvml) -> Iterator[ServedCollector]:
    with ServedCollector(tmp_path / "exporter", "--every", "0.2s", fake=fake) as started:
        until(lambda: started.rows("gpu_total_sessions"), f"the GPUs to be read: {started.log}")
        yield started


@dataclass
class Ills:
    """Two exporters that are ill while the other tests run: one's driver hangs, the other's child is killed again and again."""

    hung: Scraping
    hung_s: float
    killed: Scraping
    killed_pids: list[int]
    driver: FakeNvml
    healed_s: float | None = None


@pytest.fixture(scope="module", autouse=True)
def ills(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ills]:
    folders = [tmp_path_factory.mktemp(name) for name in ("hung", "killed")]
    drivers = [FakeNvml(folder) for folder in folders]
    for driver in drivers:
        driver.write(machine(os.getpid()))
    with ServedCollector(folders[0] / "x", fake=drivers[0]) as first, ServedCollector(folders[1] / "x", "--every", "0.2s", fake=drivers[1]) as second:
        for one in (first, second):
            until(lambda one=one: one.rows("fairy_gpu_xid_errors_total"), f"the GPUs to be read: {one.log}")
        with Scraping(first) as hung, Scraping(second) as killed:
            made = Ills(hung, time.monotonic(), killed, [], drivers[0])
            drivers[0].write(machine(os.getpid(), hang=("nvmlDeviceGetPowerUsage",)))
            doing = [threading.Thread(target=kill_children, args=(second, made.killed_pids)), threading.Thread(target=heal, args=(made,))]
            for thread in doing:
                thread.start()
            yield made
            for thread in doing:
                thread.join()


def heal(ills: Ills) -> None:
    """Some pages after it was seen to hang, and before the driver is asked again."""
    gone = ills.hung.first(lambda page: page.value("fairy_collector_success", GPU) == 0, "the driver to be said to hang")
    until(lambda: ills.hung.pages[-1].at_s > gone.at_s + 2, "more pages")
    ills.healed_s = time.monotonic()
    ills.driver.write(machine(os.getpid()))


def kill_children(exporter: ServedCollector, killed: list[int]) -> None:
    """Each only after it has been heard: the page says when the driver was last read."""
    for _ in range(KILLS):
        [pid] = until(lambda: [child for child in exporter.children() if child not in killed], "a child")
        began_s = time.time()
        until(lambda began_s=began_s: exporter.rows("fairy_collector_last_success_timestamp_seconds").get(GPU, 0) > began_s, "it to be heard")
        os.kill(pid, signal.SIGKILL)
        killed.append(pid)


def test_once_prints_the_page_and_ends(tmp_path, fake):
    done = ServedCollector(tmp_path / "x", fake=fake).once("--once")
    assert (done.returncode, done.stderr) == (0, "")
    assert all(f"\n{family}" in done.stdout for family in CONTRACT)
    assert f'gpu_process_info{{gpu="0",pid="{os.getpid()}",command="' in done.stdout
    assert {labels_of(row["labels"])["gpu"]: row["value"] for row in rows_of(done.stdout, "gpu_session_count")} == {"0": "1", "1_3_0": "1", "1_4_0": "0"}


def test_once_with_a_textfile_writes_that_and_prints_nothing(tmp_path, fake):
    folder = tmp_path / "textfiles"
    folder.mkdir()
    began_s = time.time()
    done = ServedCollector(tmp_path / "x", "--textfile", str(folder), fake=fake).once("--once")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    [written] = folder.iterdir()
    assert (written.name, stat.S_IMODE(written.stat().st_mode)) == ("gpu_sessions.prom", 0o644)
    assert began_s - 1 < written.stat().st_mtime <= time.time()
    assert "\ngpu_total_sessions 2\n" in written.read_text()


def test_a_driver_that_says_no_is_told_in_words_and_soon(tmp_path):
    began_s = time.monotonic()
    done = ServedCollector(tmp_path / "x", fake=FakeNvml(tmp_path)).once("--once")
    assert time.monotonic() - began_s < 10
    assert (done.returncode, done.stderr.startswith("fairy: ")) == (1, True)
    assert "driver" in done.stderr.lower()
    assert not any(family in done.stdout for family in CONTRACT)
    assert f"\nfairy_collector_success{{{GPU}}} 0\n" in done.stdout
    assert "\nfairy_host_cpus " in done.stdout


def test_a_folder_that_is_not_there_is_told_in_words(tmp_path, fake):
    with ServedCollector(tmp_path / "x", "--textfile", str(tmp_path / "nowhere"), fake=fake) as exporter:
        until(lambda: exporter.rows("gpu_total_sessions"), "the page")
        said = f"textfile folder {tmp_path}/nowhere: No such file or directory Make it, or name another with --textfile."
        until(lambda: said in exporter.log, exporter.log)
        assert exporter.log.count(said) == 1


def test_told_to_end_it_takes_its_textfile_away_and_leaves_no_process(tmp_path, fake):
    folder = tmp_path / "textfiles"
    folder.mkdir()
    with ServedCollector(tmp_path / "x", "--textfile", str(folder), "--every", "0.2s", fake=fake) as exporter:
        until((folder / "gpu_sessions.prom").exists, exporter.log)
        children = until(exporter.children, "its child")
        assert exporter.end(signal.SIGTERM) == 0
        assert list(folder.iterdir()) == []
        assert not any(map(alive, children))
        assert "Traceback" not in exporter.log


def test_a_killed_exporter_leaves_a_file_whose_age_tells_and_no_process(tmp_path, fake):
    folder = tmp_path / "textfiles"
    folder.mkdir()
    with ServedCollector(tmp_path / "x", "--textfile", str(folder), "--every", "0.2s", fake=fake) as exporter:
        until(lambda: (folder / "gpu_sessions.prom").exists() and exporter.rows("fairy_gpu_xid_errors_total"), exporter.log)
        children = exporter.children()
        exporter.kill()
        until(lambda: not any(map(alive, children)), "the child to end by itself")
        errors = [row["value"] for row in rows_of((folder / "gpu_sessions.prom").read_text(), "fairy_gpu_xid_errors_total")]
        exporter.start()
        rows = until(lambda: exporter.rows("fairy_gpu_xid_errors_total"), "it to serve again")
        assert [*rows.values()] >= [*map(float, errors)], "what was counted before is counted still"


def test_a_lost_gpu_has_no_series_but_the_one_that_says_so(exporter, fake):
    working = machine(os.getpid())
    fake.write(replace(working, gpus=(replace(working.gpus[0], lost=True), working.gpus[1])))
    until(lambda: exporter.rows("fairy_gpu_lost").get('gpu="0"') == 1, "it to be lost")
    page = exporter.page()
    assert {labels_of(row["labels"])["gpu"] for row in rows_of(page, "gpu_session_count")} == {"1_3_0", "1_4_0"}
    assert [line for line in page.splitlines() if 'gpu="0"' in line and not line.startswith(("fairy_gpu_lost", "fairy_gpu_xid"))] == []
    fake.write(working)
    until(lambda: exporter.rows("gpu_session_count").get('gpu="0"') == 1, "it to come back")


def test_a_gpu_cut_anew_shows_its_new_instances_alone(exporter, fake):
    working = machine(os.getpid())
    fake.write(replace(working, gpus=(working.gpus[0], replace(working.gpus[1], instances=(FakeInstance(9, slot=0, profile="7g.40gb", size=8),)))))
    until(lambda: {labels_of(row)["gpu"] for row in exporter.rows("gpu_session_count")} == {"0", "1_9_0"}, "the new cut")


def test_a_hostile_name_and_a_command_line_of_a_megabyte_break_nothing(exporter, fake, tmp_path):
    program = tmp_path / 'a"b\nc\\d{}'
    shutil.copy(str(shutil.which("sleep")), program)
    hostile = subprocess.Popen([str(program), "1000", *["0" * 130_000] * 8])
    try:
        fake.write(machine(hostile.pid))
        found = until(lambda: [row for row in exporter.rows("gpu_process_info") if f'pid="{hostile.pid}"' in row], "it to be seen")
        assert labels_of(found[0])["command"] == r"a\"b?c\\d{}"
        assert len(exporter.page()) < 100_000
    finally:
        hostile.kill()
        hostile.wait()
    until(lambda: exporter.rows("gpu_process_info") and all('command="[not found]"' in row for row in exporter.rows("gpu_process_info")), "it to be gone")


def test_a_hung_driver_is_seen_in_15_s_and_the_page_answers_all_the_while(ills):
    gone = ills.hung.first(lambda page: page.value("fairy_collector_success", GPU) == 0, "the driver to be said to hang")
    assert gone.at_s - ills.hung_s < SEEN_S
    assert not gone.has(*CONTRACT)
    assert not gone.has("fairy_gpu_info", "fairy_gpu_utilization_ratio", "fairy_process_gpu_memory_bytes", "fairy_outside_processes")
    assert gone.value("fairy_gpu_xid_errors_total", 'gpu="0",xid="31"') == 1, "what was counted stays"
    assert gone.has("fairy_host_cpus"), "the host is read on"
    healed_s = until(lambda: ills.healed_s, "it to be healed")
    silent = [page for page in list(ills.hung.pages) if gone.at_s < page.at_s < healed_s]
    assert len(silent) > 5
    assert not any(page.has("gpu_session_count") for page in silent), "never does it look idle"
    took = sorted(page.took_s for page in list(ills.hung.pages))
    assert took[len(took) * 9 // 10] < 0.05


def test_a_driver_that_comes_back_is_read_again(ills):
    healed_s = until(lambda: ills.healed_s, "it to be healed")
    back = ills.hung.first(lambda page: page.at_s > healed_s and page.has("gpu_session_count"), "it to be read again")
    assert back.value("fairy_collector_success", GPU) == 1
    assert all(back.has(family) for family in CONTRACT)


def test_counters_never_fall_while_the_child_is_killed_again_and_again(ills):
    until(lambda: len(ills.killed_pids) == KILLS, "the kills", 30)
    after_s = time.monotonic()
    ills.killed.first(lambda page: page.at_s > after_s, "one more page")
    pages = list(ills.killed.pages)
    for family, labels in (("fairy_gpu_energy_joules_total", 'gpu="0"'), ("fairy_gpu_ecc_corrected_errors_total", 'gpu="0"'), ("fairy_gpu_xid_errors_total", 'gpu="0",xid="31"')):
        values = [page.value(family, labels) for page in pages]
        assert None not in values
        assert values == sorted(values), family
    assert not any(page.value("gpu_total_sessions") == 0 for page in pages)
    assert len(set(ills.killed_pids)) == KILLS
