"""Whose numbers PIDs are, on this host and in namespaces made here."""
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpufairy.node.pid_namespace import HOST_INODE, PidNamespace, pid_namespace, translates

SOURCE = Path(__file__).parents[2] / "src"
TELL = "from gpufairy.node.pid_namespace import pid_namespace; print(pid_namespace())"


def test_our_own_namespace_is_the_hosts_if_it_has_the_hosts_number():
    assert pid_namespace().is_hosts == (os.stat("/proc/self/ns/pid").st_ino == HOST_INODE)


@pytest.mark.system
@pytest.mark.parametrize(("option", "proc_is_ours"), [("--mount-proc", True), ("--kill-child", False)])
def test_in_a_namespace_of_ones_own_it_is_not_whatever_proc_is_mounted(option: str, proc_is_ours: bool):
    tell = ["unshare", "--pid", "--fork", option, sys.executable, "-c", TELL]
    told = subprocess.run(tell, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(SOURCE)}, check=False)
    if "Operation not permitted" in told.stderr:
        pytest.skip("to make a PID namespace needs root")
    assert told.stdout.strip() == str(PidNamespace(False, proc_is_ours)), told.stderr


def test_where_nothing_can_be_read_there_is_one_namespace(tmp_path: Path):
    assert pid_namespace(str(tmp_path)) == PidNamespace()


@pytest.mark.parametrize(("driver", "does"), [("580.159.04", True), ("535.113.01", True), ("535.104.05", False), ("545.23", True), ("470.256.02", False), ("", False), (None, False), ("x.y", False)])
def test_drivers_translate_from_535_113_on(driver: str | None, does: bool):
    assert translates(driver) is does


def test_on_the_host_every_driver_names_processes():
    assert all(PidNamespace().names(driver) for driver in (None, "470.1", "580.1"))
