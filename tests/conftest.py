"""A PostgreSQL of our own for the tests, and the address of an empty database on it or on SQLite."""
import gc
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from bench.server import LiveServer

from album import ALBUM, taken_since
from warm import Template

pytest_plugins = ["suite.properties", "suite.order", "suite.report"]

# Started in the background of a script, pytest ignores Ctrl-C, and so would every command that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

BEGAN = time.time()
SERVERS = Path("/usr/lib/postgresql")  # where Debian and Ubuntu put them


gc.disable()  # while tests are gathered: what is made then stays, and a sixth of a run went into looking for garbage among it


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_configure(config: pytest.Config) -> None:
    if config.option.markexpr != "quiet":
        template = Template()
        LiveServer.spawn = template.spawn
        config.add_cleanup(template.close)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    taken = taken_since(BEGAN)
    if taken:
        terminalreporter.write_line(f"{taken} pictures of the pages are in {ALBUM}")


def server_programs() -> Path:
    found = sorted(SERVERS.glob("*/bin/initdb"), key=lambda program: int(program.parts[-3]))
    if found:
        return found[-1].parent
    pytest.skip(f"no PostgreSQL server in {SERVERS}: apt-get install postgresql")


def as_postgres(*command: object) -> None:
    """PostgreSQL refuses to run as root."""
    prefix = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    done = subprocess.run([*prefix, *map(str, command)], capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode == 0, f"{command[0]}: {done.stdout}{done.stderr}"


@pytest.fixture(scope="session")
def postgres_folder() -> Iterator[Path]:
    programs = server_programs()
    folder = Path(tempfile.mkdtemp(prefix="fairy-pg-"))  # short: a socket's path has at most 107 bytes
    data = folder / "data"
    if os.geteuid() == 0:
        account = pwd.getpwnam("postgres")
        os.chown(folder, account.pw_uid, account.pw_gid)
    as_postgres(programs / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
    options = f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off -c max_connections=100"
    as_postgres(programs / "pg_ctl", "-D", data, "-l", folder / "log", "-o", options, "-w", "start")
    yield folder
    as_postgres(programs / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
    shutil.rmtree(folder)


@contextmanager
def empty_database(folder: Path) -> Iterator[str]:
    name = f"fairy_{uuid.uuid4().hex}"
    with psycopg.connect(host=str(folder), user="postgres", dbname="postgres", autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
        yield f"postgresql://postgres@/{name}?host={folder}"
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def postgres_url(postgres_folder: Path) -> Iterator[str]:
    with empty_database(postgres_folder) as url:
        yield url


@pytest.fixture(scope="module")
def postgres_url_of_module(postgres_folder: Path) -> Iterator[str]:
    with empty_database(postgres_folder) as url:
        yield url


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/data/fairy.db"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.system)])
def store_url(request: pytest.FixtureRequest) -> str:
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url
