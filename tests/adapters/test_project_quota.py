"""Project quotas: what the kernel is asked, as it is written in its headers; and in words, why it cannot be where it cannot.

The kernel's answers are recorded ones, save at the end: quotas need a disk that was mounted for them.
"""
import errno
import os
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from gpufairy.core.disk_limit import DiskLimit
from gpufairy.engines.project_quota import (
    ATTRIBUTES,
    GET_ATTRIBUTES,
    GET_QUOTA,
    INHERIT,
    QUOTA,
    SET_ATTRIBUTES,
    SET_QUOTA,
    ProjectQuotas,
    file_system_of,
    why_not,
)

GIB, MIB = 2**30, 2**20
MOUNTS = """22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw,discard
30 22 259:1 / /home rw,relatime shared:2 - xfs /dev/nvme0n1p1 rw,attr2,inode64,prjquota
31 22 259:2 / /srv/two\\040words rw,relatime - ext4 /dev/nvme1n1 rw
32 22 0:50 / /var/lib/layers rw,relatime - overlay overlay rw,lowerdir=/a:/b
"""


class RecordedKernel(ProjectQuotas):
    """Answers as XFS with prjquota does; remembers which inode bears which project, and every limit."""

    def __init__(self, refuses: int | None = None, mounts: str = MOUNTS) -> None:
        super().__init__(lambda: mounts)
        self.projects: dict[int, tuple[int, int]] = {}
        self.limits: dict[int, int] = {}
        self.used_bytes, self.refuses = 7 * GIB, refuses
        self.asked: list[tuple[int, int, bytes]] = []

    def attributes(self, here: int, command: int, body: bytes) -> bytes:
        inode = os.fstat(here).st_ino
        if command == SET_ATTRIBUTES:
            flags, _, _, project, _ = ATTRIBUTES.unpack(body)
            self.projects[inode] = (project, flags)
        project, flags = self.projects.get(inode, (0, 0))
        return ATTRIBUTES.pack(flags, 0, 0, project, 0)

    def quota_call(self, here: int, command: int, project: int, body: bytes) -> bytes:
        if self.refuses is not None:
            raise OSError(self.refuses, os.strerror(self.refuses))
        self.asked.append((command, project, body))
        if command == SET_QUOTA:
            self.limits[project] = QUOTA.unpack(body)[0]
        return QUOTA.pack(self.limits.get(project, 0), 0, self.used_bytes, 0, 0, 123, 0, 0, 63)


def test_what_is_asked_is_laid_out_as_the_kernel_has_it():
    assert (QUOTA.size, ATTRIBUTES.size) == (72, 28)
    assert (GET_QUOTA, SET_QUOTA) == (0x80000702, 0x80000802)
    assert (GET_ATTRIBUTES, SET_ATTRIBUTES) == (0x801C581F, 0x401C5820)


def test_a_limit_is_set_in_blocks_of_a_kib_and_read_back_with_what_is_used(tmp_path):
    kernel = RecordedKernel()
    assert kernel.set_limit(tmp_path, 20_001, 100 * GIB) == DiskLimit(100 * GIB, True, used_bytes=7 * GIB)
    command, project, body = kernel.asked[0]
    assert (command, project) == (SET_QUOTA, 20_001)
    assert struct.unpack("=8QI4x", body) == (100 * 2**20, 0, 0, 0, 0, 0, 0, 0, 1)
    assert kernel.used(tmp_path, 20_001) == 7 * GIB


def test_all_that_lies_in_a_home_bears_its_project_and_new_files_inherit_it(tmp_path):
    inside = tmp_path / "a" / "b"
    inside.mkdir(parents=True)
    (inside / "file").write_text("x")
    (tmp_path / "out").symlink_to("/etc")
    os.mkfifo(tmp_path / "pipe")
    kernel = RecordedKernel()
    kernel.set_limit(tmp_path, 20_001, GIB)
    folders = {folder.stat().st_ino for folder in (tmp_path, tmp_path / "a", inside)}
    assert {inode for inode, (_, flags) in kernel.projects.items() if flags & INHERIT} == folders
    assert kernel.projects[(inside / "file").stat().st_ino] == (20_001, 0)
    assert len(kernel.projects) == 4  # no link, no pipe, nothing outside
    assert Path("/etc").stat().st_ino not in kernel.projects


def test_a_home_that_bears_its_project_is_not_gone_through_again(tmp_path):
    kernel = RecordedKernel()
    kernel.set_limit(tmp_path, 20_001, GIB)
    late = tmp_path / "late"
    late.write_text("x")
    kernel.set_limit(tmp_path, 20_001, 2 * GIB)
    assert late.stat().st_ino not in kernel.projects  # the kernel itself lets new files inherit
    assert kernel.limits[20_001] == 2 * 2**20


def test_a_limit_is_taken_away_where_there_was_one(tmp_path):
    kernel = RecordedKernel()
    assert kernel.set_limit(tmp_path, 20_001, None) == DiskLimit(None, False)
    assert not kernel.asked
    kernel.set_limit(tmp_path, 20_001, GIB)
    assert not kernel.set_limit(tmp_path, 20_001, None).enforced
    assert kernel.limits[20_001] == 0


def test_a_home_that_is_not_there_yet_is_told(tmp_path):
    found = RecordedKernel().set_limit(tmp_path / "nobody", 20_001, GIB)
    assert (found.enforced, found.why_not) == (False, f"{tmp_path}/nobody cannot be opened: no such file or directory")


@pytest.mark.parametrize(
    ("path", "number", "found", "what_to_do"),
    [
        ("/var/lib/layers/x", errno.ENOTTY, "/var/lib/layers/x is on overlay, which has no project quotas", "Put homes on ext4 or XFS"),
        ("/srv/two words/kim", errno.ESRCH, "/srv/two words/kim is on ext4 without project quotas", "tune2fs -O project,quota /dev/nvme1n1"),
        ("/home/kim", errno.ENOSYS, "this kernel has no quotas for xfs", "CONFIG_XFS_QUOTA"),
        ("/home/kim", errno.EPERM, "the server may not set quotas on /home", "as root"),
        ("/home/kim", errno.EIO, "/home refused the quota: input/output error", "dmesg"),
    ],
)
def test_why_a_limit_cannot_be_is_said_with_what_to_do(path, number, found, what_to_do):
    place = file_system_of(path, MOUNTS)
    assert place is not None
    what, next_step = why_not(path, place, number, lambda _: None)
    assert what == found
    assert what_to_do in next_step


def test_nobody_is_told_to_prepare_a_disk_that_this_kernel_could_not_mount_then():
    place = file_system_of("/srv/two words/kim", MOUNTS)
    what, next_step = why_not("/srv/two words/kim", place, errno.EOPNOTSUPP, lambda option: option != "CONFIG_QFMT_V2")
    assert what == "this kernel has no quotas for ext4"
    assert "tune2fs" not in next_step


def test_the_file_system_of_a_path_is_the_nearest_mount_compared_part_by_part():
    assert file_system_of("/home/kim", MOUNTS).mounted_at == "/home"
    assert file_system_of("/home2/kim", MOUNTS).mounted_at == "/"
    hidden = MOUNTS + "33 22 0:60 / /home rw - tmpfs none rw\n"
    assert file_system_of("/home/kim", hidden).kind == "tmpfs"
    assert file_system_of("/home", "no line of the kernel's") is None


@pytest.mark.system
def test_the_real_kernel_sets_the_limit_or_says_why_not(tmp_path):
    found = ProjectQuotas().set_limit(tmp_path, 20_001, GIB)
    assert found.enforced or (found.why_not and found.next_step)
    assert found.limit_bytes == GIB


@pytest.fixture
def prepared_disk(tmp_path):
    """A disk in a file, made and mounted for project quotas. Skips where this kernel cannot mount one."""
    image, there = tmp_path / "disk.img", tmp_path / "disk"
    there.mkdir()
    with image.open("wb") as file:
        file.truncate(64 * MIB)
    made = subprocess.run(["mkfs.ext4", "-q", "-O", "quota,project", "-E", "quotatype=prjquota", image], capture_output=True, check=False)
    mounted = subprocess.run(["mount", "-o", "loop,prjquota", image, there], capture_output=True, text=True, check=False)
    if made.returncode or mounted.returncode:
        pytest.skip(f"this kernel mounts no disk with project quotas: {mounted.stderr.strip()[-200:]}")
    yield there
    subprocess.run(["umount", there], check=True)


@pytest.mark.system
@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("mkfs.ext4") is None, reason="needs root and mkfs.ext4")
def test_on_a_disk_with_project_quotas_writing_fails_at_the_limit(prepared_disk):
    home = prepared_disk / "kim"
    home.mkdir()
    (home / "before").write_bytes(b"x" * MIB)
    for path in (home, home / "before"):
        os.chown(path, 20_001, 20_001)
    quotas = ProjectQuotas()
    found = quotas.set_limit(home, 20_001, 5 * MIB)
    assert (found.limit_bytes, found.enforced) == (5 * MIB, True)
    assert quotas.used(home, 20_001) >= MIB  # what lay there before counts
    as_owner = ["setpriv", "--reuid=20001", "--regid=20001", "--clear-groups"]
    filled = subprocess.run([*as_owner, "dd", "if=/dev/zero", f"of={home}/more", "bs=1M", "count=20"], capture_output=True, text=True, check=False)
    assert filled.returncode != 0
    assert "quota" in filled.stderr.lower()
    assert quotas.used(home, 20_001) <= 5 * MIB
    assert not quotas.set_limit(home, 20_001, None).enforced
