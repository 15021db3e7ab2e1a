"""`fairy env`: JupyterLab and its like, installed once on a machine for every session and every image, in the folder seen as /shared."""
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from gpufairy.cli.options import AsJson, example_text, group
from gpufairy.core.errors import BadInput, EngineRefused
from gpufairy.core.names import nearest
from gpufairy.main.containers import shared_folder
from gpufairy.main.folders import data_folder
from gpufairy.wire.config import load_config

app = group("Apps for all sessions: installed once, used by any image.", "fairy env add jupyter")

INSIDE = "/shared/envs"
# In any image: our own Python, which every session has, with what lies beside this file. Its path is not put into the environment,
# where the programs that it starts, a notebook's kernel of another Python for one, would find it too.
PROGRAM = """\
#!/bin/sh
{env}exec /opt/fairy/bin/python3 -c 'import sys; sys.path.insert(0, "{site}"); sys.argv[0] = "{name}"
from {module} import {call}
sys.exit({call}())' "$@"
"""


@dataclass(frozen=True, slots=True)
class Env:
    packages: tuple[str, ...]
    programs: dict[str, tuple[str, str]]  # by name: module and function
    env: tuple[str, ...] = ()  # {site} is filled in


JUPYTER_ENV = (
    "JUPYTER_PATH={site}/share/jupyter", "JUPYTERLAB_DIR={site}/share/jupyter/lab", "JUPYTER_CONFIG_PATH={site}/etc/jupyter",
)  # fmt: skip
ENVS = {
    "jupyter": Env(
        ("jupyterlab", "ipykernel"),
        {"jupyter-lab": ("jupyterlab.labapp", "main"), "kernel": ("ipykernel.kernelapp", "launch_new_instance")},
        JUPYTER_ENV,
    ),
    # Its server starts others by `python -m`: they must find it too.
    "mlflow": Env(("mlflow",), {"mlflow": ("mlflow.cli", "cli")}, ("PYTHONPATH={site}",)),
    "tensorboard": Env(("tensorboard",), {"tensorboard": ("tensorboard.main", "run_main")}),
}

Data = Annotated[Path | None, typer.Option("--data", metavar="DIR", help="The server's, as for `fairy up`.")]
Config = Annotated[Path | None, typer.Option("--config", metavar="FILE", help="The server's fairy.toml.")]


@app.command(epilog=example_text("fairy env add jupyter\nfairy env add mlflow"))
def add(name: Annotated[str, typer.Argument(metavar="APP", help=", ".join(ENVS))], data: Data = None, config: Config = None) -> None:
    """Install an app for all sessions, or its newest version over an older one. Run it on the server's machine."""
    if name not in ENVS:
        raise BadInput(f"app: no {name[:40]!r}{nearest(name, ENVS)}", f"Write one of {', '.join(ENVS)}.")
    folder = shared_folder(data_folder(data, dict(os.environ)), load_config(config)) / "envs" / name
    typer.echo(f"installing {', '.join(ENVS[name].packages)} into {folder} (a few minutes)", err=True)
    os.umask(0o022)  # all that is made from here on is for every session's uid to read
    new = folder.with_name(f".{name}.new")
    shutil.rmtree(new, ignore_errors=True)
    install(new / "site", ENVS[name].packages)
    write_programs(new, name)
    shutil.rmtree(folder, ignore_errors=True)
    new.rename(folder)
    typer.echo(f"{name} is there for all sessions: fairy open NAME {name}")


@app.command("list", epilog=example_text("fairy env list"))
def list_envs(data: Data = None, config: Config = None, as_json: AsJson = False) -> None:
    """List what can be installed for all sessions, and what is."""
    envs = shared_folder(data_folder(data, dict(os.environ)), load_config(config)) / "envs"
    items = [{"name": name, "installed": (envs / name / "bin").is_dir(), "packages": list(env.packages)} for name, env in ENVS.items()]
    if as_json:
        typer.echo(json.dumps({"items": items}))
        return
    for item in items:
        typer.echo(f"{item['name']:<12} {'installed' if item['installed'] else 'not installed: fairy env add ' + str(item['name'])}")


def install(site: Path, packages: tuple[str, ...]) -> None:
    """For the very Python that sessions find in /opt/fairy, which is ours."""
    site.mkdir(parents=True)
    uv = shutil.which("uv")
    by_uv = [uv or "", "pip", "install", "-q", "-p", sys.executable, "--target", str(site), *packages]
    by_pip = [sys.executable, "-P", "-m", "pip", "install", "-q", "--disable-pip-version-check", "--target", str(site), *packages]
    done = subprocess.run(by_uv if uv else by_pip, check=False)
    if done.returncode != 0:
        raise EngineRefused(f"{', '.join(packages)} could not be installed: see above", "Is a package registry reachable from here?")


def write_programs(folder: Path, name: str) -> None:
    """`folder` is seen as /shared/envs/NAME."""
    wanted, site = ENVS[name], f"{INSIDE}/{name}/site"
    (folder / "bin").mkdir(exist_ok=True)
    env = "".join(f"export {line.format(site=site)}\n" for line in wanted.env)
    for program, (module, call) in wanted.programs.items():
        path = folder / "bin" / program
        path.write_text(PROGRAM.format(env=env, site=site, name=program, module=module, call=call))
        path.chmod(0o755)
    if name == "jupyter":
        write_kernel(folder / "site" / "share" / "jupyter" / "kernels" / "python3")


def write_kernel(folder: Path) -> None:
    """The one that notebooks get without a word. Another Python's is added inside: python -m ipykernel install --user."""
    folder.mkdir(parents=True, exist_ok=True)
    argv = [f"{INSIDE}/jupyter/bin/kernel", "-f", "{connection_file}"]
    (folder / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "Python 3", "language": "python"}))
