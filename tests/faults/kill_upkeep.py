"""Scenes of upkeep: a GPU is cut, a backup made and restored, an old database upgraded."""
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kill_scene import LONG, Scene, begin_start
from kill_stage import START, Stage

from gpufairy.client.errors import Problem
from gpufairy.store import steps
from gpufairy.store.database import open_database
from waits import until

OLD = "0005"  # a form of the tables from long ago


class Cut(Scene):
    """A GPU cut by MIG, another way than before."""

    cuts = (["3g.20gb", "3g.20gb"], ["1g.5gb", "2g.10gb", "3g.20gb"], ["4g.20gb"])

    def begin(self, stage: Stage) -> None:
        self.wanted = self.cuts[stage.number % len(self.cuts)]
        stage.number += 1
        [self.gpu] = [gpu for gpu in stage.client.mig() if gpu["index"] == 2]

    def play(self, stage: Stage) -> None:
        stage.tried(lambda: stage.client.mig_apply(self.gpu["uuid"], self.wanted))

    def settle(self, stage: Stage) -> None:
        stage.client.mig_apply(self.gpu["uuid"], self.wanted)
        [now] = [gpu for gpu in stage.client.mig() if gpu["index"] == 2]
        # An idle instance that is in nobody's way stays.
        assert Counter(self.wanted) <= Counter(one["profile"] for one in now["instances"])
        taken = [place for one in now["instances"] for place in range(one["start"], one["start"] + one["size"])]
        assert len(taken) == len(set(taken)), "two instances in one place"
        journal = [path.name for path in (stage.server.data / "mig").glob("*.order.json")]
        assert journal == [], "an order was left in the middle"
        name = stage.name("slice")
        stage.submit(name, "sleep 0.1", gpus=f"mig:{self.wanted[0]}")
        stage.ended(name, "done")


class BackedUp(Scene):
    def begin(self, stage: Stage) -> None:
        self.folder = stage.server.data / "backups"

    def play(self, stage: Stage) -> None:
        stage.tried(stage.client.make_backup)

    def settle(self, stage: Stage) -> None:
        assert list(self.folder.glob("*.tar.gz")) == [], "half of a backup has a name"
        made = stage.client.make_backup()
        assert (self.folder / made["name"]).stat().st_size > 0


@dataclass
class Restored(Scene):
    """`fairy restore`, which dies: what is there is the old database or the new one, and never half of each."""

    new: bool = False

    def begin(self, stage: Stage) -> None:
        self.file = Path(until(lambda: backup_of_now(stage), "another second: two backups of one have one name")["path"])
        self.name = stage.name("since")
        stage.submit(self.name, "sleep 0.1")
        stage.ended(self.name, "done")
        stage.server.kill()

    def play(self, stage: Stage) -> None:
        stage.server.process = self.restore(stage)

    def restore(self, stage: Stage) -> subprocess.Popen[str]:
        command = [sys.executable, START, "restore", str(self.file), "--data", str(stage.server.data)]
        return subprocess.Popen(command, env=stage.server.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def mend(self, stage: Stage) -> None:
        if self.new:
            del stage.acknowledged[self.name]
            stage.witness.forget()

    def settle(self, stage: Stage) -> None:
        assert [row for row in stage.witness.rows("select name from sessions") if row == (self.name,)] == ([] if self.new else [(self.name,)])
        stage.server.kill()
        with self.restore(stage) as again:
            said = again.communicate()[0]
        assert again.returncode == 0, said
        stage.acknowledged.pop(self.name, None)
        stage.witness.forget()
        self.file.unlink()
        stage.start()


def backup_of_now(stage: Stage) -> dict[str, Any] | None:
    try:
        return stage.client.make_backup()
    except Problem as problem:
        if "already" not in problem.detail:
            raise
        return None


@dataclass
class Upgraded(Scene):
    """An older database under what runs. Its sessions are found by their labels, as after any other loss."""

    passing: int = 1

    def begin(self, stage: Stage) -> None:
        self.name = stage.name("upgraded")
        stage.submit(self.name, LONG)
        self.id = stage.running(self.name)
        stage.server.kill()
        stage.witness.forget()
        stage.acknowledged = {self.name: self.id}
        make_old(stage)

    def play(self, stage: Stage) -> None:
        begin_start(stage)

    def mend(self, stage: Stage) -> None:
        with closing(sqlite3.connect(stage.server.data / "fairy.db")) as database:
            assert database.execute("select version_num from alembic_version").fetchone() == (OLD,), "half of an upgrade was kept"

    def settle(self, stage: Stage) -> None:
        assert stage.running(self.name) == self.id
        assert ("mina",) in stage.witness.rows("select name from users")
        stage.client.stop(self.name)
        stage.ended(self.name, "stopped")


def make_old(stage: Stage) -> None:
    """As the program of then left it, with one user in it."""
    for file in stage.server.data.glob("fairy.db*"):
        file.unlink()
    database = open_database(f"sqlite:///{stage.server.data / 'fairy.db'}")
    with database.writing.begin() as connection:
        steps.upgrade(connection, OLD)
    database.dispose()
    with closing(sqlite3.connect(stage.server.data / "fairy.db")) as connection, connection:
        connection.execute("insert into users (name, role, created_at, disabled) values ('mina', 'admin', 0, 0)")
