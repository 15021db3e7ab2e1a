"""What a session with a part of a GPU finds inside: limits, ledger and the list of libraries to load first."""
import os
import struct
from dataclasses import replace

import pytest

from builders import a_gpu_seat, a_seat, a_session
from gpufairy.core.node import Sharing
from gpufairy.core.share import PARTS
from gpufairy.engines.share_files import limits_text, share_mounts, shared_gpus, write_share
from gpufairy.engines.share_ledger import LEDGER_BYTES, held_bytes, new_ledger

GIB = 2**30
HALF = a_gpu_seat(parts=PARTS // 2, simulated=False, sharing=Sharing.MPS)


def with_gpus(*gpus):
    return a_session("true", seat=a_seat("here", *gpus))


def test_parts_of_real_gpus_are_shared_and_nothing_else_is():
    apart = replace(HALF, parts=PARTS, memory_parts=PARTS // 4)
    assert shared_gpus(with_gpus(HALF, apart)) == (HALF, apart)
    assert shared_gpus(with_gpus(replace(HALF, simulated=True))) == ()
    assert shared_gpus(with_gpus(a_gpu_seat(simulated=False))) == ()
    assert shared_gpus(with_gpus(replace(HALF, profile="1g.5gb", sharing=Sharing.MIG))) == ()


def test_the_limits_say_what_the_seat_says_and_name_mps_only_where_it_is_used():
    text = limits_text([HALF], mps=True).splitlines()
    assert text[0] == "fairyshare 1"
    assert text[1].startswith(f"gpu {HALF.uuid} memory_bytes={20 * GIB} sm_percent=50 context_bytes=")
    assert text[2] == "mps /run/fairy/mps"
    assert "mps" not in limits_text([replace(HALF, sharing=Sharing.TIME)], mps=False)


@pytest.mark.skipif(os.geteuid() != 0, reason="files are given to another account")
def test_files_are_laid_out_so_that_the_session_owns_its_ledger_and_nothing_else(tmp_path):
    (tmp_path / "inside").mkdir()
    write_share(tmp_path, [HALF], 70001, mps=True)
    assert (tmp_path / "preload").read_text() == "/opt/fairy/lib/libfairyshare.so\n"
    owned = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.stat().st_uid == 70001}
    assert owned == {"ledger/memory"}
    assert os.stat(tmp_path / "inside" / "share" / "limits").st_mode & 0o777 == 0o644
    by_target = {mount.target: mount for mount in share_mounts(tmp_path, tmp_path / "pipes")}
    assert [target for target, mount in by_target.items() if mount.writable] == ["/run/fairy/ledger"]
    assert by_target.keys() == {"/etc/ld.so.preload", "/run/fairy/ledger", "/run/fairy/mps", "/tmp/nvidia-mps"}
    assert len(share_mounts(tmp_path, None)) == 2


def test_a_ledger_is_made_once_and_never_cut_under_those_who_use_it(tmp_path):
    ledger = tmp_path / "memory"
    new_ledger(ledger)
    assert ledger.stat().st_size == LEDGER_BYTES
    assert held_bytes(ledger) == {}
    with open(ledger, "r+b") as file:
        file.seek(4096 + 8 * 16 * 1024)
        file.write(struct.pack("<Q", 5 * GIB))
        file.seek(4096 + 16 * 16 * 1024)
        file.write(struct.pack("<I", 77))
    new_ledger(ledger)
    assert held_bytes(ledger) == {77: 5 * GIB}
    ledger.write_bytes(b"nonsense")
    assert held_bytes(ledger) == {}
