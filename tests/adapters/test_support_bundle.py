"""A support bundle with canaries in every place where a secret may lie: none of them flies out."""
import asyncio
import json
import os
import sqlite3
import subprocess
import sys
import tarfile
from contextlib import closing
from pathlib import Path

import pytest
from backup_scene import a_folder
from store_builders import NOW, a_store

from gpufairy.core.people import Role, User
from gpufairy.main import support_parts
from gpufairy.main.support import readable_places, write_bundle
from gpufairy.main.upkeep_places import note_settings

SOURCE = Path(__file__).parents[2] / "src"
CANARY = "Canary"
SETTINGS = """
[server]
url = "https://gpu.lab.example"
[policy]
half_life = "3d"
[oidc]
issuer = "https://sso.example/realms/CanaryRealm"
client_id = "CanaryClient1"
client_secret_file = "{folder}/oidc.secret"
[[channels]]
name = "ops"
kind = "slack"
url_file = "{folder}/slack.url"
[[channels]]
name = "hook"
kind = "webhook"
url = "https://hooks.example/CanaryHook/1"
secret_env = "FAIRY_TEST_CANARY"
[[channels]]
name = "mail"
kind = "email"
host = "smtp.example"
sender = "fairy@lab.example"
to = ["CanaryMail@lab.example"]
user = "CanarySmtpUser1"
password_file = "{folder}/smtp.password"
[presets.desk]
env = {{API_KEY = "CanaryPreset9"}}
[watch]
users = ["canarywatched-1"]
"""
LOG = """2026-11-16 12:00:00,000 gpufairy.x INFO minjicanary signed in with fairy_{canary}Token
2026-11-16 12:00:01,000 gpufairy.x WARNING channel ops: https://hooks.slack.example/services/{canary}/B/C refused
2026-11-16 12:00:02,000 gpufairy.x WARNING smtp.example: password={canary}Pass
2026-11-16 12:00:03,000 gpufairy.x INFO Authorization: Bearer {canary}Bearer
2026-11-16 12:00:04,000 gpufairy.x INFO the password was canary-smtp-pw and the hook canary-oidc-pw
2026-11-16 12:00:05,000 gpufairy.loop WARNING loop place: database is locked; again in 0.2 s
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    data = a_folder(tmp_path / "data").data
    for name, text in {"oidc.secret": "canary-oidc-pw", "slack.url": "https://hooks.slack.example/canary-slack-url", "smtp.password": "canary-smtp-pw\n"}.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("FAIRY_TEST_CANARY", "canary-from-env")
    (tmp_path / "fairy.toml").write_text(SETTINGS.format(folder=tmp_path))
    note_settings(data, tmp_path / "fairy.toml")
    (data / "server.log").write_text(LOG.format(canary=CANARY) + "said canary-from-env and canary-gateway and canary-session and canary-passes\n")
    (data / "ssh" / "gateway.token").write_text("canary-gateway")
    (data / "ssh" / "gateway.log").write_text(f"-----BEGIN OPENSSH PRIVATE KEY-----\n{CANARY}Key\n")
    (data / "ssh" / "host_ed25519").write_text("-----BEGIN KEY-----\ncanary-host-key\n-----END KEY-----")
    run = data / "sessions" / "run" / "id.1"
    run.mkdir(parents=True)
    (run / "token").write_text("canary-session")
    asyncio.run(people(data))
    return data


async def people(data):
    async with a_store(f"sqlite:///{data / 'fairy.db'}") as store:
        await store.people.add_user(User("minjicanary", Role.USER, NOW))
        await store.meta.put("pass_secret", "canary-passes")


def inside(archive):
    with tarfile.open(archive) as tar:
        return {member.name.removeprefix("fairy-support/"): tar.extractfile(member).read().decode() for member in tar.getmembers()}


@pytest.fixture(autouse=True)
def quick_doctor(monkeypatch):
    monkeypatch.setattr(support_parts, "doctor", lambda: '[{"check": "x", "ok": true, "found": "token: CanaryDoctor"}]')


def test_no_canary_flies_out(folder, tmp_path):
    write_bundle(tmp_path / "out.tar.gz", *readable_places(folder), with_names=False)
    found = inside(tmp_path / "out.tar.gz")
    assert {"about.json", "settings.json", "server.json", "database.json", "disk.json", "doctor.json", "logs/server.log", "logs/ssh-gateway.log"} <= found.keys()
    for name, text in found.items():
        where = [line for line in text.splitlines() if "canary" in line.lower()]
        assert where == [], name
    assert (tmp_path / "out.tar.gz").stat().st_mode & 0o077 == 0


def test_what_helps_is_in_it(folder, tmp_path):
    write_bundle(tmp_path / "out.tar.gz", *readable_places(folder), with_names=False)
    found = inside(tmp_path / "out.tar.gz")
    assert json.loads(found["settings.json"])["policy"]["half_life"] == "3d"
    assert json.loads(found["database.json"])["rows"]["sessions"] == 3
    assert json.loads(found["database.json"])["sessions"] == {"placed": 2, "queued": 1}
    assert "loop place: database is locked; again in 0.2 s" in found["logs/server.log"]
    assert "user-2 signed in" in found["logs/server.log"]
    assert json.loads(found["about.json"])["packages"]["SQLAlchemy"]


def test_names_stay_when_that_is_asked_for(folder, tmp_path):
    write_bundle(tmp_path / "out.tar.gz", *readable_places(folder), with_names=True)
    assert "minjicanary signed in" in inside(tmp_path / "out.tar.gz")["logs/server.log"]


def test_settings_that_cannot_be_read_are_told_of_and_not_shown(folder, tmp_path):
    (tmp_path / "fairy.toml").write_text("[policy]\nhalf_lyfe = 'CanaryTypo'\n")
    write_bundle(tmp_path / "out.tar.gz", *readable_places(folder), with_names=False)
    found = inside(tmp_path / "out.tar.gz")
    assert "cannot be read" in found["server.json"]
    assert CANARY not in "".join(found.values())


def test_a_damaged_database_is_told_of(folder, tmp_path):
    for file in folder.glob("fairy.db*"):
        file.unlink()
    (folder / "fairy.db").write_bytes(b"not a database at all" * 100)
    write_bundle(tmp_path / "out.tar.gz", *readable_places(folder), with_names=False)
    assert "not a database" in json.loads(inside(tmp_path / "out.tar.gz")["database.json"])["trouble"]


@pytest.mark.slow
def test_the_command_writes_it_where_it_is_told(folder, tmp_path):
    env = {**os.environ, "PYTHONPATH": str(SOURCE), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    done = subprocess.run(
        [sys.executable, "-m", "gpufairy", "support-bundle", "--data", str(folder), "--to", str(tmp_path / "b.tar.gz"), "--json"],
        env=env, capture_output=True, text=True, timeout=180, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "logs/server.log" in json.loads(done.stdout)["files"]
    assert not [line for text in inside(tmp_path / "b.tar.gz").values() for line in text.splitlines() if "canary" in line.lower()]
    with closing(sqlite3.connect(folder / "fairy.db")) as connection:  # and nothing here was changed by it
        assert connection.execute("SELECT count(*) FROM users").fetchone() == (2,)


@pytest.mark.system
async def test_names_and_secrets_of_postgresql_are_known_too(postgres_url, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    async with a_store(postgres_url) as store:
        await store.people.add_user(User("minjicanary", Role.USER, NOW))
        await store.meta.put("pass_secret", "canary-passes")
    (tmp_path / "fairy.toml").write_text(f'[server]\nstore = "{postgres_url}"\n')
    note_settings(data, tmp_path / "fairy.toml")
    (data / "server.log").write_text("minjicanary had canary-passes\n")
    write_bundle(tmp_path / "out.tar.gz", *readable_places(data), with_names=False)
    assert inside(tmp_path / "out.tar.gz")["logs/server.log"] == "user-1 had [masked]\n"
