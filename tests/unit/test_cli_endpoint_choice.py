"""Which endpoint serves a stage: option before environment before file."""

from pathlib import Path
from typing import Any

import pytest

from memorypipe.cli.endpoint_choice import endpoint_options, find_endpoints
from memorypipe.cli.prepare import prepare
from memorypipe.cli.run_options import RunOptions
from memorypipe.errors import InvalidArgumentError

_ENDPOINTS = "".join(
    f'[endpoints.{name}]\nurl = "http://{name}/v1"\nmodel = "m"\n' for name in "abcde"
)
_STAGES = '[stages]\nextract = "a"\ndecide = "b"\n'


def _options(**given: Any) -> RunOptions:
    return RunOptions(logs=["log"], **given)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "memorypipe.toml").write_text(_ENDPOINTS + _STAGES)
    return tmp_path


@pytest.mark.parametrize(
    ("options", "environ", "wanted"),
    [
        ({}, {}, ("a", "b")),
        ({}, {"ENDPOINT": "c"}, ("c", "c")),
        ({}, {"ENDPOINT": "c", "DECIDE_ENDPOINT": "d"}, ("c", "d")),
        ({}, {"EXTRACT_ENDPOINT": "d"}, ("d", "b")),
        ({}, {"ENDPOINT": ""}, ("a", "b")),
        ({"endpoint": "e"}, {"ENDPOINT": "c", "DECIDE_ENDPOINT": "d"}, ("e", "e")),
        ({"endpoint": "e", "decide_endpoint": "d"}, {}, ("e", "d")),
        ({"extract_endpoint": "d"}, {"ENDPOINT": "c"}, ("d", "c")),
    ],
)
def test_an_option_goes_before_the_environment_before_the_file(
    folder: Path, options: dict[str, str], environ: dict[str, str], wanted: tuple[str, str]
) -> None:
    named = {f"MEMORYPIPE_{name}": value for name, value in environ.items()}
    found = find_endpoints(_options(**options), named, folder)
    assert found is not None
    assert (found.extract.name, found.decide.name) == wanted


def test_without_a_file_and_a_name_there_are_no_endpoints(tmp_path: Path) -> None:
    assert find_endpoints(_options(), {}, tmp_path) is None


def test_the_file_is_named_by_option_then_environment_then_found_in_the_folder(
    folder: Path,
) -> None:
    for name in ("d", "e"):
        text = _ENDPOINTS + f'[stages]\nextract = "{name}"\ndecide = "{name}"\n'
        (folder / f"{name}.toml").write_text(text)
    environ = {"MEMORYPIPE_CONFIG": str(folder / "d.toml")}
    by_option = find_endpoints(_options(config=str(folder / "e.toml")), environ, folder)
    by_variable = find_endpoints(_options(), environ, folder)
    assert by_option is not None
    assert by_variable is not None
    assert (by_option.extract.name, by_variable.extract.name) == ("e", "d")


def test_an_endpoint_without_a_file_is_an_error_that_says_where_to_write_it(
    tmp_path: Path,
) -> None:
    with pytest.raises(InvalidArgumentError, match=r"'a' is asked for.* memorypipe.toml"):
        find_endpoints(_options(endpoint="a"), {}, tmp_path)


def test_a_stage_without_an_endpoint_is_named_with_the_choices(tmp_path: Path) -> None:
    (tmp_path / "memorypipe.toml").write_text(_ENDPOINTS)
    with pytest.raises(InvalidArgumentError, match=r"'decide' no endpoint.*Endpoints: a, b, c"):
        find_endpoints(_options(extract_endpoint="a"), {}, tmp_path)


def test_an_unknown_name_is_an_error(folder: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="there is no endpoint 'z'"):
        find_endpoints(_options(endpoint="z"), {}, folder)


def test_the_options_that_were_given_are_told() -> None:
    assert endpoint_options(_options()) == []
    given = _options(endpoint="a", decide_endpoint="b")
    assert endpoint_options(given) == ["--endpoint", "--decide-endpoint"]


def test_a_run_takes_its_endpoints_from_the_file(folder: Path) -> None:
    prepared = prepare(_options(), offline_model="rules", environ={}, folder=folder)
    assert [spec.base_url for spec in prepared.specs] == ["http://a/v1", "http://b/v1"]


def test_a_run_that_says_otherwise_does_not_read_the_file(folder: Path) -> None:
    (folder / "memorypipe.toml").write_text("broken")
    environ = {"MEMORYPIPE_ENDPOINT": "a"}
    for given in ({"offline": True}, {"model": "m", "base_url": "http://h/v1"}):
        prepare(_options(**given), offline_model="rules", environ=environ, folder=folder)
    with pytest.raises(InvalidArgumentError, match="is no TOML file"):
        prepare(_options(), offline_model="rules", environ={}, folder=folder)
