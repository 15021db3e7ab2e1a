"""Whose turn it is to sign in: who dawdles holds nobody up, and who wants in is not behind those who only stand there."""
from dataclasses import dataclass

from gpufairy.core.limits import Limit, Refusals
from gpufairy.gateway.settings import GatewaySettings
from gpufairy.gateway.turns import Stranger, Turns

SETTINGS = {"most_signing_in": 8, "most_signing_in_per_source": 4, "silence_s": 0.5, "patience_s": 2.0, "most_dawdling": 16, "login_grace_s": 30.0}


@dataclass
class FakeEntrant:
    heard_at: float
    cut: bool = False

    def abort(self) -> None:
        self.cut = True


class Scene:
    def __init__(self, tmp_path, **settings) -> None:
        self.now, self.let_in, self.refusals = 0.0, [], Refusals()
        self.turns = Turns(GatewaySettings(tmp_path, **{**SETTINGS, **settings}), self._enter, self.refusals)

    def _enter(self, stranger: Stranger) -> FakeEntrant:
        self.let_in.append(stranger)
        return FakeEntrant(self.now)

    def comes(self, source: str = "far", *, eager: bool = False) -> Stranger:
        stranger = Stranger(None, source, self.now, is_eager=eager)
        self.turns.line_up(stranger, self.now)
        return stranger

    def pass_s(self, seconds: float) -> None:
        until = self.now + seconds
        while self.now < until:
            self.now += 0.25
            self.turns.look_round(self.now)


def test_only_so_many_of_one_source_sign_in_at_once_and_another_source_does_not_wait(tmp_path):
    scene = Scene(tmp_path)
    crowd = [scene.comes() for _ in range(20)]
    assert scene.let_in == crowd[:4]
    other = scene.comes("near")
    assert scene.let_in[-1] is other


def test_somebody_behind_two_hundred_of_the_same_source_who_only_stand_there_is_in_within_two_seconds(tmp_path):
    scene = Scene(tmp_path)
    for _ in range(200):
        scene.comes()
    wants_in = scene.comes()
    scene.pass_s(2)
    assert wants_in in scene.let_in


def test_whoever_has_sent_a_packet_goes_before_all_who_have_not(tmp_path):
    scene = Scene(tmp_path)
    for _ in range(100):
        scene.comes()
    eager = scene.comes(eager=True)
    for _ in range(100):
        scene.comes()
    scene.pass_s(0.75)
    assert eager in scene.let_in
    late = scene.comes()
    late.is_eager = True
    scene.turns.line_up(late, scene.now)
    for _ in range(100):
        scene.comes()
    scene.pass_s(0.75)
    assert late in scene.let_in
    assert scene.let_in.count(late) == 1


def test_whoever_waits_longest_is_not_forgotten_for_those_who_keep_coming(tmp_path):
    scene = Scene(tmp_path)
    for _ in range(6):
        scene.comes()
    patient = scene.comes()
    for _ in range(20):
        for _ in range(4):
            scene.comes()
        scene.pass_s(0.5)
    assert patient in scene.let_in


def test_who_dawdles_loses_the_turn_and_not_the_connection(tmp_path):
    scene = Scene(tmp_path)
    first = [scene.comes() for _ in range(8)]
    scene.pass_s(1)
    assert set(first) <= set(scene.let_in)
    assert not any(stranger.entrant.cut for stranger in first)
    assert scene.turns.busy
    for stranger in first:
        scene.turns.done(stranger, scene.now)
    assert scene.turns.idle


def test_nobody_dawdles_while_nobody_waits(tmp_path):
    scene = Scene(tmp_path)
    first = [scene.comes() for _ in range(4)]
    scene.pass_s(20)
    one_more = scene.comes()
    assert one_more not in scene.let_in
    assert not any(stranger.entrant.cut for stranger in first)


def test_of_those_who_dawdle_only_so_many_stay_and_the_others_are_counted(tmp_path):
    scene = Scene(tmp_path, most_dawdling=3)
    crowd = [scene.comes() for _ in range(20)]
    scene.pass_s(5)
    cut = sum(stranger.entrant is not None and stranger.entrant.cut for stranger in crowd)
    assert cut >= 10
    assert scene.refusals.totals()[Limit.SSH_SIGNING_IN] == cut


def test_all_are_cut_when_the_time_to_sign_in_is_over_however_they_dawdle(tmp_path):
    scene = Scene(tmp_path)
    crowd = [scene.comes() for _ in range(8)]
    scene.pass_s(31)
    assert all(stranger.entrant.cut for stranger in crowd)
    assert scene.refusals.totals()[Limit.SSH_LOGIN_TIME] == 8
    assert scene.turns.idle
