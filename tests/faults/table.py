"""Every fault that is promised to be survived, with what must be seen and the tests that show it. Checked by test_fault_table.py; the manual's page is made from it."""
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    name: str
    what: str
    seen: str  # what people see meanwhile and afterwards
    shown_by: tuple[str, ...]  # pytest's names of files or tests
    stands_in: str = ""  # what is not the real thing in these tests


FAKE_DRIVER = "a fake NVML library; the same was run on an H200 where that harms nobody"

FAULTS = (
    Fault(
        "server_killed", "`kill -9` of the server at every step of every change, and again and again under load",
        "It serves again within 5 s; on PostgreSQL after the 15 s of the lease. What runs keeps its PID; nothing that was acknowledged is lost, "
        "nothing starts twice, no letter stays unsent. `fairy run` and open pages go on by themselves.",
        (
            "tests/faults/test_kill_points.py", "tests/faults/test_kill_points_docker.py", "tests/faults/test_kill_points_kubernetes.py",
            "tests/faults/test_kill_points_postgres.py", "tests/faults/test_kill_points_pools.py", "tests/faults/test_random_kills.py",
            "tests/journeys/test_kill.py", "tests/journeys/test_containers.py::test_a_restart_of_the_server_cuts_no_shell_and_loses_no_container",
        ),
        "of pools: Karpenter in its flavour for kwok",
    ),
    Fault(
        "agent_killed", "`kill -9` of an agent or a collector in a loop",
        "Sessions are not touched. Counters never fall; what could not be sent is sent later.",
        (
            "tests/journeys/test_exporting.py::test_counters_never_fall_while_the_child_is_killed_again_and_again",
            "tests/journeys/test_watching.py::test_an_agent_killed_and_started_again_keeps_its_key_and_goes_on",
            "tests/node/test_spool.py::test_after_a_kill_nothing_that_was_delivered_is_sent_again",
        ),
        FAKE_DRIVER,
    ),
    Fault(
        "docker_away", "Docker restarted, stopped for a minute, killed; the answer to a create lost on the way",
        "Sessions run on; after a while they are told as LOST, and are RUNNING again 10 s after Docker is back: the same containers. Who submits "
        "meanwhile is told why it cannot be taken. One whose start Docker was killed in and has forgotten is ended and told as lost; its command "
        "is not begun twice unless `--retry` says so.",
        ("tests/faults/test_fault_docker.py", "tests/adapters/test_engine_docker_faults.py"),
    ),
    Fault(
        "database_lost", "the database empty, missing, or restored from yesterday, while sessions run",
        "Nothing is killed: all that runs is found by its labels, also what is newer than the backup. Users, keys and history are those of the backup.",
        (
            "tests/journeys/test_kill.py::test_sessions_are_adopted_by_their_labels_when_the_database_is_gone",
            "tests/journeys/test_containers.py::test_with_an_empty_database_everything_is_adopted_and_uids_stay",
            "tests/journeys/test_kube_road.py::test_a_restarted_server_finds_what_runs_with_an_empty_database_too",
            "tests/journeys/test_upkeep_road.py",
        ),
    ),
    Fault(
        "database_ill", "the database damaged, locked for 30 s, its disk full, PostgreSQL's backends killed",
        "503 or 507 with what is wrong and what to do. No session and no host is declared dead; it goes on by itself when it can.",
        ("tests/faults/test_fault_store.py", "tests/adapters/test_store_faults.py"),
    ),
    Fault(
        "driver_hung", "a driver that never answers, a GPU fallen off the bus",
        "Told within 15 s; the GPUs of that host are not handed out, nobody's request waits for it, and never more than one helper is stuck.",
        (
            "tests/journeys/test_exporting.py::test_a_hung_driver_is_seen_in_15_s_and_the_page_answers_all_the_while",
            "tests/adapters/test_devices_nvml_source.py", "tests/adapters/test_devices_nvidia.py::test_a_gpu_that_fell_off_the_bus_is_not_offered",
            "tests/core/test_samples.py::test_a_lost_gpu_is_not_handed_out_and_its_neighbours_are",
        ),
        FAKE_DRIVER,
    ),
    Fault(
        "bad_neighbour", "a session out of memory, a fork bomb, a flood of output, one that fills the disk or its inodes",
        "That user alone is told why, in words. Others sign in within 2 s.",
        (
            "tests/faults/test_fault_neighbours.py", "tests/journeys/test_containers.py::test_out_of_memory_is_told_in_words",
            "tests/adapters/test_engine_docker.py::test_a_fork_bomb_ends_at_the_limit_of_processes",
            "tests/adapters/test_engine_docker.py::test_a_flood_is_cut_and_a_log_is_no_longer_than_its_cap",
        ),
    ),
    Fault(
        "clock_jumps", "the clock jumps by an hour, a day, years, both ways",
        "Nobody's time is up early, no lease is lost, no second is negative.",
        ("tests/faults/test_fault_clock.py", "tests/adapters/test_devices_nvml_source.py::test_the_wall_clock_may_jump", "tests/adapters/test_store_leader.py"),
        "a library under the server's own process that tells it another time",
    ),
    Fault(
        "second_server", "a second server on the same data; a server that slept and wakes up",
        "It refuses to start (SQLite), or waits for the lease (PostgreSQL). One that slept while another took over writes nothing, and leaves.",
        (
            "tests/faults/test_fault_store.py::test_a_second_server_on_the_same_data_is_refused_in_words",
            "tests/faults/test_fault_store.py::test_a_server_that_slept_while_another_took_the_lease_writes_nothing_and_leaves",
            "tests/journeys/test_setups.py::test_a_second_server_on_postgresql_waits_for_the_lease_and_takes_over",
        ),
    ),
    Fault(
        "parted", "server and host parted for 30 s, for 5 minutes, one way only, with half of all packets lost",
        "A short while: nothing. A long one: the host is told as silent, its sessions as LOST with the reason, and none is started elsewhere. Healed: "
        "the same processes, and what was read meanwhile arrives.",
        ("tests/faults/test_fault_parted.py", "tests/journeys/test_watching.py::test_what_a_killed_server_missed_arrives_when_it_is_back"),
    ),
    Fault(
        "kubernetes_away", "Kubernetes' API server hung, killed, too busy (429), forgetful (410); a pod deleted by hand, a node emptied",
        "Right 30 s after it is back, and never a second pod. Who lost a pod is told why.",
        ("tests/faults/test_fault_kube.py", "tests/adapters/test_engine_pods_faults.py", "tests/adapters/test_engine_pods.py"),
        "nodes by kwok; the API server and, in the second, a kubelet are real",
    ),
    Fault(
        "crowd", "1,000 SSH logins at once and held, 5,000 connections that never sign in, clients that send a byte a second, 2,000 browsers that vanish",
        "Others sign in within 3 s. Who never signs in is dropped after 30 s (15 s on HTTP); what a crowd took comes back when it has left.",
        ("tests/journeys/test_crowds.py", "tests/gateway/test_strangers_by_ssh.py", "tests/journeys/test_limits.py"),
        "a fifth of the crowd in ./test; the whole of it by the benches of the same names",
    ),
    Fault(
        "one_hog", "100,000 sessions queued by one user",
        "Others start as before, a submit takes no longer, and a restart less than 10 s. Beyond the cap of a user the next is refused in words.",
        ("tests/journeys/test_crowds.py::test_ten_thousand_queued_by_one_user_hold_up_nobody_else",),
        "10,000 in ./test; the whole by `./test bench one_hog`",
    ),
    Fault(
        "upgrade_killed", "an upgrade with sessions running, killed in every step; going back a version",
        "Sessions are not touched. The tables are as they were or as they should be, never in between; the way back is told in words.",
        ("tests/faults/test_kill_points.py", "tests/adapters/test_upgrade.py", "tests/adapters/test_store_migrations.py"),
    ),
    Fault(
        "unkillable", "a process that cannot be killed when its session is stopped",
        "Its GPU stays held, the session says that it is stuck, and the admin is told by an alert.",
        ("tests/faults/test_fault_stuck.py", "tests/control/test_janitor.py::test_a_session_that_was_killed_and_is_still_there_is_told_until_it_is_gone"),
        "the kernel's freezer in the place of a dead disk",
    ),
)  # fmt: skip
