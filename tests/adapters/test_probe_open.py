"""Whether the device files of a session's GPUs can be opened, as the probe inside the session tells it."""
import errno
import json
import subprocess
import sys
from pathlib import Path

import pytest

from gpufairy.devices import probe_open
from gpufairy.devices.probe_open import fault_of, gpu_files, opens_any


@pytest.fixture
def dev(tmp_path) -> Path:
    for name in ("nvidia0", "nvidia12", "nvidiactl", "nvidia-uvm", "null"):
        (tmp_path / name).touch()
    return tmp_path


def test_only_the_files_of_gpus_are_tried(dev):
    assert [path.name for path in gpu_files(dev)] == ["nvidia0", "nvidia12"]


@pytest.mark.parametrize(
    ("faults", "told"),
    [
        ([0, errno.EPERM], True),
        ([errno.EPERM, errno.EPERM], False),
        ([errno.EPERM, errno.EIO], None),
        ([errno.ENODEV], None),
        ([errno.EACCES], None),
        ([], None),
    ],
    ids=["one opens", "the kernel forbids all", "another fault beside", "no driver", "not by its mode", "none there"],
)
def test_only_a_plain_no_of_the_kernel_to_all_of_them_is_a_no(monkeypatch, faults, told):
    answers = dict(enumerate(faults))
    monkeypatch.setattr(probe_open, "fault_of", lambda path: answers[path])
    assert opens_any(answers) is told


def test_a_fault_is_told_by_its_number(dev):
    assert fault_of(dev / "nvidia0") == 0
    assert fault_of(dev / "nothing") == errno.ENOENT


def test_it_prints_one_line_that_a_program_can_read(dev):
    done = subprocess.run([sys.executable, "-m", "gpufairy.devices.probe_open", str(dev)], capture_output=True, text=True, check=True, timeout=30)
    assert json.loads(done.stdout) == {"open": True}
