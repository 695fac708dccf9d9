"""A key comes from where the user says, goes to no other host, and stands in no pickle."""

import pickle
import sys
from pathlib import Path

import pytest

from memorypipe.errors import EndpointError, InvalidArgumentError
from memorypipe.llm.keys import (
    NO_KEY,
    KeyCommand,
    KeyFile,
    choose_key,
    resolve_key,
)
from memorypipe.llm.spec import ModelSpec

SECRET = "sk-secret-4711"


@pytest.mark.parametrize("host", ["127.0.0.1", "openai.com", "api.openai.com.evil.example", ""])
def test_the_default_key_goes_to_no_other_host(host: str) -> None:
    assert choose_key([host]) == NO_KEY


@pytest.mark.parametrize("host", ["api.openai.com", "API.OpenAI.com"])
def test_the_default_key_goes_to_its_own_host(host: str) -> None:
    assert choose_key([host]) == "env:OPENAI_API_KEY"


def test_the_default_key_goes_nowhere_where_one_replica_is_elsewhere() -> None:
    assert choose_key(["api.openai.com", "api.openai.com"]) == "env:OPENAI_API_KEY"
    assert choose_key(["api.openai.com", "proxy.example"]) == NO_KEY


def test_a_named_variable_is_read_on_the_worker() -> None:
    assert choose_key(["host"], key_env="MY_KEY") == "env:MY_KEY"


def test_a_key_in_the_place_of_a_variable_is_not_repeated() -> None:
    with pytest.raises(InvalidArgumentError, match="name of an environment variable") as caught:
        choose_key(["host"], key_env="sk-very-secret")
    assert "secret" not in str(caught.value)


def test_a_key_comes_one_way_only() -> None:
    with pytest.raises(InvalidArgumentError, match="key_env and key_file"):
        choose_key(["host"], key_env="A", key_file="b")


def test_a_key_file_is_read_anew_at_each_call(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("first\n")
    key = choose_key(["host"], key_file=str(path))
    assert isinstance(key, KeyFile)
    assert key() == "first"
    path.write_text(" second ")
    assert key() == "second"


def test_a_relative_key_file_is_found_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    key = choose_key(["host"], key_file="key")
    assert key == KeyFile(str(tmp_path / "key"))


def test_a_relative_key_file_may_be_meant_from_another_folder(tmp_path: Path) -> None:
    assert choose_key(["h"], key_file="key", folder=tmp_path) == KeyFile(str(tmp_path / "key"))
    assert choose_key(["h"], key_file="/key", folder=tmp_path) == KeyFile("/key")


def test_a_blank_path_is_an_error() -> None:
    with pytest.raises(InvalidArgumentError, match="key_file must not be blank"):
        choose_key(["h"], key_file=" ")


def test_a_command_prints_the_key() -> None:
    key = choose_key(["host"], key_command=f"'{sys.executable}' -c 'print(\"sk-1\")'")
    assert isinstance(key, KeyCommand)
    assert key() == "sk-1"


@pytest.mark.parametrize("command", ["", "  ", "echo 'open"])
def test_a_command_that_cannot_be_read_is_an_error(command: str) -> None:
    with pytest.raises(InvalidArgumentError, match="key_command"):
        choose_key(["host"], key_command=command)


def test_a_command_that_fails_is_an_endpoint_error_on_the_worker() -> None:
    key = KeyCommand((sys.executable, "-c", "import sys; print('sk-1'); sys.exit(3)"))
    with pytest.raises(EndpointError, match="CalledProcessError") as caught:
        resolve_key(key, {})
    assert "sk-1" not in str(caught.value)


def test_neither_pickle_nor_description_of_a_spec_holds_the_key(tmp_path: Path) -> None:
    path = tmp_path / "file-with-it"
    path.write_text("sk-very-secret")
    spec = ModelSpec(base_url="http://h/v1", model="m", api_key=KeyFile(str(path)))
    assert resolve_key(spec.api_key, {}) == "sk-very-secret"
    again = pickle.dumps(spec)
    assert b"secret" not in again
    assert "secret" not in repr(spec)
    assert pickle.loads(again).key() == spec.key()  # noqa: S301  # our own pickle


def test_a_key_is_taken_as_it_is_from_the_environment_or_from_a_callable() -> None:
    assert resolve_key(SECRET, {}) == SECRET
    assert resolve_key("env:K", {"K": f" {SECRET}\n"}) == SECRET
    assert resolve_key(lambda: f"{SECRET}\n", {}) == SECRET


@pytest.mark.parametrize("environ", [{}, {"MY_KEY": " "}])
def test_a_missing_variable_is_named(environ: dict[str, str]) -> None:
    with pytest.raises(EndpointError, match="'MY_KEY' is not set"):
        resolve_key("env:MY_KEY", environ)


def _failing() -> str:
    raise RuntimeError(SECRET)


def test_a_callable_that_fails_is_an_endpoint_error_without_its_message() -> None:
    with pytest.raises(EndpointError, match="RuntimeError") as raised:
        resolve_key(_failing, {})
    assert SECRET not in str(raised.value)
    assert raised.value.__suppress_context__
    assert raised.value.__cause__ is None


def test_a_callable_must_give_a_key() -> None:
    with pytest.raises(EndpointError, match="non-blank string"):
        resolve_key(lambda: " ", {})
