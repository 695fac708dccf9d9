"""A run's record can be read by later versions and by earlier ones."""

from memorypipe.pipeline.runs.summary import RunSummary


def test_a_record_comes_back_as_it_was() -> None:
    summary = RunSummary(run_id="r", status="stopped", stopped_by={"bound": "max_calls"}, cost=0.5)
    assert RunSummary.from_dict(summary.to_dict()) == summary


def test_what_an_older_version_did_not_write_has_its_default_and_more_does_not_harm() -> None:
    summary = RunSummary.from_dict({"run_id": "r", "status": "done", "facts": 3, "new_one": 1})
    assert summary == RunSummary(run_id="r", status="done", facts=3)


def test_a_plan_that_a_bound_stopped_can_still_be_applied_once() -> None:
    assert RunSummary(run_id="r", status="planned").is_plan
    assert RunSummary(run_id="r", status="stopped").is_plan
    assert not RunSummary(run_id="r", status="stopped", committed=True).is_plan
    assert not RunSummary(run_id="r", status="done").is_plan
