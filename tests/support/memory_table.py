"""A memory table that is kept in memory: quick, for rules that no back end has a part in."""

from memorypipe.table.records import Head
from memorypipe.table.table import MemoryTable
from tests.support.memory_storage import MemoryStorage
from tests.support.table_actions import START, SteppingClock


def memory_table() -> MemoryTable:
    """Make an empty one with a clock that steps one second per reading; it takes no ledger."""
    storage = MemoryStorage()
    storage.create(Head(number=0, committed_at=START, created_at=START, vector_dim=4))
    return MemoryTable("", storage, SteppingClock())
