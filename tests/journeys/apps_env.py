"""JupyterLab and MLflow as users install them: one environment, made once a machine and kept for the next run of the tests."""
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

WANTED = ("jupyterlab==4.6.6", "ipykernel==7.4.0", "mlflow==3.17.2")
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpufairy-tests"


def apps_environment() -> Path:
    """Its `bin` folder."""
    key = hashlib.sha256(" ".join((sys.version, *WANTED)).encode()).hexdigest()[:12]
    folder = CACHE / f"apps-{key}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another worker may be making it
        if not (folder / "whole").exists():
            shutil.rmtree(folder, ignore_errors=True)
            make(folder)
            (folder / "whole").touch()
    return folder / "bin"


def make(folder: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", folder], check=True, capture_output=True)
    python, uv = folder / "bin" / "python", shutil.which("uv")  # which needs seconds where pip needs minutes
    by_pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *WANTED]
    install = [uv, "pip", "install", "-q", "-p", python, *WANTED] if uv else by_pip
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"JupyterLab and MLflow could not be installed: {done.stderr[-500:]}")
