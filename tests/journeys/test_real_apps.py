"""Real JupyterLab runs a cell, real MLflow compares runs: started by `fairy open`, reached as a browser reaches them."""
import pytest
from apps_browser import SETTINGS, Tab
from apps_env import apps_environment
from bench.server import LiveServer
from notebook import run_cell
from web_terminal import a_terminal

from waits import until, wait_for_state

pytestmark = [pytest.mark.slow, pytest.mark.system]

TRAINING = """
import mlflow
for rate in (0.1, 0.01, 0.001):
    with mlflow.start_run(run_name=f"rate-{rate}"):
        mlflow.log_param("rate", rate)
        for step in range(3):
            mlflow.log_metric("loss", rate + 1 / (step + 1), step=step)
print("trained", 3 * 14)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    programs = apps_environment()
    with LiveServer(tmp_path_factory.mktemp("fairy"), SETTINGS.format(ports="18480-18499"), ssh=True) as live:
        client = live.client()
        client.submit({"name": "lab", "kind": "interactive", "gpus": "0", "env": {"PATH": f"{programs}:/usr/bin:/bin"}})
        wait_for_state(client, "lab", "RUNNING")
        yield live


def ready(fairy, app: str):
    return until(lambda: (opened := fairy.open_app("lab", app))["state"] == "ready" and opened, f"{app} to answer", limit_s=90)


async def test_jupyterlab_runs_a_cell(fairy):
    tab = Tab(ready(fairy, "jupyter")["url"])
    assert await run_cell(tab, "print(6 * 7)") == "42\n"


async def test_mlflow_compares_the_runs_that_a_training_script_logged(server, fairy):
    opened = ready(fairy, "mlflow")
    tab = Tab(opened["url"])
    async with a_terminal(server, "lab") as terminal:
        await terminal.type(f"cat > train.py <<'END'\n{TRAINING}\nEND\nMLFLOW_TRACKING_URI=http://127.0.0.1:{opened['port']} {apps_environment()}/python train.py\n")
        await terminal.until("trained 42", limit_s=60)
    found = tab.send("POST", "/api/2.0/mlflow/runs/search", {"experiment_ids": ["0"], "order_by": ["metrics.loss ASC"]})
    assert found.status == 200
    runs = [run["data"] for run in found.json["runs"]]
    assert [run["params"][0]["value"] for run in runs] == ["0.001", "0.01", "0.1"]
    assert [round(metric["value"], 3) for run in runs for metric in run["metrics"] if metric["key"] == "loss"] == [0.334, 0.343, 0.433]
    assert b"MLflow" in tab.get("/").body
