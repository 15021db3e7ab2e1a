"""How many images are made at once, of whose sessions; the making itself is tried on a real kubelet (tests/journeys/test_kube_images_road.py)."""
import asyncio
from dataclasses import replace

import pytest

from gpufairy.core.errors import EngineRefused
from gpufairy.core.image_reference import Reference
from gpufairy.engines.pod_commit import MOST_AT_ONCE, PodCommit, image_id, listed, table
from gpufairy.engines.pod_seen import slim_pod

POD = replace(slim_pod({"metadata": {"name": "p", "namespace": "n"}}), owner="kim")
TARGET = Reference("registry.lab", "fairy/kim/a", "1")


class NeverAnswers:
    """An API server that is asked for a pod, and says nothing until it is let."""

    def __init__(self):
        self.go_on, self.all_asked = asyncio.Event(), asyncio.Event()
        self.asked = 0

    async def get(self, path):
        self.asked += 1
        if self.asked == MOST_AT_ONCE:
            self.all_asked.set()
        await self.go_on.wait()
        raise EngineRefused("the pod is gone")


async def test_each_user_has_one_image_made_at_a_time_and_all_together_a_few(tmp_path):
    api = NeverAnswers()
    commits = PodCommit(api, None, None, tmp_path, lambda _: "amd64")
    owners = [f"user{number}" for number in range(MOST_AT_ONCE)]
    under_way = [asyncio.create_task(commits.commit(replace(POD, owner=owner), TARGET)) for owner in owners]
    await api.all_asked.wait()
    with pytest.raises(EngineRefused, match="another image of a session of user0's is being made"):
        await commits.commit(replace(POD, owner="user0"), TARGET)
    with pytest.raises(EngineRefused, match=f"{MOST_AT_ONCE} images are being made already"):
        await commits.commit(POD, TARGET)
    api.go_on.set()
    assert all(isinstance(one, EngineRefused) for one in await asyncio.gather(*under_way, return_exceptions=True))
    with pytest.raises(EngineRefused, match="the pod is gone"):
        await commits.commit(POD, TARGET)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"7", b'{"a": 7}', b'"text"', b"\xff"])
def test_what_an_image_says_of_its_folders_may_be_anything(text):
    assert table(text) == {}
    assert listed(text) == []


def test_what_a_node_runs_is_read_from_the_pods_status():
    told = {"status": {"containerStatuses": [{"name": "other", "imageID": "x"}, {"name": "main", "imageID": "docker-pullable://r.lab/a@sha256:1"}]}}
    assert image_id(told) == "r.lab/a@sha256:1"
    assert image_id({}) == ""
