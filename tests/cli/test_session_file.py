"""Session files: what is read, what is refused and in which words, and that no bytes whatever break the reader."""
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufairy.cli.session_file import FIELDS, read_sessions
from gpufairy.cli.session_tree import LARGEST_BYTES
from gpufairy.core.errors import BadInput

EXAMPLE = b"""
name: train-bert
image: pytorch:2.7
gpus: 0.5
cpus: 4
memory: 16GiB
time: 8h
command: [python, train.py, --epochs, "3"]
mounts: [datasets/imagenet]
env: {SEED: "1"}
"""
BODY = {
    "kind": "batch", "name": "train-bert", "image": "pytorch:2.7", "gpus": "0.5", "cpus": "4", "memory": "16GiB", "time": "8h",
    "command": ["python", "train.py", "--epochs", "3"], "mounts": ["datasets/imagenet"], "env": {"SEED": "1"},
}  # fmt: skip


def yaml(text):
    return read_sessions(text.encode() if isinstance(text, str) else text, "f.yaml", toml=False)


def toml(text):
    return read_sessions(text.encode(), "f.toml", toml=True)


def test_the_example_of_the_manual_is_read_as_typed():
    assert yaml(EXAMPLE) == [BODY]


def test_toml_says_the_same():
    text = """name = "train-bert"\nimage = "pytorch:2.7"\ngpus = 0.5\ncpus = 4\nmemory = "16GiB"\ntime = "8h"
command = ["python", "train.py", "--epochs", "3"]\nmounts = ["datasets/imagenet"]\nenv = {SEED = 1}"""
    assert toml(text) == [BODY]


def test_words_that_yaml_takes_for_truth_stay_words():
    assert yaml("env: {A: no, B: on, C: 010, D: 1e3, E: }")[0]["env"] == {"A": "no", "B": "on", "C": "010", "D": "1e3", "E": ""}


def test_without_a_command_it_is_interactive():
    assert yaml("gpus: 1") == [{"kind": "interactive", "gpus": "1"}]


def test_several_sessions_as_documents_or_as_a_list():
    assert [body["name"] for body in yaml("name: a\n---\nsessions:\n- name: b\n- name: c\n---\n")] == ["a", "b", "c"]


def test_each_comes_after_those_of_the_file_that_it_waits_for():
    text = "sessions:\n- {name: report, after: [train, prep]}\n- {name: train, after: [prep, from-yesterday]}\n- {name: prep}\n- {name: alone}\n"
    assert [body["name"] for body in yaml(text)] == ["prep", "train", "report", "alone"]


@pytest.mark.parametrize(
    ("text", "circle"),
    [
        ("{name: a, after: [a]}", "a waits for a,"),
        ("sessions: [{name: a, after: [b]}, {name: b, after: [c]}, {name: c, after: [b]}]", "b waits for c waits for b,"),
    ],
)
def test_sessions_that_wait_for_each_other_are_refused_before_any_is_submitted(text, circle):
    with pytest.raises(BadInput, match=f"f.yaml: {circle} so none of them could ever start"):
        yaml(text)


def test_a_priority_is_a_word_or_a_number():
    assert [body["priority"] for body in yaml("sessions: [{priority: low}, {priority: -3}]")] == ["low", -3]


def test_flags_are_true_or_false():
    [body] = yaml("{count: 4, together: true, preemptible: no}")
    assert (body["together"], body["preemptible"]) == (True, False)
    with pytest.raises(BadInput, match="`together` is 'perhaps'"):
        yaml("{count: 4, together: perhaps}")


def test_whole_numbers_are_numbers():
    [body] = yaml("{count: 3, retry: 2, priority: -1, ports: [80]}")
    assert body == {"kind": "interactive", "count": 3, "retry": 2, "priority": -1, "ports": [80]}


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("gpus: 1\ngpu: 2", 2, "no field 'gpu'"),
        ("a: &x 1\nb: *x", 1, "anchor"),
        ("name: x\nenv: {A: *x}", 2, "alias"),
        ("name: !!python/object:os.system x", 1, "tag"),
        ("name: 2024-01-01", 1, "date"),
        ("- a\n- b", 1, "found a list"),
        ("just words", 1, "found one value"),
        ("name: a\nname: b", 2, "twice"),
        ("gpus: 1\ncommand: []", 2, "empty"),
        ("gpus: 1\nname:", 2, "no value"),
        ("count: many", 1, "no whole number"),
        ("name: [a]", 1, "one value, found a list"),
        ("mounts: a", 1, "a list, found one value"),
        ("{[a]: b}", 1, "as a name"),
        ("name: 'a", 1, "no YAML"),
        ("name: " + "[" * 33, 1, "deeper than 32"),
        ("sessions: []\nname: x", 1, "beside"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text, line, words):
    with pytest.raises(BadInput) as refused:
        yaml(text)
    assert refused.value.detail.startswith(f"f.yaml, line {line}")
    assert words in refused.value.detail
    assert refused.value.next_step


WRONG_TOML = ["x = ", "name = 2024-01-01", "name = 07:32:00", "a=" + "[" * 5000, "a." * 40 + "a = 1", "gpu = 1", "x = 2024-13-01"]


@pytest.mark.parametrize("text", WRONG_TOML)
def test_toml_that_is_wrong_is_refused_with_its_file(text):
    with pytest.raises(BadInput, match=r"^f\.toml"):
        toml(text)


@pytest.mark.parametrize("data", [b"", b"# nothing\n", b"---\n---\n", b"\xff\xfe", b"\x00", b"a" * (LARGEST_BYTES + 1), b"[" * 500_000])
def test_what_is_no_session_file_at_all_is_refused(data):
    with pytest.raises(BadInput):
        yaml(data)


LEAVES = st.text(max_size=20) | st.sampled_from(["0.5", "&a", "*a", "!!x", "|", ">-", "2024-01-01", "~", "{", "]", "\t", "'", '"'])
NAMES = st.sampled_from(list(FIELDS)) | LEAVES
SHAPES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3))
TEXTS = SHAPES.map(str) | st.text(max_size=200) | st.lists(st.tuples(NAMES, LEAVES).map(": ".join)).map("\n".join)


@given(data=st.binary(max_size=200) | TEXTS.map(lambda text: text.encode(errors="surrogatepass")), is_toml=st.booleans())
def test_any_bytes_are_either_sessions_or_refused_in_words(data, is_toml):
    try:
        bodies = read_sessions(data, "f", toml=is_toml)
    except BadInput:
        return
    assert all(set(body) <= FIELDS.keys() for body in bodies)
