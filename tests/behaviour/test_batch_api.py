"""Batches against a server on loopback: every request answered once, whatever goes wrong."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memorypipe.errors import EndpointError, PlanError, RetryableModelError
from memorypipe.llm.batch.api import BatchApi
from memorypipe.llm.batch.cancel import cancel_batches
from memorypipe.llm.batch.records import BatchFolder, BatchTotals
from memorypipe.llm.client import OpenAIModel
from memorypipe.llm.types import Request
from tests.support.batch_runs import DictJournal, Holder, fill, requests, spec_of
from tests.support.batch_server import BatchServer, batch_server


@pytest.fixture
def server() -> Iterator[BatchServer]:
    with batch_server() as running:
        yield running


@pytest.fixture
def run(server: BatchServer, tmp_path: Path) -> Callable[..., BatchTotals]:
    """Run one try over so many requests, in files of at most four."""

    def one(journal: DictJournal, count: int = 10, **options: Any) -> BatchTotals:
        spec = spec_of(server.base_url)
        asked = requests(spec, range(count))
        return fill(spec, tmp_path, journal, asked, **{"max_requests": 4, **options})

    return one


Run = Callable[..., BatchTotals]


def paid_once(server: BatchServer, count: int = 10) -> bool:
    return len(server.paid) == count and max(server.paid.values()) == 1


def test_every_reply_lands_in_the_journal_under_its_key_and_scope(
    server: BatchServer, run: Run, tmp_path: Path
) -> None:
    journal = DictJournal()
    totals = run(journal)
    assert totals == BatchTotals(
        batches=3, requests=10, answered=10, prompt_tokens=100, completion_tokens=30
    )
    assert paid_once(server)
    by_key = {each.key: each for each in requests(spec_of(server.base_url), range(10))}
    assert {line[0] for line in journal.lines} == by_key.keys()
    for key, reply, usable, scope_key in journal.lines:
        content = by_key[key].body["messages"][0]["content"].removeprefix("[user]: ")
        assert (content in str(reply.content), usable) == (True, True)
        assert scope_key == by_key[key].scope_key
    files = [
        name
        for name in sorted(path.name for path in tmp_path.iterdir())
        if not name.startswith(".lock")
    ]
    assert [name.rpartition(".")[2] for name in files] == ["json"] * 3, "the data is gone"


def test_a_batch_asks_the_very_body_that_the_client_would_send(server: BatchServer) -> None:
    spec = spec_of(
        server.base_url, params={"temperature": 0, "extra_body": {"top_k": 1}, "timeout": 9}
    )

    async def main() -> None:
        model = OpenAIModel(spec, environ={})
        content = requests(spec, [1])[0].body["messages"]
        await model.complete(Request(messages=content))
        await model.close()

    asyncio.run(main())
    assert [json.loads(body) for body in server.paid] == [dict(requests(spec, [1])[0].body)]


def test_what_the_journal_knows_is_not_sent(server: BatchServer, run: Run) -> None:
    journal = DictJournal()
    run(journal, 4)
    totals = run(journal, 10, run_id="run_2")
    assert (totals.requests, totals.batches) == (6, 2)
    assert paid_once(server)


def test_a_second_try_sends_nothing_and_tells_the_same(server: BatchServer, run: Run) -> None:
    journal = DictJournal()
    first = run(journal)
    calls = len(server.seen)
    assert run(journal) == first
    assert len(server.seen) == calls


def test_an_equal_request_is_sent_once(server: BatchServer, tmp_path: Path) -> None:
    spec = spec_of(server.base_url)
    totals = fill(spec, tmp_path, DictJournal(), requests(spec, [1, 2, 1, 1]))
    assert (totals.requests, sum(server.paid.values())) == (2, 2)


def test_files_keep_to_both_limits_to_the_byte(server: BatchServer, tmp_path: Path) -> None:
    spec = spec_of(server.base_url)
    asked = requests(spec, range(10, 20))
    two = sum(len(each.line()) for each in asked[:2])
    fill(spec, tmp_path / "a", DictJournal(), asked, max_bytes=two)
    fill(spec, tmp_path / "b", DictJournal(), asked, max_bytes=two - 1)
    sizes = [file["content"].count(b"\n") for file in _uploads(server)]
    assert sizes == [2] * 5 + [1] * 10
    assert max(len(file["content"]) for file in _uploads(server)) == two


def test_a_request_that_fits_no_file_is_left_to_be_asked_alone(
    server: BatchServer, tmp_path: Path
) -> None:
    spec = spec_of(server.base_url)
    asked = requests(spec, [1, 10**30, 2])
    longest = len(asked[1].line())
    totals = fill(spec, tmp_path, DictJournal(), asked, max_bytes=longest - 1)
    assert (totals.requests, totals.answered) == (2, 2)


def _uploads(server: BatchServer) -> list[dict[str, Any]]:
    return [file for file in server.files.values() if file["purpose"] == "batch"]


def test_lines_that_fail_are_missing_repeated_or_strange_touch_no_other(
    server: BatchServer, run: Run
) -> None:
    strange = [{"custom_id": "f" * 32}, {"custom_id": 7}, {"no": "id"}]
    server.scripts = {
        1: {"fail_share": 0.5, "repeat": True, "extra_lines": strange},
        2: {"drop_share": 0.5},
        3: {"expire_share": 0.5},
    }
    journal = DictJournal()
    totals = run(journal, 100, max_requests=40)
    assert totals.answered + totals.failed + totals.expired == totals.requests == 100
    assert (totals.expired, totals.unusable) == (10, 0)
    assert totals.failed > 20
    assert totals.answered == len(journal.lines) == len({line[0] for line in journal.lines})
    first = sum(1 for _ in server.files["file-0002"]["content"].splitlines())
    assert totals.ignored >= 3, first
    assert max(server.paid.values()) == 1


def test_of_an_expired_batch_what_is_not_told_has_expired_too(
    server: BatchServer, run: Run
) -> None:
    server.scripts = {"all": {"expire_share": 0.5, "drop_share": 1.0}}
    totals = run(DictJournal(), 4)
    assert (totals.answered, totals.expired, totals.failed) == (0, 4, 0)


def test_a_reply_that_says_nothing_is_kept_as_evidence_only(server: BatchServer, run: Run) -> None:
    server.scripts = {"all": {"bad_share": 1.0}}
    journal = DictJournal()
    totals = run(journal, 3)
    assert (totals.answered, totals.unusable, totals.prompt_tokens) == (0, 3, 30)
    assert [usable for _, _, usable, _ in journal.lines] == [False] * 3


def test_a_reply_that_was_cut_is_no_answer_and_no_batch_asks_for_it_again(
    server: BatchServer, run: Run
) -> None:
    """It would be cut again; whoever asks for its halves finds it among the evidence."""
    server.scripts = {1: {"cut_share": 1.0}, 2: {"bad_share": 1.0}}
    journal = DictJournal()
    totals = run(journal, 6, max_requests=3)
    assert (totals.answered, totals.unusable) == (0, 6)
    again = run(journal, 6, max_requests=3, run_id="run_2")
    assert (again.requests, again.answered) == (3, 3), "those that said nothing are"


def test_a_refused_file_is_one_clear_error_and_the_others_are_taken_in(
    server: BatchServer, run: Run
) -> None:
    fault = {"code": "invalid_request", "message": "The model 'm-7' is unknown.", "line": 3}
    server.scripts = {2: {"refuse": [fault] * 5}}
    journal = DictJournal()
    with pytest.raises(EndpointError, match=r"'batch_0002'.*line 3: The model.*and 2 more"):
        run(journal)
    server.scripts = {}
    totals = run(journal)
    assert paid_once(server)
    assert (totals.batches, totals.failed, len(journal.lines)) == (4, 4, 10)


@pytest.mark.parametrize("limits", [{"max_requests": 3}, {"max_bytes": 300}])
def test_a_file_above_the_providers_limits_is_refused_by_it(
    server: BatchServer, run: Run, limits: dict[str, int]
) -> None:
    for name, limit in limits.items():
        setattr(server, name, limit)
    with pytest.raises(EndpointError, match="More than"):
        run(DictJournal())
    assert not server.paid


def test_polls_come_further_apart_up_to_a_minute_and_again_close_when_one_ends(
    server: BatchServer, run: Run
) -> None:
    server.scripts = {"all": {"polls": 12}, 2: {"polls": 4}}
    waits: list[float] = []
    progress: list[tuple[int, int]] = []
    run(DictJournal(), 8, waits=waits, progress=progress)
    assert waits[:4] == [5.0, 7.5, 11.25, 16.875]
    assert waits[4] == 5.0
    assert max(waits) <= 60.0
    assert progress[-1] == (8, 8)


def test_a_full_queue_is_waited_for_and_bounded(server: BatchServer, run: Run) -> None:
    server.scripts = {"all": {"no_room": 2}}
    totals = run(DictJournal())
    assert totals.answered == 10
    assert paid_once(server)
    server.scripts = {"all": {"no_room": 100}}
    with pytest.raises(EndpointError, match=r"no room.*Enqueued token limit.*max_requests"):
        run(DictJournal(), 20, run_id="run_2", max_requests=40, max_refusals=5)
    assert len(server.batches) < 30


def test_overload_of_the_control_plane_is_waited_out_as_long_as_asked(
    server: BatchServer, run: Run
) -> None:
    busy = {"kind": "status", "status": 429, "headers": {"retry-after": "7"}, "calls": [1]}
    server.faults = [
        {**busy, "method": "POST", "path": "/v1/files"},
        {**busy, "method": "POST", "path": "/v1/batches"},
        {**busy, "method": "GET", "path": "/v1/batches/", "status": 500, "headers": None},
        {"kind": "reset", "method": "GET", "path": "/v1/files/", "calls": [1]},
    ]
    waits: list[float] = []
    assert run(DictJournal(), waits=waits).answered == 10
    assert waits.count(7.0) == 2
    assert paid_once(server)


def test_a_creation_whose_answer_is_lost_is_found_again_and_not_repeated(
    server: BatchServer, run: Run
) -> None:
    lost = {"method": "POST", "path": "/v1/batches", "after": True}
    server.faults = [
        {**lost, "kind": "reset", "calls": [1]},
        {**lost, "kind": "status", "calls": [2]},
    ]
    assert run(DictJournal()).answered == 10
    assert len(server.batches) == 3
    assert paid_once(server)


def test_a_creation_that_is_refused_for_overload_again_and_again_waits_its_turn(
    server: BatchServer, run: Run
) -> None:
    server.faults = [
        {
            "kind": "status",
            "status": 429,
            "method": "POST",
            "path": "/v1/batches",
            "calls": list(range(2, 12)),
        }
    ]
    assert run(DictJournal()).answered == 10
    assert paid_once(server)


def test_an_endpoint_that_stays_down_ends_the_try_and_not_the_run(
    server: BatchServer, run: Run
) -> None:
    down = {"kind": "status", "status": 503, "method": "GET", "path": "/v1/batches/"}
    server.faults = [{**down, "calls": list(range(2, 100))}]
    journal = DictJournal()
    with pytest.raises(RetryableModelError, match="503"):
        run(journal)
    server.faults = []
    assert run(journal).answered == 10
    assert paid_once(server)


def test_a_wrong_key_and_an_endpoint_without_batches_are_told_at_once(
    server: BatchServer, run: Run
) -> None:
    server.require_key = "Bearer sk-right"
    waits: list[float] = []
    with pytest.raises(EndpointError, match="401") as caught:
        run(DictJournal(), waits=waits)
    assert "sk-1" not in str(caught.value)
    server.require_key, server.has_batches = None, False
    with pytest.raises(EndpointError, match=r"no Batch API.*--batch-api"):
        run(DictJournal(), waits=waits)
    assert waits == []


def _interrupted(server: BatchServer, run: Run, journal: DictJournal) -> None:
    """Send all batches, and end before any is taken in."""
    server.faults = [
        {"kind": "status", "status": 403, "method": "GET", "path": "/v1/batches/", "calls": [1]}
    ]
    with pytest.raises(EndpointError, match="403"):
        run(journal)
    server.faults = []


def test_a_batch_that_the_provider_lost_is_counted_and_its_requests_are_free_again(
    server: BatchServer, run: Run, tmp_path: Path
) -> None:
    journal = DictJournal()
    _interrupted(server, run, journal)
    del server.batches["batch_0002"]
    totals = run(journal)
    assert (totals.answered, totals.lost, totals.failed, totals.requests) == (6, 4, 0, 10)
    assert [record.is_open for record in BatchFolder(tmp_path).records()] == [False] * 3
    again = run(journal, run_id="run_2")
    assert (again.requests, again.answered, len(journal.lines)) == (4, 4, 10)


@pytest.mark.parametrize("path", ["/v1/batches/batch_0001", "/v1/files/"])
def test_what_is_unknown_for_a_moment_is_not_lost(server: BatchServer, run: Run, path: str) -> None:
    server.faults = [
        {"kind": "status", "status": 404, "method": "GET", "path": path, "calls": [1, 2]}
    ]
    totals = run(DictJournal(), 4)
    assert (totals.answered, totals.lost) == (4, 0)
    assert paid_once(server, 4)


def test_results_that_the_provider_lost_are_counted_and_the_others_kept(
    server: BatchServer, run: Run
) -> None:
    journal = DictJournal()
    server.scripts = {1: {"expire_share": 0.5}}
    # After three uploads these are the results of the first batch.
    gone = {"kind": "status", "status": 404, "method": "GET", "path": "/v1/files/file-0004"}
    server.faults = [{**gone, "calls": range(1, 100)}]
    totals = run(journal)
    assert (totals.answered, totals.expired, totals.lost) == (6, 2, 2)
    assert run(journal, run_id="run_2").answered == 4


def test_open_batches_of_another_run_are_used_and_those_of_no_use_left_alone(
    server: BatchServer, tmp_path: Path
) -> None:
    """A log that grew has another run id; what it has in common is not paid again."""
    spec = spec_of(server.base_url)
    journal = DictJournal()
    server.faults = [
        {"kind": "status", "status": 403, "method": "GET", "path": "/v1/batches/", "calls": [1]}
    ]
    with pytest.raises(EndpointError):
        fill(spec, tmp_path, journal, requests(spec, range(8)), max_requests=4)
    server.faults = []
    totals = fill(
        spec, tmp_path, journal, requests(spec, range(4, 9)), max_requests=4, run_id="run_2"
    )
    assert (totals.batches, totals.requests, totals.answered) == (2, 5, 5)
    assert paid_once(server, 5)
    assert server.statuses() == ["validating", "completed", "completed"]
    other = spec_of(server.base_url, model="m-8")
    fill(other, tmp_path, journal, requests(other, range(4)), run_id="run_3")
    assert server.statuses()[0] == "validating", "another model's batch is not waited for"


def test_only_one_process_sends_at_a_time(run: Run, tmp_path: Path) -> None:
    with BatchFolder(tmp_path).submitting(), pytest.raises(PlanError, match="Another process"):
        run(DictJournal())
    assert run(DictJournal()).answered == 10


def test_cancelling_keeps_what_was_answered(server: BatchServer, run: Run, tmp_path: Path) -> None:
    journal = DictJournal()
    _interrupted(server, run, journal)

    def cancel(run_id: str) -> list[str]:
        return _cancel(server, tmp_path, run_id)

    assert cancel("run_other") == []
    assert len(cancel("run_1")) == 3
    assert server.statuses() == ["cancelling"] * 3
    assert cancel("run_1") == [], "once is enough"
    totals = run(journal)
    assert server.statuses() == ["cancelled"] * 3
    assert (totals.answered, totals.answered + totals.expired) == (5, 10)


def test_cancelling_forgets_a_batch_that_the_provider_does_not_know(
    server: BatchServer, run: Run, tmp_path: Path
) -> None:
    journal = DictJournal()
    _interrupted(server, run, journal)
    del server.batches["batch_0002"]
    assert len(_cancel(server, tmp_path, "run_1")) == 2
    left = {record.batch_id for record in BatchFolder(tmp_path).records()}
    assert left == {"batch_0001", "batch_0003"}


def _cancel(server: BatchServer, folder: Path, run_id: str) -> list[str]:
    async def main() -> list[str]:
        api = BatchApi(spec_of(server.base_url), environ={})
        try:
            return await cancel_batches(api, BatchFolder(folder), run_id)
        finally:
            await api.close()

    return asyncio.run(main())


# What one that only takes in calls: 6 times after batches, 3 result files, 10 replies to journal.
_CALLS = 19


@pytest.mark.parametrize("at", range(1, _CALLS + 1))
def test_two_that_wait_for_one_batch_lose_none_of_its_replies(
    server: BatchServer, run: Run, tmp_path: Path, at: int
) -> None:
    """The first is held up after any of its calls, until the second is through with all."""
    journal = DictJournal()
    _interrupted(server, run, journal)
    second: list[BatchTotals] = []
    holder = Holder(at, lambda: second.append(run(journal)))
    first = run(journal, killer=holder)
    assert second == [first]
    assert (first.requests, first.answered, first.ignored) == (10, 10, 0)
    assert {record.state for record in BatchFolder(tmp_path).records()} == {"done"}
    assert len({key for key, *_ in journal.lines}) == 10
    assert paid_once(server)
    assert not [*tmp_path.glob(".new-*"), *tmp_path.glob("*.keys")]


def test_a_refused_batch_stops_each_that_waits_for_it(server: BatchServer, run: Run) -> None:
    server.scripts = {2: {"refuse": [{"code": "bad", "message": "No.", "line": 1}]}}
    journal = DictJournal()
    _interrupted(server, run, journal)

    def second() -> None:
        with pytest.raises(EndpointError, match="line 1: No"):
            run(journal)

    with pytest.raises(EndpointError, match="line 1: No"):
        run(journal, killer=Holder(1, second))


def test_one_that_waits_notices_that_its_batch_was_forgotten(
    server: BatchServer, run: Run, tmp_path: Path
) -> None:
    journal = DictJournal()
    _interrupted(server, run, journal)

    def forget() -> None:
        del server.batches["batch_0002"]
        _cancel(server, tmp_path, "run_1")

    totals = run(journal, killer=Holder(1, forget))
    assert (totals.batches, totals.requests) == (2, 6)
