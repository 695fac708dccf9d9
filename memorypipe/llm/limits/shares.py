"""Who of several workers may have how much of what they share. Pure; time is a parameter."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from memorypipe.llm.limits.adaptive import Adaptive
from memorypipe.llm.limits.control import Ask, GroupLimits
from memorypipe.llm.limits.schedule import HORIZON_S, StartSchedule

__all__ = ["LEASE_S", "Group", "fair_shares"]

LEASE_S = 1.5
"""A worker that says nothing for so long is taken for dead, and what it had comes back."""

# Others leave starts to a worker that waits for some, for so long after it said so.
_WAITS_S = 0.15
# A worker may be so much ahead of one that waits: what it needs until that one asks again.
_AHEAD_S = 0.1
# Where there are fewer slots than workers, they go round at this pace.
_TURN_S = 1.0


def fair_shares(demands: Mapping[str, int], capacity: int, *, turn: int = 0) -> dict[str, int]:
    """Divide slots by demand: nobody gets more than wanted while another wants more.

    Args:
        demands: What each could use.
        capacity: What there is. Beyond all demands it is divided evenly, so that more demand
            finds something at once.
        turn: Where there are fewer slots than takers, which of them are served.

    Example:
        >>> fair_shares({"a": 100, "b": 10, "c": 100}, 64)
        {'a': 27, 'b': 10, 'c': 27}
        >>> fair_shares({"a": 5, "b": 5}, 1), fair_shares({"a": 5, "b": 5}, 1, turn=1)
        ({'a': 1, 'b': 0}, {'a': 0, 'b': 1})
    """
    takers = sorted(name for name, demand in demands.items() if demand > 0)
    shares = dict.fromkeys(demands, 0)
    if not takers:
        return shares
    if capacity < len(takers):
        for place in range(capacity):
            shares[takers[(turn * capacity + place) % len(takers)]] = 1
        return shares
    left, rising = capacity, takers
    while rising:
        each = left // len(rising)
        modest = [name for name in rising if demands[name] <= each]
        for name in modest:
            shares[name] = demands[name]
            left -= demands[name]
        if not modest:
            break
        rising = [name for name in rising if name not in modest]
    # To those who want more; where nobody does, to all, on top of what they want.
    each, extra = divmod(left, len(rising or takers))
    for place, name in enumerate(rising or takers):
        shares[name] += each + (place < extra)
    return shares


@dataclass(kw_only=True)
class Member:
    """What is known of one worker.

    Attributes:
        ask: What it said last.
        heard_s: When.
        is_alive: Whether it spoke within the lease.
        share: Requests in flight that it may have, as far as it may still believe.
        starts: Starts given to it that it has, or may have, used.
        charged: Tokens that the schedule was charged for it.
        served: Starts given to it, as others in line count them.
        was_waiting: Whether it was in line when it spoke last.
    """

    ask: Ask
    heard_s: float
    is_alive: bool = True
    share: int = 0
    starts: int = 0
    charged: float = 0.0
    served: float = 0.0
    was_waiting: bool = False

    @property
    def open(self) -> int:
        """Attempts under way, and starts still to be used."""
        return self.ask.in_flight + self.starts - self.ask.started


class Group:
    """One set of limits and the workers behind it.

    Args:
        limits: What they share.
        now: Monotonic seconds.

    Attributes:
        members: By name; the dead stay, since what they spent counts.
        adaptive: The level of all of them.
    """

    def __init__(self, limits: GroupLimits, now: float) -> None:
        self.limits = limits
        self.members: dict[str, Member] = {}
        self.adaptive = Adaptive(limits.max_concurrency)
        self._schedule = StartSchedule(limits.max_qps, limits.max_tokens_per_minute, now)

    @property
    def is_spaced(self) -> bool:
        """Whether starts need a reservation for the sake of these limits."""
        return self.limits.max_qps is not None or self.limits.max_tokens_per_minute is not None

    def alive(self) -> list[Member]:
        """Give the workers that are there."""
        return [member for member in self.members.values() if member.is_alive]

    def hear(self, ask: Ask, now: float) -> Member:
        """Take in what a worker says."""
        member = self.members.get(ask.worker)
        if member is None:
            member = Member(ask=ask, heard_s=now, charged=float(ask.tokens))
            self.members[ask.worker] = member
        before = member.ask
        member.ask, member.heard_s, member.is_alive = ask, now, True
        member.share = max(ask.share, ask.slots)
        member.starts = ask.started + ask.held_starts
        self._join_line(member)
        self._charge(member)
        self._note(before, ask, now)
        return member

    def bury(self, now: float) -> None:
        """Take workers for dead that have been silent for too long."""
        for member in self.members.values():
            if member.is_alive and now - member.heard_s > LEASE_S:
                member.is_alive = False
                member.share = 0

    def share(self, member: Member, now: float) -> int:
        """Say how many requests a worker may have in flight, and hold them for it."""
        if now < self.adaptive.paused_until_s and not self.is_spaced:
            # No schedule keeps its starts back.
            return 0
        allowed = self.adaptive.allowed_in_flight(now)
        demands = {each.ask.worker: each.ask.demand for each in self.alive()}
        fair = fair_shares(demands, allowed, turn=int(now / _TURN_S))[member.ask.worker]
        others = sum(each.share for each in self.alive() if each is not member)
        share = max(0, min(fair, allowed - others))
        member.share = max(member.ask.slots, share)
        return share

    def grant_start(self, member: Member, now: float) -> float | None:
        """Reserve the next start for a worker; None where it is not its turn, or not yet."""
        at_s = max(self._schedule.next_s(now), self.adaptive.paused_until_s)
        if at_s > now + HORIZON_S or not self._has_turn(member, now):
            return None
        self._schedule.reserve(at_s, member.ask.tokens_each, self.adaptive.level(now))
        member.charged += member.ask.tokens_each
        member.starts += 1
        member.served += 1
        return at_s

    def _join_line(self, member: Member) -> None:
        is_waiting = member.ask.waiting > 0
        if is_waiting and not member.was_waiting:
            others = [m.served for m in self.alive() if m is not member and m.was_waiting]
            # Not having asked before is no claim.
            member.served = max(member.served, min(others, default=0.0))
        member.was_waiting = is_waiting

    def _has_turn(self, member: Member, now: float) -> bool:
        in_line = [
            each.served
            for each in self.alive()
            if each is not member and each.was_waiting and now - each.heard_s <= _WAITS_S
        ]
        rate = self.limits.max_qps
        ahead = math.inf if rate is None else max(1.0, rate * _AHEAD_S)
        return member.served < min(in_line, default=math.inf) + ahead

    def _charge(self, member: Member) -> None:
        ask = member.ask
        due = ask.tokens + member.open * ask.tokens_each
        self._schedule.correct(due - member.charged)
        member.charged = due

    def _note(self, before: Ask, ask: Ask, now: float) -> None:
        in_flight = sum(each.ask.in_flight for each in self.alive())
        is_paced = self.is_spaced and any(each.was_waiting for each in self.alive())
        self.adaptive.note(
            now,
            answered=ask.answered - before.answered,
            overloaded=ask.overloaded - before.overloaded,
            usage=1.0 if is_paced else min(1.0, in_flight / self.limits.max_concurrency),
            retry_after_s=ask.retry_after_s,
        )
        if ask.pause_s > 0:
            self.adaptive.pause(now, ask.pause_s)
