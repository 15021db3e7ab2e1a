"""Apps of sessions: which there are, how each is started inside, and the host name at which a browser finds it. No I/O here."""
import hashlib
import re
from dataclasses import dataclass

from gpufairy.core.amounts import shown
from gpufairy.core.errors import BadInput
from gpufairy.core.names import nearest

TICKET_PREFIX = "fairyt_"  # tells ours from the `?ticket=` of an app's own sign-in
OUR_COOKIES = "fairy_"  # how the names of all cookies of ours begin: no app ever sees one, or sets one
LONGEST_LABEL = 63  # of a host name's part, by DNS
HASH_DIGITS = 20  # 80 bits: two of these never meet

_PLAIN_USER = re.compile(r"[a-z][a-z0-9]*")
_ANY_PORT = re.compile(r"port:([0-9]{1,5})")


@dataclass(frozen=True, slots=True)
class App:
    name: str
    title: str
    port: int  # inside the session, where it has a loopback of its own
    programs: tuple[str, ...] = ()  # looked for in this order; `python3:NAME` is a module. None: it is not ours to start
    flags: dict[str, tuple[str, ...]] | None = None  # by the program's own name; {port} is filled in
    env: tuple[tuple[str, str], ...] = ()
    folder: str = "."  # below $HOME, made for it first
    to_get: str = ""  # what to do where none of the programs is

    def argv(self, found: str, port: int) -> tuple[str, ...]:
        """`found`: one of the programs, or a path to it."""
        called, _, module = found.partition(":") if found in self.programs else (found, "", "")
        flags = (self.flags or {})[module or called.rpartition("/")[2]]
        return (called, *(("-m", module) if module else ()), *(flag.format(port=port) for flag in flags))


# No token and no password: inside it listens on the session's own loopback, and the only way from outside is the proxy, which has
# asked who comes. It runs with $HOME as its folder.
JUPYTER_FLAGS = (
    "--no-browser", "--allow-root", "--ip=127.0.0.1", "--port={port}", "--ServerApp.port_retries=0", "--ServerApp.base_url=/",
    "--ServerApp.root_dir=.", "--ServerApp.token=", "--ServerApp.password=", "--IdentityProvider.token=",
    "--ServerApp.allow_remote_access=True",
)  # fmt: skip
MLFLOW_FLAGS = (
    "server", "--host", "127.0.0.1", "--port", "{port}", "--backend-store-uri", "sqlite:///mlruns/mlflow.db",
    "--artifacts-destination", "mlruns/artifacts", "--workers", "1",  # for one user: each of the usual four takes half a GiB
)  # fmt: skip
# It knows no host but localhost by itself, and the proxy has checked host and origin before. Its job runners are four processes more.
MLFLOW_ENV = (
    ("MLFLOW_SERVER_ALLOWED_HOSTS", "*"), ("MLFLOW_SERVER_CORS_ALLOWED_ORIGINS", "*"), ("MLFLOW_SERVER_ENABLE_JOB_EXECUTION", "false"),
)  # fmt: skip
CODE_SERVER_FLAGS = ("--auth", "none", "--bind-addr", "127.0.0.1:{port}", "--disable-telemetry", "--disable-update-check", ".")
OPENVSCODE_FLAGS = ("--host", "127.0.0.1", "--port", "{port}", "--without-connection-token", "--accept-server-license-terms")


def for_all(app: str) -> str:
    return f"An admin gives it to all sessions, on the server's machine: fairy env add {app}"


APPS = (
    App(
        "jupyter", "Jupyter", 8888,
        ("jupyter-lab", "python3:jupyterlab", "/opt/fairy/envs/jupyter/bin/jupyter-lab", "/shared/envs/jupyter/bin/jupyter-lab"),
        {"jupyter-lab": JUPYTER_FLAGS, "jupyterlab": JUPYTER_FLAGS},
        to_get=f"In the session: pip install --user jupyterlab. {for_all('jupyter')}",
    ),
    App(
        "tensorboard", "TensorBoard", 6006, ("tensorboard", "/shared/envs/tensorboard/bin/tensorboard"),
        # Its fast loader is a program of its own, which not every image can run.
        {"tensorboard": ("--load_fast=false", "--logdir", "runs", "--host", "127.0.0.1", "--port", "{port}")},
        to_get=f"In the session: pip install --user tensorboard. {for_all('tensorboard')}",
    ),
    App(
        "mlflow", "MLflow", 5000, ("mlflow", "/shared/envs/mlflow/bin/mlflow"), {"mlflow": MLFLOW_FLAGS},
        MLFLOW_ENV, "mlruns",
        f"In the session: pip install --user mlflow. {for_all('mlflow')}",
    ),
    App(
        "code", "VS Code", 8080, ("code-server", "openvscode-server", "/shared/envs/code/bin/code-server"),
        {"code-server": CODE_SERVER_FLAGS, "openvscode-server": OPENVSCODE_FLAGS},
        to_get="Use an image that has code-server. An admin can give it to all: unpack its release into SHARED/envs/code, where SHARED is "
        "the folder seen as /shared.",
    ),
)  # fmt: skip
BY_NAME = {app.name: app for app in APPS}


def app_named(text: str) -> App:
    """`jupyter`, or `port:8000` for whatever the user has started there."""
    if text in BY_NAME:
        return BY_NAME[text]
    any_port = _ANY_PORT.fullmatch(text)
    if any_port is not None and 0 < int(any_port[1]) < 65536:
        port = int(any_port[1])
        return App(f"port:{port}", f"port {port}", port)
    raise BadInput(f"app: {shown(text)} is none{nearest(text, BY_NAME)}", f"Write one of {', '.join(BY_NAME)}, or port:8000 for any port.")


@dataclass(frozen=True, slots=True)
class Stall:
    """An app of a session as the browser finds it: at an origin that is its own, for as long as that attempt of the session lives."""

    id: str  # in the name of its cookie
    session_id: str
    attempt: int
    owner: str
    session: str  # its name
    app: str
    number: int  # of the session's apps, from 1
    inside: int  # the port inside
    port: int  # the port that the browser speaks to
    host: str | None = None  # None: told apart by the port alone


def host_label(session: str, owner: str, number: int) -> str:
    """`NAME-USER`, and `NAME-USER-2` for the second app: no two of them are alike.

    What follows the last `-` begins with a letter (a user without `-`), a figure from 1 (a number) or a 0 (a hash, for whatever
    would not be told apart, is too long, or looks like an international name).
    """
    plain = f"{session}-{owner}" + (f"-{number}" if number > 1 else "")
    if _PLAIN_USER.fullmatch(owner) and len(plain) <= LONGEST_LABEL and plain[2:4] != "--":
        return plain
    digest = hashlib.sha256(f"{session}/{owner}/{number}".encode()).hexdigest()[:HASH_DIGITS]
    readable = re.sub(r"[^a-z0-9]+", "-", f"{session}-{owner}")[: LONGEST_LABEL - HASH_DIGITS - 2].strip("-")
    return f"{readable}-0{digest}"
