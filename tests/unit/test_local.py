"""Which model file a local server takes, and what it says where it takes none."""

from pathlib import Path

import pytest

from memorypipe.errors import InvalidArgumentError
from memorypipe.llm import local


def test_a_file_that_begins_as_gguf_is_taken(tmp_path: Path) -> None:
    model = tmp_path / "m.gguf"
    model.write_bytes(b"GGUF\x03")
    assert local.checked_model(str(model)) == model


@pytest.mark.parametrize("content", [b"", b"GGU", b"PK\x03\x04 no model"])
def test_any_other_file_is_an_error_that_names_it(tmp_path: Path, content: bytes) -> None:
    model = tmp_path / "m.gguf"
    model.write_bytes(content)
    with pytest.raises(InvalidArgumentError, match=r"m\.gguf.*no GGUF"):
        local.checked_model(model)


def test_a_missing_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"no model file at .*absent\.gguf"):
        local.checked_model(tmp_path / "absent.gguf")


def test_a_missing_package_is_an_error_that_says_what_to_install() -> None:
    with pytest.raises(InvalidArgumentError, match=r"pip install 'memorypipe\[local\]'"):
        local._require("memorypipe_no_such_package")


def test_sizes_must_be_positive() -> None:
    with pytest.raises(InvalidArgumentError, match="context_tokens must be at least 1, got 0"):
        local.LocalServer(context_tokens=0)
    with pytest.raises(InvalidArgumentError, match="parallel must be at least 1, got -1"):
        local.LocalServer(parallel=-1)


@pytest.mark.parametrize("said", ["", "relative/cache"])
def test_an_empty_or_relative_cache_home_is_ignored(said: str) -> None:
    folder = local.cache_folder({"XDG_CACHE_HOME": said}, Path("/home/me"))
    assert folder == Path("/home/me/.cache/memorypipe")
