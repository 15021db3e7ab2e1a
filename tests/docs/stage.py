"""What pages take for granted, and what cannot be run here: the only places where a page is helped."""
import re
from dataclasses import dataclass, field

from pages import Command

IN_CONTAINERS = ("README.md", "manual.md", "api.md", "faq.md")  # their sessions are containers


@dataclass(frozen=True, slots=True)
class Aid:
    before: str = ""  # what the reader has done, or somebody else
    after: str = ""
    answers: str = ""  # typed when asked
    terminal: bool = False
    inside: bool = False  # typed in a session, though there is no prompt to say so
    instead: dict[str, str] = field(default_factory=dict)  # ids and the like, which are others here
    fails: bool = False  # and is meant to
    other_output: str = ""  # why what is shown there cannot be what is printed here
    heads: int | None = None  # only so many of the lines that are shown are looked for: below stand figures of a lab with a past


# Everything that is not run: which command, by its beginning, and why. All of them are still read by bash and by fairy's own parser.
NOT_RUN = tuple((re.compile(words), why) for words, why in (
    (r"(apt-get|dnf|brew) ", "changes the machine's packages; the tests install theirs by ./test"),
    (r"git clone ", "where from is the reader's own"),
    (r"(.*&& )?systemctl ", "no systemd runs here; the service runs under one in tests/journeys/test_systemd_road.py"),
    (r"./fairy up +#|./test|\./fairy up$", "runs in the foreground; started with -d on every page, from a bare clone by tests/first_use/test_first_road.py"),
    (r"docker build ", "its base images are in a registry; the same image is built and run by tests/kube"),
    (r".*deploy/image/build\.py ", "takes minutes; built and run by tests/kube/own_image.py"),
    (r"kubectl ", "takes a cluster; run by tests/kube/test_helm_install.py and test_helm_lab.py"),
    (r"fairy pool ", "takes a cluster with Karpenter; run by tests/journeys/test_pool_road.py"),
    (r".venv-test/bin/python -m hatchling ", "takes the whole clone; so the wheel is made, installed and used by tests/journeys/test_wheel.py"),
    (r"uv |python -m pip wheel|python3 -m venv /tmp/try|/tmp/try/", "takes a package index; the lock is tried by tests/first_use/test_first_road.py, the wheel by tests/journeys/test_wheel.py"),
    (r"fairy open ", "needs Jupyter in the session; run by tests/journeys/test_real_apps.py"),
    (r"fairy selftest isolation", "needs a GPU that nobody is on; run by tests/journeys/test_selftest_isolation.py"),
    (r"python -m tests\.faults ", "breaks parts of a machine on purpose; run by tests/faults"),
    (r"python -m tests\.mutants ", "is of the repository; run by tests/mutants"),
    (r"from gpufairy.core.scenario_fit", "a piece of a program, whose cluster is the reader's"),
))  # fmt: skip

# Lines that a page shows and that time may leave out: what they tell lasts so short that who looks may come after it.
MAY_BE_MISSING = tuple((re.compile(words), why) for words, why in (
    (r"\S+ PENDING: waited .*, goes to ", "on a busy machine it has started before `fairy run` looks again"),
))  # fmt: skip

THREE = "; ".join(f"fairy run --detach --gpus 1 --time 2h --name {name} -- sleep 600" for name in ("red", "green", "blue"))
ALONE = "fairy stop --all; until [ -z \"$(fairy ps --json | jq -r '.items[]')\" ]; do sleep 0.2; done; "
KEY = "[ -e ~/.ssh/id_ed25519 ] || ssh-keygen -q -t ed25519 -N '' -f ~/.ssh/id_ed25519; fairy key add ~/.ssh/id_ed25519.pub >/dev/null 2>&1 || true; "
MAIN = "fairy ps | grep -q '^main ' || fairy start --gpus 0.5 --time 8h --name main; until fairy ps | grep -q '^main .*RUNNING'; do sleep 0.2; done; "
BOOKED = "$(fairy book list --json | jq -r '.items[-1].id')"
PAST = "fairy run --gpus 1 --name past -- true"
JOBS = "printf 'submit,duration,gpus,user,team\\n2026-11-01T00:00:00Z,3600,1,ann,nlp\\n2026-11-01T00:10:00Z,600,4,bob,vision\\n' > jobs.csv"
AGENT = "(setsid fairy agent --server http://gpu01.lab.example:8420 --name gpu07 --simulate none --data /root/agent >/dev/null 2>&1 </dev/null &); until fairy node waiting | grep -q gpu07; do sleep 0.2; done"
SECOND = (
    "XDG_CONFIG_HOME=/root/second fairy up -d --engine process --simulate 1xA100-40GB --data /root/second --port 8520 --ssh-port 0 >/dev/null; "
    "XDG_CONFIG_HOME=/root/second fairy token create --label move > /root/second.token; fairy token create --label move > /root/first.token"
)
EXPORTER = "(setsid fairy exporter --simulate 1xA100-40GB --listen 0.0.0.0:9835 >/dev/null 2>&1 </dev/null &); until curl -s localhost:9835/metrics; do sleep 0.2; done"
ELSEWHERE = "figures of a lab with real GPUs and a past"

AIDS: dict[str, dict[str, Aid]] = {
    "README.md": {
        "ssh -p 8422 minji@gpu01": Aid(before=ALONE + KEY, answers="exit\n", terminal=True, instead={"      # into your own": " # into your own"}),
        "fairy start --gpus 0.5 --image": Aid(before=ALONE),
        "fairy why train-bert": Aid(before="fairy apply train.yaml"),
        "fairy team add nlp": Aid(before="fairy user team minji none; fairy team remove nlp"),
        "fairy run --preemptible": Aid(before=ALONE),
        "fairy run --count 4 --together": Aid(instead={"--count 4": "--count 2"}),
        "fairy book --gpus 4": Aid(instead={"--gpus 4": "--gpus 2"}),
        "fairy top": Aid(instead={"fairy top": "fairy top --once"}),
    },
    "admin.md": {
        "fairy key add --user minji": Aid(before="ssh-keygen -q -t ed25519 -N '' -f minji"),
        "install -m 600 /dev/stdin": Aid(answers="secret\n"),
        "fairy class add": Aid(before="printf 'login,name\\nann1,Ann\\n' > students.csv; fairy user add prof", after="fairy class add cs231n --roster students.csv --start 2027-03-02 --end 2027-06-20"),
        "fairy node waiting": Aid(before=AGENT),
        "fairy usage": Aid(before=PAST, other_output=ELSEWHERE),
        "fairy team add nlp": Aid(before="for name in ann bob; do fairy user add $name; done; fairy user team ann vision; fairy user team student1 none; fairy user team minji none"),
        "fairy user share ann": Aid(before="fairy user team ann nlp"),
        "fairy ledger": Aid(heads=1),
        "fairy simulate jobs.csv": Aid(before=JOBS),
        "fairy node maintenance --end a1b2c3": Aid(instead={"a1b2c3": "$(fairy node maintenance --json | jq -r '.items[0].id')"}),
    },
    "api.md": {
        'curl -s -H "$AUTH" $URL/sessions/main/keep': Aid(before=MAIN),
        'curl -sN -H "$AUTH" "$URL/events?follow=1"': Aid(instead={"--max-time 5": "--max-time 1"}, fails=True),
        'curl -sN -H "$AUTH" -H \'Last-Event-ID: 2': Aid(instead={"--max-time 5": "--max-time 1"}, fails=True),
        'curl -s -H "$AUTH" -X DELETE $URL/bookings': Aid(instead={"ade44c89": BOOKED}),
        'curl -s -H "$AUTH" "$URL/readings?kind=node': Aid(instead={"gpu07": "gpu01"}),
        'curl -s -H "$AUTH" "$URL/sessions/main/apps': Aid(before=MAIN, instead={"jupyter": "port:8000"}),
        'curl -s -H "$AUTH" -X DELETE $URL/tokens': Aid(instead={"51c9b9baa589": "$(fairy token list --json | jq -r '.items[] | select(.label == \"ci\").id' | head -1)"}),
        'curl -s -H "$AUTH" $URL/keys -d': Aid(before="ssh-keygen -q -t ed25519 -N '' -f ~/.ssh/id_ed25519"),
        'curl -s -H "$AUTH" -X DELETE $URL/keys': Aid(instead={"SHA256:I9JlOXMNRvyBtqlCf0qYQzWM+KVa5P1tZ7J+OqDDHKU": "$(fairy key list --json | jq -r '.items[0].fingerprint')"}),
        'curl -s  -H "$AUTH" -X DELETE "$URL/images': Aid(before=ALONE),
    },
    "faq.md": {
        "fairy why main": Aid(before=KEY + MAIN),
        "fairy show old": Aid(before="fairy run --gpus 0 --name old -- true"),
        "fairy results --list night": Aid(before="until fairy ps -a | grep -q 'night.*\\(done\\|RUNNING\\)'; do sleep 0.2; done"),
        "fairy key add --user jisoo": Aid(before="ssh-keygen -q -t ed25519 -N '' -f jisoo"),
    },
    "manual.md": {
        "ssh-keygen -t ed25519": Aid(answers="\n\n\n", after=KEY),
        "ssh -p 8422 minji@gpu01": Aid(answers="exit\n", terminal=True),
        "fairy login": Aid(
            before="fairy user add student1 --team nlp; fairy token create --user student1 > student1.token; export XDG_CONFIG_HOME=/root/student1",
            instead={"fairy login": "cat student1.token | fairy login"}, other_output="a terminal is asked for the token",
        ),
        "fairy whoami": Aid(after="unset XDG_CONFIG_HOME"),
        "fairy run --gpus 0.5 -- python train.py": Aid(before=ALONE),
        "fairy start --gpus 0.5 --time 8h --name study": Aid(before=ALONE),
        "fairy ssh study": Aid(before=KEY),
        "fairy image list": Aid(before=MAIN + "fairy commit main minji/mine:1", other_output="sizes, ages and names are this machine's", heads=1),
        "fairy apply train.yaml": Aid(before=ALONE, instead={"cpus: 4": "cpus: 1", "16GiB": "1GiB"}),
        "fairy ps": Aid(before=ALONE + THREE),
        "fairy smi": Aid(other_output=ELSEWHERE),
        "fairy stop main": Aid(fails=True),  # it ends the session that it is typed in
        "fairy usage": Aid(before=ALONE + PAST, heads=1),
        "fairy usage --session train": Aid(before="fairy run --gpus 0.5 --name train -- true", other_output=ELSEWHERE),
        "fairy usage --session $FAIRY_SESSION": Aid(before=MAIN, inside=True),
        'curl -s -H "Authorization: Bearer $(cat $FAIRY': Aid(inside=True, instead={"curl -s -H": "wget -q -O - --header"}),
        "fairy results train-bert": Aid(before=ALONE + "fairy run -d --gpus 0 --name train-bert -- sh -c 'echo 1 > $FAIRY_RESULTS/one'; rm -rf results; fairy logs -f train-bert"),
        "fairy run --gpus 0.25 -- python evaluate.py": Aid(before=ALONE + MAIN, inside=True),
        "fairy advice": Aid(other_output=ELSEWHERE),
        "fairy disk": Aid(other_output=ELSEWHERE),
        "fairy why blue": Aid(before=ALONE + THREE),
        "fairy book cancel": Aid(instead={"913f44bf": BOOKED}),
        "fairy run --gpus 0.3 --retry": Aid(before=ALONE),
        "fairy keep main": Aid(before=ALONE + MAIN),
        "fairy keep desk": Aid(before="fairy start --gpus 0.5 --name desk"),
        "fairy resume red": Aid(before="fairy stop red"),
        "fairy --install-completion": Aid(before="export SHELL=/bin/bash"),
        "fairy apply bad.yaml": Aid(before="printf 'name: bad\\ngpuss: 1\\n' > bad.yaml"),
    },
    "mig.md": {
        "fairy mig show": Aid(other_output="who holds what is another lab's"),
        "fairy mig plan --gpu": Aid(instead={"GPU-5f2c…": "GPU-simulated-0000"}),
        "fairy mig apply": Aid(
            before="fairy mig apply --gpu 0 --want 3g.20gb,3x1g.5gb --yes; fairy start --gpus mig:3g.20gb --name train; fairy start --gpus mig:1g.5gb --name notebook",
            answers="y\n", terminal=True, heads=3, instead={"GPU-5f2c…": "GPU-simulated-0000"},
        ),
        "fairy mig auto on": Aid(instead={"GPU-5f2c…": "GPU-simulated-0000"}),
    },
    "monitoring.md": {"curl -s localhost:9835/metrics": Aid(before=EXPORTER)},
    "moving.md": {
        "fairy login http://box:8420": Aid(before=SECOND, instead={"fairy login": "cat /root/first.token | fairy login"}),
        "fairy login https://gpu.lab.example": Aid(instead={"fairy login https://gpu.lab.example": "cat /root/second.token | fairy login http://gpu.lab.example:8520"}),
        "fairy move": Aid(before="mkdir -p /media/disk", instead={"https://gpu.lab.example": "http://gpu.lab.example:8520"}),
    },
    "scheduling.md": {
        "fairy quota set user:ann": Aid(before="fairy user add ann"),
        "fairy why train-2": Aid(before="fairy quota unset team:nlp; fairy run --detach --gpus 1 --count 8 --name train -- sleep 600"),
        "fairy book cancel": Aid(instead={"c862836a": BOOKED}),
        "fairy simulate jobs.csv": Aid(before=JOBS),
        "fairy simulate history": Aid(before="fairy stop --all; " + PAST),
    },
    "upkeep.md": {
        "fairy backup --to": Aid(before="mkdir -p /mnt/backups"),
        "fairy restore": Aid(instead={"/mnt/backups/fairy-20261116T023000Z.tar.gz": "$(ls /mnt/backups/fairy-*.tar.gz | head -1)"}),
        "fairy restore /mnt": Aid(
            instead={"/mnt/backups/fairy-20261116T023000Z.tar.gz": "$(ls /mnt/backups/fairy-*.tar.gz | head -1)"},
            after="fairy up -d --engine process --simulate 2xA100-40GB --data /var/lib/gpufairy --config /etc/gpufairy/fairy.toml",
        ),
    },
    "shares.md": {"fairy share set GPU-6b45…": Aid(instead={"GPU-6b45…": "GPU-simulated-0000"})},
}  # fmt: skip


def why_not_run(text: str) -> str | None:
    return next((why for words, why in NOT_RUN if words.match(text)), None)


def may_be_missing(line: str) -> bool:
    return any(words.match(line.strip()) for words, _why in MAY_BE_MISSING)


def aid_for(page: str, command: Command) -> Aid:
    """That of the longest beginning, where several fit."""
    found = {words: aid for words, aid in AIDS.get(page, {}).items() if command.text.startswith(words)}
    return found[max(found, key=len)] if found else Aid()
