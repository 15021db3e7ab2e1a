"""From plain boxes to a cluster: the lines that are printed."""
import shlex
import subprocess

import pytest

from gpufairy.core.errors import BadInput
from gpufairy.core.k3s_plan import Lab, plan_k3s

HOSTS = ("admin@gpu01", "gpu02", "10.0.0.3")


def commands(lab: Lab, host: str) -> list[str]:
    return [step.command for step in plan_k3s(lab) if step.host == host]


def test_each_host_has_its_lines_and_joins_the_first():
    lab = Lab(HOSTS)
    assert {step.host for step in plan_k3s(lab)} == {*HOSTS, ""}
    assert "server --node-label accelerator=nvidia" in commands(lab, HOSTS[0])[-1]
    for host in HOSTS[1:]:
        assert "K3S_URL=https://gpu01:6443" in commands(lab, host)[-1]


def test_no_token_is_on_a_command_line():
    assert not any("K3S_TOKEN=" in step.command for step in plan_k3s(Lab(HOSTS)))


def test_parts_of_gpus_take_gates_and_our_agents_whole_ones_nvidia_s_plugin():
    parts, whole = ("\n".join(step.command for step in plan_k3s(Lab(HOSTS, shares=shares))) for shares in (True, False))
    assert ("DRAConsumableCapacity" in parts, "agents.dra.enabled=true" in parts, "nvidia-device-plugin" in parts) == (True, True, False)
    assert ("DRAConsumableCapacity" in whole, "agents.dra.enabled=true" in whole, "nvidia-device-plugin" in whole) == (False, False, True)


def test_homes_stay_on_a_node_unless_a_class_lets_many_write():
    assert "sessions.homes.access=one" in plan_k3s(Lab(HOSTS))[-3].command
    assert "sessions.homes.storageClass=nfs" in plan_k3s(Lab(HOSTS, storage_class="nfs"))[-3].command


@pytest.mark.parametrize("lab", [Lab(HOSTS), Lab(("one",), shares=False)])
def test_a_shell_reads_every_line(lab):
    script = "\n".join(step.command for step in plan_k3s(lab))
    assert subprocess.run(["sh", "-n"], input=script, text=True, capture_output=True, check=False).stderr == ""
    for step in plan_k3s(lab):
        assert shlex.split(step.command)


@pytest.mark.parametrize("hosts", [(), ("a;reboot",), ("-oProxyCommand=x",), ("a b",), ("$(x)",), ("gpu01", "root@gpu01"), ("a'b",)])
def test_what_is_no_host_is_refused(hosts):
    with pytest.raises(BadInput):
        plan_k3s(Lab(hosts))
