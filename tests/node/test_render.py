"""The page, of samples made by hand."""
import re
import time
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufairy.core.owner import Owner
from gpufairy.core.reading import GpuReading, LostGpu, Xid
from gpufairy.node.render import ALL_PARTS, TEXTFILE_PARTS, gpu_labels, render
from gpufairy.node.render_collectors import Collectors
from gpufairy.node.render_counters import Counters
from gpufairy.node.render_text import escaped
from prometheus import NOON, POD, SESSION, a_device, a_process, a_sample, many_processes, promtool


def lines(page: bytes, family: str) -> list[str]:
    return [line for line in page.decode().splitlines() if line.startswith((f"{family}{{", f"{family} "))]


def families(page: bytes) -> set[str]:
    return {line.split()[2] for line in page.decode().splitlines() if line.startswith("# TYPE ")}


def test_the_contract_is_kept_to_the_letter():
    page = render(a_sample())
    where = 'gpu="0",pid="12345",command="python",pod="training-pod-abc123",namespace="ml-workspace",container="pytorch"'
    assert lines(page, "gpu_process_info")[0] == f'gpu_process_info{{{where},status="active",gpu_memory="1024MiB"}} 1'
    assert lines(page, "gpu_process_utilization")[0] == f"gpu_process_utilization{{{where}}} 85"
    assert lines(page, "gpu_process_memory_utilization")[0] == f"gpu_process_memory_utilization{{{where}}} 60"
    assert lines(page, "gpu_session_count") == [f'gpu_session_count{{gpu="{gpu}"}} {count}' for gpu, count in (("0", 2), ("1", 0), ("2_1_0", 1), ("2_2_0", 0))]
    assert lines(page, "gpu_total_sessions") == ["gpu_total_sessions 3"]


def test_each_family_has_its_help_and_type_once_before_its_rows():
    text = render(a_sample()).decode()
    assert text.endswith("\n")
    seen = None
    for line in text.splitlines():
        if line.startswith("# HELP "):
            assert text.count(f"# HELP {line.split()[2]} ") == 1
        elif line.startswith("# TYPE "):
            seen = line.split()[2]
        else:
            assert line.startswith((f"{seen}{{", f"{seen} "))


def test_a_process_outside_kubernetes_has_empty_pod_and_namespace_and_its_containers_name():
    row = lines(render(a_sample()), "gpu_process_info")[1]
    assert 'pod="",namespace="",container="fairy-minji-brave-otter",status="idle"' in row


def test_what_nobody_can_tell_is_active_in_the_contract_and_has_no_series_of_ours():
    page = render(a_sample())
    assert 'status="active"' in lines(page, "gpu_process_info")[2]
    assert [row.rsplit(" ", 1)[1] for row in lines(page, "fairy_process_active")] == ["1", "0"]
    assert not [row for row in lines(page, "gpu_process_utilization") if 'pid="12347"' in row]


def test_a_silent_driver_takes_every_gpu_series_away_and_the_gauge_to_0():
    page = render(a_sample(gpus_known=False))
    assert not [name for name in families(page) if name.startswith(("gpu_", "fairy_gpu_", "fairy_process", "fairy_outside"))]
    assert 'fairy_collector_success{collector="gpu"} 0' in lines(page, "fairy_collector_success")


def test_a_host_that_could_not_be_read_has_no_series():
    page = render(a_sample(host=None))
    assert not [name for name in families(page) if name.startswith(("fairy_host", "fairy_user"))]
    assert 'fairy_collector_success{collector="host"} 0' in lines(page, "fairy_collector_success")


def test_a_lost_gpu_is_lost_not_idle():
    page = render(a_sample(lost=(LostGpu(1, "GPU-1", "fell off the bus"), LostGpu(7, None, "never answered"))))
    assert not [row for row in lines(page, "gpu_session_count") if 'gpu="1"' in row]
    assert lines(page, "fairy_gpu_lost") == ['fairy_gpu_lost{gpu="1"} 1', 'fairy_gpu_lost{gpu="7"} 1', 'fairy_gpu_lost{gpu="0"} 0', 'fairy_gpu_lost{gpu="2"} 0']
    assert not [row for row in lines(page, "fairy_gpu_power_watts") if 'gpu="1"' in row]


def test_instances_of_a_lost_gpu_are_gone_with_it():
    page = render(a_sample(lost=(LostGpu(2, "GPU-2", "fell off the bus"),)))
    assert [row for row in page.decode().splitlines() if 'gpu="2_' in row] == []


def test_a_gpu_whose_processes_could_not_be_read_is_not_counted_as_free():
    sample = a_sample()
    page = render(replace(sample, readings=tuple(replace(one, processes_known=one.uuid != "GPU-1") for one in sample.readings)))
    assert [row.split('"')[1] for row in lines(page, "gpu_session_count")] == ["0", "2_1_0", "2_2_0"]
    assert lines(page, "gpu_total_sessions") == []


def test_values_that_are_not_known_are_left_out_never_0():
    sample = a_sample()
    page = render(replace(sample, readings=tuple(GpuReading(one.uuid, NOON) for one in sample.devices)))
    assert {name for name in families(page) if name.startswith("fairy_gpu_")} == {"fairy_gpu_info", "fairy_gpu_lost", "fairy_gpu_memory_total_bytes"}


def test_no_number_that_is_none_gets_onto_the_page():
    sample = a_sample()
    reading = replace(sample.readings[0], power_w=float("nan"), temperature_c=float("inf"))
    page = render(replace(sample, readings=(reading,)))
    assert lines(page, "fairy_gpu_power_watts") == lines(page, "fairy_gpu_temperature_celsius") == []
    assert lines(page, "fairy_gpu_memory_used_bytes") != []


def test_throttling_is_a_row_for_each_reason():
    rows = [row for row in lines(render(a_sample()), "fairy_gpu_throttled") if 'gpu="0"' in row]
    assert len(rows) == 7
    assert [row for row in rows if row.endswith(" 1")] == ['fairy_gpu_throttled{gpu="0",reason="power_cap"} 1']


def test_a_gpu_in_mig_mode_shows_its_power_and_each_instance_its_parent():
    page = render(a_sample())
    assert 'fairy_gpu_power_watts{gpu="2"} 300.5' in lines(page, "fairy_gpu_power_watts")
    assert any('gpu="2_1_0"' in row and 'parent="2",profile="3g.20gb"' in row for row in lines(page, "fairy_gpu_info"))


def test_processes_that_nobody_handed_a_gpu_to_are_counted_by_gpu_and_user():
    assert lines(render(a_sample()), "fairy_outside_processes") == ['fairy_outside_processes{gpu="2_1_0",user="root"} 1']


def test_a_process_listed_as_compute_and_as_graphics_is_one():
    sample, device = a_sample(), a_device("0")
    twice = (a_process(device, 5, kind="graphics", utilisation=None), a_process(device, 5))
    for processes in (twice, twice[::-1]):
        page = render(replace(sample, processes=processes))
        assert lines(page, "gpu_total_sessions") == ["gpu_total_sessions 1"]
        assert len(lines(page, "gpu_process_utilization")) == 1


def test_a_process_on_two_gpus_has_a_row_on_each():
    page = render(replace(a_sample(), processes=(a_process(a_device("0"), 5), a_process(a_device("1"), 5))))
    assert len(lines(page, "gpu_process_info")) == 2
    assert lines(page, "gpu_total_sessions") == ["gpu_total_sessions 2"]


def test_a_process_on_a_device_that_is_no_more_is_left_out():
    page = render(replace(a_sample(), processes=(a_process(a_device("9")),)))
    assert lines(page, "gpu_total_sessions") == ["gpu_total_sessions 0"]


HOSTILE = ['say "hi"', "back\\slash", "two\nlines", "x" * 2**20, "\udcff\udcfe", "tab\tbell\a\0", "{}", "한글 이름", "\\" * 200, "\u2028\x85"]


@pytest.mark.system
@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_no_name_can_spoil_the_page(text):
    owner = Owner(text, SESSION.known_by, text, text, text, None, text, text)
    page = render(replace(a_sample(), node=text, processes=(a_process(a_device("0"), owner=owner, command=text),)))
    checked = promtool("check", "metrics", given=page)
    assert (checked.returncode, checked.stderr) == (0, "")


@given(st.text())
def test_a_label_reads_back_as_it_was_written(text):
    shown = escaped(text, 1000)
    assert re.fullmatch(r'(?:[^"\\\n]|\\["\\n])*', shown)
    back = re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], shown)
    assert [(wrote, read) for wrote, read in zip(text, back, strict=True) if wrote != read and (wrote.isprintable() or read != " ")] == []


def test_a_command_is_cut_before_it_is_escaped():
    row = lines(render(replace(a_sample(), processes=(a_process(a_device("0"), command='"' * 2**20),))), "gpu_process_info")[0]
    assert 'command="' + '\\"' * 64 + '",' in row


@pytest.mark.system
@pytest.mark.parametrize("parts", [ALL_PARTS, TEXTFILE_PARTS], ids=["all", "textfile"])
def test_promtool_finds_nothing_to_say(parts):
    xids, collectors = Counters(), Collectors()
    xids.add([Xid("GPU-0", 79, NOON)], {"GPU-0": "0"})
    collectors.note("containers", True, NOON, 0.01)
    checked = promtool("check", "metrics", given=render(a_sample(), xids=xids, collected=collectors.all(), parts=parts))
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_the_textfile_has_no_host_families_and_all_others():
    everything, textfile = families(render(a_sample())), families(render(a_sample(), parts=TEXTFILE_PARTS))
    assert {name for name in everything - textfile if not name.startswith(("fairy_host_", "fairy_user_"))} == set()
    assert not [name for name in textfile if name.startswith(("fairy_host_", "fairy_user_"))]


def test_collectors_remember_their_last_success():
    collectors = Collectors()
    collectors.note("gpu", True, NOON, 0.004)
    collectors.note("gpu", False, NOON + timedelta(minutes=1), 15.0)
    page = render(a_sample(gpus_known=False), collected=collectors.all())
    assert f'fairy_collector_last_success_timestamp_seconds{{collector="gpu"}} {int(NOON.timestamp())}' in page.decode()
    assert 'fairy_collector_success{collector="gpu"} 0' in page.decode()


def test_xid_errors_are_counted_by_gpu_and_code_and_never_fall():
    counters, labels = Counters(), gpu_labels(a_sample())
    assert counters.add([Xid("GPU-0", 79, NOON), Xid("GPU-0", 79, NOON + timedelta(seconds=5)), Xid("GPU-2", 31, NOON)], labels)
    assert not counters.add([], labels)
    again = Counters.from_plain(counters.to_plain())
    again.add([Xid("GPU-0", 79, NOON + timedelta(seconds=9))], {})  # it fell off the bus: its label is remembered
    page = render(a_sample(gpus_known=False), xids=again)
    assert lines(page, "fairy_gpu_xid_errors_total") == ['fairy_gpu_xid_errors_total{gpu="0",xid="79"} 3', 'fairy_gpu_xid_errors_total{gpu="2",xid="31"} 1']
    assert lines(page, "fairy_gpu_xid_last_seen_timestamp_seconds")[0].endswith(f" {int(NOON.timestamp()) + 9}")


def test_an_older_error_does_not_turn_the_last_seen_back():
    counters = Counters()
    counters.add([Xid("GPU-0", 79, NOON), Xid("GPU-0", 79, NOON - timedelta(days=365))], {"GPU-0": "0"})
    assert counters.to_plain()[0][3] == NOON.timestamp()


def test_two_cards_that_had_one_place_after_each_other_are_one_row():
    counters = Counters()
    counters.add([Xid("GPU-old", 79, NOON)], {"GPU-old": "0"})
    counters.add([Xid("GPU-new", 79, NOON)], {"GPU-new": "0"})
    assert lines(render(a_sample(), xids=counters), "fairy_gpu_xid_errors_total") == ['fairy_gpu_xid_errors_total{gpu="0",xid="79"} 2']


@pytest.mark.parametrize("spoilt", [None, {}, "x", [1], [["u", 1]], [["u", 1, -1, 0, "0"]], [["u", 1, 1, float("nan"), "0"]], [["u", "1", 1, 0, "0"]]])
def test_counters_start_at_nothing_from_what_they_cannot_use(spoilt):
    assert Counters.from_plain(spoilt).to_plain() == []


def test_a_label_from_a_spoilt_file_cannot_spoil_the_page():
    assert Counters.from_plain([["u", 1, 1, 0, '0"} 1\nevil 1']]).to_plain() == [["u", 1, 1, 0.0, ""]]


def test_a_page_of_eight_gpus_and_64_processes_takes_under_3_ms():
    sample, took_s = many_processes(64), []
    for _ in range(20):
        began_s = time.perf_counter()
        render(sample)
        took_s.append(time.perf_counter() - began_s)
    assert min(took_s) < 0.003


def test_a_thousand_processes_are_a_page_too():
    page = render(many_processes(1000))
    assert len(lines(page, "gpu_process_info")) == 1000
    assert lines(page, "gpu_total_sessions") == ["gpu_total_sessions 1000"]


def test_a_pods_process_is_not_outside_and_has_no_session_of_ours():
    page = render(replace(a_sample(), processes=(a_process(a_device("0"), owner=POD),)))
    assert lines(page, "fairy_outside_processes") == lines(page, "fairy_session_info") == []
