"""A plan: everything that a run would commit, to be looked at first."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from memorypipe.errors import InvalidArgumentError
from memorypipe.pipeline.plans.changes import plan_changes
from memorypipe.pipeline.plans.diff import PlanDiff, diff_plan
from memorypipe.pipeline.plans.filter import filter_plan
from memorypipe.pipeline.plans.html import plan_html
from memorypipe.pipeline.plans.ledger import LEDGER_FACTS, ledger_rows
from memorypipe.pipeline.runs.folder import OPEN_WINDOWS, RunFolder
from memorypipe.pipeline.runs.summary import RunSummary
from memorypipe.schema import FACTS, PLAN_ACTIONS, WINDOWS
from memorypipe.table.times import now_utc

__all__ = ["Plan", "PlanTable"]

PlanTable = Literal["actions", "windows", "facts", "open_windows", "changes"]

_TABLES = ("actions", "windows", "facts", "open_windows", "changes")
_IN_PARTS = ("windows", "facts")
_SHOWN_IN_HTML = 50


class Plan:
    """What a run decided, stored beside the table it was decided against.

    Its tables join by `conversation_id`, `window_id` and `source_ids` (the ids of messages). In a
    notebook it shows as a table of changes.

    Args:
        table_uri: The table.
        run_id: The run.

    Raises:
        PlanError: If there is no such run, or it was never planned to its end.
    """

    def __init__(self, table_uri: str, run_id: str) -> None:
        self.table_uri = table_uri
        self.run_id = run_id
        self._folder = RunFolder.of(table_uri, run_id)
        self.manifest = self._folder.read_json("manifest")
        self._summary = self._folder.read_json("run")

    def __repr__(self) -> str:
        told = self.summary()
        counts = f"+{told.added:,} ~{told.updated:,} -{told.deleted:,}"
        return f"Plan({self.run_id!r}, {told.status}: {counts}, table={self.table_uri!r})"

    def _repr_html_(self) -> str:
        changes = plan_changes(self.actions())
        rows = changes.slice(0, _SHOWN_IN_HTML).to_pylist()
        return plan_html(self.summary(), rows, total=changes.num_rows)

    @property
    def base_version(self) -> int:
        """The version of the table that the plan was decided against; 0 where there was none."""
        return int(self.manifest["base_version"])

    def summary(self) -> RunSummary:
        """Give the numbers of the run."""
        return RunSummary.from_dict(self._summary)

    def diff(self) -> PlanDiff:
        """Compare the plan with its table as it is now; changes nothing.

        Returns:
            The changes, at most one per memory, and the scopes of which a commit would take
            nothing now since others have changed them meanwhile, or a guard would hold them back.
            ``print(plan.diff())`` shows them as lines; `changes` is an Arrow table.
        """
        return diff_plan(self)

    def actions(self) -> pa.Table:
        """Give all actions, NONE included, sorted by scope and `seq`.

        Returns:
            Schema `memorypipe.schema.PLAN_ACTIONS`, then those columns of
            `memorypipe.schema.ACTION_OPTIONS` that the run gave.
        """
        rows = self._folder.read_table("actions")
        for field in PLAN_ACTIONS:
            if field.name not in rows.column_names:  # written by an older version
                rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
        more = [field for field in rows.schema if field.name not in PLAN_ACTIONS.names]
        schema = pa.schema([*PLAN_ACTIONS, *more])
        return rows.select(schema.names).cast(schema)

    def windows(self) -> pa.Table:
        """Give the windows that the run took up: schema `memorypipe.schema.WINDOWS`."""
        return self._folder.read_parts("windows", WINDOWS)

    def facts(self) -> pa.Table:
        """Give what was extracted, a row per window: schema `memorypipe.schema.FACTS`."""
        return self._folder.read_parts("facts", FACTS)

    def open_windows(self) -> pa.Table:
        """Give the windows that the next run takes up again: schema `OPEN_WINDOWS`."""
        return self._folder.read_table("open", OPEN_WINDOWS)

    def ledger(self) -> pa.Table:
        """Give the messages that the run has dealt with: schema `memorypipe.schema.LEDGER`."""
        facts = self._folder.read_parts("facts", LEDGER_FACTS)
        return ledger_rows(facts, self.open_windows()["window_id"])

    def fact_parts(self) -> list[str]:
        """List the Parquet files of `facts`: a large plan is read one after the other."""
        return self._folder.parts("facts")

    def to_arrow(self, name: PlanTable = "actions") -> pa.Table:
        """Give one of the plan's tables.

        Args:
            name: ``"actions"``, ``"windows"``, ``"facts"``, ``"open_windows"``, each as the method
                of this name; or ``"changes"``, as of `diff`.

        Raises:
            InvalidArgumentError: For another name.
        """
        if name not in _TABLES:
            raise InvalidArgumentError(f"Unknown table {name!r} of a plan; choices: {_TABLES!r}.")
        if name == "changes":
            return self.diff().changes
        table: pa.Table = getattr(self, name)()
        return table

    def to_pandas(self, name: PlanTable = "actions") -> Any:
        """Give one of the plan's tables as a pandas DataFrame; scopes are dictionaries.

        Args:
            name: As for `to_arrow`.
        """
        return self.to_arrow(name).to_pandas(maps_as_pydicts="strict")

    def to_dataset(self, name: PlanTable = "actions") -> Any:
        """Give one of the plan's tables as a Ray Dataset.

        Windows and facts are read by the workers, a file at a time, in any order.

        Args:
            name: As for `to_arrow`.
        """
        import ray.data  # noqa: PLC0415  # slow, and for this method alone

        if name in _IN_PARTS and (parts := self._folder.parts(name)):
            return ray.data.read_parquet(parts)
        return ray.data.from_arrow(self.to_arrow(name))

    def filter(
        self,
        condition: pc.Expression | str,
        *,
        leave_open: bool = False,
        clock: Callable[[], datetime] = now_utc,
    ) -> "Plan":
        """Take the actions for which a condition holds, as a plan of its own beside this one.

        An action that builds on one that is dropped goes too: a later one on the same memory, or
        one that came out as it did because of it. The manifest says under `filtered` how many,
        which plan it is a part of, and the condition. What was asked and paid, as the summary
        tells it, is that of the whole plan. Both may be applied, in any order: nothing is doubled,
        and where they are at odds the scope is held back.

        Args:
            condition: A `pyarrow.compute.Expression` over the columns of `actions`, or SQL, such
                as ``"event = 'DELETE' and scope.user_id = 'u1'"``. `scope` is a struct in both,
                with a field for every name that a scope of the plan has.
            leave_open: Whether the next run takes up the windows of dropped actions again; else
                they count as done.
            clock: Gives the time.

        Returns:
            The plan. Its run id follows from this plan, the condition and `leave_open`; where it
            is there already, that one is given.

        Raises:
            InvalidArgumentError: For what is no condition on these columns, or `leave_open` where
                there are no windows.
        """
        run_id = filter_plan(self, condition, leave_open=leave_open, clock=clock)
        return Plan(self.table_uri, run_id)
