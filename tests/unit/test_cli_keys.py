"""The options that name a key choose it, and errors call them by their names."""

import pytest

from memorypipe.cli.keys import key_of, names_key
from memorypipe.cli.run_options import RunOptions
from memorypipe.errors import InvalidArgumentError
from memorypipe.llm.keys import NO_KEY, KeyCommand


def _options(**given: str) -> RunOptions:
    return RunOptions(logs=["log"], **given)  # type: ignore[arg-type]  # the key options are texts


def test_an_option_names_the_key() -> None:
    assert key_of(_options(key_env="MY_KEY"), ["h"]) == "env:MY_KEY"
    assert key_of(_options(key_command="pass show k"), ["h"]) == KeyCommand(("pass", "show", "k"))
    assert key_of(_options(), ["h"]) == NO_KEY
    assert names_key(_options(key_file="k"))
    assert not names_key(_options())


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"key_env": "A", "key_file": "b"}, "got --key-env and --key-file"),
        ({"key_env": "sk-secret"}, "--key-env takes the name"),
        ({"key_command": " "}, "--key-command must not be blank"),
        ({"key_command": "echo 'open"}, "--key-command cannot be read"),
    ],
)
def test_an_option_that_cannot_work_is_named(given: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidArgumentError, match=told) as raised:
        key_of(_options(**given), ["h"])
    assert "secret" not in str(raised.value)
