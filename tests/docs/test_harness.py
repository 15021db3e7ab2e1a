"""The harness itself: what it takes for a command, and what it takes for the same output."""
import subprocess

from pages import Command, commands_in
from play import judged
from shown_output import missing
from stage import Aid


def test_after_prompts_stand_commands_and_below_them_what_they_print():
    typed = list(commands_in(("$ fairy ps", "NAME  STATE", "minji@main:~$ fairy stop main"), 7))
    assert [(one.text, one.line, one.inside, one.shown) for one in typed] == [("fairy ps", 7, False, ("NAME  STATE",)), ("fairy stop main", 9, True, ())]


def test_without_prompts_every_line_is_a_command_and_a_backslash_goes_on():
    assert [one.text for one in commands_in(("# first", "curl a \\", "  -d b", "", "true"), 1)] == ["curl a \\\n  -d b", "true"]


def test_figures_times_ids_and_made_up_names_may_differ():
    shown = ("booked 913f44bf: Tue 17 Nov 12:22-14:22", "warm-magpie PENDING: waited 0 s", "main may run until 2026-11-16 06:40", "GPU-5f2c…  free")
    printed = "booked 00c0ffee: Wed 18 Nov 09:00-11:30\ncalm-lemur PENDING: waited 12 s\nmain may run until 22:17\nGPU-simulated-0000   free\n"
    assert missing(shown, printed) == []


def test_at_night_a_time_is_told_with_its_day_and_two_hours_may_be_a_minute_less():
    shown = ("starts about 08:22 (06:55 to 14:12), in 2 h: 1 GPU comes free",)
    assert missing(shown, "starts about 22:41 (21:39 to 2026-11-17 01:36), in 1 h 59 min: 1 GPU comes free") == []


def test_other_words_are_not_the_same():
    assert missing(("red RUNNING: is being stopped",), "red RUNNING: will be stopped\n") == ["red RUNNING: is being stopped"]
    assert missing(("NAME  STATE  GPUS",), "NAME  STATE\n") == ["NAME  STATE  GPUS"]


def test_a_line_that_time_may_leave_out_is_not_missed_and_the_lines_beside_it_are():
    command = Command("fairy run -- true", 1, False, ("warm-magpie", "warm-magpie PENDING: waited 0 s, goes to gpu01", "hello"))
    result = subprocess.CompletedProcess((), 0, "calm-lemur\nhello\n", "")
    assert judged(command, Aid(), result) is None
    result.stdout = "calm-lemur\n"
    assert "hello" in judged(command, Aid(), result)
