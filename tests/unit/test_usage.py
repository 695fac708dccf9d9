import json
import pickle
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from memorypipe.llm.types import Reply
from memorypipe.llm.usage import Usage

COUNTS = st.integers(0, 1_000)
USAGES = st.builds(
    Usage,
    calls=COUNTS,
    attempts=COUNTS,
    journal_hits=COUNTS,
    failures=st.dictionaries(st.sampled_from(["timeout", "http_429"]), COUNTS).map(Counter),
    prompt_tokens=COUNTS,
    completion_tokens=COUNTS,
    max_in_flight=COUNTS,
    waited_qps_s=COUNTS.map(float),
)


@given(USAGES, USAGES, USAGES)
def test_usages_add_up_in_any_order(one: Usage, two: Usage, three: Usage) -> None:
    assert ((one + two) + three).to_dict() == (three + (two + one)).to_dict()
    assert (one + Usage()).calls == one.calls


def test_the_largest_number_in_flight_is_kept_not_summed() -> None:
    assert (Usage(max_in_flight=3) + Usage(max_in_flight=5)).max_in_flight == 5


def test_replies_and_failures_are_counted() -> None:
    usage = Usage()
    usage.add_reply(Reply(content="a", prompt_tokens=10, completion_tokens=2))
    usage.add_reply(Reply(content=None, prompt_tokens=5))
    usage.add_failure("timeout")
    usage.add_failure("timeout")
    assert (usage.prompt_tokens, usage.completion_tokens) == (15, 2)
    assert usage.to_dict()["failures"] == {"timeout": 2}


def test_merging_leaves_the_parts_alone() -> None:
    one, two = Usage(failures=Counter(a=1)), Usage(failures=Counter(a=2))
    assert (one + two).failures == {"a": 3}
    assert (one.failures, two.failures) == ({"a": 1}, {"a": 2})


def test_usage_travels_and_is_json() -> None:
    usage = Usage(calls=1, failures=Counter(timeout=1))
    assert pickle.loads(pickle.dumps(usage)) == usage  # noqa: S301  # our own bytes
    assert json.loads(json.dumps(usage.to_dict()))["failures"] == {"timeout": 1}
