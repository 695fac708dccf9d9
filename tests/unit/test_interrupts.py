"""Ctrl-C once lets a run finish what is in flight, twice ends it at once."""

import signal
import threading
from threading import Event

import pytest

from memorypipe.pipeline.runs.interrupts import drained_first

_LONG_S = 30.0


def _nothing(_gave_up: Event) -> None:
    """Have nothing in flight."""


def test_the_block_goes_on_while_it_is_drained_and_is_interrupted_after_that() -> None:
    may_end, steps = Event(), []

    def drain(_gave_up: Event) -> None:
        may_end.wait(_LONG_S)
        steps.append("drained")

    def block() -> None:
        with drained_first(drain):
            signal.raise_signal(signal.SIGINT)
            steps.append("went on")
            may_end.set()
            Event().wait(_LONG_S)
            steps.append("was not interrupted")

    with pytest.raises(KeyboardInterrupt):
        block()
    assert steps == ["went on", "drained"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_ctrl_c_ends_at_once_and_the_draining_too() -> None:
    gave_ups: list[Event] = []
    began = Event()

    def drain(gave_up: Event) -> None:
        gave_ups.append(gave_up)
        began.set()
        gave_up.wait(_LONG_S)

    def block() -> None:
        with drained_first(drain):
            signal.raise_signal(signal.SIGINT)
            began.wait(_LONG_S)
            signal.raise_signal(signal.SIGINT)
            pytest.fail("the second one interrupts")

    with pytest.raises(KeyboardInterrupt):
        block()
    assert gave_ups[0].is_set()


def test_a_block_that_ends_while_it_is_drained_counts_as_interrupted() -> None:
    with pytest.raises(KeyboardInterrupt), drained_first(lambda gave_up: gave_up.wait(_LONG_S)):
        signal.raise_signal(signal.SIGINT)


def test_a_drain_that_fails_does_not_swallow_the_interrupt() -> None:
    def fail(_gave_up: Event) -> None:
        raise ConnectionError

    def block() -> None:
        with drained_first(fail):
            signal.raise_signal(signal.SIGINT)
            Event().wait(_LONG_S)
            pytest.fail("it was not interrupted")

    with pytest.raises(KeyboardInterrupt):
        block()


def test_without_ctrl_c_and_in_other_threads_nothing_changes() -> None:
    seen = []

    def work() -> None:
        with drained_first(_nothing):
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]
    with drained_first(_nothing):
        pass
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
