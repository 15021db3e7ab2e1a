"""The container's spec, its labels and the rest of what is pure in the docker engine."""
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from builders import GIB, a_gpu_seat, a_seat, a_session
from gpufairy.core.errors import EngineRefused
from gpufairy.core.share import PARTS
from gpufairy.engines import docker_pids
from gpufairy.engines.cdi import cdi_devices, offered_devices
from gpufairy.engines.docker_commit import changes, image_config, split_name
from gpufairy.engines.docker_daemon import hard_limit
from gpufairy.engines.docker_facts import ImageFacts, group_text, passwd_text
from gpufairy.engines.docker_images import Pull, wanted_image
from gpufairy.engines.docker_libpod import libpod_spec
from gpufairy.engines.docker_list import fell_between, moment
from gpufairy.engines.docker_network import ruleset
from gpufairy.engines.docker_pids import cgroup_folder, kill_processes
from gpufairy.engines.docker_probe import parsed
from gpufairy.engines.docker_spec import (
    DockerSettings,
    Folder,
    Gpus,
    Mount,
    Surroundings,
    container_names,
    container_spec,
    labelled_id,
    labelled_session,
    labels,
    work_folder,
)
from gpufairy.engines.docker_words import refusal, why_over
from gpufairy.engines.homes import check_uid, folder_mounts

HERE = Surroundings(20_001, "busybox:1", "server", "fairy-server", (Mount(Path("/data/home/student1"), "/home/student1", writable=True),))
SETTINGS = DockerSettings()


def env_of(session, facts=None, **more):
    spec = container_spec(session, replace(HERE, **({"facts": facts} if facts else {}), **more), SETTINGS)
    return dict(variable.split("=", 1) for variable in spec["Env"])


@pytest.mark.parametrize("container_id", ["", "a", "0" * 63, "/docker", "../" + "0" * 61])
def test_no_processes_are_killed_for_what_is_no_containers_id(monkeypatch, container_id):
    killed = []
    monkeypatch.setattr(docker_pids, "kill_if", lambda pid, is_meant: killed.append(pid))
    assert (kill_processes(container_id), killed) == (False, [])


def test_the_container_is_called_after_its_user_and_session():
    assert next(container_names(a_session("true", name="train", owner="kim"))) == "fairy-kim-train"


def test_two_users_whose_names_run_together_have_different_second_names():
    one = a_session("true", owner="kim-a", name="b", id="aaaaaaaa")
    other = a_session("true", owner="kim", name="a-b", id="bbbbbbbb")
    assert next(container_names(one)) == next(container_names(other))
    assert not set(list(container_names(one))[1:]) & set(list(container_names(other))[1:])


def test_another_attempt_has_a_name_of_its_own():
    first = a_session("true")
    assert list(container_names(first))[-1] != list(container_names(replace(first, attempt=2)))[-1]


def test_labels_carry_the_whole_session():
    session = a_session("sh", "-c", "x", env=(("SEED", "7"), ("EMPTY", "")), seat=a_seat("here", a_gpu_seat(1, PARTS // 2)), attempt=3)
    found = labels(session, "server")
    assert labelled_id(found).attempt == 3
    assert labelled_session(found, {"SEED": "7", "EMPTY": "", "PATH": "/bin"}) == session


def test_no_value_of_a_variable_is_in_a_label():
    found = labels(a_session("true", env=(("API_KEY", "canary-5e1f"),)), "server")
    assert "canary" not in json.dumps(found)


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "null", '{"id": 1}', "{" * 10_000])
def test_a_label_that_cannot_be_read_is_no_session(text):
    assert labelled_session({"gpufairy.launch": text}, {}) is None


@pytest.mark.parametrize("attempt", ["", "x", "-1", "1.5", "²"])
def test_an_attempt_that_is_no_number_is_nobody(attempt):
    assert labelled_id({"gpufairy.session": "a", "gpufairy.attempt": attempt}) is None


def test_limits_are_those_of_the_seat():
    host = container_spec(a_session("true", seat=a_seat(cpus_milli=2500, memory_bytes=3 * GIB)), HERE, SETTINGS)["HostConfig"]
    assert (host["Memory"], host["MemorySwap"], host["NanoCpus"]) == (3 * GIB, 3 * GIB, 2_500_000_000)
    assert host["ShmSize"] == 3 * GIB // 2
    assert host["PidsLimit"] == 4096


def test_the_users_command_follows_the_porters_own_words():
    entrypoint = container_spec(a_session("--log", "/etc/passwd"), HERE, SETTINGS)["Entrypoint"]
    assert entrypoint[entrypoint.index("--") + 1 :] == ["--log", "/etc/passwd"]


def test_an_interactive_session_has_no_command():
    assert "--" not in container_spec(a_session(), HERE, SETTINGS)["Entrypoint"]


def test_nobody_is_root_unless_the_admin_said_so():
    plain = container_spec(a_session("true"), HERE, SETTINGS)
    assert (plain["User"], plain["HostConfig"]["CapAdd"], plain["Labels"]["gpufairy.root"]) == ("20001:20001", [], "0")
    as_root = container_spec(a_session("true"), replace(HERE, root=True), SETTINGS)
    assert (as_root["User"], as_root["Labels"]["gpufairy.root"]) == ("0:0", "1")
    assert not {"SYS_ADMIN", "NET_ADMIN", "NET_RAW", "MKNOD", "SYS_PTRACE"} & set(as_root["HostConfig"]["CapAdd"])


def test_root_inside_goes_by_the_whole_name_of_the_image():
    settings = DockerSettings(root_images=("teaching/*",))
    assert settings.root_inside("teaching/sudo:1")
    assert not settings.root_inside("evil/teaching/sudo:1")


def test_what_an_image_preloads_is_taken_away():
    facts = ImageFacts(env={"LD_PRELOAD": "/evil.so", "BASH_ENV": "/evil.sh", "LD_LIBRARY_PATH": "/usr/local/cuda/lib64", "NVIDIA_VISIBLE_DEVICES": "all"})
    env = env_of(a_session("true"), facts)
    assert (env["LD_PRELOAD"], env["BASH_ENV"], env["NVIDIA_VISIBLE_DEVICES"]) == ("", "", "void")
    assert "LD_LIBRARY_PATH" not in env


def test_the_images_own_path_stays_in_front_of_our_tools():
    path = env_of(a_session("true"), ImageFacts(env={"PATH": "/opt/conda/bin:/usr/bin"}))["PATH"]
    assert path == "/home/student1/.local/bin:/opt/conda/bin:/usr/bin:/opt/fairy/bin"


def test_an_images_language_is_kept():
    assert "LANG" not in env_of(a_session("true"), ImageFacts(env={"LANG": "ko_KR.UTF-8"}))
    assert env_of(a_session("true"))["LANG"] == "C.UTF-8"


def test_a_gpu_by_cdi_is_not_brought_in_a_second_time_by_nvidias_hook():
    seat = a_seat("here", a_gpu_seat(0, simulated=False, uuid="GPU-1"))
    env = env_of(a_session("true", seat=seat), gpus=Gpus(cdi=("nvidia.com/gpu=GPU-1",)))
    assert (env["CUDA_VISIBLE_DEVICES"], env["NVIDIA_VISIBLE_DEVICES"]) == ("GPU-1", "void")


def test_gpus_are_asked_for_by_uuid():
    request = container_spec(a_session("true"), replace(HERE, gpus=Gpus(nvidia=("GPU-1",))), SETTINGS)["HostConfig"]["DeviceRequests"]
    assert request == [{"Driver": "nvidia", "DeviceIDs": ["GPU-1"], "Capabilities": [["gpu"]]}]


def test_podmans_own_spec_has_the_same_limits_and_no_more_rights():
    spec = container_spec(a_session("true", env=(("A", "x=y"),)), replace(HERE, nproc=100), SETTINGS)
    podman = libpod_spec(spec, "fairy-x", HERE.mounts, ("nvidia.com/gpu=0",))
    assert podman["devices"] == [{"path": "nvidia.com/gpu=0"}]
    assert podman["env"]["A"] == "x=y"
    assert podman["resource_limits"] == {"memory": {"limit": GIB, "swap": GIB}, "cpu": {"period": 100_000, "quota": 50_000}, "pids": {"limit": 4096}}
    assert (podman["cap_drop"], podman["cap_add"], podman["no_new_privileges"], podman["privileged"]) == (["ALL"], [], True, False)
    assert {limit["type"] for limit in podman["r_limits"]} == {"NOFILE", "CORE", "NPROC"}


@pytest.mark.parametrize(
    ("wanted", "folder"),
    [(None, "/home/student1"), ("~", "/home/student1"), ("code", "/home/student1/code"), ("~/code", "/home/student1/code"), ("/mnt/x", "/mnt/x")],
)
def test_the_work_folder_is_in_the_home_unless_it_is_said_in_full(wanted, folder):
    assert work_folder(a_session("true", workdir=wanted)) == folder


def test_the_user_list_has_the_user_once_and_the_images_others():
    facts = ImageFacts(passwd=("root:x:0:0::/root:/bin/sh", "kim:x:1000:1000::/x:/bin/sh", "app:x:20001:1::/:/bin/sh", "half:x"), shell="/bin/bash")
    assert passwd_text(facts, "kim", 20_001) == "root:x:0:0::/root:/bin/sh\nkim:x:20001:20001:kim:/home/kim:/bin/bash\n"
    assert group_text(ImageFacts(), "kim", 20_001) == "root:x:0:\nkim:x:20001:\n"


def test_what_an_image_says_of_itself_is_read_line_by_line():
    found = parsed(["== passwd\nroot:x:0:0::/root:/bin/sh\n", "\x1b[2Jevil\n== group\nroot:x:0:\n\n== shells\n/bin/sh\n/usr/bin/bash\n"])
    assert found.passwd == ("root:x:0:0::/root:/bin/sh",)
    assert found.shell == "/usr/bin/bash"


def a_cdi_file(folder: Path, *names: str, kind: str = "nvidia.com/gpu") -> None:
    folder.mkdir(exist_ok=True)
    (folder / "nvidia.yaml").write_text(json.dumps({"cdiVersion": "0.5.0", "kind": kind, "devices": [{"name": name} for name in names]}))


def test_cdi_devices_are_named_by_uuid_then_by_number(tmp_path):
    a_cdi_file(tmp_path, "0", "1", "GPU-7")
    offered = offered_devices([tmp_path])
    assert cdi_devices([a_gpu_seat(0, uuid="GPU-7"), a_gpu_seat(1, uuid="GPU-8")], offered) == ("nvidia.com/gpu=GPU-7", "nvidia.com/gpu=1")


def test_a_mig_instance_never_falls_back_to_its_whole_gpu(tmp_path):
    a_cdi_file(tmp_path, "0")
    assert cdi_devices([a_gpu_seat(0, uuid="GPU-7", profile="1g.5gb", instance_uuid="MIG-1")], offered_devices([tmp_path])) is None


@pytest.mark.parametrize("text", ["", "[", "- 1", "kind: nvidia.com/gpu", "kind: nvidia.com/gpu\ndevices: 7", "kind: other/x\ndevices: [{name: 0}]", "&a [*a]"])
def test_a_device_file_that_makes_no_sense_offers_nothing(tmp_path, text):
    (tmp_path / "x.yaml").write_text(text)
    assert offered_devices([tmp_path]) == frozenset()


@pytest.mark.parametrize(
    "wanted",
    [
        "nosuch", "../etc", "/etc", "data/..", "data/../../etc", "data/.", "data//sub", "data/link", "data/sub/link", "data/out", "data/file",
        "data/missing", "scratch/sub", "data/sub:/etc:rw", "data/\x07", "", "data/", ".", "..",
    ],
)  # fmt: skip
def test_a_mount_leads_nowhere_but_into_what_is_offered(tmp_path, wanted):
    data = tmp_path / "data"
    (data / "sub").mkdir(parents=True)
    (data / "link").symlink_to("/etc")
    (data / "out").symlink_to("..")
    (data / "sub" / "link").symlink_to("../../..")
    (data / "file").touch()
    (tmp_path / "scratch" / "sub").mkdir(parents=True)
    folders = {"data": Folder(data), "scratch": Folder(tmp_path / "scratch", writable=True)}
    with pytest.raises(EngineRefused) as refused:
        folder_mounts((wanted,), folders)
    assert refused.value.next_step


def test_a_mount_is_read_only_unless_the_admin_lets_it_be_written(tmp_path):
    (tmp_path / "data" / "sub").mkdir(parents=True)
    folders = {"data": Folder(tmp_path / "data"), "scratch": Folder(tmp_path, writable=True)}
    assert folder_mounts(("data/sub", "scratch", "data/sub"), folders) == (
        Mount(tmp_path / "data" / "sub", "/mnt/data/sub"), Mount(tmp_path, "/mnt/scratch", writable=True),
    )  # fmt: skip


@pytest.mark.parametrize("image", ["../x", "a b", "-v", "x/../../containers/json", "http://x/y", "UPPER", "a" * 300, "x:y:z", "x?y=1", "x#y", "x%2e"])
def test_what_is_no_image_name_is_refused(image):
    with pytest.raises(EngineRefused):
        wanted_image(image, "default:1")


def test_no_image_is_the_default_one():
    assert wanted_image(None, "ubuntu:24.04") == "ubuntu:24.04"


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"ExitCode": 137, "OOMKilled": True}, "out of memory: it wanted more than its 1 GiB"),
        ({"ExitCode": 137}, "ended by SIGKILL"),
        ({"ExitCode": 127}, "its command was not found"),
        ({"ExitCode": 1, "Error": "write /x: no space left on device"}, "disk of the container engine is full"),
        ({"ExitCode": 128, "Error": "OCI runtime create failed"}, "OCI runtime create failed"),
    ],
)
def test_each_end_has_its_own_words(state, words):
    assert words in why_over(state, stopped=False, memory_bytes=GIB)


def test_a_plain_exit_code_speaks_for_itself():
    assert why_over({"ExitCode": 3}, stopped=False, memory_bytes=0) == ""


@pytest.mark.parametrize(("began", "ended", "rebooted"), [(-2, 1, True), (-2, -1, False), (1, 2, False)])
def test_only_what_ran_at_the_time_was_ended_by_a_restart_of_the_machine(began, ended, rebooted):
    boot = datetime(2026, 11, 15, tzinfo=UTC)
    assert fell_between(boot, boot + timedelta(hours=began), boot + timedelta(hours=ended)) is rebooted
    assert not fell_between(boot, None, None)


def test_the_restart_of_the_machine_is_told():
    assert "machine restarted" in why_over({"ExitCode": 255}, stopped=False, memory_bytes=0, rebooted=True)


@pytest.mark.parametrize("uid", [0, -1, 999])
def test_nobody_is_given_a_uid_of_the_hosts_own(uid):
    with pytest.raises(EngineRefused):
        check_uid("kim", uid)


def test_whoever_was_told_to_stop_was_not_out_of_memory():
    assert "told to stop" in why_over({"ExitCode": 137, "OOMKilled": True}, stopped=True, memory_bytes=GIB)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("mkdir /x: no space left on device", "disk of the container engine is full"),
        ('could not select device driver "nvidia"', "cannot give GPUs"),
        ("exec: argument list too long", "longer than Linux takes"),
        ("some\n\nother   thing", "some other thing"),
    ],
)
def test_a_daemons_no_is_told_in_words(answer, words):
    assert words in str(refusal("starting x", 500, answer))


@pytest.mark.parametrize(
    "answer",
    [
        'Conflict. The container name "/fairy-kim-a" is already in use by container "abc". You have to remove it',
        'container create: creating container storage: the container name "t1" is already in use by dcd0. You have to remove',
    ],
)
def test_a_taken_name_is_known_for_what_it_is(answer):
    assert refusal("x", 409, answer).name_taken


def test_a_pull_says_how_far_it_has_come():
    pull = Pull("torch:2")
    assert str(pull) == "pulling torch:2"
    for line in ({"status": "Downloading", "id": "a", "progressDetail": {"current": 2**20, "total": 2**30}}, {"status": "Extracting", "id": "a"}, {}):
        pull.told(line)
    assert "1 MiB of 1 GiB" in str(pull)


def test_times_of_daemons_are_read_with_nine_figures():
    assert moment("2026-11-15T19:40:29.913621141Z").microsecond == 913_621
    assert moment("0001-01-01T00:00:00Z") is None
    assert moment("yesterday") is None


@pytest.mark.parametrize(
    ("text", "folder"),
    [
        ("0::/system.slice/docker-abc.scope\n", "/sys/fs/cgroup/system.slice/docker-abc.scope"),
        ("9:pids:/docker/abc\n1:name=systemd:/docker/abc\n0::/\n", "/sys/fs/cgroup/pids/docker/abc"),
        ("", None),
        ("rubbish", None),
    ],
)
def test_a_cgroup_is_found_in_both_versions(text, folder):
    assert cgroup_folder(text) == (Path(folder) if folder else None)


def test_a_committed_image_keeps_nothing_of_the_session():
    container = {"Config": {"Env": ["PATH=/x", "API_KEY=secret", "FAIRY_SESSION=a", "LD_PRELOAD="], "Labels": {"gpufairy.launch": "{…}", "maintainer": "m"}}}
    image = {"Config": {"Env": ["PATH=/bin", "LD_PRELOAD=/x.so"], "Labels": {"maintainer": "m"}, "Cmd": ["python"]}}
    config = image_config(container, image)
    assert set(config["Env"]) == {"PATH=/bin", "LD_PRELOAD=/x.so", "API_KEY=", "FAIRY_SESSION="}
    assert config["Labels"] == {"gpufairy.launch": "", "maintainer": "m"}
    assert (config["User"], config["Entrypoint"], config["Cmd"]) == ("0", [], ["python"])
    assert 'ENV API_KEY=""' in changes(config)


@pytest.mark.parametrize(("name", "parts"), [("a/b:1", ("a/b", "1")), ("host:5000/a", ("host:5000/a", "latest")), ("a", ("a", "latest"))])
def test_an_images_tag_is_not_its_registrys_port(name, parts):
    assert split_name(name) == parts


def test_the_firewall_names_the_sessions_bridge_alone():
    rules = ruleset("gpufairy_x", "fairy-x", "10.0.0.1")
    assert all('"fairy-x"' in line for line in rules.splitlines() if line.strip().startswith(("iifname", "oifname")))
    assert "ip daddr 10.0.0.1" in rules
    assert "ip daddr 10." not in ruleset("gpufairy_x", "fairy-x", "")


def test_hard_limits_are_read_as_the_kernel_writes_them():
    text = "Limit                     Soft Limit           Hard Limit           Units     \nMax processes             10                   32768                processes \n"
    assert hard_limit(text, "Max processes") == 32768
    assert hard_limit(text, "Max open files") is None
