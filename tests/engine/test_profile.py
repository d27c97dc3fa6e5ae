from engine.toys import Admit, Points, Prepared, Refuse
from fairway.engine.profile import Profile, Weighted


def test_profile_lists_plugins_in_order() -> None:
    admit, first, second = Admit(None), Refuse(name="First"), Refuse(name="Second")
    points, prepared, extra = Points({}), Prepared({}), Points({}, name="Extra")
    profile = Profile(
        name="toy",
        pre_filters=(admit,),
        filters=(first, second),
        scores=(Weighted(points, 1), Weighted(prepared, 2)),
        extra=(extra,),
    )
    assert profile.plugins() == (admit, first, second, points, prepared, extra)
    assert profile.at("Filter") == (first, second)
    assert profile.at("PreScore") == (prepared,)
    assert profile.at("Score") == (points, prepared, extra)
    assert profile.at("Nowhere") == ()


def test_profiles_compare_by_identity() -> None:
    one, other = Profile(name="same"), Profile(name="same")
    assert one != other
    assert len({one, other}) == 2


def test_empty_profile_has_no_refusal() -> None:
    profile = Profile(name="empty")
    assert profile.plugins() == ()
    assert profile.refusal is None
    assert profile.choice is None
