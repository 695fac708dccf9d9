"""Who may import whom, and what the package shows to the outside."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import memorypipe

PACKAGE = Path(memorypipe.__file__).parent

# A module may import from its own layer and from those below.
LAYERS = [
    {"cli"},
    {"streams"},
    {"pipeline"},
    {"expressions", "logs", "table"},
    {"llm", "cells", "prompts", "rank", "evidence"},
    {"schema", "ids", "id_key", "text", "errors", "ray_start"},
]

# Heavy libraries, and the only modules that may import them.
OWNERS = {
    "ray": (
        "expressions/",
        "pipeline/",
        "logs/read.py",
        "ray_start.py",
        "table/ray_io.py",
        "streams/on_pipeline.py",
        "cli/",
    ),
    "lance": ("table/lance/",),
    "lancedb": ("table/lance/",),
    "obstore": ("llm/journal/store.py", "table/parquet/objects.py"),
    "safetensors": ("llm/embed/wordllama.py",),
    "tokenizers": ("llm/embed/wordllama.py",),
    "aiohttp": ("llm/posting.py", "llm/transport.py"),
    "openai": ("llm/batch/client.py", "llm/batch/api.py"),
}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            yield node.module or ""


def layer(name: str) -> int:
    part = name.split(".", maxsplit=1)[0]
    return next(n for n, names in enumerate(LAYERS) if part in names)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_module_imports_from_a_layer_above(path: Path) -> None:
    own = path.relative_to(PACKAGE).with_suffix("").parts[0]
    if own in {"__init__", "__main__"}:
        return
    for name in imports(path):
        if name.startswith("memorypipe."):
            below = name.removeprefix("memorypipe.")
            assert layer(own) <= layer(below), f"{own} must not import {name}"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_heavy_libraries_stay_where_they_belong(path: Path) -> None:
    place = str(path.relative_to(PACKAGE))
    for name in imports(path):
        allowed = OWNERS.get(name.split(".")[0])
        assert allowed is None or place.startswith(allowed), f"{place} must not import {name}"


def test_only_the_modules_named_after_ray_touch_what_is_internal_to_it() -> None:
    guilty = {
        str(path.relative_to(PACKAGE))
        for path in modules()
        if any(name.startswith("ray.") and "._" in name for name in imports(path))
    }
    assert guilty == {f"expressions/ray_{name}.py" for name in ("blocks", "exprs", "rules")}


@pytest.mark.parametrize("name", memorypipe.__all__)
def test_every_public_name_can_be_had_and_has_a_docstring(name: str) -> None:
    value = getattr(memorypipe, name)
    assert isinstance(value, str) or value.__doc__


def test_the_public_names_are_sorted_and_complete() -> None:
    assert memorypipe.__all__ == sorted(memorypipe.__all__, key=_isort_key)
    assert set(memorypipe.__all__) == set(memorypipe._HOMES)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        memorypipe.__getattr__("Nothing")


def _isort_key(name: str) -> tuple[int, str]:
    kind = 0 if name.isupper() else 1 if name[0].isupper() else 2
    return (kind, name)


@pytest.mark.parametrize("module", ["ray", "memorypipe.table.auditing.audit"])
def test_reading_a_table_needs_neither_ray_nor_the_audit(module: str) -> None:
    code = f"import sys; from memorypipe import MemoryTable; assert {module!r} not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603  # our own code


def test_who_asks_an_endpoint_does_not_load_the_rules() -> None:
    code = (
        "import sys; import memorypipe.expressions.llm_base, memorypipe.llm.client; "
        "assert not any('offline' in name for name in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603  # our own code
