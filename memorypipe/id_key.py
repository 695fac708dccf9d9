"""The key of a table's ids and hashes: without it nobody can confirm a guess from an export.

Ids and hashes that are made of what was said are the same for everybody who hashes the same words.
Where a table has a key, they are made with it. The key itself is in no table, plan, journal or
pickle: only where it comes from is handed on, and a table knows it by its fingerprint.
"""

import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from memorypipe.errors import InvalidArgumentError

__all__ = [
    "DEFAULT_ID_KEY",
    "NO_ID_KEY",
    "IdKeySource",
    "check_id_key_source",
    "fingerprint",
    "read_id_key",
]

#: Where a key comes from: ``"env:NAME"``, ``"file:PATH"``, or what gives it when called; picklable.
IdKeySource = str | Callable[[], str]

#: Where the key of a table that has one is looked for, unless it is said.
DEFAULT_ID_KEY = "env:MEMORYPIPE_ID_KEY"

#: Ids and hashes are made without a key.
NO_ID_KEY = b""

_PREFIXES = ("env:", "file:")
_LEAST_CHARS = 16
_KEY_BYTES = 32
_FINGERPRINT_BYTES = 8


def check_id_key_source(source: IdKeySource | None) -> IdKeySource | None:
    """Check what can be checked without reading a key; a file's path becomes absolute.

    Raises:
        InvalidArgumentError: For what is no source: the key itself, say.

    Example:
        >>> check_id_key_source("env:TEAM_ID_KEY")
        'env:TEAM_ID_KEY'
    """
    if source is None or (callable(source) and not isinstance(source, str)):
        return source
    kind, _, place = source.partition(":") if isinstance(source, str) else ("", "", "")
    if f"{kind}:" not in _PREFIXES or not place.strip():
        # Not shown: it may be the key, given by mistake.
        raise InvalidArgumentError(
            "id_key (--id-key) takes no key but where it comes from: 'env:NAME' or 'file:PATH', in "
            "Python also a function that gives it."
        )
    return f"file:{Path(place).expanduser().absolute()}" if kind == "file" else source


def read_id_key(source: IdKeySource, environ: Mapping[str, str] = os.environ) -> bytes:
    """Read a key, and give what ids and hashes are made with.

    Args:
        source: Where it comes from; asked anew at each call.
        environ: Where ``"env:NAME"`` looks.

    Raises:
        InvalidArgumentError: If there is none, or it can be guessed for being short.

    Example:
        >>> len(read_id_key("env:K", {"K": "0123456789abcdef"}))
        32
    """
    checked = check_id_key_source(source)
    if not isinstance(checked, str):
        shown, secret = "the id_key function", _call(checked)
    else:
        shown, secret = repr(checked), _looked_up(checked, environ)
    if len(secret) < _LEAST_CHARS:
        said = f"a key of {len(secret)} characters" if secret else "no key"
        raise InvalidArgumentError(
            f"{shown} gives {said}; the key of a table's ids has at least {_LEAST_CHARS} "
            "characters, here and on every worker."
        )
    hasher = hashlib.blake2b(secret.encode(), digest_size=_KEY_BYTES, person=b"memorypipe ids")
    return hasher.digest()


def _looked_up(source: str, environ: Mapping[str, str]) -> str:
    kind, _, place = source.partition(":")
    if kind == "env":
        return environ.get(place, "").strip()
    try:
        return Path(place).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgumentError(f"{source!r} cannot be read: {type(error).__name__}.") from None


def fingerprint(key: bytes) -> str | None:
    """Name a key without saying it; None for `NO_ID_KEY`."""
    if not key:
        return None
    return hashlib.blake2b(b"fingerprint", key=key, digest_size=_FINGERPRINT_BYTES).hexdigest()


def _call(source: Any) -> str:
    try:
        secret = source()
    except Exception as error:  # noqa: BLE001  # the boundary to the caller's code
        # The message may hold the key: the class must do.
        raise InvalidArgumentError(f"The id_key function raised {type(error).__name__}.") from None
    return secret.strip() if isinstance(secret, str) else ""
