"""Who a worker works for: a driver that was killed must not be served any longer.

Ray ends the workers of a dead driver after some seconds. Until then they would go on paying for
replies that a restarted run pays for too.
"""

import os
import socket
from dataclasses import dataclass, field
from typing import Self

__all__ = ["Owner"]


@dataclass(kw_only=True)
class Owner:
    """The process that wants the results.

    Attributes:
        host: Its machine.
        pid: Its process id there.
        was_seen: Whether it is known to have been there.
    """

    host: str
    pid: int
    was_seen: bool = field(default=False, repr=False)

    @classmethod
    def current(cls) -> Self:
        """Give the process that asks.

        Example:
            >>> Owner.current().is_gone()
            False
        """
        return cls(host=socket.gethostname(), pid=os.getpid())

    def is_gone(self) -> bool:
        """Tell whether the process has ended since it was first looked for.

        One on another machine cannot be seen; one that was never there may have handed its
        dataset on. Neither counts as gone.
        """
        if self.host != socket.gethostname():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return self.was_seen
        except PermissionError:
            pass  # it is there, and somebody else's
        self.was_seen = True
        return False
