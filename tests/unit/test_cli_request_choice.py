"""What is asked of a run, from its options."""

from datetime import UTC, datetime
from typing import Any

import pytest

from memorypipe.cli.request_choice import request_arguments
from memorypipe.cli.run_options import RunOptions
from memorypipe.errors import InvalidArgumentError
from memorypipe.pipeline.runs.request import RunRequest
from memorypipe.pipeline.runs.selection import Selection
from memorypipe.table.reprocess import Reprocess


def asked(**options: Any) -> dict[str, Any]:
    return request_arguments(RunOptions(logs=["log"], **options))


def test_who_asks_for_nothing_takes_all_that_is_new() -> None:
    assert asked() == {"selection": Selection(), "labels": {}, "reprocess": None}
    assert RunRequest(**asked()).to_dict() == {}, "and the run id is what it was"


def test_a_period_a_sample_and_labels() -> None:
    found = asked(
        since="2025-01-01", until="2025-01-02T10:00+01:00", sample="0.5%", seed=3, label=["a=b=c"]
    )
    assert found["selection"].since == datetime(2025, 1, 1, tzinfo=UTC)
    assert RunRequest(**found).to_dict() == {
        "selection": {
            "since": "2025-01-01T00:00:00+00:00",
            "until": "2025-01-02T09:00:00+00:00",
            "sample": 0.005,
            "seed": 3,
        },
        "labels": {"a": "b=c"},
    }


def test_messages_are_taken_again_as_the_conditions_say() -> None:
    assert asked(reprocess=True)["reprocess"] == Reprocess()
    where = ["user_id=u1", "scope.model=x", "conversation=c", "run=r", "model=m", "prompt=abcdef"]
    assert asked(reprocess=True, where=where)["reprocess"] == Reprocess(
        scope={"user_id": "u1", "model": "x"},
        conversation_id="c",
        run_id="r",
        model="m",
        prompt="abcdef",
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"since": "12"}, "--since must be a time"),
        ({"since": "yesterday"}, "--since must be a time"),
        ({"until": "soon"}, "--until must be"),
        ({"since": "2025-01-02", "until": "2025-01-01"}, "must be before until"),
        ({"sample": "5"}, "--sample must be a share"),
        ({"sample": "0%"}, "sample must be a share"),
        ({"seed": 1}, "--seed needs --sample"),
        ({"where": ["run=r"]}, "--where says what --reprocess takes again"),
        ({"label": ["x"]}, "--label must look like"),
    ],
)
def test_what_cannot_work_is_refused_with_the_option_named(
    options: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=said):
        asked(**options)


def test_a_blank_label_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="A label must have a name and a text"):
        RunRequest(labels={"team": " "})
