"""A student's life on Kubernetes, on a real kubelet: the same commands, through the server as it is shipped."""
import subprocess
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from apps_browser import Tab
from bench.server import LiveServer
from kube_scene import kube_server
from test_ssh import LIMIT_S, Person, ssh_port
from web_terminal import a_terminal

from kube.cluster import Cluster
from waits import until, wait_for_state

pytestmark = [pytest.mark.kubernetes, pytest.mark.system, pytest.mark.slow]

PARTS = """
[ssh]
listen = "127.0.0.1"
[apps]
ports = "18560-18569"
"""


@pytest.fixture(scope="module")
def live(cluster_with_tools: Cluster) -> Iterator[LiveServer]:
    with kube_server(cluster_with_tools, parts=PARTS, ssh=True) as started:
        yield started


@pytest.fixture(scope="module")
def kim(live):
    return Person(live, "kim")


@pytest.fixture(scope="module")
def session(kim):
    """The one that most of these look at."""
    kim.client.submit({"name": "work", "kind": "interactive", "gpus": "0", "memory": "128MiB", "cpus": 0.05})  # others share the node
    return wait_for_state(kim.client, "work", "RUNNING")["name"]


def said(done) -> str:
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def test_a_job_runs_and_its_log_and_results_come_back(live, tmp_path):
    done = live.fairy("run", "--gpus", "0", "--cpus", "0.05", "--memory", "128MiB", "--name", "job", "--", "sh", "-c", "echo hello; echo 42 > /results/answer; exit 3", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (3, "hello\n"), done.stderr
    assert (tmp_path / "results" / "job" / "answer").read_text() == "42\n"


def test_plain_ssh_lands_in_a_pod_of_ones_own(kim, session):
    out = said(kim.ssh("whoami; hostname; pwd; echo $FAIRY_SESSION; touch kept; stat -c %a $FAIRY_TOKEN_FILE", session=session)).splitlines()
    assert out == ["kim", "work", "/home/kim", "work", "600"]


def test_a_command_has_its_exit_code_and_its_streams_apart(kim, session):
    done = kim.ssh("cat; echo oops >&2; exit 41", session=session, input=b"in\n")
    assert (done.returncode, done.stdout, done.stderr) == (41, b"in\n", b"oops\n")


def test_a_terminal_is_one_of_the_pod(kim, session):
    line = kim.line("tty; echo $TERM", session=session, options=("-tt",))
    command = " ".join(f"'{word}'" for word in line)
    done = subprocess.run(["script", "-qec", command, "/dev/null"], capture_output=True, timeout=LIMIT_S, check=False)
    assert b"/dev/pts/" in done.stdout


async def test_the_terminal_of_the_page_is_typed_into_and_resized(live, kim, session):
    token = live.client().create_token({"user": "kim"})["token"]
    async with a_terminal(live, session, "?columns=101&rows=31", Authorization=f"Bearer {token}") as terminal:
        await terminal.type("until [ \"$(stty size)\" = '31 101' ]; do sleep 0.1; done; echo $FAIRY_SESSION-$((6 * 7))\n")
        await terminal.until("work-42")
        await terminal.resize(120, 40)
        await terminal.type("until [ \"$(stty size)\" = '40 120' ]; do sleep 0.1; done; exit 7\n")
        assert await terminal.ended() == 1000
        assert terminal.exit == 7


def test_an_app_in_a_pod_is_opened_as_on_docker(kim, session):
    said(kim.ssh("mkdir -p www && echo the board > www/index.html && (httpd -p 127.0.0.1:8765 -h www </dev/null >/dev/null 2>&1)", session=session))
    until(lambda: kim.client.open_app(session, "port:8765")["state"] == "ready", "the app to answer")
    url = kim.client.open_app(session, "port:8765")["url"]
    assert Tab(url, f"http://127.0.0.1:{urlsplit(url).port}").get("/").body == b"the board\n"


def test_files_go_both_ways_by_sftp_also_when_no_session_runs(live, kim, session, tmp_path):
    sent = tmp_path / "sent"
    sent.write_bytes(bytes(range(256)) * 5000)
    common = [*kim.line()[1:-1][:-2]]
    batch = f"put {sent} by_sftp\nget by_sftp {tmp_path}/back\n"
    where = f"kim+{session}@127.0.0.1"
    subprocess.run(["sftp", *common, "-P", str(ssh_port(live)), "-b", "-", where], input=batch.encode(), check=True, capture_output=True, timeout=LIMIT_S)
    assert (tmp_path / "back").read_bytes() == sent.read_bytes()


def test_a_session_speaks_to_the_server_with_its_own_token(kim, session):
    assert "work" in said(kim.ssh("fairy ps", session=session))


def test_a_restarted_server_finds_what_runs_with_an_empty_database_too(live, kim, session, cluster_with_tools):
    before = pod_uid(cluster_with_tools, live.namespace)
    live.kill()
    for path in live.data.glob("fairy.db*"):
        path.unlink()
    live.start()
    found = until(lambda: next((one for one in live.client().sessions(owner="kim") if one["name"] == "work"), None), "the session to be adopted")
    assert (found["owner"], found["state"]) == ("kim", "RUNNING")
    assert pod_uid(cluster_with_tools, live.namespace) == before


def pod_uid(cluster: Cluster, namespace: str) -> list[str]:
    pods = cluster.ask("GET", f"/api/v1/namespaces/{namespace}/pods?labelSelector=gpufairy.io/role=session")["items"]
    return [pod["metadata"]["uid"] for pod in pods if pod["status"]["phase"] == "Running"]
