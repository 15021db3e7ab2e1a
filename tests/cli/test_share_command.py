"""`fairy share`: the table, the rules under it, what MPS does, and who can find out what holds."""
import pytest

GPU = {
    "node": "gpu01", "index": 0, "uuid": "GPU-1", "kind": "A100-40GB", "simulated": False, "fgpu": 2, "memory_bytes": 40 * 2**30,
    "fgpu_memory_bytes": 20 * 2**30, "sharing": "mps", "enforced": [], "accounted": ["memory", "sm"], "tested_at": None, "mps": None,
}  # fmt: skip
MPS = {
    "daemon_pid": 77, "clients": 3, "client_limit": 48, "caps": {"sm_percent": 50, "memory_bytes": 20 * 2**30},
    "since": "2026-11-15T08:00:00Z", "trouble": None,
}  # fmt: skip
RULES = [{"of": "*", "fgpu": 2, "sharing": None}, {"of": "A100-40GB", "fgpu": 5, "sharing": "time"}, {"of": "GPU-1", "fgpu": None, "sharing": "mps"}]
PATH = ("GET", "/shares")


@pytest.fixture
def shares(server):
    def answer(gpu=GPU, rules=()):
        server.answers[PATH] = {"items": [gpu], "rules": list(rules), "note": "Faults are shared.", "next": None}

    return answer


def test_the_rules_are_told_under_the_table(shares, fairy):
    shares(rules=RULES)
    assert "rules: * is 2 fGPU; A100-40GB is 5 fGPU, by time; GPU-1 by mps\n" in fairy("share").out
    shares()
    assert "rules" not in fairy("share").out


def test_what_mps_does_is_told_where_it_runs_and_its_trouble_in_words(shares, fairy):
    shares()
    assert "GPU 0: MPS" not in fairy("share").out
    shares({**GPU, "mps": MPS})
    line = next(line for line in fairy("share").out.splitlines() if "MPS" in line)
    assert line.startswith("gpu01 GPU 0: MPS runs since ")
    assert line.endswith("3 of 48 programs use it, 50 % and 20 GiB at most for each")
    shares({**GPU, "mps": {**MPS, "daemon_pid": None, "caps": None, "since": None, "trouble": "it does not\x1b[2J start"}})
    line = next(line for line in fairy("share").out.splitlines() if "MPS" in line)
    assert line.startswith("gpu01 GPU 0: MPS does not run, 3 of 48 programs use it; trouble: it does not")
    assert "\x1b" not in line


def test_a_user_is_sent_to_an_admin_and_an_admin_to_the_command(shares, fairy, server):
    shares()
    assert "Ask an admin to run `fairy selftest isolation`." in fairy("share").out
    server.answers["GET", "/me"] = {"name": "boss", "role": "admin"}
    assert "not tested yet. Run `fairy selftest isolation`." in fairy("share").out


@pytest.mark.parametrize("number", ["nan", "inf"])
def test_what_is_no_number_is_told_of_the_option_and_never_sent(fairy, server, number):
    done = fairy("share", "set", "--fgpu", number)
    assert (done.code, f"fgpu: {number} is no number of fGPU" in done.err) == (2, True)
    assert not server.calls("PUT", "/shares")
