"""The fold of one scope, action by action."""

from itertools import count

from memorypipe import ids
from memorypipe.table.folding.changes import Change, Conflict, Folded
from memorypipe.table.folding.index import Index, Key, Saying, Steps

__all__ = ["ScopeFold"]

# An id that is taken makes the next ordinals interesting: so many are looked up in one go.
_ORDINALS_AHEAD = 16


class ScopeFold:
    """The fold of one scope: its memories as the actions so far leave them.

    Args:
        steps: Actions, those of the scope among them.
        known: What the table holds.
        scope_key: Of the scope.
        base_us: As for `memorypipe.table.folding.fold.fold`, in microseconds since 1970.
        taken: Records that other scopes of the batch have given away.
    """

    def __init__(
        self,
        steps: Steps,
        known: Index,
        scope_key: str,
        base_us: int | None,
        taken: set[Key],
    ) -> None:
        self._steps = steps
        self._known = known
        self._scope_key = scope_key
        self._base_us = base_us
        self._taken = taken
        self._changes: dict[Key, Change] = {}
        self._aliases: dict[Key, str] = {}
        self._holders: dict[Saying, tuple[str, ...]] = {}
        self._ids: dict[str, str] = {}
        self._unseen: set[str] = set()
        self._changed: set[str] = set()
        self._absent: set[str] = set()
        self._none = 0
        self._duplicates = 0

    def take(self, step: int) -> None:
        """Take the next action, by its place in `steps`."""
        event = self._steps.event[step]
        if event == "ADD":
            self._add(step)
        elif event == "NONE":
            self._none += 1
        elif (change := self._target(step)) is not None:
            if event == "UPDATE":
                self._update(change, step)
            else:
                self._delete(change, step)

    def finish(self, folded: Folded, changes: list[Change]) -> None:
        """Add what the scope comes to: to the changes, and to all else of the result."""
        folded.unseen |= self._unseen
        if self._changed or self._absent:
            folded.conflicts[self._scope_key] = Conflict(
                changed=tuple(sorted(self._changed)), absent=tuple(sorted(self._absent))
            )
            return
        changes.extend(self._changes.values())
        folded.ids.update(self._ids)
        folded.none += self._none + self._duplicates
        folded.duplicates += self._duplicates
        self._taken.update(self._changes)

    def _add(self, step: int) -> None:
        record_type, provisional = self._steps.record_type[step], self._steps.memory_id[step]
        hash_ = self._steps.text_hash[step]
        if holders := self._who_says(record_type, hash_):
            self._duplicates += 1
            self._name(record_type, provisional, min(holders))
            return
        if self._said_since((record_type, provisional)):
            self._changed.add(provisional)
            return
        final = self._free_id(step)
        base = self._known.vacant.get((record_type, final))
        self._changes[record_type, final] = change = Change("ADD", final, base, [step])
        self._hold(change, step)
        self._name(record_type, provisional, final)

    def _said_since(self, key: Key) -> bool:
        """Whether others have added this very memory since the base, and changed it again."""
        row = self._known.current.get(key)
        if row is None or self._base_us is None or key in self._known.vacant:
            return False
        is_here = self._known.scope_key[row] == self._scope_key
        return is_here and self._known.valid_from[row] > self._base_us

    def _name(self, record_type: str, provisional: str, final: str) -> None:
        self._aliases[record_type, provisional] = final
        if provisional != final:
            self._ids[provisional] = final

    def _free_id(self, step: int) -> str:
        record_type, provisional = self._steps.record_type[step], self._steps.memory_id[step]
        if self._is_free((record_type, provisional)):
            return provisional
        text, id_key = self._steps.text[step], self._steps.id_key
        for ordinal in count():
            minted = ids.memory_id(record_type, self._scope_key, text, ordinal, key=id_key)
            if minted not in self._known.looked_up:
                ahead = range(ordinal, ordinal + _ORDINALS_AHEAD)
                self._unseen.update(
                    ids.memory_id(record_type, self._scope_key, text, each, key=id_key)
                    for each in ahead
                )
            if self._is_free((record_type, minted)):
                return minted
        raise AssertionError  # count() does not end

    def _is_free(self, key: Key) -> bool:
        row = self._known.vacant.get(key)
        if row is not None and self._known.scope_key[row] != self._scope_key:
            return False
        return not (key in self._known.used or key in self._changes or key in self._taken)

    def _target(self, step: int) -> Change | None:
        """Find the change that an UPDATE or DELETE goes to; None where there is nothing to do."""
        record_type, named = self._steps.record_type[step], self._steps.memory_id[step]
        key = (record_type, self._aliases.get((record_type, named), named))
        change = self._changes.get(key)
        if change is None:
            change = self._stored(key, added_here=(record_type, named) in self._aliases)
            if change is None:
                return None
        elif change.event == "DELETE":
            if self._steps.event[step] == "UPDATE":
                self._absent.add(named)
            return None
        self._changes[key] = change
        return change

    def _stored(self, key: Key, *, added_here: bool) -> Change | None:
        row = self._known.current.get(key)
        if row is None or self._known.deleted[row] or self._known.scope_key[row] != self._scope_key:
            self._absent.add(key[1])
            return None
        # An ADD of this batch that met the same text was not decided against an older one.
        changed = self._base_us is not None and self._known.valid_from[row] > self._base_us
        if changed and not added_here:
            self._changed.add(key[1])
            return None
        is_live, has_expired = self._known.is_live[row], self._known.has_expired[row]
        says = self._known.text_hash[row] if is_live and not has_expired else None
        return Change("UPDATE", key[1], row, [], says, is_live, has_expired)

    def _update(self, change: Change, step: int) -> None:
        change.steps.append(step)
        self._hold(change, step)

    def _hold(self, change: Change, step: int) -> None:
        """Note what an action leaves a memory saying: nothing, once it has expired."""
        expired = self._steps.has_expired[step]
        if expired is not None:
            change.has_expired = expired
        is_silent = change.has_expired or not change.is_valid
        hash_ = None if is_silent else self._steps.text_hash[step]
        self._say(self._steps.record_type[step], change, hash_)

    def _delete(self, change: Change, step: int) -> None:
        record_type = self._steps.record_type[step]
        self._say(record_type, change, None)
        if change.event == "ADD":
            del self._changes[record_type, change.memory_id]
            self._aliases.pop((record_type, self._steps.memory_id[step]), None)
            return
        change.event = "DELETE"
        change.steps.append(step)

    def _who_says(self, record_type: str, hash_: str) -> tuple[str, ...]:
        saying = (record_type, self._scope_key, hash_)
        here = self._holders.get(saying)
        return self._known.holders.get(saying, ()) if here is None else here

    def _say(self, record_type: str, change: Change, hash_: str | None) -> None:
        """Note what a memory says from now on; only what the batch adds somewhere matters."""
        name = change.memory_id
        if change.says in self._steps.added:
            others = (each for each in self._who_says(record_type, change.says) if each != name)
            self._holders[record_type, self._scope_key, change.says] = tuple(others)
        if hash_ in self._steps.added:
            holders = (*self._who_says(record_type, hash_), name)
            self._holders[record_type, self._scope_key, hash_] = holders
        change.says = hash_
