"""The exit code of a run follows from its summary and the thresholds alone."""

from typing import Any

import pytest

from memorypipe.cli.exit_codes import ExitCode, Threshold, exit_code
from memorypipe.errors import InvalidArgumentError
from memorypipe.pipeline.runs.summary import RunSummary

_NONE = Threshold(count=0)


def _code(*, max_rejected: Threshold = _NONE, max_failed: Threshold = _NONE, **values: Any) -> int:
    summary = RunSummary(**{"run_id": "r", "status": "done", **values})
    return exit_code(summary, max_rejected=max_rejected, max_failed=max_failed)


def test_a_run_without_trouble_ends_well() -> None:
    assert _code(windows=3, conversations=3) == 0


@pytest.mark.parametrize("trouble", [{"rejected_lines": 1}, {"windows_failed": 1}])
def test_any_trouble_is_too_much_by_default(trouble: dict[str, Any]) -> None:
    assert _code(status="partial", windows=100, conversations=100, **trouble) == 3


def test_trouble_within_the_thresholds_ends_well() -> None:
    within = {"max_rejected": Threshold(count=2), "max_failed": Threshold(share=0.1)}
    assert (
        _code(
            status="partial",
            windows=10,
            conversations=5,
            rejected_lines=2,
            windows_failed=1,
            **within,
        )
        == 0
    )


def test_each_threshold_counts_by_itself() -> None:
    assert _code(windows=10, windows_failed=2, max_rejected=Threshold(count=9)) == 3
    assert _code(windows=10, rejected_lines=2, max_failed=Threshold(count=9)) == 3


def test_a_share_of_rejected_lines_is_of_all_records_the_rejected_ones_included() -> None:
    half = Threshold(share=0.5)
    assert _code(conversations=1, rejected_lines=1, max_rejected=half) == 0
    assert _code(conversations=1, rejected_lines=2, max_rejected=half) == 3


def test_what_a_conflict_held_back_is_graver_than_rejected_lines() -> None:
    assert _code(status="held", rejected_lines=4) == 5


def test_a_bound_is_graver_than_what_it_left_open_and_a_conflict_graver_still() -> None:
    assert _code(status="stopped", windows=3, windows_failed=2, rejected_lines=1) == 4
    allowed = {"max_rejected": Threshold(count=9), "max_failed": Threshold(count=9)}
    assert _code(status="stopped", windows=3, windows_failed=2, **allowed) == 4
    assert _code(status="held", stopped_by={"bound": "max_calls"}) == 5


def test_a_failed_run_is_graver_than_all() -> None:
    assert _code(status="failed", rejected_lines=4) == 1


def test_the_codes_are_those_that_scripts_rely_on() -> None:
    assert [code.value for code in ExitCode] == [0, 1, 2, 3, 4, 5, 130]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("0", Threshold(count=0)),
        ("12", Threshold(count=12)),
        ("0.01", Threshold(share=0.01)),
        (".5", Threshold(share=0.5)),
        ("1.0", Threshold(share=1.0)),
        ("1%", Threshold(share=0.01)),
        (" 2.5 % ", Threshold(share=0.025)),
    ],
)
def test_a_threshold_is_a_count_or_a_share(text: str, wanted: Threshold) -> None:
    assert Threshold.parse("--max-failed", text) == wanted


@pytest.mark.parametrize("text", ["", "x", "-1", "1.5", "200%", "1e-2", "nan", "%"])
def test_another_threshold_is_an_error_that_names_the_option_and_the_value(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="--max-failed must be a count") as caught:
        Threshold.parse("--max-failed", text)
    assert repr(text) in str(caught.value)


def test_exactly_the_threshold_is_not_too_much() -> None:
    assert not Threshold(share=0.01).is_exceeded(1, 100)
    assert not Threshold(count=1).is_exceeded(1, 1)
    assert Threshold(share=0.0).is_exceeded(1, 100)
    assert not Threshold(share=0.5).is_exceeded(0, 0)
