"""Native parts on a machine without a compiler, or without the static libc: what is missing, and the package that has it there.

RHEL and the like are pretended: by what their /etc/os-release says, and a `cc` that says what theirs does where glibc-static is missing.
"""
import os
from pathlib import Path

import pytest

from gpufairy.core.errors import EngineRefused
from gpufairy.engines import build_native

RELEASES = {
    "Debian 12": 'ID=debian\nVERSION_ID="12"\n',
    "Ubuntu 22.04": "ID=ubuntu\nID_LIKE=debian\n",
    "RHEL 9": 'ID="rhel"\nID_LIKE="fedora"\nVERSION_ID="9.4"\n',
    "Rocky 9": 'ID="rocky"\nID_LIKE="rhel centos fedora"\n',
    "openSUSE": 'ID="opensuse-leap"\nID_LIKE="suse opensuse"\n',
}
PACKAGES = {
    "Debian 12": "apt-get install -y gcc libc6-dev",
    "Ubuntu 22.04": "apt-get install -y gcc libc6-dev",
    "RHEL 9": "dnf install -y gcc glibc-static",
    "Rocky 9": "dnf install -y gcc glibc-static",
    "openSUSE": "zypper install -y gcc glibc-devel-static",
}
WITHOUT_STATIC_LIBC = """#!/bin/sh
case " $* " in *" -static "*) ;; *) exit 0 ;; esac
echo '/usr/bin/ld: cannot find -lc: No such file or directory' >&2
echo 'collect2: error: ld returned 1 exit status' >&2
exit 1
"""


@pytest.fixture
def path(tmp_path, monkeypatch) -> Path:
    """All that is on the PATH."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(build_native, "SHIPPED", tmp_path / "none")
    return tmp_path / "bin"


@pytest.mark.parametrize("name", RELEASES)
def test_without_a_compiler_the_packages_are_named_as_they_are_called_there(path, tmp_path, monkeypatch, name):
    monkeypatch.setattr(build_native, "OS_RELEASE", tmp_path / "os-release")
    (tmp_path / "os-release").write_text(RELEASES[name])
    with pytest.raises(EngineRefused) as refused:
        build_native.build(tmp_path / "made")
    assert refused.value.next_step.split("; ")[-1] == ("" if os.geteuid() == 0 else "sudo ") + PACKAGES[name]


def test_without_the_static_libc_it_is_told_what_the_linker_did_not_find(path, tmp_path):
    (path / "cc").write_text(WITHOUT_STATIC_LIBC)
    (path / "cc").chmod(0o755)
    with pytest.raises(EngineRefused, match="cannot find -lc"):
        build_native.build(tmp_path / "made")
