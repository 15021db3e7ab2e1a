"""What is read from /proc and from run folders is taken with care: others can write there too."""
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpufairy.engines.proc import boot_id, parse_stat, pids_by_sid, stat_of
from gpufairy.engines.run_folder import Claim, NoClaim, read_claim, read_exit, read_label, workload_id_of

LINE = b"42 (%s) S 1 42 42 0 -1 4194304 162 0 1 0 0 0 0 0 20 0 1 0 110985 2654208 408\n"
any_bytes = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.parametrize("name", [b"sh", b"a b", b") R 1 (", b"(x)", b"\xff\n"])
def test_a_process_may_call_itself_anything(name: bytes):
    stat = parse_stat(LINE % name)
    assert (stat.pid, stat.state, stat.sid, stat.start_ticks) == (42, "S", 42, 110985)


@given(st.binary(max_size=300))
def test_any_bytes_are_a_process_or_none(line: bytes):
    parse_stat(line)


def test_this_process_is_found():
    stat = stat_of(os.getpid())
    assert stat is not None
    assert os.getpid() in pids_by_sid()[stat.sid]
    assert boot_id()


@any_bytes
@given(st.binary(max_size=300))
def test_any_bytes_are_a_claim_an_exit_code_and_a_label_or_none(tmp_path: Path, content: bytes):
    for name in ("claim", "exit", "session.json"):
        (tmp_path / name).write_bytes(content)
    assert isinstance(read_claim(tmp_path), Claim | NoClaim)
    assert read_exit(tmp_path) in {None, *range(256)}
    assert read_label(tmp_path) is None


@pytest.mark.parametrize("name", ["", ".", "a", "a.", ".1", "a.b", "a.1x", "a.-1"])
def test_only_an_id_and_an_attempt_name_a_workload(name: str):
    assert workload_id_of(name) is None


def test_a_workload_is_named_by_its_id_and_attempt():
    assert str(workload_id_of("01ab.12")) == "01ab.12"
