"""An Airflow DAG: one run of memorypipe per day, over that day's interval.

Put it into the folder of your DAGs, with `memorypipe` installed where the workers run. A day that
is run again, or two that overlap, pay for nothing twice; days may be cleared and taken up in any
order, since what was said earlier never overwrites what was said later.

The exit codes of `memorypipe` decide what becomes of the task: 3 (some windows stay open) and 4
(stopped at a bound, or most calls fail) are tried again later and go on from there; 5 (a guard
held something back) and 2 (a wrong option) need somebody to look.
"""

import subprocess
from datetime import UTC, datetime, timedelta

from airflow.exceptions import AirflowException, AirflowFailException
from airflow.sdk import dag, task

LOGS = "/srv/logs/chat-*.jsonl"
TABLE = "/srv/memories"

GO_ON = {3, 4}


def command(since: str, until: str) -> list[str]:
    """Give the command line of one interval.

    Args:
        since: Its beginning, ISO 8601.
        until: Its end, which is not in it any more.
    """
    return [
        *("memorypipe", "backfill", LOGS, "--table", TABLE, "--json"),
        *("--since", since, "--until", until, "--label", f"interval={since}"),
        *("--budget", since[:7], "--max-failed", "1%"),
    ]


@dag(
    schedule="@daily",
    start_date=datetime(2025, 1, 1, tzinfo=UTC),
    catchup=True,
    max_active_runs=1,
    default_args={"retries": 3, "retry_delay": timedelta(minutes=30)},
)
def memories() -> None:
    """Take the memories out of each day's conversations."""

    @task
    def backfill(data_interval_start: datetime, data_interval_end: datetime) -> str:
        interval = (data_interval_start.isoformat(), data_interval_end.isoformat())
        done = subprocess.run(  # noqa: S603  # no part of it comes from outside
            command(*interval), stdout=subprocess.PIPE, text=True, check=False
        )
        if done.returncode in GO_ON:
            raise AirflowException(f"exit code {done.returncode}, goes on: {done.stdout}")
        if done.returncode:
            raise AirflowFailException(f"exit code {done.returncode}: {done.stdout}")
        return done.stdout

    backfill()


memories()
