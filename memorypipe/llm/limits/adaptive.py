"""How far an endpoint's refusals for overload push down what is sent to it: no clock in here.

Refusals (429, 503, 529) mean one of two things. Where they depend on our pace, sending less loses
nothing and the refusals go away. Where they do not (an endpoint that refuses a third of everything
for reasons of its own), sending less only makes the run longer. Which one it is shows after a drop:
by the share of refusals, and by the replies per second. A drop that lowered the replies and not the
share is taken back.
"""

import math
from dataclasses import dataclass

__all__ = ["MAX_PAUSE_S", "OVERLOAD_KINDS", "Adaptive"]

OVERLOAD_KINDS = frozenset({"http_429", "http_503", "http_529"})
"""Failures that tell of overload, as `RetryableModelError.kind`."""

MAX_PAUSE_S = 60.0
"""The longest time for which nothing is sent at all, whatever the endpoint asks."""

# A window is judged when it is long and full enough; many endpoints count by the second, so a
# shorter one would see their second's worth of replies, or none. Where refusals are many, and
# nothing has to be compared, it is judged soon.
_WINDOW_S = 1.0
_WINDOW_REPLIES = 20
_HURRY_S = 0.2
_HURRY_SHARE = 0.5
# After a drop a shorter one will do, where refusals came between replies all the time, and not by
# the second. Where they are many, it takes longer to tell less of them from as many.
_SHORT_WINDOW_S = 0.5
_SHORT_MOST_SHARE = 0.5
_MIXED = 0.5
_LONGEST_WINDOW_S = 5.0

# A window that happens to hold two seconds' worth looks like a fall to the next. So much later it
# shows whether the replies did rise again; where not, only a deeper fall counts for a while.
_PROOF_S = 8.0
_DISTRUST_S = 60.0
_REPLIES_HALVED = 0.6

# Below this share of refusals nothing is wrong.
_NOISE = 0.02
_DROP = 0.7

# Above this share a drop is never taken back.
_NEARLY_ALL = 0.9
# Sent is 0.7 of before: if replies fell by half of that, they follow our pace; but where refusals
# fell by half, too, the drop did its work.
_REPLIES_FELL = 0.85
_REFUSALS_FELL = 0.5
_IMMUNE_S = 30.0
_LONGEST_IMMUNE_S = 240.0
_IMMUNE_FACTOR = 1.25
_SIGMAS = 3.0

# The climb after a drop takes this long to the level that was too much, most of it in the first
# third, and stays around it for as long before it tries for more.
_CLIMB_S = 8.0
_RISE = 0.3
_LEAST_RISE = 0.1
_SETTLE_S = 60.0
# Without a reply for so long, refusals are an outage: it says nothing about the right level.
_OUTAGE_S = 3.0
# Of so few replies nothing is concluded for everyone.
_PAUSE_REPLIES = 10


@dataclass(kw_only=True)
class _Window:
    """What came back since a moment; `lasts_s` is whole periods, 0 in the first."""

    from_s: float
    period_s: float = _WINDOW_S
    answered: int = 0
    overloaded: int = 0
    usage: float = 0.0
    lasts_s: float = 0.0
    changes: float = 0.0
    last_share: float | None = None

    def add(self, answered: int, overloaded: int) -> None:
        """Count what came together, in an order that nobody told: any is as likely as others."""
        total = answered + overloaded
        share = overloaded / total
        self.changes += 2 * share * answered
        if self.last_share is not None:
            self.changes += self.last_share * (1 - share) + (1 - self.last_share) * share
        self.last_share = share
        self.answered += answered
        self.overloaded += overloaded

    @property
    def total(self) -> int:
        return self.answered + self.overloaded

    @property
    def share(self) -> float:
        return self.overloaded / self.total if self.total else 0.0

    @property
    def answered_per_s(self) -> float:
        return self.answered / self.lasts_s

    @property
    def is_mixed(self) -> bool:
        """Whether replies and refusals followed one another about as dice would have them."""
        return self.changes >= _MIXED * 2 * self.share * (1 - self.share) * self.total

    def is_over(self, now: float) -> bool:
        """Tell, before what came now is counted, whether the window ended with a whole period.

        Endpoints that count by the second then show the same number of replies in each second.
        """
        lasts_s = self.period_s * math.floor((now - self.from_s) / self.period_s)
        if lasts_s <= self.lasts_s:
            return False
        self.lasts_s = lasts_s
        return self.total >= _WINDOW_REPLIES or lasts_s >= _LONGEST_WINDOW_S


@dataclass(frozen=True, kw_only=True)
class _Trial:
    """What was so before the first of the drops in a row, to judge them by."""

    share: float
    answered_per_s: float
    period_s: float


@dataclass(kw_only=True)
class _Proof:
    """What must show after a drop was taken back: as many replies as before the drop."""

    from_s: float
    needed_per_s: float
    answered: int = 0

    def fails(self, now: float) -> bool | None:
        """Tell whether it failed; None while it is too early."""
        elapsed_s = now - self.from_s
        if elapsed_s < _PROOF_S:
            return None
        return self.answered < self.needed_per_s * elapsed_s


class Adaptive:
    """The level of everything behind one set of limits, between a floor and 1.

    The caller scales `max_qps` and the requests allowed in flight by the level, and sends nothing
    before `paused_until_s`. Times are monotonic seconds of one clock.

    Args:
        slots: Requests allowed in flight at level 1.

    Attributes:
        paused_until_s: Nothing is to start before.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._floor = 1 / slots
        self._level = 1.0
        self._goal = 1.0
        self._climbs_since_s: float | None = None
        self._before_drops: float | None = None
        self._trial: _Trial | None = None
        self._window: _Window | None = None
        self._earlier: _Window | None = None
        self._to_let_pass = 0.0
        self._pass_until_s = 0.0
        self._immune_share = 0.0
        self._immune_s = _IMMUNE_S
        self._proof: _Proof | None = None
        self._trusts_trials_from_s = -math.inf
        self._immune_until_s = -math.inf
        self._replied_s = -math.inf
        self._is_down = False
        self.paused_until_s = -math.inf

    @property
    def is_steady(self) -> bool:
        """Whether the level stays 1 until the next refusal."""
        return self._level == 1.0

    def level(self, now: float) -> float:
        """Give the level, above 0 and at most 1."""
        if self._climbs_since_s is None:
            return self._level
        way = (now - self._climbs_since_s) / _CLIMB_S - 1.0
        rise = self._goal - self._level if way < 0 else max(_RISE * self._goal, _LEAST_RISE)
        level = self._goal + rise * way**3
        if level >= 1.0:
            self._level, self._climbs_since_s = 1.0, None
            return 1.0
        return max(level, self._floor)

    def allowed_in_flight(self, now: float) -> int:
        """Give the requests that may be in flight, at least 1."""
        return max(1, int(self._slots * self.level(now) + 1e-9))

    def pause(self, now: float, wait_s: float) -> None:
        """Let nothing start for a time, `MAX_PAUSE_S` at most."""
        self.paused_until_s = max(self.paused_until_s, now + min(wait_s, MAX_PAUSE_S))

    def note(
        self,
        now: float,
        *,
        answered: int = 0,
        overloaded: int = 0,
        usage: float = 1.0,
        retry_after_s: float = 0.0,
    ) -> None:
        """Take note of what came back.

        Args:
            now: When.
            answered: Replies.
            overloaded: Refusals for overload.
            usage: How much of the limits is in use, between 0 and 1: a drop counts from there.
            retry_after_s: The longest wait that a refusal asked for. It holds for everyone only
                where nearly everything is refused.
        """
        if not answered and not overloaded:
            return
        if answered:
            self._replied(now)
        if self._to_let_pass > 0 and now < self._pass_until_s:
            # What was sent before the drop says nothing about it.
            self._to_let_pass -= answered + overloaded
            self._window = None
        else:
            self._count(now, answered, overloaded, usage)
        if retry_after_s > 0 and self._refuses_nearly_all():
            self.pause(now, retry_after_s)

    def _replied(self, now: float) -> None:
        self._replied_s = now
        if self._is_down:
            self._is_down = False
            self._trial = self._window = self._before_drops = None
            self._to_let_pass = 0.0
            self._climbs_since_s = now

    def _count(self, now: float, answered: int, overloaded: int, usage: float) -> None:
        if self._window is not None and self._window.is_over(now):
            self._close(self._window, now)
        if self._to_let_pass > 0:
            return
        if self._window is None:
            period_s = _WINDOW_S if self._trial is None else self._trial.period_s
            self._window = _Window(from_s=now, period_s=period_s)
        window = self._window
        window.add(answered, overloaded)
        window.usage = max(window.usage, usage)
        if self._must_hurry(window, now):
            window.lasts_s = now - window.from_s
            self._close(window, now)

    def _close(self, window: _Window, now: float) -> None:
        self._earlier = window
        self._window = _Window(from_s=min(now, window.from_s + window.lasts_s))
        self._judge(window, now)

    def _must_hurry(self, window: _Window, now: float) -> bool:
        """Whether much is refused, and this would be a first drop, with nothing to compare."""
        return (
            self._before_drops is None
            and now >= self._immune_until_s
            and now - window.from_s >= _HURRY_S
            and window.overloaded >= _WINDOW_REPLIES
            and window.share >= _HURRY_SHARE
        )

    def _refuses_nearly_all(self) -> bool:
        windows = [window for window in (self._earlier, self._window) if window is not None]
        total = sum(window.total for window in windows)
        refused = sum(window.overloaded for window in windows)
        return total >= _PAUSE_REPLIES and refused >= _NEARLY_ALL * total

    def _judge(self, window: _Window, now: float) -> None:
        trial = self._trial
        self._prove(window, now)
        if window.share <= _NOISE or self._is_bearable(window, now):
            self._be_content(now)
        elif trial and _was_in_vain(trial, window, fell=self._fall_that_tells(now)):
            self._take_back(trial, window, now)
        else:
            self._drop(window, now)

    def _be_content(self, now: float) -> None:
        self._before_drops = self._trial = None
        if self._level < 1.0 and self._climbs_since_s is None:
            self._climbs_since_s = now

    def _is_bearable(self, window: _Window, now: float) -> bool:
        """Whether refusals are those that were found not to depend on our pace."""
        share = min(self._immune_share, _NEARLY_ALL)
        noise = _SIGMAS * math.sqrt(share * (1 - share) / window.total)
        return now < self._immune_until_s and window.share <= min(share + noise, _NEARLY_ALL)

    def _fall_that_tells(self, now: float) -> float:
        return _REPLIES_FELL if now >= self._trusts_trials_from_s else _REPLIES_HALVED

    def _prove(self, window: _Window, now: float) -> None:
        if self._proof is None:
            return
        self._proof.answered += window.answered
        fails = self._proof.fails(now)
        if fails is not None:
            self._proof = None
        if fails:
            self._immune_until_s = now
            self._immune_s = _IMMUNE_S
            self._trusts_trials_from_s = now + _DISTRUST_S

    def _take_back(self, trial: _Trial, window: _Window, now: float) -> None:
        """Go back to the level before the first of the drops in a row."""
        self._level = self._goal = self._before_drops or self._level
        self._climbs_since_s = None if self._level == 1.0 else now
        self._before_drops = self._trial = None
        self._immune_share = _IMMUNE_FACTOR * max(window.share, trial.share)
        needed = max(window.answered_per_s / _REPLIES_FELL, _REPLIES_FELL * trial.answered_per_s)
        self._proof = _Proof(from_s=now, needed_per_s=needed)
        self._immune_until_s = now + self._immune_s
        self._immune_s = min(2 * self._immune_s, _LONGEST_IMMUNE_S)

    def _drop(self, window: _Window, now: float) -> None:
        level = min(self.level(now), max(window.usage, self._floor))
        self._before_drops = self._before_drops or level
        self._is_down = now - self._replied_s >= _OUTAGE_S
        if self._trial is None and window.lasts_s >= _WINDOW_S:
            is_short = window.is_mixed and window.share <= _SHORT_MOST_SHARE
            self._trial = _Trial(
                share=window.share,
                answered_per_s=window.answered_per_s,
                period_s=_SHORT_WINDOW_S if is_short else _WINDOW_S,
            )
        self._goal = self._before_drops if self._is_down else level
        self._level = max(self._floor, _DROP * level)
        self._climbs_since_s = None
        self._to_let_pass = level * self._slots
        self._pass_until_s = now + _SETTLE_S
        self._window = None


def _was_in_vain(trial: _Trial, window: _Window, *, fell: float) -> bool:
    """Whether a drop left the refusals as many as before, and the replies fewer."""
    noise = _SIGMAS * math.sqrt(trial.share * (1 - trial.share) / window.total)
    if window.share < min(_REFUSALS_FELL * trial.share, trial.share - noise):
        return False
    if window.share >= _NEARLY_ALL:
        return False
    return window.answered_per_s < fell * trial.answered_per_s
