"""Progress is a bar in a terminal, and elsewhere a line now and then."""

import io

from rich.console import Console

from memorypipe.cli.progress import ProgressDisplay
from memorypipe.pipeline.planning_config import Progress


def test_elsewhere_each_stage_is_one_line_and_a_long_one_an_occasional_one() -> None:
    stream, now_s = io.StringIO(), [0.0]
    with ProgressDisplay(Console(file=stream), clock=lambda: now_s[0]) as display:
        display.say("Starting Ray")
        for done, at_s in [(0, 1.0), (10, 2.0), (20, 20.0), (25, 21.0)]:
            now_s[0] = at_s
            display(Progress(stage="extract", done=done, total=1000))
        display(Progress(stage="windows", done=7, total=None))
        display(Progress(stage="consolidate", done=3, total=9))
        display(Progress(stage="commit", done=0, total=1000))
    assert stream.getvalue().splitlines() == [
        "Starting Ray",
        "Extracting facts: 0/1,000 windows",
        "Extracting facts: 20/1,000 windows",
        "Reading the log: 7 windows",
        "Deciding about memories: 3/9 scopes",
        "Committing",
    ]


def test_a_terminal_gets_a_bar_that_is_gone_in_the_end() -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=100)
    with ProgressDisplay(console) as display:
        display(Progress(stage="extract", done=1, total=3))
        display(Progress(stage="extract", done=3, total=3))
        display(Progress(stage="decide", done=0, total=3))
    shown = stream.getvalue()
    assert "Deciding changes" in shown
    assert "0/3 windows" in shown
    assert shown.rstrip().endswith("\x1b[2K")
