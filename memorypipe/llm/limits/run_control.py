"""The coordinator of a run as a state machine: what each worker may do next. Pure.

Every worker tells its state and sums; what the run has used is read off them, never counted in
differences, so an exchange that is lost or comes twice changes nothing.
"""

import math
from typing import Any

from memorypipe.llm.limits.control import INTERRUPT, Ask, Bounds, Grant
from memorypipe.llm.limits.run_health import RunHealth
from memorypipe.llm.limits.shares import Group, Member
from memorypipe.llm.limits.timeline import Timeline

__all__ = ["RunControl"]


class RunControl:
    """Keeps the limits of all groups of a run, and its bounds.

    A start that was granted counts as a call until its worker says that it will not be used; what
    a dead worker held stays counted, so `max_calls` is never passed. Tokens and money are known
    only from replies: no start is granted once what is spent, and what attempts under way are
    expected to cost, would pass the bound with one more. The bound counts as reached when no
    attempt that fails could make room: when that holds without those under way.

    When most calls fail nothing starts for a while, whatever the bounds; see `RunHealth`.

    Args:
        bounds: Of the run.
        now: Monotonic seconds.
        leased_calls: Requests that may be sent before `allow` says otherwise; None: any number.
    """

    def __init__(self, bounds: Bounds, now: float, *, leased_calls: int | None = None) -> None:
        self._bounds = bounds
        self._leased_calls = leased_calls
        self._began_s = now
        self._groups: dict[str, Group] = {}
        self._snapshots: dict[str, Any] = {}
        self._reached: tuple[str, str] | None = None
        self._timeline = Timeline()
        self._stopped: str | None = None
        self._told: set[str] = set()
        self._quiet: set[str] = set()
        self._health = RunHealth()
        self.heard_s = now

    def stop(self, reason: str) -> None:
        """Let nothing more be sent; what is under way goes on."""
        self._stopped = reason

    def allow(self, bounds: Bounds, leased_calls: int) -> None:
        """Set the bounds anew, and how many requests may have been sent before the next time.

        Where only the latter is reached, starts wait.
        """
        self._bounds = bounds
        self._leased_calls = leased_calls

    def is_quiet(self, now: float) -> bool:
        """Whether the run was stopped, all workers know it, and none has a request under way."""
        for each in self._groups.values():
            each.bury(now)
        alive = {each.ask.worker for each in self._members() if each.is_alive}
        return self._stopped is not None and alive <= self._quiet

    def exchange(self, ask: Ask, now: float) -> Grant:
        """Hear a worker and answer it."""
        self.heard_s = now
        group = self._groups.get(ask.group)
        if group is None:
            group = self._groups[ask.group] = Group(ask.limits, now)
        for each in self._groups.values():
            each.bury(now)
        member = group.hear(ask, now)
        if ask.snapshot is not None:
            self._snapshots[ask.worker] = dict(ask.snapshot)
        in_flight = sum(each.ask.in_flight for each in self._members() if each.is_alive)
        self._timeline.note(now - self._began_s, in_flight)
        self._health.hear(ask, now)
        if self._health.gave_up is not None and self._reached is None:
            self._reached = ("failures", self._health.gave_up)
        starts = self._grant_starts(group, member, now) if self._reserves(group) else ()
        share = group.share(member, now)
        bound, reason = self._reached or (None, None)
        if self._stopped is not None:
            bound, reason = INTERRUPT, self._stopped
            # What it says now it may have said before it knew.
            if ask.worker in self._told and not ask.in_flight:
                self._quiet.add(ask.worker)
            self._told.add(ask.worker)
        return Grant(
            now_s=now,
            starts_in_s=starts,
            concurrency=share,
            reserved=self._reserves(group),
            bounded=self._is_bounded,
            workers=len(group.alive()),
            bound=bound,
            reason=reason,
        )

    def totals(self) -> dict[str, Any]:
        """Give what the run has used so far, as JSON values.

        Returns:
            `calls` (starts granted and not returned), `tokens`, `cost`; `bound` and `reason`, None
            where none is reached; `interrupted`, why nothing more is sent, None where `stop` was
            not called; `paused`, why nothing is sent for a while, None where it is; `workers`, the
            last snapshot of each by its name; `in_flight`, pairs of seconds since the start and
            requests in flight at most.
        """
        bound, reason = self._reached or (None, None)
        return {
            "calls": self._calls(),
            "tokens": sum(member.ask.tokens for member in self._members()),
            "cost": sum(member.ask.cost for member in self._members()),
            "bound": bound,
            "reason": reason,
            "interrupted": self._stopped,
            "paused": self._health.paused(self.heard_s),
            "workers": dict(self._snapshots),
            "in_flight": self._timeline.points(),
        }

    def usage(self) -> dict[str, Any]:
        """Give what a budget is kept by.

        Returns:
            `calls`, as of `totals`; `expected`: `tokens` and `cost` with what calls under way are
            going to take, `tokens_each` and `cost_each` of a call.
        """
        _, tokens, cost = self._used(with_open=True)
        asks = [member.ask for member in self._members()]
        expected = {
            "tokens": tokens,
            "cost": cost,
            "tokens_each": max((ask.tokens_each for ask in asks), default=0.0),
            "cost_each": max((ask.cost_each for ask in asks), default=0.0),
        }
        return {"calls": self._calls(), "expected": expected}

    @property
    def _is_bounded(self) -> bool:
        return self._bounds != Bounds() or self._leased_calls is not None

    def _members(self) -> list[Member]:
        return [member for group in self._groups.values() for member in group.members.values()]

    def _reserves(self, group: Group) -> bool:
        return group.is_spaced or self._is_bounded or self._health.is_paused

    def _calls(self) -> int:
        return sum(member.starts for member in self._members())

    def _grant_starts(self, group: Group, member: Member, now: float) -> tuple[float, ...]:
        starts: list[float] = []
        wanted = member.ask.waiting
        if self._health.is_paused:
            wanted = int(wanted > 0 and self._health.probe(member.ask, now))
        while len(starts) < wanted and self._has_room(member):
            at_s = group.grant_start(member, now)
            if at_s is None:
                break
            starts.append(at_s - now)
        if len(starts) < wanted and self._reached is None:
            self._reached = self._what_is_reached(member)
        return tuple(starts)

    def _has_room(self, member: Member) -> bool:
        """Whether one more start keeps within the bounds, with all that is under way."""
        bounds = self._bounds
        calls, tokens, cost = self._used(with_open=True)
        return (
            calls + 1 <= min(_or_inf(bounds.max_calls), _or_inf(self._leased_calls))
            and tokens + member.ask.tokens_each <= _or_inf(bounds.max_tokens)
            and cost + member.ask.cost_each <= _or_inf(bounds.max_cost)
        )

    def _used(self, *, with_open: bool) -> tuple[float, float, float]:
        """Give calls, tokens and cost; without those under way, only what cannot come back."""
        calls = tokens = cost = 0.0
        for member in self._members():
            ask = member.ask
            # What a dead worker had under way was probably paid for.
            is_open = with_open or not member.is_alive
            calls += member.starts if is_open else ask.started
            tokens += ask.tokens + (member.open * ask.tokens_each if is_open else 0.0)
            cost += ask.cost + (member.open * ask.cost_each if is_open else 0.0)
        return calls, tokens, cost

    def _what_is_reached(self, member: Member) -> tuple[str, str] | None:
        bounds = self._bounds
        calls, tokens, cost = self._used(with_open=False)
        each = (
            ("max_calls", bounds.max_calls, calls, 1.0, "calls were made"),
            ("max_tokens", bounds.max_tokens, tokens, member.ask.tokens_each, "tokens were spent"),
            ("max_cost", bounds.max_cost, cost, member.ask.cost_each, "were spent"),
        )
        for name, bound, used, more, words in each:
            if bound is not None and used + more > bound:
                return name, (
                    f"{name}={bound!r} is reached: {used:.10g} {words}, and one more call is "
                    f"expected to take {more:.6g}. What is left can be taken up later."
                )
        return None


def _or_inf(bound: float | None) -> float:
    return math.inf if bound is None else bound
