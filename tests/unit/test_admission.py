"""How much a worker takes in hand: room, order, and nobody left behind."""

import threading
from collections.abc import Callable

import pytest

from memorypipe.llm.admission import Admission

_SOON_S = 10.0


def _thread(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_while_there_is_room_a_portion_comes_in_whole_however_large() -> None:
    admission = Admission(10)
    with admission.hold(9), admission.hold(1_000):
        pass


def test_a_portion_waits_until_one_before_it_is_done() -> None:
    admission, inside, leave = Admission(10), threading.Event(), threading.Event()
    order: list[str] = []

    def first() -> None:
        with admission.hold(10):
            inside.set()
            assert leave.wait(_SOON_S)
            order.append("first done")

    def second() -> None:
        assert inside.wait(_SOON_S)
        threading.Timer(0, leave.set).start()
        with admission.hold(1):
            order.append("second in")

    for thread in (_thread(first), _thread(second)):
        thread.join(_SOON_S)
    assert order == ["first done", "second in"]


def test_portions_come_in_in_the_order_in_which_they_asked() -> None:
    admission = Admission(1)
    order: list[int] = []
    threads = []

    def portion(number: int, asked: threading.Event) -> None:
        asked.set()
        with admission.hold(1):
            order.append(number)

    with admission.hold(1):
        for number in range(5):
            asked = threading.Event()
            threads.append(_thread(lambda n=number, a=asked: portion(n, a)))  # type: ignore[misc]
            assert asked.wait(_SOON_S)
            while len(admission._queue) <= number:
                threads[-1].join(0.001)
    for thread in threads:
        thread.join(_SOON_S)
    assert order == list(range(5))


def test_one_that_fails_inside_makes_room() -> None:
    admission = Admission(1)
    with pytest.raises(KeyError), admission.hold(5):
        raise KeyError
    with admission.hold(1):
        pass


def test_rows_that_are_done_make_room_while_others_of_their_portion_go_on() -> None:
    admission = Admission(10)
    with admission.hold(12) as slow:
        slow.done(2)
        assert not admission._queue
        slow.done()
        with admission.hold(5):
            pass
    with admission.hold(10):
        pass
    assert admission._inside == 0


def test_one_whose_wait_is_interrupted_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_event: threading.Event, timeout: float | None = None) -> bool:  # noqa: ARG001  # as it is
        raise KeyboardInterrupt

    admission = Admission(1)
    with admission.hold(1):
        with monkeypatch.context() as patch:
            patch.setattr(threading.Event, "wait", interrupted)
            with pytest.raises(KeyboardInterrupt), admission.hold(1):
                pass
        assert not admission._queue
    with admission.hold(1):
        pass
    assert admission._inside == 0
