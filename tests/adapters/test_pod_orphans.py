"""What a server that died left half made: looked for in the namespaces of all teams, also of those without a pod; whatever is another's stays."""
import logging
from datetime import UTC, datetime, timedelta

import pytest

from builders import a_session
from gpufairy.engines.kube.errors import KubeRefused
from gpufairy.engines.pod_launch import ORPHAN_AFTER, PodLauncher
from gpufairy.engines.pod_seen import slim_pod
from gpufairy.engines.pod_settings import PodSettings
from gpufairy.engines.pod_spec import SERVER, labels, namespace_of, pod_name

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
SETTINGS = PodSettings(namespace="fairy", namespace_for_each_team=True)


class FewSecrets:
    """An API server that has nothing but secrets, and namespaces that one may not look into."""

    def __init__(self, *spaces: str, refused: tuple[str, ...] = ()) -> None:
        self.spaces, self.refused = spaces, refused
        self.secrets: list[dict] = []
        self.asked: list[str] = []
        self.deleted: list[str] = []

    def has(self, team: str | None, *, server: str = "me", age: timedelta = 2 * ORPHAN_AFTER, owned: bool = False):
        session = a_session("sleep", team=team)
        about = {
            "namespace": namespace_of(session, SETTINGS), "name": pod_name(session), "labels": labels(session, server, SETTINGS),
            "creationTimestamp": f"{NOW - age:%Y-%m-%dT%H:%M:%SZ}", **({"ownerReferences": [{"kind": "Pod"}]} if owned else {}),
        }  # fmt: skip
        self.secrets.append({"metadata": about})
        return self.secrets[-1]

    async def list(self, path: str, *, labels: str = "", **_: object):
        self.asked.append(path)
        *_, space, what = ("", "", *path.split("/"))
        if path == "/api/v1/namespaces" and "*" not in self.refused:
            for name in self.spaces:
                yield {"metadata": {"name": name}}
        elif space in self.refused or path == "/api/v1/namespaces":
            raise KubeRefused(f"no right to list {what} in {space}", status=403, reason="Forbidden", what="list")
        else:
            for secret in self.secrets:
                if secret["metadata"]["namespace"] == space and f"{SERVER}={secret['metadata']['labels'][SERVER]}" == labels:
                    yield secret

    async def delete(self, path: str, **_: object) -> None:
        self.deleted.append(path)

    @property
    def gone(self) -> set[str]:
        return {path.split("/")[4] for path in self.deleted if path.startswith("/api/v1/") and "/secrets/" in path}


async def looked(api: FewSecrets, *pods: dict, settings: PodSettings = SETTINGS) -> None:
    await PodLauncher(api, settings, None, None, "me").remove_orphans([slim_pod(pod) for pod in pods], NOW)


async def test_a_team_without_pods_is_looked_at_too():
    api = FewSecrets("fairy", "fairy-nlp", "fairy-vision", "kube-system")
    for team in (None, "nlp"):
        api.has(team)
    await looked(api)
    assert api.gone == {"fairy", "fairy-nlp"}
    assert not [path for path in api.asked if "kube-system" in path]


async def test_what_is_young_owned_or_anothers_stays():
    api = FewSecrets("fairy-nlp")
    api.has("nlp", age=ORPHAN_AFTER / 2)
    api.has("nlp", owned=True)
    api.has("nlp", server="another")
    await looked(api)
    assert api.deleted == []


async def test_the_secret_of_a_pod_that_is_there_stays():
    api = FewSecrets("fairy-nlp")
    secret = api.has("nlp")
    await looked(api, secret)
    assert api.deleted == []


async def test_a_namespace_that_may_not_be_looked_into_keeps_no_other_from_it(caplog: pytest.LogCaptureFixture):
    api = FewSecrets("fairy-a", "fairy-b", refused=("fairy-a",))
    api.has("b")
    with caplog.at_level(logging.WARNING):
        await looked(api)
    assert api.gone == {"fairy-b"}
    assert "half made in fairy-a is not removed: no right to list secrets" in caplog.text


async def test_who_may_not_list_namespaces_still_looks_where_sessions_are(caplog: pytest.LogCaptureFixture):
    api = FewSecrets("fairy-b", refused=("*",))
    api.has(None)
    with caplog.at_level(logging.WARNING):
        await looked(api)
    assert api.gone == {"fairy"}
    assert "for teams is not looked for" in caplog.text


async def test_without_namespaces_for_teams_none_is_asked_for():
    api = FewSecrets("fairy-b")
    await looked(api, settings=PodSettings(namespace="fairy"))
    assert api.asked == ["/api/v1/namespaces/fairy/secrets"]
