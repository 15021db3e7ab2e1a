"""`fairy disk`: what it asks the server, what it prints; what is not known is a question mark."""
import json

GIB = 2**30
LIMIT = {"limit_bytes": None, "enforced": False, "why_not_enforced": "", "next_step": ""}
LINE = {
    "user": "ann", "bytes": 34 * GIB, "inodes": 120_000, "old_bytes": 5 * GIB, "day_bytes": None, "week_bytes": 2 * GIB, **LIMIT,
    "places": [{"place": "homes", "bytes": 34 * GIB}],
}  # fmt: skip
PLACE = {
    "place": "homes", "path": "/srv/homes", "bytes": 34 * GIB, "inodes": 120_000, "as_of": "2026-11-16T03:00:00Z", "week_bytes": -GIB,
    "unread": 2, "mounts": 1, "why_unknown": "",
}  # fmt: skip
WHOLE = {
    **LINE, "limit_bytes": 40 * GIB,
    "folders": [{"path": "~/runs", "bytes": 20 * GIB, "inodes": 9, "used_at": "2026-11-15T03:00:00Z"}],
    "largest": [{"path": "~/runs/\\x1b[31m.ckpt", "bytes": 9 * GIB, "inodes": None, "used_at": None}], "oldest": [],
    "advice": [{"sort": "pip", "bytes": 3 * GIB, "what": "Packages that pip and uv fetched take 3 GiB", "next_step": "`pip cache purge` frees it."}],
    "images_bytes": 5 * GIB,
}  # fmt: skip
STATE = {"as_of": "2026-11-16T03:00:00Z", "walking": None, "why_unknown": "", "next": None}


def test_admins_see_everybody_and_every_place(server, fairy):
    server.answers["GET", "/disk"] = {**STATE, "items": [LINE], "places": [PLACE]}
    lines = fairy("disk").out.splitlines()
    assert lines[1].split() == ["ann", "34", "GiB", "120,000", "+2", "GiB", "?", "5", "GiB"]
    assert lines[4].startswith("homes  34 GiB   120,000  -1 GiB")
    assert lines[4].endswith("2 folders could not be read; 1 other disk in it not counted")
    assert json.loads(fairy("disk", "--json").out)["items"] == [LINE]


def test_a_user_sees_their_own_with_what_could_be_removed(server, fairy):
    server.answers["GET", "/disk"] = {**STATE, "items": [WHOLE], "places": []}
    out = fairy("disk").out
    assert out.startswith("ann: 34 GiB in 120,000 files, of 40 GiB (only told), +2 GiB in 7 days; as of ")
    assert "- Packages that pip and uv fetched take 3 GiB. `pip cache purge` frees it." in out
    assert "20 GiB  9      2026-11-15    ~/runs" in out
    assert "Images you made: 5 GiB" in out


def test_the_largest_and_the_oldest_are_asked_for_by_name(server, fairy):
    server.answers["GET", "/me"] = {"name": "ann"}
    server.answers["GET", "/disk"] = {**STATE, "items": [WHOLE], "places": []}
    assert "9 GiB  ?          ~/runs/" in fairy("disk", "--largest").out
    assert "None of 1 MiB or more." in fairy("disk", "--oldest", "--user", "ann").out
    assert [call.query for call in server.calls("GET", "/disk")] == [{"user": "ann"}, {"user": "ann"}]


def test_folders_of_a_place_are_found_by_its_name_or_its_path(server, fairy):
    server.answers["GET", "/disk"] = {**STATE, "items": [], "places": [PLACE, {**PLACE, "place": "/data"}]}
    server.answers["GET", "/disk/folders"] = {"place": "homes", "as_of": STATE["as_of"], "items": WHOLE["folders"], "next": None}
    assert "~/runs" in fairy("disk", "--folder", "homes/kim").out
    fairy("disk", "--folder", "/data/sets")
    fairy("disk", "--folder", "/data2")
    asked = [call.query for call in server.calls("GET", "/disk/folders")]
    assert asked == [{"place": "homes", "below": "kim"}, {"place": "/data", "below": "sets"}, {"place": "/data2"}]


def test_what_is_not_known_is_said(server, fairy):
    server.answers["GET", "/disk"] = {**STATE, "items": [], "places": [], "why_unknown": "homes are claims of the cluster"}
    assert fairy("disk").out == "Disk use is not known: homes are claims of the cluster.\n"
    nothing = {**WHOLE, "bytes": None, "folders": [], "largest": [], "advice": []}
    server.answers["GET", "/disk"] = {**STATE, "items": [nothing], "places": [], "as_of": None}
    assert fairy("disk").out == "Nobody has looked yet; the first walk is on its way.\n"
    server.answers["GET", "/disk"] = {**STATE, "items": [nothing], "places": []}
    assert fairy("disk").out == "ann has nothing on disk.\n"


def test_a_walk_now_is_asked_for(server, fairy):
    server.answers["POST", "/disk/walks"] = (202, STATE)
    server.answers["GET", "/disk"] = {**STATE, "items": [LINE], "places": [PLACE]}
    assert "walked through now" in fairy("disk", "--again").err
    assert len(server.calls("POST", "/disk/walks")) == 1


def test_one_host_is_asked_for_by_its_name_and_what_is_old_is_said(server, fairy):
    old = {"place": "gpu07:/home", "bytes": GIB, "as_of": "2026-11-01T03:00:00Z", "old": True}
    server.answers["GET", "/disk"] = {**STATE, "items": [{**WHOLE, "places": [old]}], "places": []}
    assert "gpu07:/home was last looked at 2026-11-01" in fairy("disk", "--node", "gpu07").out
    assert server.calls("GET", "/disk")[-1].query == {"node": "gpu07"}
    place = {**PLACE, "place": "gpu07:/home", "node": "gpu07", "old": True, "named_of_each": 3}
    server.answers["GET", "/disk"] = {**STATE, "items": [LINE], "places": [place]}
    assert "looked at more than 2 days ago; the report was too large, and was trimmed; 2 folders could not be read" in fairy("disk").out
