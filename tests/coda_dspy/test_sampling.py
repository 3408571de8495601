from hypothesis import given
from hypothesis import strategies as st

from coda_dspy.sampling import Sample, rollout_id

places = st.builds(
    Sample,
    path=st.sampled_from(["direct", "coda", "coda-1"]),
    attempt=st.integers(0, 9),
    plan=st.integers(0, 9),
    step=st.sampled_from(["plan", "execute", "reflect"]),
    retry=st.integers(0, 3),
)


@given(st.integers(0, 99), places)
def test_the_same_place_gives_the_same_sample(base: int, place: Sample) -> None:
    assert rollout_id(base, place) == rollout_id(base, Sample(*place))


@given(st.lists(st.tuples(st.integers(0, 9), places), unique=True))
def test_different_places_give_different_samples(calls: list[tuple[int, Sample]]) -> None:
    assert len({rollout_id(base, place) for base, place in calls}) == len(calls)


def test_a_place_is_shown_with_its_plan_where_there_is_one() -> None:
    place = Sample("coda", attempt=0, plan=1)
    assert place.shown("execute") == "execute (coda, attempt 1, plan 2)"
    assert place.shown("reflect") == "reflect (coda, attempt 1)"
