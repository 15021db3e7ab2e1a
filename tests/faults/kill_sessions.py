"""Scenes of sessions: they run, end, are stopped, sent away, found again, made into images."""
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from kill_scene import LONG, Scene, begin_start
from kill_stage import SETTLES_WITHIN_S, Stage, end_session_processes

from waits import until, wait_for_state

OTHER_IMAGE = "fairy-test/other:1"


class Job(Scene):
    """Submitted, run, over."""

    def begin(self, stage: Stage) -> None:
        self.name = stage.name("job")

    def play(self, stage: Stage) -> None:
        stage.submit(self.name, "sleep 0.3")

    def settle(self, stage: Stage) -> None:
        stage.ask_again(self.name)
        stage.ended(self.name, "done")


class Stopped(Scene):
    def begin(self, stage: Stage) -> None:
        self.name = stage.name("long")
        stage.submit(self.name, LONG)
        stage.running(self.name)

    def play(self, stage: Stage) -> None:
        stage.tried(lambda: stage.client.stop(self.name))

    def settle(self, stage: Stage) -> None:
        stage.client.stop(self.name)
        stage.ended(self.name, "stopped")


class Expired(Stopped):
    """Its time is up: nobody has to ask."""

    def begin(self, stage: Stage) -> None:
        self.name = stage.name("brief")

    def play(self, stage: Stage) -> None:
        stage.submit(self.name, LONG, time="1s")

    def settle(self, stage: Stage) -> None:
        stage.ended(self.name, "expired")


class Retried(Scene):
    """Fails once, and is tried again."""

    def begin(self, stage: Stage) -> None:
        self.name = stage.name("again")

    def play(self, stage: Stage) -> None:
        stage.submit(self.name, "mkdir $w/second.$FAIRY_SESSION_ID 2>/dev/null && exit 3", retry=1)

    def settle(self, stage: Stage) -> None:
        stage.ask_again(self.name)
        assert stage.ended(self.name, "done", times=2)["attempt"] == 2


class Refused(Scene):
    """By the process engine, which finds a file where a home should be."""

    def begin(self, stage: Stage) -> None:
        self.name, self.owner = stage.name("refused"), stage.name("user")
        stage.client.add_user({"name": self.owner})
        self.user = stage.client
        self.token = stage.client.create_token({"user": self.owner})["token"]
        self.home = stage.server.data / "sessions" / "home" / self.owner
        self.home.touch()

    def play(self, stage: Stage) -> None:
        admin, stage.client = stage.client, stage.server.client(self.token)
        stage.submit(self.name, "sleep 0.1")
        stage.client = admin

    def mend(self, stage: Stage) -> None:
        self.home.unlink()

    def settle(self, stage: Stage) -> None:
        admin, stage.client = stage.client, stage.server.client(self.token)
        stage.ask_again(self.name)
        stage.ended(self.name, "done")
        stage.client = admin


@dataclass
class Silent(Scene):
    """The process engine cannot read what it wrote: nobody knows of any session. `then`: how it comes to be known again."""

    then: str = "silent"

    def begin(self, stage: Stage) -> None:
        self.name, self.runs = stage.name("silent"), stage.server.data / "sessions" / "run"
        stage.submit(self.name, LONG)
        self.id = stage.running(self.name)

    def play(self, stage: Stage) -> None:
        away = self.runs.rename(self.runs.with_name("run.away"))
        if self.then == "silent":
            return
        wait_for_state(stage.client, self.name, "LOST")
        if self.then == "gone":
            self.remove(stage)
        away.rename(self.runs)

    def remove(self, stage: Stage) -> None:
        end_session_processes(stage.witness.ran(self.id)[0].pid)
        until(lambda: not stage.witness.lives(self.id), "its processes to go")
        shutil.rmtree(self.runs.with_name("run.away") / f"{self.id}.1")

    def mend(self, stage: Stage) -> None:
        if (away := self.runs.with_name("run.away")).exists():
            away.rename(self.runs)

    def settle(self, stage: Stage) -> None:
        if self.then == "gone":
            stage.ended(self.name, "lost")
            return
        assert stage.running(self.name) == self.id
        stage.client.stop(self.name)
        stage.ended(self.name, "stopped")


class Kept(Scene):
    def begin(self, stage: Stage) -> None:
        self.name = stage.name("kept")
        stage.submit(self.name, LONG, time="5s")
        stage.running(self.name)

    def play(self, stage: Stage) -> None:
        stage.tried(lambda: stage.client.keep(self.name, "1h"))

    def settle(self, stage: Stage) -> None:
        stage.client.keep(self.name, "1h")
        stage.running(self.name)
        stage.client.stop(self.name)
        stage.ended(self.name, "stopped")


class Preempted(Scene):
    """Two whole GPUs held by one that may be sent away, and wanted by one that may not."""

    def begin(self, stage: Stage) -> None:
        self.low, self.first = stage.name("low"), stage.name("first")
        stage.submit(self.low, LONG, gpus="2", preemptible=True)
        stage.running(self.low)

    def play(self, stage: Stage) -> None:
        stage.submit(self.first, "sleep 0.1", gpus="2")

    def settle(self, stage: Stage) -> None:
        stage.ended(self.first, "done")
        low = until(lambda: (now := stage.client.session(self.low))["attempt"] == 2 and now["state"] == "RUNNING" and now, "low to be back", SETTLES_WITHIN_S)
        assert low["preempted"] == 1
        stage.client.stop(self.low)
        stage.ended(self.low, "stopped", times=None)


class Booked(Scene):
    """A booking begins where somebody else still runs."""

    def begin(self, stage: Stage) -> None:
        self.name, who = stage.name("inway"), stage.name("booker")
        stage.client.add_user({"name": who})
        stage.submit(self.name, LONG, gpus="1")
        stage.running(self.name)
        self.body = {"gpus": 3, "title": "all of it", "from": (datetime.now(UTC) + timedelta(seconds=1)).isoformat(), "time": "1h", "users": [who]}

    def play(self, stage: Stage) -> None:
        self.booking = stage.client.book(self.body)["id"]

    def settle(self, stage: Stage) -> None:
        until(lambda: stage.client.session(self.name)["state"] == "PENDING", "it to have left", SETTLES_WITHIN_S)
        stage.client.cancel_booking(self.booking)
        session_id = stage.running(self.name)
        until(lambda: len(stage.witness.ran(session_id)) == 2, "it to begin again")
        stage.client.stop(self.name)
        stage.ended(self.name, "stopped", times=2)


class Reclaimed(Scene):
    """Holds a GPU that it does not use, in a team that is not allowed to."""

    def begin(self, stage: Stage) -> None:
        self.name, owner = stage.name("idle"), stage.name("idler")
        stage.client.add_team("strict")
        stage.client.add_user({"name": owner, "team": "strict"})
        self.token = stage.client.create_token({"user": owner})["token"]

    def play(self, stage: Stage) -> None:
        admin, stage.client = stage.client, stage.server.client(self.token)
        stage.submit(self.name, LONG, gpus="0.5")
        stage.client = admin

    def settle(self, stage: Stage) -> None:
        admin, stage.client = stage.client, stage.server.client(self.token)
        stage.ended(self.name, "evicted")
        stage.client = admin


class Adopted(Scene):
    """The database is gone; what runs is found by its labels."""

    def begin(self, stage: Stage) -> None:
        self.name = stage.name("orphan")
        stage.submit(self.name, LONG)
        self.id = stage.running(self.name)
        stage.server.kill()
        for file in stage.server.data.glob("fairy.db*"):
            file.unlink()
        stage.witness.forget()
        stage.acknowledged = {self.name: self.id}

    def play(self, stage: Stage) -> None:
        begin_start(stage)

    def settle(self, stage: Stage) -> None:
        assert stage.running(self.name) == self.id
        stage.client.stop(self.name)
        stage.ended(self.name, "stopped")


class Committed(Scene):
    """A session made into an image."""

    def begin(self, stage: Stage) -> None:
        self.name = stage.name("made")
        self.image = f"fairy-kp/{self.name}:1"
        stage.submit(self.name, LONG, kind="interactive")
        stage.running(self.name)

    def play(self, stage: Stage) -> None:
        stage.tried(lambda: stage.client.commit(self.name, self.image))

    def settle(self, stage: Stage) -> None:
        stage.client.commit(self.name, self.image)
        assert [one["name"] for one in stage.client.images() if one["name"] == self.image] == [self.image]
        stage.client.stop(self.name)
        stage.ended(self.name, "stopped")


class Swapped(Scene):
    """Another image in the same seat."""

    def begin(self, stage: Stage) -> None:
        self.name = stage.name("swapped")
        stage.submit(self.name, LONG, kind="interactive")
        stage.running(self.name)

    def play(self, stage: Stage) -> None:
        stage.tried(lambda: stage.client.swap(self.name, OTHER_IMAGE))

    def settle(self, stage: Stage) -> None:
        if stage.client.session(self.name)["request"]["image"] != OTHER_IMAGE:
            stage.client.swap(self.name, OTHER_IMAGE)
        now = until(lambda: (seen := stage.client.session(self.name))["attempt"] == 2 and seen["state"] == "RUNNING" and seen, "it to be back", SETTLES_WITHIN_S)
        assert now["request"]["image"] == OTHER_IMAGE
        until(lambda: len(stage.witness.ran(now["id"])) == 2, "it to begin in the other image")
        stage.client.stop(self.name)
        stage.ended(self.name, "stopped", times=2)
