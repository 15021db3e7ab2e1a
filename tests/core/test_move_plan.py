"""What a move does about people."""
from gpufairy.core.move_plan import Deed, Household, plan_people

KIM = {"name": "kim", "role": "user", "team": "nlp", "share": 1, "disabled": False}


def test_what_is_not_there_is_added_in_an_order_that_works():
    source = Household([KIM], [{"fingerprint": "SHA256:a", "user": "kim"}], [{"name": "nlp", "share": 2}], [{"of": "team:nlp", "gpu_kind": "*", "gpus": 4}])
    steps = plan_people(source, Household())
    assert [(step.what, step.deed) for step in steps] == [("team", Deed.ADD), ("user", Deed.ADD), ("key", Deed.ADD), ("quota", Deed.ADD)]
    assert {step.deed for step in plan_people(source, source)} == {Deed.SAME}


def test_what_differs_stays_as_it_is_there_and_is_told():
    (step,) = plan_people(Household([KIM]), Household([{**KIM, "role": "admin"}]))
    assert (step.deed, step.words) == (Deed.DIFFERS, "role is admin there, user here")


def test_a_key_that_is_somebody_else_s_there_is_told():
    (step,) = plan_people(Household(keys=[{"fingerprint": "SHA256:a", "user": "kim"}]), Household(keys=[{"fingerprint": "SHA256:a", "user": "lee"}]))
    assert step.words == "user is lee there, kim here"
