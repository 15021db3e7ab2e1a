"""`fairy results --list`: which files there are, without fetching any."""
import json

from fake_server import Job, ended


def test_files_are_listed_with_their_sizes_and_nothing_is_fetched(server, fairy, tmp_path):
    server.add(Job([ended()], files=(("run/model.bin", 2048), ("\x1b[31mred", 3))))
    done = fairy("results", "--list", "brave-otter")
    assert (done.code, done.out.split("\n")[0].split()) == (0, ["2", "KiB", "run/model.bin"])
    assert "\x1b" not in done.out
    assert not (tmp_path / "results").exists()


def test_as_json_for_scripts(server, fairy):
    server.add(Job([ended()], files=(("out.txt", 4),)))
    listed = json.loads(fairy("results", "--list", "--json", "brave-otter").out)
    assert (listed["items"], listed["count"]) == ([{"path": "out.txt", "size_bytes": 4}], 1)
