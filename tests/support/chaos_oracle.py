"""What must hold after a run under chaos, judged by the model's ledger and by nothing of ours.

Every function gives the broken rules in words; none where all is well.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memorypipe import ids
from memorypipe.llm.types import DecideTask, ExtractTask
from memorypipe.pipeline.scopes.decided import Decided, PipelineFact
from memorypipe.rank.memory import Memory
from memorypipe.text import clean, normalise
from tests.support.chaos_faults import ECHOES
from tests.support.chaos_log import NAMES, name_in
from tests.support.chaos_model import Entry
from tests.support.chaos_scenario import MAX_RETRIES, RunRecord, Scenario

__all__ = ["final_violations", "violations"]

_WORD = re.compile(r"\w+")
_EVENTS = {"ADD", "UPDATE", "DELETE", "NONE"}


def violations(scenario: Scenario, run: RunRecord) -> list[str]:
    """Judge one run: nothing lost, nothing invented, nobody else's, nothing sent in vain."""
    ledger = scenario.model.ledger
    return [
        *_scopes_apart(scenario, run, ledger),
        *_sent_in_vain(run, ledger),
        *_extraction(run, ledger),
        *_each_fact_once(run),
        *(wrong for key in run.results for wrong in _actions(scenario, run, key)),
        *_table(scenario, run),
        *_journal(scenario, ledger),
    ]


def final_violations(scenario: Scenario) -> list[str]:
    """Judge the state that the last run, with a healthy model, has left."""
    last = scenario.runs[-1]
    wrong = [f"{window} is still open: {why}" for window, why in last.open_windows.items()]
    known = set(scenario.table.ledger_keys().to_pylist())
    for row in scenario.conversations.to_pylist():
        for message in row["messages"]:
            key = ids.ledger_key(row["scope_key"], row["conversation_id"], message["id"])
            if key not in known:
                wrong.append(f"message {message['id']} was never dealt with")
    return wrong


# --- nobody else's ---


def _scopes_apart(scenario: Scenario, run: RunRecord, ledger: Sequence[Entry]) -> Iterator[str]:
    for entry in ledger:
        if len(named := name_in(entry.text)) > 1:
            yield f"a request shows the data of {sorted(named)}"
    if scenario.table.count() != sum(len(memories) for memories in run.after.values()):
        yield "there are memories of scopes that nobody has"
    for name, key in scenario.scope_keys.items():
        for memory in run.after.get(key, ()):
            if name_in(memory.text) - {name}:
                yield f"{name} has a memory of another: {memory.text!r}"


# --- budgets ---


def _sent_in_vain(run: RunRecord, ledger: Sequence[Entry]) -> Iterator[str]:
    mine = [entry for entry in ledger if entry.run == run.number]
    failed: set[tuple[str, int]] = set()
    for entry in mine:
        # Two decisions about equal facts may have equal requests; no two windows are equal.
        request = (entry.key, id(entry.task) if isinstance(entry.task, DecideTask) else 0)
        if request in failed:
            yield f"sent unchanged after a failure for good ({entry.faults})"
        if entry.failure == "rejected" or (entry.said and entry.said.reach == "none"):
            failed.add(request)
    for window in run.windows.to_pylist():
        turns = _new_turns(window)
        sent = [e for e in mine if e.failure != "schema" and _turns(e) and _turns(e) <= turns]
        if len(sent) > 1 + MAX_RETRIES:
            yield f"{len(sent)} attempts for {window['window_id']}"
    by_call = sum(asked.requests for asked in run.asked)
    if by_call != sum(isinstance(entry.task, DecideTask) for entry in mine):
        yield "decision requests that belong to no call"
    schema = sum(e.failure == "schema" for e in mine)
    for asked in run.asked:
        if asked.outcome.attempts > 1 + MAX_RETRIES:
            yield f"{asked.outcome.attempts} attempts are counted for one decision"
        if not 0 <= asked.requests - asked.outcome.attempts <= schema:
            yield f"{asked.requests} requests count as {asked.outcome.attempts} attempts"


def _new_turns(window: Mapping[str, Any]) -> set[str]:
    return {m["id"] for m in window["messages"] if not m["background"] and m["role"] == "user"}


def _turns(entry: Entry) -> set[str]:
    if not isinstance(entry.task, ExtractTask):
        return set()
    return {t.id or "" for t in entry.task.turns if t.role == "user" and not t.background}


# --- the journal ---


def _journal(scenario: Scenario, ledger: Sequence[Entry]) -> Iterator[str]:
    """What may be served again as an answer was one, to its end."""
    replies = {(e.said.content, e.said.finish_reason) for e in ledger if e.said and _is_whole(e)}
    for path in sorted((scenario.folder / "journal").glob("*.jsonl")):
        for line in path.read_bytes().splitlines():
            found = json.loads(line)  # takes lone surrogates
            reply = found["reply"]
            if found["usable"] and (reply["content"], reply["finish_reason"]) not in replies:
                yield f"filed as a whole answer: {reply}"


def _is_whole(entry: Entry) -> bool:
    # A draft in reasoning that never ended may be all there is; only nothing is deleted on it.
    assert entry.said is not None
    return entry.said.reach == "whole" or "reasoning never closed" in entry.faults


# --- extraction ---


def _extraction(run: RunRecord, ledger: Sequence[Entry]) -> Iterator[str]:
    read = {w.window_id: w for windows in run.read.values() for w in windows}
    windows = {row["window_id"]: row for row in run.windows.to_pylist()}
    if set(read) != set(windows):
        yield "not every window came to consolidation"
    for window_id, window in read.items():
        turns = _new_turns(windows[window_id])
        entries = [e for e in ledger if _turns(e) and _turns(e) <= turns]
        got = {normalise(fact.text) for fact in window.facts}
        said = {text for entry in entries for text in _texts(entry)}
        for text in got - said:
            yield f"{window_id} holds a fact that nobody said: {text!r}"
        whole = [e for e in entries if e.said and e.said.reach == "whole"]
        for entry in whole:
            if entry.run == run.number and (lost := set(_texts(entry)) - got):
                yield f"{window_id} lost {lost} of a whole reply ({entry.faults})"
        covered = {turn for entry in whole for turn in _turns(entry)}
        if window.error is None and not turns <= covered:
            faults = [entry.faults for entry in entries]
            yield f"{window_id} is done and no whole reply covers {turns - covered}: {faults}"
        if window.error is not None and window_id not in run.open_windows:
            yield f"{window_id} failed ({window.error}) and is not open"


def _texts(entry: Entry) -> Iterator[str]:
    """The facts that can be read in a reply to an extraction."""
    for item in entry.said.items if entry.said else ():
        text = item.get("text", item.get("Text"))
        if isinstance(text, str) and text.strip() and text not in ECHOES:
            yield normalise(clean(text)[0])


# --- decisions ---


def _each_fact_once(run: RunRecord) -> Iterator[str]:
    decided = Counter(id(d.fact) for result in run.results.values() for d in result.actions)
    for key, windows in run.read.items():
        opened = run.results[key].open_windows
        for window in windows:
            for fact in window.facts:
                times = decided[id(fact)]
                if times > 1:
                    yield f"{fact.text!r} was decided {times} times"
                if times == 0 and window.window_id not in opened:
                    yield f"{fact.text!r} is lost: no action, and its window is done"


@dataclass(frozen=True)
class _Word:
    """What one reply said of one fact."""

    event: str
    target: str | None
    target_text: str | None
    text: str | None
    reach: str


def _words(fact: PipelineFact, ledger: Sequence[Entry]) -> list[_Word]:
    """Everything well-formed that any reply said of a fact."""
    words = []
    for entry in ledger:
        if not isinstance(entry.task, DecideTask) or entry.said is None:
            continue
        for number, shown in enumerate(entry.task.facts):
            item = _item_of(number, entry)
            if shown.text == fact.text and item is not None:
                words.append(_word(item, entry.task, entry.said.reach))
    return [word for word in words if word.event in _EVENTS]


def _item_of(number: int, entry: Entry) -> Mapping[str, Any] | None:
    assert entry.said is not None
    assert isinstance(entry.task, DecideTask)
    items = entry.said.items
    numbered = [item for item in items if item.get("fact") is not None]
    if not numbered:
        whole = entry.said.reach == "whole" and len(items) == len(entry.task.facts)
        return items[number] if whole else None
    return next((item for item in numbered if item["fact"] == number), None)


def _word(item: Mapping[str, Any], task: DecideTask, reach: str) -> _Word:
    said = item.get("target_id")
    shown = {memory.id: memory for memory in task.existing}
    shown |= {str(place): memory for place, memory in enumerate(task.existing)}
    is_id = isinstance(said, str | int) and not isinstance(said, bool)
    target = shown.get(str(said)) if is_id else None
    text = item.get("text")
    event = item.get("event")
    return _Word(
        event=event.strip().upper() if isinstance(event, str) else "",
        target=target.id if target else None,
        target_text=target.text if target else None,
        text=clean(text)[0] if isinstance(text, str) and text.strip() else None,
        reach=reach,
    )


@dataclass
class _State:
    """The memories of a scope, changed action by action as the rules of the format say."""

    texts: dict[str, str]
    times: dict[str, datetime | None]

    def holds(self, text: str) -> bool:
        return normalise(text) in {normalise(held) for held in self.texts.values()}

    def apply(self, decided: Decided) -> None:
        if decided.event == "NONE" or decided.memory_id is None:
            return
        before = self.times.pop(decided.memory_id, None)
        self.texts.pop(decided.memory_id, None)
        if decided.event != "DELETE":
            self.texts[decided.memory_id] = decided.text
            self.times[decided.memory_id] = decided.fact.event_time or before


def _actions(scenario: Scenario, run: RunRecord, key: str) -> Iterator[str]:
    memories = run.before.get(key, ())
    state = _State({m.id: m.text for m in memories}, {m.id: m.event_time for m in memories})
    for decided in run.results[key].actions:
        words = _words(decided.fact, scenario.model.ledger)
        if not _is_justified(decided, words, state):
            said = [(w.event, w.target, w.text, w.reach) for w in words]
            yield (
                f"{decided.event} {decided.memory_id} {decided.text!r} of the fact "
                f"{decided.fact.text!r} ({decided.rationale}) has no ground; said was {said}"
            )
        state.apply(decided)
    held = {m.id: m.text for m in run.after.get(key, ())}
    moved = run.commit.ids if run.commit else {}
    expected = {moved.get(memory_id, memory_id): text for memory_id, text in state.texts.items()}
    if held != expected and not (run.commit and run.commit.held_back):
        yield f"the table has {held}, the actions come to {state.texts}"


def _is_justified(decided: Decided, words: Sequence[_Word], state: _State) -> bool:
    fact, target = decided.fact, decided.memory_id or ""
    events = {word.event for word in words}
    if decided.event == "ADD":
        own = normalise(decided.text) == normalise(fact.text) and bool(events - {"NONE"})
        return own or any(w.event == "ADD" and w.text == decided.text for w in words)
    if decided.event == "NONE":
        return "NONE" in events or _is_known(fact, words, state) or _is_late(fact, words, state)
    time = state.times.get(target)
    is_late = time is not None and fact.event_time is not None and fact.event_time < time
    if is_late or state.texts.get(target) != decided.old_memory:
        return False
    if decided.event == "DELETE" and _is_superseded(target, words, state):
        return True
    fitting = [w for w in words if w.event == decided.event and w.target == target]
    if decided.event == "UPDATE":
        return any(w.text == decided.text for w in fitting) or _takes_the_place(
            decided, target, words
        )
    return any(w.reach == "whole" for w in fitting)


def _takes_the_place(decided: Decided, target: str, words: Sequence[_Word]) -> bool:
    """Whether a fact that the model let delete a memory stands in its place: it says something."""
    is_itself = normalise(decided.text) == normalise(decided.fact.text)
    return is_itself and any(
        w.event == "DELETE" and w.target == target and w.reach == "whole" for w in words
    )


def _is_known(fact: PipelineFact, words: Sequence[_Word], state: _State) -> bool:
    """Whether a memory says the same: the fact itself, or what the model made of it."""
    if state.holds(fact.text):
        return True
    made = [w.text for w in words if w.event == "ADD" and w.text and state.holds(w.text)]
    # An UPDATE to what the memory says already is a NONE.
    made += [w.text for w in words if w.event == "UPDATE" and w.text and w.text == w.target_text]
    return any(_content(text) & _content(fact.text) for text in made)


def _is_superseded(target: str, words: Sequence[_Word], state: _State) -> bool:
    """Whether the memory was to say what another one says already."""
    others = _State({k: v for k, v in state.texts.items() if k != target}, {})
    updates = [w for w in words if w.event == "UPDATE" and w.target == target]
    return any(w.text and others.holds(w.text) for w in updates)


def _is_late(fact: PipelineFact, words: Sequence[_Word], state: _State) -> bool:
    times = [state.times.get(w.target or "") for w in words if w.event in {"UPDATE", "DELETE"}]
    return any(time and fact.event_time and fact.event_time < time for time in times)


def _content(text: str) -> set[str]:
    small = {"is", "s", "has", "no", "any", "more", "by", "on", *(n.casefold() for n in NAMES)}
    return set(_WORD.findall(normalise(text))) - small


# --- the table ---


def _table(scenario: Scenario, run: RunRecord) -> Iterator[str]:
    if run.commit and run.commit.held_back:
        yield f"held back: {run.commit.held_back}"
    known = set(scenario.table.ledger_keys().to_pylist())
    for row in run.windows.to_pylist():
        for message_id in {m["id"] for m in row["messages"] if not m["background"]}:
            key = ids.ledger_key(row["scope_key"], row["conversation_id"], message_id)
            if (key in known) == (row["window_id"] in run.open_windows):
                yield f"{message_id} is {'done' if key in known else 'open'}, its window is not"
    for scope_key, memories in run.after.items():
        yield from _memories(run, scope_key, memories)


def _memories(run: RunRecord, scope_key: str, memories: Sequence[Memory]) -> Iterator[str]:
    texts = Counter(normalise(m.text) for m in memories)
    before = Counter(normalise(m.text) for m in run.before.get(scope_key, ()))
    for text, times in texts.items():
        if times > max(1, before[text]):
            yield f"doubled: {text!r}"
        if "\x00" in text or any("\ud800" <= c <= "\udfff" for c in text):
            yield f"not storable: {text!r}"
        if not any(name.casefold() in text for name in NAMES):
            yield f"a memory of nobody, as the prompt's own words are: {text!r}"
        if "draft that was never meant" in text:
            yield f"a draft is a memory: {text!r}"
