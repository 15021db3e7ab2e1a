"""Commands and terminals by the ssh that people have."""
import asyncio
import os
import shlex
import signal
import subprocess

import asyncssh
import pytest
from local_terminal import LocalTerminal
from ssh_scene import is_open, problem, waiting

from waits import until

pytestmark = pytest.mark.system


@pytest.mark.parametrize(("line", "code"), [("true", 0), ("exit 3", 3), ("exit 255", 255), ("kill -9 $$", 137), ("kill -TERM $$", 143), ("nosuch", 127)])
def test_a_command_ends_with_its_own_exit_code(scene, line, code):
    assert scene.ssh(line).returncode == code


def test_input_output_and_errors_stay_apart_without_a_terminal(scene):
    done = scene.ssh("cat; echo wrong >&2; test -t 0 || echo no terminal", input=b"\x00\xffline\r\n")
    assert (done.stdout, done.stderr) == (b"\x00\xffline\r\nno terminal\n", b"wrong\n")


def test_the_word_signin_prints_a_link_to_the_page_and_starts_no_session(scene):
    done = scene.ssh("signin")
    assert (done.returncode, done.stdout) == (0, b"http://server/signin?code=for-kim\n")
    assert scene.house.asked == []
    assert scene.ssh("echo", "signin").stdout == b"signin\n"  # the one word alone


def test_the_end_of_input_is_passed_on(scene):
    assert scene.ssh("wc -c", input=b"x" * 100_000).stdout.strip() == b"100000"


def test_a_shell_without_a_terminal_reads_commands(scene):
    assert scene.ssh(input=b"cd /; pwd; exit 4\n").stdout == b"/\n"


def test_a_session_is_named_after_a_plus(scene):
    scene.ssh("true", user="kim+train")
    scene.ssh("true")
    assert [(body["user"], body["name"], body["purpose"]) for body in scene.house.asked] == [("kim", "train", "shell"), ("kim", None, "shell")]


def test_the_command_has_the_doors_environment_and_nothing_of_the_gateways(scene):
    shown = scene.ssh("env").stdout.decode()
    assert "FAIRY_SESSION=main\n" in shown
    assert f"HOME={scene.home}\n" in shown
    assert "LD_CANARY" not in shown


def test_only_language_and_the_like_come_from_the_client(scene):
    sent = {"LANG": "ko_KR.UTF-8", "LC_TIME": "C", "COLORTERM": "truecolor", "LD_PRELOAD": "/tmp/evil.so", "PATH": "/tmp/evil", "BASH_ENV": "/tmp/evil", "CUDA_VISIBLE_DEVICES": "7"}
    options = tuple(word for name, value in sent.items() for word in ("-o", f"SetEnv={name}={value}"))
    for option in zip(options[::2], options[1::2], strict=True):
        shown = scene.ssh("env", options=option).stdout.decode()
        name, _, value = option[1].removeprefix("SetEnv=").partition("=")
        assert (f"{name}={value}\n" in shown) == (name in ("LANG", "LC_TIME", "COLORTERM")), option


def test_large_output_to_a_slow_reader_is_held_back_in_the_command(scene):
    with scene.popen("head -c 300000000 /dev/zero") as process:
        assert len(process.stdout.read(1000)) == 1000
        before = memory_kib(scene)
        until(lambda: all_asleep("head"), "the command to be stopped")
        assert memory_kib(scene) - before < 20_000
        assert 1000 + sum(len(chunk) for chunk in iter(lambda: process.stdout.read(2**20), b"")) == 300_000_000
    assert process.returncode == 0


def memory_kib(scene) -> int:
    with open(f"/proc/{scene.process.pid}/status") as file:
        return int(next(line for line in file if line.startswith("VmRSS")).split()[1])


def all_asleep(name: str) -> bool:
    seen = subprocess.run(["ps", "-C", name, "-o", "wchan="], capture_output=True, text=True, check=False).stdout.split()
    return bool(seen) and all("pipe" in place for place in seen)


def test_a_gigabyte_goes_both_ways_whole(scene):
    size = 2**28
    done = subprocess.run(f"head -c {size} /dev/zero | {' '.join(scene.line('wc', '-c'))}", shell=True, capture_output=True, check=False)
    assert int(done.stdout) == size
    done = subprocess.run(f"{' '.join(scene.line('head', '-c', str(size), '/dev/zero'))} | wc -c", shell=True, capture_output=True, check=False)
    assert int(done.stdout) == size


def test_a_command_that_closes_its_input_does_not_stop_the_client(scene):
    done = subprocess.run(f"head -c 50000000 /dev/zero | {' '.join(scene.line('head', '-c', '5'))}", shell=True, capture_output=True, check=False)
    assert done.stdout == b"\0" * 5


def test_a_client_that_goes_away_takes_its_command_along(scene):
    with scene.popen("echo $$; sleep 1000") as process:
        pid = int(process.stdout.readline())
        process.kill()
    until(lambda: not os.path.exists(f"/proc/{pid}"), "the command to end")


def test_a_terminal_has_its_kind_and_size_and_follows_the_window(scene):
    with LocalTerminal(scene.line(options=("-t",)), columns=100, rows=30, term="screen-256color") as screen:
        screen.until("$ ")
        screen.type("echo $TERM $(stty size); tty -s && echo is-$((1+1))\n")
        screen.until("screen-256color 30 100")
        screen.until("is-2")
        screen.type("until [ \"$(stty size)\" = '40 120' ]; do sleep 0.05; done; echo fol''lowed\n")
        screen.resize(120, 40)
        screen.until("followed")
        screen.type("exit 7\n")
        assert screen.ended() == 7


def test_ctrl_c_reaches_the_command_and_not_the_shell(scene):
    with LocalTerminal(scene.line(options=("-t",))) as screen:
        screen.until("$ ")
        screen.type("sleep 1000; echo over-$?\n")
        until(lambda: "sleep 1000" in running(), "sleep to run")
        screen.type("\x03")
        screen.type("echo still-$((40+2))\n")
        screen.until("still-42")
        screen.type("exit\n")
        screen.ended()


def running() -> str:
    return subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout


def test_all_that_a_shell_writes_before_it_ends_is_shown(scene):
    with LocalTerminal(scene.line("seq 1 20000", options=("-tt",))) as screen:
        code = screen.ended()
        assert (code, screen.shown.split()[-1]) == (0, "20000")


def test_a_job_left_in_the_background_does_not_hold_the_terminal(scene):
    with LocalTerminal(scene.line("sleep 30 & echo left", options=("-tt",))) as screen:
        assert screen.ended() == 0
        assert "left" in screen.shown


def test_a_korean_letter_is_erased_whole_in_a_cooked_line(scene):
    # A command may be faster than the gateway, which sets its terminal once it has begun.
    there = shlex.quote("until stty -a | grep -q ' iutf8'; do sleep 0.05; done; stty -a")
    with LocalTerminal(["sh", "-c", f"stty iutf8; exec {' '.join(scene.line(there, options=('-tt',)))}"]) as screen:
        assert screen.ended() == 0
        assert " iutf8" in screen.shown
        assert "-iutf8" not in screen.shown


def test_the_greeting_is_for_terminals_alone(scene):
    scene.house.answer = lambda _: is_open(scene.home, greeting="main on gpu01: 0.5 of A100 0")
    with LocalTerminal(scene.line(options=("-t",))) as screen:
        screen.until("fairy: main on gpu01: 0.5 of A100 0")
        screen.until("$ ")
    done = scene.ssh("true")
    assert (done.stdout, done.stderr) == (b"", b"")


def test_whoever_waits_is_told_why_and_each_time_it_changes(scene):
    answers = [waiting("PENDING: place 2 of 5"), waiting("PENDING: place 2 of 5"), waiting("PENDING: place 1 of 4; starts in about 10 min"), is_open(scene.home)]
    scene.house.answer = lambda _: answers.pop(0) if len(answers) > 1 else answers[0]
    with LocalTerminal(scene.line(options=("-t",))) as screen:
        shown = screen.until("$ ")
    assert [line for line in shown.splitlines() if "fairy" in line] == ["fairy: PENDING: place 2 of 5", "fairy: PENDING: place 1 of 4; starts in about 10 min"]


def test_a_script_that_waits_is_told_once_and_what_it_sends_is_kept(scene):
    answers = [waiting("PENDING: place 2 of 5"), waiting("PENDING: place 1 of 5"), is_open(scene.home)]
    scene.house.answer = lambda _: answers.pop(0) if len(answers) > 1 else answers[0]
    done = scene.ssh("cat", input=b"sent early" * 50_000)
    assert (done.stdout, done.stderr) == (b"sent early" * 50_000, b"fairy: PENDING: place 2 of 5\r\n")


def test_ctrl_c_leaves_the_line(scene):
    scene.house.answer = lambda _: waiting("PENDING: place 2 of 5")
    with LocalTerminal(scene.line(options=("-t",))) as screen:
        screen.until("place 2 of 5")
        screen.type("\x03")
        screen.until("main waits on without you")
        assert screen.ended() == 130


def test_a_refusal_is_shown_in_words_with_exit_code_255(scene):
    scene.house.answer = lambda _: problem(404, "kim has no session 'trian' (did you mean train?)", "Yours: train.")
    done = scene.ssh("true", user="kim+trian")
    assert done.returncode == 255
    assert done.stderr.decode().split("\r\n") == ["fairy: kim has no session 'trian' (did you mean train?)", "  → Yours: train.", ""]


def test_words_from_anywhere_cannot_steer_a_terminal(scene):
    scene.house.answer = lambda _: problem(409, "over: \x1b]0;evil\x07\n\x9b31m", "")
    assert b"\x1b" not in scene.ssh("true").stderr


def test_a_door_that_leads_nowhere_is_told(scene):
    scene.house.answer = lambda _: is_open(scene.home, kind="porter", pid=2**22, birth_ticks=1)
    done = scene.ssh("true")
    assert (done.returncode, b"no longer there" in done.stderr) == (255, True)


def test_many_commands_share_one_connection(scene):
    control = ("-o", f"ControlPath={scene.folder}/mux")
    with scene.popen("echo ready; cat", options=("-M", *control)) as master:
        assert master.stdout.readline() == b"ready\n"
        several = [scene.popen(f"sleep 0.1; echo {number}", options=control) for number in range(8)]
        assert [process.communicate()[0] for process in several] == [b"%d\n" % number for number in range(8)]
        came_in = scene.log.count("came in")
        assert scene.ssh("exit 5", options=control).returncode == 5
        assert scene.log.count("came in") == came_in
        master.stdin.close()
    assert master.returncode == 0


async def test_one_connection_has_so_many_channels_and_no_more(scene):
    async with await scene.connect() as connection:
        held = [await connection.create_process("echo here; cat") for _ in range(32)]
        assert [await process.stdout.readline() for process in held] == ["here\n"] * 32
        with pytest.raises(asyncssh.ChannelOpenError, match="32 channels are open"):
            await connection.create_process("true")
        held[0].stdin.write_eof()
        await held[0].wait_closed()
        assert (await connection.run("echo again")).stdout == "again\n"


async def test_a_signal_that_is_sent_reaches_the_command(scene):
    async with await scene.connect() as connection:
        process = await connection.create_process("trap 'echo caught; exit 9' USR1; echo ready; while :; do sleep 0.05; done")
        await process.stdout.readline()
        process.send_signal("USR1")
        assert (await process.wait()).exit_status == 9


async def test_a_break_changes_nothing(scene):
    async with await scene.connect() as connection:
        process = await connection.create_process("cat")
        process.send_break(100)
        process.stdin.write("x")
        process.stdin.write_eof()
        assert (await process.wait()).stdout == "x"


async def test_a_channel_closed_with_input_left_ends_its_command(scene):
    async with await scene.connect(encoding=None) as connection:
        process = await connection.create_process("echo $$; exec sleep 1000", encoding=None)
        pid = int(await process.stdout.readline())
        process.stdin.write(bytes(2**20))
        process.close()
        await asyncio.to_thread(until, lambda: not os.path.exists(f"/proc/{pid}"), "the command to end")


def test_a_command_whose_client_on_a_shared_connection_is_gone_cannot_write_on(scene):
    control = ("-o", f"ControlPath={scene.folder}/mux")
    with scene.popen("echo ready; cat", options=("-M", *control)) as master:
        master.stdout.readline()
        with scene.popen("echo $$; exec yes", options=control) as one:
            pid = int(one.stdout.readline())
            one.send_signal(signal.SIGTERM)
            one.stdout.close()
        until(lambda: not os.path.exists(f"/proc/{pid}"), "the command to end")
        master.stdin.close()
