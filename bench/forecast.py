"""When a waiting session is told to start, and when it does: error and coverage of the forecast on replayed queues."""
import statistics

from bench.figures import Figure, Report
from bench.forecast_lab import Judged, replayed

SEEDS = (11, 12)  # the range was tuned on others
ARRIVALS = 900  # of each seed: some two weeks
CASES = (
    ("habits, no limits", False, 0.0), ("habits, every other with --time", False, 0.5), ("habits, all with --time", False, 1.0),
    ("openb's durations, no limits", True, 0.0), ("openb's durations, all with --time", True, 1.0),
)  # fmt: skip
PEER = "as the last 50 waited"
COVERED, SLACK = 80.0, 8.0  # percent that the range is meant to hold, and how far off it may be


def measure() -> Report:
    figures = []
    for words, openb, limited in CASES:
        judged = [one for seed in SEEDS for one in replayed(seed, ARRIVALS, openb=openb, limited=limited)]
        figures += figures_of(words, judged)
    return Report("forecast", figures)


def figures_of(words: str, judged: list[Judged]) -> list[Figure]:
    known = [one for one in judged if one.told.typical is not None]
    error_s = [abs((one.started - one.told.typical).total_seconds()) for one in known]
    waited_s = [(one.started - one.at).total_seconds() for one in known]
    naive_s = [abs(waited - one.naive_s) for one, waited in zip(known, waited_s, strict=True)]
    ratio, naive_ratio = sum(error_s) / sum(waited_s), sum(naive_s) / sum(waited_s)
    covered = 100 * sum(map(is_covered, known)) / len(known)
    late = 100 * sum(one.told.high is not None and one.started > one.told.high for one in known) / len(known)
    early = 100 * sum(one.told.low is not None and one.started < one.told.low for one in known) / len(known)
    wide_s = [(one.told.high - one.told.low).total_seconds() for one in known if one.told.high and one.told.low]
    about = f"median wait {statistics.median(waited_s) / 60:.0f} min, {len(known)} forecasts"
    peer_min = statistics.median(naive_s) / 60
    error_min = statistics.median(error_s) / 60
    return [
        Figure(f"{words}: median error", error_min, "min", higher_is_better=False, peer=PEER, peer_value=peer_min, note=about),
        Figure(f"{words}: sum of errors over sum of waits", ratio, "", higher_is_better=False, peer=PEER, peer_value=naive_ratio),
        Figure(f"{words}: started in the range", covered, "%", goal=COVERED - SLACK, note=f"{early:.0f} % sooner, {late:.0f} % later"),
        Figure(f"{words}: width of the range, median", statistics.median(wide_s) / 60, "min", higher_is_better=False),
        Figure(f"{words}: told a time at all", 100 * len(known) / len(judged), "%"),
    ]  # fmt: skip


def is_covered(one: Judged) -> bool:
    """A range without an end holds whatever comes late."""
    return (one.told.low is None or one.told.low <= one.started) and (one.told.high is None or one.started <= one.told.high)
