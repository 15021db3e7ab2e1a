"""Help: drawn from what is really there, with one's own names in every command."""
import pytest
from admin_browser import as_user
from house_scene import a_house

from gpufairy.core.people import Role
from gpufairy.engines.fake_shelf import FakeShelf
from gpufairy.web.help_page import fingerprint_of
from gpufairy.wire.config import Config

HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
FINGERPRINT = "SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU"


@pytest.fixture
async def scene(tmp_path):
    async with a_house(tmp_path, shelf=FakeShelf("ubuntu:24.04")) as found:
        yield found


async def test_commands_have_my_name_the_servers_name_and_its_port(scene):
    kim = await as_user(scene, "kim", Role.USER, ssh_port=8422, ssh_host_key=HOST_KEY)
    page = await kim.get("/help")
    for command in ("ssh -p 8422 kim@server", "scp -P 8422 kim@server:model.pt .", "HostName server", "User kim", "ssh-keygen -t ed25519"):
        assert command in page.text
    assert FINGERPRINT in page.text
    assert "Admin</a>" not in page.text


async def test_it_tells_of_the_hosts_gpus_and_folders_that_are_there(scene):
    config = Config.model_validate({"folders": {"datasets": {"path": "/srv/secret-place"}}})
    page = await (await as_user(scene, "kim", Role.USER, config=config)).get("/help")
    assert "2 GPUs on 1 host" in page.words
    assert "2 × A100-40GB simulated" in page.words
    assert "/mnt/datasets" in page.text
    assert "/srv/secret-place" not in page.text  # where it lies on the host is nobody's business
    assert "There is no SSH here" in page.words


def test_a_host_key_is_shown_as_ssh_shows_it():
    assert fingerprint_of(HOST_KEY) == FINGERPRINT
    assert fingerprint_of("") == fingerprint_of("nonsense") == ""
