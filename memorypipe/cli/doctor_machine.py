"""What `doctor` looks at on this machine: libraries, disk."""

import platform
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from memorypipe.cli.doctor_report import Finding, fail, good, skip, warn
from memorypipe.cli.output import shown_size

__all__ = ["check_disk", "check_versions", "is_within", "supported"]

_OWN = "memorypipe"
_NAMED = ("ray", "pyarrow", "pylance", "lancedb")
_LEAST_PYTHON = (3, 11)
_REQUIREMENT = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*\(?([^;)]*)\)?")
_CONDITION = re.compile(r"(>=|<=|==|!=|<|>)\s*([0-9][^\s,]*)")

_LOW_BYTES = 5_000_000_000
_FULL_BYTES = 500_000_000

# Ray spills and logs there.
_SCRATCH = "temporary files"

Free = Callable[[Path], int]


def supported() -> dict[str, str]:
    """Give the versions of other libraries that this one works with, as it declares them.

    Returns:
        Library to a condition such as ``">=20"``; "" where any will do. Extras are left out.
    """
    found = {}
    for line in requires(_OWN) or ():
        match = _REQUIREMENT.match(line)
        if match is not None and "extra ==" not in line:
            found[match[1].lower()] = match[2].strip()
    return found


def is_within(installed: str, condition: str) -> bool:
    """Tell whether a version meets a condition.

    Example:
        >>> is_within("2.60.1", ">=2.60,<2.61"), is_within("2.61.0", ">=2.60,<2.61")
        (True, False)
        >>> is_within("14.0.2rc1", ">=14,<15"), is_within("3.9", "")
        (True, True)
    """
    have = _numbers(installed)
    for sign, wanted in _CONDITION.findall(condition):
        limit = _numbers(wanted)
        size = max(len(have), len(limit))
        left, right = (each + (0,) * (size - len(each)) for each in (have, limit))
        holds = {
            ">=": left >= right,
            "<=": left <= right,
            "==": left == right,
            "!=": left != right,
            "<": left < right,
            ">": left > right,
        }
        if not holds[sign]:
            return False
    return True


def _numbers(written: str) -> tuple[int, ...]:
    found = re.match(r"\d+(?:\.\d+)*", written)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def check_versions(
    conditions: Mapping[str, str], installed: Callable[[str], str | None] = _installed
) -> Iterator[Finding]:
    """Compare what is installed with what is supported.

    Args:
        conditions: As of `supported`.
        installed: Gives the version of a library; None where it is not there.
    """
    python = platform.python_version()
    if _numbers(python)[:2] < _LEAST_PYTHON:
        yield fail("python", python, "Install Python 3.11 or later.")
    else:
        yield good("python", python)
    others: list[str] = []
    for name, condition in sorted(conditions.items()):
        have = installed(name)
        if have is None:
            yield fail(name, "not installed", f"pip install '{name}{condition}'")
        elif not is_within(have, condition):
            told = f"{have}, and {condition} is supported"
            yield fail(name, told, f"pip install '{name}{condition}'")
        elif name in _NAMED:
            yield good(name, f"{have} ({condition or 'any version'})")
        else:
            others.append(name)
    if others:
        yield good("other libraries", f"{len(others)} as they are needed")


def _free(path: Path) -> int:
    return shutil.disk_usage(path).free


def check_disk(table: str, free: Free = _free) -> Iterator[Finding]:
    """Look how much room there is for the table, and for what Ray lays aside.

    Args:
        table: The table's place.
        free: Gives the free bytes of the disk of a folder.
    """
    if "://" in table.removeprefix("file://"):
        yield skip("disk", "the table is in an object store")
        return
    places = {"disk": Path(table.removeprefix("file://")), _SCRATCH: Path(tempfile.gettempdir())}
    for check, place in places.items():
        there = next(
            each for each in (place.absolute(), *place.absolute().parents) if each.exists()
        )
        size = free(there)
        told = f"{shown_size(size)} free at {there}"
        if size < _FULL_BYTES:
            yield fail(check, told, "Make room: a run writes plans, replies and the table there.")
        elif size < _LOW_BYTES:
            yield warn(check, told, "`memorypipe vacuum` drops what is not needed any more.")
        else:
            yield good(check, told)
