"""What a real Prometheus has after scraping our exporter, and a real node-exporter that reads our textfile."""
import json
import re
import threading
import time
import urllib.request
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from gpufairy.core.reading import Xid
from gpufairy.node.exporter import Page
from gpufairy.node.render import TEXTFILE_PARTS, gpu_labels, render
from gpufairy.node.render_collectors import Collectors
from gpufairy.node.render_counters import Counters
from gpufairy.node.textfile import Textfile
from prometheus import Prometheus, Serving, a_sample, node_exporter, prometheus
from waits import until

pytestmark = pytest.mark.system
DEPLOY = Path(__file__).parents[2] / "deploy"
DASHBOARDS = sorted((DEPLOY / "grafana").glob("*.json"))
RECORDS = yaml.safe_load((DEPLOY / "prometheus/fairy.records.yml").read_text())["groups"][0]["rules"]


class Collecting(threading.Thread):
    """A collector ten times a second, whose counters rise."""

    def __init__(self, page: Page, textfile: Textfile) -> None:
        super().__init__()
        self._page, self._textfile, self._over = page, textfile, threading.Event()
        self._xids, self._collectors = Counters(), Collectors()
        self._xids.add([Xid("GPU-0", 31, datetime.now(UTC))], gpu_labels(a_sample()))
        self.known = True
        self.collect()

    def run(self) -> None:
        while not self._over.wait(0.1):
            self.collect()

    def collect(self) -> None:
        at = datetime.now(UTC)
        sample = a_sample(seconds=time.monotonic() % 1e6, at=at, gpus_known=self.known)
        for collector in ("gpu", "host", "containers"):
            self._collectors.note(collector, collector != "gpu" or self.known, at, 0.002)
        collected = self._collectors.all()
        self._page.put(render(sample, xids=self._xids, collected=collected))
        self._textfile.write(render(sample, xids=self._xids, collected=collected, parts=TEXTFILE_PARTS), at)

    def stop(self) -> None:
        self._over.set()
        self.join()


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory):
    folder, textfiles, page = tmp_path_factory.mktemp("prometheus"), tmp_path_factory.mktemp("textfiles"), Page()
    collecting = Collecting(page, Textfile(textfiles))
    collecting.start()
    try:
        with Serving(page) as served, node_exporter(textfiles, folder / "node-exporter.log") as node, \
                prometheus(folder, {"fairy": f"127.0.0.1:{served.port}", "node": node}) as server:  # fmt: skip
            yield server, collecting
    finally:
        collecting.stop()


@pytest.fixture
def server(watched) -> Prometheus:
    found: Prometheus = watched[0]
    for job in ("fairy", "node"):
        found.when_there(f'rate(fairy_gpu_energy_joules_total{{job="{job}"}}[1m])')
    return found


@pytest.mark.parametrize("job", ["fairy", "node"])
def test_each_family_of_the_contract_arrives_with_its_labels(server, job):
    [(labels, value)] = server.query(f'gpu_process_info{{job="{job}",pid="12345"}}')
    wanted = {"gpu": "0", "command": "python", "pod": "training-pod-abc123", "namespace": "ml-workspace", "container": "pytorch", "status": "active", "gpu_memory": "1024MiB"}
    assert wanted.items() <= labels.items()
    assert set(labels) - set(wanted) == {"__name__", "job", "instance", "pid"}
    assert value == 1
    assert {labels["gpu"]: value for labels, value in server.query(f'gpu_session_count{{job="{job}"}}')} == {"0": 2, "1": 0, "2_1_0": 1, "2_2_0": 0}
    assert [value for _, value in server.query(f'gpu_total_sessions{{job="{job}"}}')] == [3]
    assert [value for _, value in server.query(f'gpu_process_utilization{{job="{job}",pid="12345",container="pytorch"}}')] == [85]
    assert [value for _, value in server.query(f'gpu_process_memory_utilization{{job="{job}",pid="12345",container="pytorch"}}')] == [60]


def test_the_guides_own_queries_answer(server):
    def one_host(query: str):
        return server.query(re.sub(r"(gpu_\w+)", r'\1{job="fairy"}', query).replace('by (gpu{job="fairy"})', "by (gpu)"))

    assert one_host("gpu_total_sessions")[0][1] == 3
    assert {row["gpu"]: count for row, count in one_host("sum by (gpu) (gpu_session_count)")} == {"0": 2, "1": 0, "2_1_0": 1, "2_2_0": 0}
    assert {(row.get("namespace"), row.get("pod")): count for row, count in one_host("count by (namespace, pod) (gpu_process_info)")} == {("ml-workspace", "training-pod-abc123"): 1, (None, None): 2}
    assert {row["gpu"] for row, _ in one_host("gpu_session_count == 0")} == {"1", "2_2_0"}
    assert {row["gpu"]: mean for row, mean in one_host("avg by (gpu) (gpu_process_utilization)")} == {"0": 42.5}


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_every_panel_of_a_dashboard_has_something_to_show(server, path):
    targets = [(panel["title"], target["expr"]) for panel in json.loads(path.read_text())["panels"] for target in panel["targets"]]
    empty = [(title, expression) for title, expression in targets if not server.query(filled(expression))]
    assert empty == []


def filled(expression: str) -> str:
    """As Grafana fills it where everything is chosen."""
    for name, value in (("$instance", ".*"), ("$user", ".*"), ("$namespace", ".*"), ("$__rate_interval", "1m")):
        expression = expression.replace(name, value)
    assert "$" not in expression, expression
    return expression


@pytest.mark.parametrize("rule", RECORDS, ids=lambda rule: rule["record"])
def test_every_recording_rule_records_something(server, rule):
    assert server.query(rule["expr"])


def test_the_alert_for_a_stale_textfile_knows_the_file_by_its_name(server):
    assert server.when_there('node_textfile_mtime_seconds{file=~"(.*/)?gpu_sessions.prom"}')
    assert [value for _, value in server.query("node_textfile_scrape_error")] == [0]


def test_prometheus_finds_fault_with_neither_page(server):
    assert {target["labels"]["job"]: target["health"] for target in server.get("targets")["activeTargets"]} == {"fairy": "up", "node": "up"}


def test_a_silent_driver_is_seen_as_missing_series_and_never_as_idle(server, watched):
    collecting = watched[1]
    collecting.known = False
    try:
        until(lambda: not server.query("gpu_session_count") and not server.query("gpu_process_info"), "the series to go", 30)
        assert server.query("gpu_session_count == 0") == []
        assert {row["job"] for row, _ in server.when_there('fairy_collector_success{collector="gpu"} == 0')} == {"fairy", "node"}
        assert server.query("fairy_gpu_xid_errors_total"), "what was counted stays"
    finally:
        collecting.known = True
    server.when_there('gpu_session_count{job="node"}')


def test_spoilt_files_beside_ours_are_not_its_undoing(tmp_path):
    (tmp_path / "half.prom").write_text("other_metric{a=")
    (tmp_path / "nan.prom").write_text("other_nan NaN\n")
    (tmp_path / f".gpu_sessions.{'a' * 16}.part").write_text("gpu_total_sess")  # of a collector that was killed
    Textfile(tmp_path).write(render(a_sample(), parts=TEXTFILE_PARTS), datetime.now(UTC))
    with node_exporter(tmp_path, tmp_path / "log") as address, urllib.request.urlopen(f"http://{address}/metrics") as answer:
        assert "\ngpu_total_sessions 3\n" in answer.read().decode()
