"""Who a worker works for, and when it is gone."""

import os
import pickle
import subprocess
import sys

from memorypipe.llm.owner import Owner


def _ended_pid() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def test_a_process_that_ends_while_it_is_served_is_gone() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    ) as process:
        owner = Owner(host=Owner.current().host, pid=process.pid)
        assert not owner.is_gone()
        process.kill()
        process.wait()
    assert owner.is_gone()


def test_one_that_was_never_there_has_handed_its_work_on() -> None:
    assert not Owner(host=Owner.current().host, pid=_ended_pid()).is_gone()


def test_one_on_another_machine_cannot_be_seen() -> None:
    owner = Owner(host="elsewhere", pid=_ended_pid())
    assert not owner.is_gone()
    assert not owner.is_gone()


def test_it_travels() -> None:
    assert pickle.loads(pickle.dumps(Owner.current())).pid == os.getpid()  # noqa: S301  # our own bytes
