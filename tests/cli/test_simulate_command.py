"""`fairy simulate`: a trace and nodes are enough; the server is asked only for what was not said."""
import json

import pytest

from gpufairy.cli.simulate_nodes import nodes_of_server, parse_nodes, read_nodes
from gpufairy.core.errors import BadInput

JOBS = "submit,duration,gpus,user,time_limit\n0,3600,1,ann,3600\n60,3600,1,ann,3600\n120,3600,1,bob,3600\n"
GPU = {"index": 0, "uuid": "GPU-1", "kind": "A100-40GB", "memory_bytes": 40 * 2**30, "fgpu": 1, "mig": False, "instances": None}
NODE = {"name": "gpu01", "cpus": 16, "memory_bytes": 2**36, "gpus": [GPU], "pool": None, "runs_sessions": True, "state": "drained"}


@pytest.fixture
def jobs(tmp_path):
    (tmp_path / "jobs.csv").write_text(JOBS)
    return "jobs.csv"


def row(out, name):
    return next(line for line in out.splitlines() if line.startswith(name)).removeprefix(name).split("  ")


def cells(out, name):
    return [cell.strip() for cell in row(out, name) if cell.strip()]


def test_policies_stand_side_by_side_and_no_server_is_asked(server, fairy, jobs):
    done = fairy("simulate", jobs, "--nodes", "1x1xA100", "--policy", "fair,fifo")
    assert done.code == 0, done.err
    assert done.out.splitlines()[0] == "jobs.csv: 3 jobs of 2 users over 2 min, on 1 node with 1 GPU"
    assert cells(done.out, "waiting, longest") == ["1 h 59 min", "1 h 58 min"]
    assert cells(done.out, "worst off, mean slowdown") == ["ann 1.99", "bob 2.97"]
    assert server.asked == []


def test_scripts_get_every_figure(server, fairy, jobs):
    answer = json.loads(fairy("simulate", jobs, "--nodes", "1x1xA100", "--policy", "fair:half_life=1d,entry_penalty=0", "--json").out)
    assert (answer["jobs"], answer["users"], answer["nodes"], answer["gpus"], answer["notes"]) == (3, 2, 1, 1, [])
    [policy] = answer["policies"]
    figures = policy["figures"]
    assert policy["policy"] == "fair:half_life=1d,entry_penalty=0"
    assert (figures["jobs"], figures["span_s"], figures["wait_s"]["most"]) == (3, 3 * 3600, 7140)
    assert figures["utilisation"] == 1.0
    assert policy["times_real_time"] > 0


def test_the_servers_own_nodes_and_past_are_taken_where_nothing_else_is_said(server, fairy):
    asked = {"gpus": "1", "cpus": 2, "memory_bytes": 2**30, "time_s": 7200, "after": ["gone"]}
    times = {"submitted_at": "2100-01-01T08:00:00Z", "started_at": "2100-01-01T08:10:00Z", "ended_at": "2100-01-01T09:10:00Z"}
    session = {"owner": "ann", "team": "nlp", "priority": 0, "request": asked, **times}
    old = {**session, "id": "3", "submitted_at": "2001-01-01T00:00:00Z"}
    waits = {**session, "id": "2", "started_at": None, "ended_at": None}
    server.answers["GET", "/sessions"] = {"items": [{**session, "id": "1"}, waits, old], "next": None}
    server.answers["GET", "/nodes"] = {"items": [NODE, {**NODE, "name": "watched", "runs_sessions": False}]}
    server.answers["GET", "/teams"] = {"items": [{"name": "nlp", "share": 2}]}
    server.answers["GET", "/users"] = {"items": [{"name": "ann", "share": 0.5}]}
    server.answers["GET", "/quotas"] = {"items": [{"of": "user:*", "gpu_kind": "*", "gpus": 0.5, "gpu_hours": None, "sessions": None}]}
    held_back = fairy("simulate", "history", "--policy", "fair")
    assert (held_back.code, "ann holds 0 of their 0.5 GPUs; 1 asked" in held_back.out) == (3, True)
    done = fairy("simulate", "history", "--policy", "fair:user_gpus=1,fifo")
    assert done.code == 0, done.err
    assert "history: 1 job of 1 user" in done.out
    assert "1 session that never ran, or did not end yet: left out" in done.out
    assert server.calls("GET", "/sessions")[0].query["all_users"] == "1"


def test_a_past_in_which_nothing_ran_is_said(server, fairy):
    server.answers["GET", "/sessions"] = {"items": [], "next": None}
    done = fairy("simulate", "history", "--nodes", "1x1xA100")
    assert (done.code, "no session since" in done.err, "--since 90d" in done.err) == (2, True, True)


def test_jobs_that_never_fit_are_counted_and_named(server, fairy, tmp_path):
    (tmp_path / "big.csv").write_text("submit,duration,gpus,user,kind\n0,60,4,ann,\n0,60,1,bob,H200\n0,60,1,eve,\n")
    done = fairy("simulate", "big.csv", "--nodes", "1x2xA100-40GB")
    assert done.code == 0
    assert cells(done.out, "never started") == ["2"]
    assert "line 2 (ann): node001 has 2 of 2 GPUs wholly free, 4 asked; line 3 (bob): node001 has A100-40GB, not H200" in done.out
    (tmp_path / "big.csv").write_text("submit,duration,gpus,user\n0,60,4,ann\n")
    assert fairy("simulate", "big.csv", "--nodes", "1x2xA100-40GB").code == 3


def test_shares_and_made_up_limits_are_taken_and_said(server, fairy, tmp_path):
    (tmp_path / "jobs.csv").write_text("submit,duration,gpus,user\n0,3600,1,ann\n")
    done = fairy("simulate", "jobs.csv", "--nodes", "1x1xA100", "--share", "team:nlp=2", "--share", "user:ann=0.5", "--limit-factor", "2")
    assert (done.code, "1 jobs set no time limit" in done.out) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["gone.csv", "--nodes", "1x1xA100"], 4, "no file 'gone.csv'"),
        ([".", "--nodes", "1x1xA100"], 2, "cannot be read"),
        (["jobs.csv", "--nodes", "8xA100"], 2, "is no nodes, GPUs and kind"),
        (["jobs.csv", "--nodes", "1x8xA1000"], 2, "no kind of GPU that is known here"),
        (["jobs.csv", "--nodes", "0x8xA100"], 2, "not between 1"),
        (["jobs.csv", "--nodes", "1x1xA100", "--cluster", "jobs.csv"], 2, "both --nodes and --cluster"),
        (["jobs.csv", "--nodes", "1x1xA100", "--policy", "lifo"], 2, "is no policy"),
        (["jobs.csv", "--nodes", "1x1xA100", "--share", "nlp=2"], 2, "is no share"),
        (["jobs.csv", "--nodes", "1x1xA100", "--share", "team:nlp=-2"], 2, "is no share"),
        (["jobs.csv", "--nodes", "1x1xA100", "--share", "team:nlp=nan"], 2, "is no share"),
        (["jobs.csv", "--nodes", "1x1xA100", "--limit-factor", "0.5"], 2, "is not between 1"),
    ],
)
def test_what_cannot_be_is_refused_in_words(server, fairy, jobs, arguments, code, said):
    done = fairy("simulate", *arguments)
    assert (done.code, said in done.err) == (code, True), done.err


def test_nodes_are_written_in_few_words():
    nodes = parse_nodes("2x8xA100-80GB, 1x4xV100")
    assert [(node.name, len(node.gpus), node.gpus[0].kind) for node in nodes] == [
        ("node001", 8, "A100-80GB"), ("node002", 8, "A100-80GB"), ("node003", 4, "V100-16GB"),
    ]  # fmt: skip
    assert len({gpu.uuid for node in nodes for gpu in node.gpus}) == 20
    assert nodes[0].cpus_milli == 2 * nodes[2].cpus_milli


def test_a_list_of_nodes_may_be_openbs():
    lines = ["sn,cpu_milli,memory_mib,gpu,model", "a,64000,262144,2,P100", "b,32000,1024,0,"]
    first, second = read_nodes(lines, "nodes.csv")
    assert (first.name, first.cpus_milli, first.memory_bytes, first.gpus[1].kind) == ("a", 64000, 2**38, "P100-16GB")
    assert (second.gpus, second.memory_bytes) == ((), 2**30)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "no column for gpus"), (["gpus"], "found no nodes"), (["gpus", "-1"], "line 2: gpus: '-1'"),
        (["gpus,name", "1,a", "1,a"], "2 nodes are named 'a'"), (["gpus,memory", "1,much"], "line 2: memory: 'much'"),
    ],
)  # fmt: skip
def test_a_list_of_nodes_that_cannot_be_is_refused_with_its_line(lines, said):
    with pytest.raises(BadInput) as refused:
        read_nodes(lines, "nodes.csv")
    assert said in str(refused.value)


def test_a_gpu_of_the_server_keeps_its_cut():
    cut = {**GPU, "mig": True, "instances": [{"profile": "3g.20gb", "start": 0, "size": 4}]}
    [node] = nodes_of_server([{**NODE, "gpus": [cut, {**GPU, "index": 1, "uuid": "GPU-2", "fgpu": 5}]}])
    assert node.gpus[0].mig is not None
    assert [instance.profile for instance in node.gpus[0].instances] == ["3g.20gb"]
    assert node.gpus[1].fgpu_parts == 5_000_000
