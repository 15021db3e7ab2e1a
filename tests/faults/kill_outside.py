"""Scenes of what is asked of others: letters to admins, and pools of nodes in a cluster."""
import json
import re
from typing import Any

from kill_scene import Scene, begin_start
from kill_stage import SETTLES_WITHIN_S, Stage

from kube.karpenter import CLASSES, POOLS
from waits import until

PLUGIN = "/apis/apps/v1/namespaces/kube-system/daemonsets/gpufairy-nvidia-device-plugin"


class Lettered(Scene):
    """A certificate that cannot be read, found when a server starts: admins are told by a webhook. Twice, where nobody knows of the first; never less."""

    def begin(self, stage: Stage) -> None:
        self.file = f"{stage.server.folder}/{stage.name('door')}.pem"
        stage.server.kill()
        self.look_at(stage, self.file)

    def play(self, stage: Stage) -> None:
        begin_start(stage)

    def settle(self, stage: Stage) -> None:
        until(lambda: self.came(stage), "the letter", SETTLES_WITHIN_S)
        until(lambda: self.written(stage) == ["sent"], lambda: f"it to be noted: {self.written(stage)}", SETTLES_WITHIN_S)
        assert stage.witness.rows("select channel from outbox where state = 'waiting'") == []
        assert self.came(stage) in (1, 2)
        self.look_at(stage)

    def look_at(self, stage: Stage, *files: str) -> None:
        """From the next start on."""
        settings = stage.server.folder / "fairy.toml"
        settings.write_text(re.sub(r"(?m)^certificates = .*$", f"certificates = {json.dumps(files)}", settings.read_text()))

    def came(self, stage: Stage) -> int:
        assert stage.inbox is not None
        return sum(item["thing"] == self.file for letter in list(stage.inbox.requests) for item in letter.json["items"])

    def written(self, stage: Stage) -> list[str]:
        return [state for (state,) in stage.witness.rows("select state from outbox where body like ?", f"%{self.file}%")]


class PoolMade(Scene):
    """By one call, of which nobody hears the answer."""

    def begin(self, stage: Stage) -> None:
        self.name, self.uid = stage.name("pool"), ""
        assert stage.cluster is not None
        stage.cluster.put(CLASSES, {"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}})

    def play(self, stage: Stage) -> None:
        stage.tried(lambda: self.add(stage))

    def mend(self, stage: Stage) -> None:
        self.uid = node_pools(stage).get(self.name, "")

    def settle(self, stage: Stage) -> None:
        self.made(stage)
        self.removed(stage)

    def made(self, stage: Stage) -> None:
        self.is_ready(stage)
        before = node_pools(stage)
        assert list(before) == [self.name]
        assert self.uid in ("", before[self.name]), "it was made a second time"
        self.add(stage)
        assert node_pools(stage) == before
        assert has_plugin(stage)
        assert self.deeds(stage) == ["pool_added"]

    def removed(self, stage: Stage) -> None:
        stage.client.remove_pool(self.name)
        self.is_gone(stage)

    def add(self, stage: Stage) -> Any:
        return stage.client.add_pool({"name": self.name, "cloud": "karpenter", "instance": "g5.xlarge", "max": 3})

    def is_ready(self, stage: Stage) -> None:
        wanted = [(self.name, "ready")]
        until(lambda: [(one["name"], one["state"]) for one in stage.client.pools()] == wanted, lambda: f"the pool: {stage.client.pools()}", SETTLES_WITHIN_S)

    def is_gone(self, stage: Stage) -> None:
        until(lambda: stage.client.pools() == [], lambda: f"the pool to go: {stage.client.pools()}", SETTLES_WITHIN_S)
        assert node_pools(stage) == {}
        assert not has_plugin(stage)
        assert self.deeds(stage) == ["pool_added", "pool_removed"]
        assert stage.witness.rows("select name from pools") == []

    def deeds(self, stage: Stage) -> list[str]:
        """What people did, as it is written: a kill must not take it away, and doing it to the end must not add to it."""
        found = stage.witness.rows("select what from events where session_id = ? order by number", f"pool:{self.name}")
        return [what for (what,) in found]


class PoolRemoved(PoolMade):
    def begin(self, stage: Stage) -> None:
        super().begin(stage)
        self.add(stage)
        self.is_ready(stage)

    def play(self, stage: Stage) -> None:
        stage.tried(lambda: stage.client.remove_pool(self.name))

    def settle(self, stage: Stage) -> None:
        self.is_gone(stage)


def node_pools(stage: Stage) -> dict[str, str]:
    """By name, what the cluster itself calls them: one that is made anew is another."""
    assert stage.cluster is not None
    return {one["metadata"]["name"]: one["metadata"]["uid"] for one in stage.cluster.ask("GET", POOLS)["items"]}


def has_plugin(stage: Stage) -> bool:
    assert stage.cluster is not None
    return bool(stage.cluster.answer("GET", PLUGIN)[0] == 200)
