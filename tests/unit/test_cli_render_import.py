"""An import, its proof, and changes by hand as people read them."""

from collections.abc import Iterable
from typing import Any

from rich.text import Text

from memorypipe.cli.render_change import changed_lines, some_runs_lines
from memorypipe.cli.render_import import import_lines, import_steps, verify_lines
from memorypipe.pipeline.imports.verify import Absent, Verification
from memorypipe.pipeline.runs.summary import RunSummary
from memorypipe.table.transaction import CommitResult

_SOURCE: dict[str, Any] = {
    "path": "my export.json",
    "source": "jsonl",
    "fields": {"text": "note", "topics": "topics"},
    "scope": {"user_id": "=u1"},
    "scope_keys": None,
}
_MANIFEST = {"source": _SOURCE, "records": 12, "skipped": {"superseded": 2, "deleted": 1}}


def _plain(lines: Iterable[Text]) -> list[str]:
    return [line.plain.rstrip() for line in lines]


def _summary(**values: Any) -> RunSummary:
    return RunSummary(run_id="import_1", status="done", added=8, none=1, **values)


def test_an_import_tells_where_from_what_became_of_it_and_what_was_left_out() -> None:
    told = _plain(import_lines(_summary(), (), _MANIFEST, table="t", next_steps=[("do", "it")]))
    assert told == [
        "done  import_1",
        "  export    my export.json (jsonl) · 12 records",
        "  memories  + 8 added   ~ 0 updated   1 already here",
        "  left out  1 deleted, 2 superseded where they come from",
        "  table     t",
        "",
        "  do  it",
    ]


def test_records_that_could_not_be_read_are_told_with_the_file_that_lists_them() -> None:
    lines = import_lines(_summary(rejected_lines=3), (), _MANIFEST, table="t/", next_steps=())
    assert "3 records" in _plain(lines)[-1]
    assert _plain(
        import_lines(_summary(rejected_lines=3), (), _MANIFEST, table="t/", next_steps=())
    )[-1].endswith("t/runs/import_1/rejects.jsonl")


def test_the_next_steps_repeat_what_was_said_of_the_fields() -> None:
    verify, undo = import_steps(_summary(committed=True), _SOURCE, table="a b")
    assert verify[0] == (
        "memorypipe verify --against 'my export.json' --from jsonl --map text=note "
        "--scope user_id==u1 --table 'a b'"
    )
    assert undo[0] == "memorypipe undo import_1 --table 'a b'"
    planned = RunSummary(run_id="import_1", status="planned")
    assert import_steps(planned, _SOURCE, table="./memories") == [
        ("memorypipe apply import_1", "commit this plan")
    ]


def test_a_proof_counts_and_lists_what_is_not_there() -> None:
    absent = [
        Absent(source="f", line=n, id="a" if n == 1 else None, standing="missing", reason="why")
        for n in range(1, 13)
    ]
    found = Verification(
        records=20,
        found=8,
        said_elsewhere=0,
        changed_here=0,
        deleted_here=0,
        differs=2,
        missing=10,
        rejected=0,
        skipped=0,
        absent=tuple(absent),
    )
    told = _plain(verify_lines(found, path="f", table="t"))
    assert told[:5] == [
        "incomplete  f · 20 records",
        "          8  in the table",
        "          2  newer in the export",
        "         10  missing",
        "  table     t",
    ]
    assert told[5:7] == ["  ! f:1  a: why", "  ! f:2  why"]
    assert told[-1] == "    … 2 more; --json lists all of them"


def test_a_change_says_how_to_take_it_back_and_none_says_so() -> None:
    landed = CommitResult(outcome="landed", version=3, added=1, deleted=2)
    said = {"what": "undone", "nothing": "it is undone already", "table": "t"}
    assert _plain(changed_lines(landed, run_id="undo-r", **said)) == [
        "undone  1 back, 2 gone  undo-r",
        "",
        "  memorypipe undo undo-r --table t  take it back",
    ]
    nothing = CommitResult(outcome="nothing", version=3)
    assert _plain(changed_lines(nothing, run_id=None, **said)) == [
        "unchanged  it is undone already"
    ]


def test_a_table_without_runs_has_none_to_undo() -> None:
    assert _plain(some_runs_lines([], table="t")) == ["no runs"]
