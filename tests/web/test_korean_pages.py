"""Every page as a Korean reads it: no words are left in English but those of commands, and times are by their clock."""
import re
from datetime import timedelta

import pytest
from admin_browser import AnyBrowser, as_user
from house_scene import a_house
from session_browser import Page

from gpufairy.api.policy import POLICY, Who
from gpufairy.core.image import ImageRules
from gpufairy.core.workload import workload_id
from gpufairy.engines.fake_shelf import FakeShelf

pytestmark = pytest.mark.slow
CODE = re.compile(r"<(code|pre|script|style)\b.*?</\1>", re.DOTALL)
SAID_ASIDE = re.compile(r'(?:aria-label|title|placeholder|data-confirm)="([^"]*)"')
ENGLISH = re.compile(r"(?<![\w`.:-])[A-Za-z][a-z']+(?: [a-z']+){2,}")  # three words in a row
COMMANDS = ("fairy ",)
BY_UTC = ("/admin/settings", "/accounting/report")  # settings name it, and a month is the same for all who read of it
STREAMS = ("/log", "/readings", "/results", "/live")
GETS = [path for (method, path), who in POLICY.items() if method == "GET" and who in (Who.PAGE, Who.ADMIN_PAGE) and not path.endswith(STREAMS)]
REFUSED = [
    ("/admin/users", {"name": "Kim X"}), ("/admin/users", {"name": "ann"}), ("/admin/quotas/set", {"of": "x", "gpus": "1"}),
    ("/admin/quotas/set", {"of": "user:ann", "gpus": "z"}), ("/admin/teams/add", {"name": "nlp"}), ("/admin/teams/share", {"name": "nlp", "share": "-1"}),
    ("/admin/shares/set", {"of": "H900", "fgpu": "5"}), ("/admin/shares/set", {"fgpu": "x"}),
    ("/admin/shares/test", {}), ("/admin/nodes/drain", {"name": "zz"}), ("/admin/nodes/zz", {}), ("/admin/users/ann/add-key", {"key": "bla"}),
    ("/admin/images/approve", {"image": "zz"}), ("/account/add-key", {"key": "bla"}), ("/bookings", {"gpus": "99", "time": "2h", "title": "x"}),
    ("/bookings", {"gpus": "x"}), ("/new", {"gpus": "17", "command": "x"}), ("/new", {"gpus": "zz", "command": "x"}),
    ("/new", {"time": "zz", "command": "x"}), ("/new", {"memory": "zz", "command": "x"}), ("/images/pull", {"image": "A B"}), ("/sessions/none/stop", {}),
]  # fmt: skip


class Korean(AnyBrowser):
    async def _ask(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Page:
        cookies = f"fairy_page={self.cookie}; fairy_zone=Asia/Seoul"
        return await super()._ask(method, path, body, {**headers, "accept-language": "ko", "accept": "text/html", "cookie": cookies})


@pytest.fixture
async def scene(tmp_path):
    async with a_house(tmp_path, shelf=FakeShelf("ubuntu:24.04"), images=ImageRules("ubuntu:24.04")) as found:
        root = await as_user(found)
        await found.house.registry.ensure_user("ann")
        found.root, found.ann = Korean(found, root.cookie), Korean(found, (await as_user(found, "ann")).cookie)
        yield found


def left_in_english(page: Page) -> list[str]:
    text = CODE.sub(" ", page.text)
    shown = " | ".join([re.sub(r"<[^>]*>", " | ", text), *SAID_ASIDE.findall(text)])
    return [words for words in ENGLISH.findall(shown) if not words.startswith(COMMANDS)] + (["UTC"] if " UTC" in shown else [])


async def changed(scene) -> None:
    for path, fields in (
        ("/admin/users", {"name": "kim", "team": "nlp"}), ("/admin/users/kim/change", {"role": "user", "team": "nlp", "share": "2"}),
        ("/admin/users/kim/token", {"label": "x", "expires": "30d", "scope": "full"}), ("/admin/users/kim/link", {}),
        ("/admin/users/kim/shut-out", {}), ("/admin/teams/add", {"name": "vision", "share": "2"}),
        ("/admin/quotas/set", {"of": "user:*", "kind": "*", "gpus": "2", "sessions": "3"}), ("/admin/shares/set", {"of": "*", "fgpu": "5"}),
        ("/admin/nodes/drain", {"name": "here"}), ("/admin/nodes/resume", {"name": "here"}),
    ):  # fmt: skip
        await scene.root.post(path, **fields)


async def test_no_page_speaks_english_to_a_korean(scene):
    await changed(scene)
    held = await scene.submit(name="holds", gpus="2", time="2h")
    await scene.rest()
    await scene.submit(name="waits", gpus="1")
    await scene.rest()
    await scene.ann.post("/sessions/holds/keep", time="1h")
    paths = {path.replace("{name}", name) for path in GETS for name in (("holds", "waits") if path.startswith("/sessions") else ("ann",))}
    found = {}
    for path in sorted(path for path in paths if "{" not in path):
        words = left_in_english(await (scene.ann if path.startswith("/sessions") else scene.root).get(path))
        if words and path not in BY_UTC:
            found[path] = words
    scene.containers.exit(workload_id(await scene.now(held)), 3)
    scene.clock.go_on(timedelta(hours=1))
    await scene.rest()
    found |= {path: words for path in ("/", f"/sessions/{held.id}") if (words := left_in_english(await scene.ann.get(path)))}
    assert found == {}


@pytest.mark.parametrize(("path", "fields"), REFUSED)
async def test_what_is_refused_is_told_in_korean(scene, path: str, fields: dict[str, str]):
    await scene.root.post("/admin/teams/add", name="nlp", share="1")
    page = await scene.root.post(path, **fields)
    assert page.status >= 400
    assert left_in_english(page) == []
