"""What lies in deploy/: rules, dashboards and units, checked by the tools that read them."""
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from gpufairy.core.reading import Xid
from gpufairy.node.aside import AT_ONCE, MOST_STUCK
from gpufairy.node.render import gpu_labels, render
from gpufairy.node.render_collectors import Collectors
from gpufairy.node.render_counters import Counters
from prometheus import NOON, a_sample, promtool

DEPLOY, DOCS = (Path(__file__).parents[2] / name for name in ("deploy", "docs"))
PROMETHEUS = DEPLOY / "prometheus"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
DASHBOARDS = sorted((DEPLOY / "grafana").glob("*.json"))
NAME = re.compile(r"\b(?:gpu|fairy)_[a-z0-9_]+")


def rules(file: str) -> list[dict[str, str]]:
    return [rule for group in yaml.safe_load((PROMETHEUS / file).read_text())["groups"] for rule in group["rules"]]


def names_served() -> set[str]:
    xids, collectors = Counters(), Collectors()
    xids.add([Xid("GPU-0", 79, NOON)], gpu_labels(a_sample()))
    collectors.note("gpu", True, NOON, 0.01)
    page = render(a_sample(), xids=xids, collected=collectors.all()).decode()
    return set(re.findall(r"^# TYPE (\S+)", page, re.MULTILINE))


@pytest.mark.system
@pytest.mark.parametrize("file", ["fairy.alerts.yml", "fairy.records.yml"])
def test_promtool_accepts_the_rules(file):
    checked = promtool("check", "rules", PROMETHEUS / file)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.system
def test_promtool_accepts_the_sample_settings():
    checked = promtool("check", "config", PROMETHEUS / "prometheus.yml")
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.system
def test_each_rule_does_what_its_test_says():
    checked = promtool("test", "rules", PROMETHEUS / "fairy.tests.yml")
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_each_alert_is_tested_both_ways_and_each_record_once():
    tests = yaml.safe_load((PROMETHEUS / "fairy.tests.yml").read_text())["tests"]
    alerts = [(one["alertname"], bool(one["exp_alerts"])) for test in tests for one in test.get("alert_rule_test", [])]
    names = {rule["alert"] for rule in rules("fairy.alerts.yml")}
    assert {name for name, fires in alerts if fires} == names
    # A test with rows that must not fire beside one that does counts as well: promtool compares all of them.
    several = {"GPUUsedOutsideSessions", "LongRunningGPUProcess"}
    assert {name for name, fires in alerts if not fires} >= names - several
    asked = " ".join(one["expr"] for test in tests for one in test.get("promql_expr_test", []))
    assert [rule["record"] for rule in rules("fairy.records.yml") if rule["record"] not in asked] == []


def test_every_alert_says_what_and_what_to_do():
    for rule in rules("fairy.alerts.yml"):
        assert set(rule["annotations"]) == {"summary", "next"}, rule["alert"]
        assert rule["labels"]["severity"] in ("info", "warning", "critical"), rule["alert"]


@pytest.mark.parametrize("file", [*(PROMETHEUS / name for name in ("fairy.alerts.yml", "fairy.records.yml")), *DASHBOARDS], ids=lambda path: path.stem)
def test_every_family_asked_for_is_one_that_is_served(file):
    if file.suffix == ".json":
        asked = [target["expr"] for panel in json.loads(file.read_text())["panels"] for target in panel["targets"]]
    else:
        asked = [rule["expr"] for rule in rules(file.name)]
    found = {name for expression in asked for name in NAME.findall(re.sub(r'"[^"]*"', "", expression))}
    assert found
    assert found - names_served() == set()


@pytest.mark.parametrize("page", ["monitoring.md", "monitoring.ko.md"])
def test_every_family_served_is_in_the_manual_and_no_other(page):
    written = set(NAME.findall((DOCS / page).read_text()))
    assert names_served() - written == set()
    assert {name for name in written if name.startswith("fairy_")} - names_served() == set()


def test_dashboards_have_names_of_their_own_and_choose_their_prometheus():
    boards = [json.loads(path.read_text()) for path in DASHBOARDS]
    assert len(boards) == 6
    assert len({board["uid"] for board in boards}) == len({board["title"] for board in boards}) == 6
    for board in boards:
        assert {panel["datasource"]["uid"] for panel in board["panels"]} == {"${datasource}"}
        assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


def test_panels_do_not_lie_over_each_other():
    for path in DASHBOARDS:
        cells = [(x, y) for panel in json.loads(path.read_text())["panels"] for x, y in cells_of(panel["gridPos"])]
        assert len(cells) == len(set(cells)), path
        assert max(x for x, _ in cells) < 24, path


def cells_of(place: dict[str, int]) -> list[tuple[int, int]]:
    return [(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])]


@pytest.mark.system
@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.stem)
def test_systemd_accepts_the_unit(unit, tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze: apt-get install systemd")
    copy = tmp_path / unit.name
    copy.write_text(unit.read_text().replace("/opt/gpufairy/fairy", "/bin/true"))  # which must be there to be accepted
    checked = subprocess.run(["systemd-analyze", "verify", "--man=no", str(copy)], capture_output=True, text=True, check=False)
    assert (checked.returncode, [line for line in checked.stderr.splitlines() if unit.name in line]) == (0, [])


def settings(unit: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in unit.read_text().splitlines() if "=" in line and not line.startswith("#"))


def test_there_is_a_unit_for_each_of_the_three():
    assert [unit.name for unit in UNITS] == ["fairy-agent.service", "fairy-exporter.service", "fairy-server.service"]


@pytest.mark.parametrize("name", ["fairy-agent", "fairy-exporter"])
def test_who_watches_the_host_can_see_it_and_change_little(name):
    found = settings(DEPLOY / "systemd" / f"{name}.service")
    hiding = {"PrivateDevices", "PrivatePIDs", "PrivateUsers", "PrivateNetwork", "PrivateTmp", "ProtectProc", "ProcSubset", "ProtectHome", "ProtectClock", "DeviceAllow", "DevicePolicy", "User", "DynamicUser"}
    assert hiding & found.keys() == set()
    assert found["NoNewPrivileges"] == "yes"
    assert found["ProtectSystem"] == "strict"
    assert found["Restart"] == "always"


@pytest.mark.parametrize("name", ["fairy-agent", "fairy-exporter"])
def test_who_watches_a_host_of_which_much_is_stuck_still_gets_threads(name):
    """Questions about command lines, accounts, engines, file systems and sensors are asked apart, each kind on threads of its own."""
    assert int(settings(DEPLOY / "systemd" / f"{name}.service")["TasksMax"]) > 5 * (AT_ONCE + MOST_STUCK) + 64


def test_a_restart_of_the_server_ends_no_session():
    assert settings(DEPLOY / "systemd" / "fairy-server.service")["KillMode"] == "process"
