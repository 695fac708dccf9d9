"""Settings of batches, and what they cannot go together with."""

import pytest

from memorypipe.errors import InvalidArgumentError
from memorypipe.llm.batch.settings import BatchSettings, check_batches
from memorypipe.llm.limits.control import Bounds
from memorypipe.llm.spec import OFFLINE_URL, ModelSpec

SPEC = ModelSpec(base_url="http://host/v1", model="m")


@pytest.mark.parametrize("name", ["max_requests", "max_bytes", "first_poll_s", "longest_poll_s"])
def test_a_setting_that_cannot_work_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"{name} must be above 0, got 0"):
        BatchSettings(**{name: 0})


def test_batches_need_an_endpoint_and_go_with_no_bound() -> None:
    check_batches(SPEC, Bounds())
    with pytest.raises(InvalidArgumentError, match="--base-url"):
        check_batches(ModelSpec(base_url=OFFLINE_URL, model="r"), Bounds())
    with pytest.raises(InvalidArgumentError, match="--max-calls"):
        check_batches(SPEC, Bounds(max_calls=5))
