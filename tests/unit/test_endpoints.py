"""The file of endpoints is checked whole; its errors name what is wrong and show no secret."""

import pickle
from pathlib import Path
from typing import Any

import pytest

from memorypipe.errors import InvalidArgumentError
from memorypipe.expressions.extract import MemoryExtract
from memorypipe.llm.endpoints import EndpointFile, load_endpoints
from memorypipe.llm.keys import NO_KEY, KeyCommand, KeyFile
from memorypipe.llm.spec import Prices

SECRET = "sk-secret-4711"

FULL = f"""
[endpoints.fast]
urls = ["http://10.0.0.1:8000/v1", "http://10.0.0.2:8000/v1"]
model = "small"
headers = {{X-Team = "{SECRET}"}}
query = {{api-version = "2026-01", token = "{SECRET}"}}
key_env = "FAST_KEY"
ca_file = "ca.pem"
proxy = "http://me:{SECRET}@proxy:3128"
price_in = 0.15
price_out = 1
max_qps = 20
max_concurrency = 128
max_tokens_per_minute = 100_000
max_retries = 3
params = {{temperature = 0, extra_body = {{top_k = 3}}, timeout = 90}}

[endpoints.good]
url = "https://api.openai.com/v1"
model = "large"

[stages]
extract = "fast"
decide = "good"
"""


def _load(tmp_path: Path, text: str) -> EndpointFile:
    path = tmp_path / "memorypipe.toml"
    path.write_text(text)
    return load_endpoints(path)


def _fail(tmp_path: Path, text: str) -> str:
    with pytest.raises(InvalidArgumentError) as raised:
        _load(tmp_path, text)
    message = str(raised.value)
    assert "memorypipe.toml" in message
    assert SECRET not in message
    return message


def _entry(line: str) -> str:
    return f'[endpoints.fast]\nurl = "http://h/v1"\nmodel = "m"\n{line}\n'


def test_everything_that_a_file_says_reaches_the_spec(tmp_path: Path) -> None:
    file = _load(tmp_path, FULL)
    assert dict(file.stages) == {"extract": "fast", "decide": "good"}
    spec = MemoryExtract(**file["fast"].arguments()).spec
    assert spec.urls == ("http://10.0.0.1:8000/v1", "http://10.0.0.2:8000/v1")
    assert (spec.model, spec.api_key, spec.endpoint) == ("small", "env:FAST_KEY", "fast")
    assert spec.ca_file == str(tmp_path / "ca.pem")
    assert spec.proxy == f"http://me:{SECRET}@proxy:3128"
    assert spec.prices == Prices(per_million_in=0.15, per_million_out=1)
    assert (spec.max_qps, spec.max_concurrency, spec.max_tokens_per_minute) == (20, 128, 100_000)
    assert spec.max_retries == 3
    assert spec.params == {
        "extra_headers": {"X-Team": SECRET},
        "extra_query": {"api-version": "2026-01", "token": SECRET},
        "temperature": 0,
        "extra_body": {"top_k": 3},
        "timeout": 90,
    }


def test_what_the_file_leaves_out_is_what_the_expressions_default_to(tmp_path: Path) -> None:
    endpoint = _load(tmp_path, _entry(""))["fast"]
    spec = MemoryExtract(**endpoint.arguments()).spec
    assert spec == MemoryExtract(base_url="http://h/v1", model="m", endpoint_name="fast").spec


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ('key_env = "MY_KEY"', "env:MY_KEY"),
        ("key_command = \"pass show 'my key'\"", KeyCommand(("pass", "show", "my key"))),
        ("", NO_KEY),
    ],
)
def test_a_key_comes_from_where_the_file_says(tmp_path: Path, line: str, key: Any) -> None:
    assert _load(tmp_path, _entry(line))["fast"].api_key == key


def test_a_key_file_stands_beside_the_file_of_endpoints(tmp_path: Path) -> None:
    key = _load(tmp_path, _entry('key_file = "key"'))["fast"].api_key
    assert key == KeyFile(str(tmp_path / "key"))


def test_the_default_key_goes_to_its_own_host_only_even_among_replicas(tmp_path: Path) -> None:
    file = _load(
        tmp_path,
        '[endpoints.own]\nurl = "https://api.openai.com/v1"\nmodel = "m"\n'
        '[endpoints.mixed]\nurls = ["https://api.openai.com/v1", "https://h/v1"]\nmodel = "m"\n',
    )
    assert file["own"].api_key == "env:OPENAI_API_KEY"
    assert file["mixed"].api_key == NO_KEY


@pytest.mark.parametrize("name", ["key", "api_key", "API-Key", "apikey", "token", "secret"])
def test_a_key_in_the_file_is_refused_with_the_ways_to_give_it(tmp_path: Path, name: str) -> None:
    message = _fail(tmp_path, _entry(f'{name} = "{SECRET}"'))
    assert f"endpoints.fast.{name}: no key stands in this file" in message
    for way in ("key_env", "key_file", "key_command"):
        assert way in message


def test_a_key_in_the_place_of_its_variable_is_not_repeated(tmp_path: Path) -> None:
    assert "key_env takes the name" in _fail(tmp_path, _entry(f'key_env = "{SECRET}"'))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("endpoints = 3", "endpoints must be a table, got 3 (a whole number)"),
        ('[endpoint.fast]\nmodel = "m"', "endpoint is no setting. Did you mean 'endpoints'?"),
        ("[endpoints]\nfast = 3", "endpoints.fast must be a table of settings"),
        (_entry('modle = "x"'), "endpoints.fast.modle is no setting. Did you mean 'model'?"),
        (_entry("zzz = 1"), "zzz is no setting. Settings: ca_file, headers"),
        (_entry('max_qps = "5"'), "endpoints.fast.max_qps must be a number, got '5' (a string)"),
        (_entry("max_concurrency = 1.5"), "max_concurrency must be a whole number, got 1.5"),
        (_entry("max_retries = true"), "max_retries must be a whole number, got True (a boolean)"),
        (_entry("max_retries = -1"), "endpoints.fast: max_retries must be a whole number from 0"),
        (_entry("max_qps = 0"), "endpoints.fast: max_qps must be a number above 0"),
        (_entry("max_qps = nan"), "max_qps must be a number above 0"),
        (_entry(f'headers = "{SECRET}"'), "headers must be a table, got a string"),
        (_entry("headers = {X = 1}"), "headers.X must be a string"),
        (_entry(f"proxy = ['{SECRET}']"), "proxy must be a string, got a list"),
        (_entry(f'proxy = "socks5://me:{SECRET}@p"'), "proxy must start with http://"),
        (_entry("price_in = 1"), "price_in stands alone"),
        (_entry("price_in = -1\nprice_out = 1"), "price_in must be a number from 0"),
        (_entry("params = {top_k = 3}"), "'top_k'] is no argument of the chat-completions call"),
        (_entry(f"params = {{extra_headers = {{a = '{SECRET}'}}}}"), "given as headers"),
        (_entry("params = {timeout = 0}"), "timeout must be above 0"),
        (_entry('urls = ["http://i/v1"]'), "both are there"),
        (_entry('key_env = "A"\nkey_file = "b"'), "one way only, got key_env and key_file"),
        ('[endpoints.a]\nmodel = "m"', "both are missing"),
        ('[endpoints.a]\nurl = "http://h"', "endpoints.a needs model"),
        ('[endpoints.a]\nurls = []\nmodel = "m"', "one at least"),
        ('[endpoints.a]\nurls = [3]\nmodel = "m"', "a list of addresses"),
        ('[endpoints.a]\nurls = ["h/v1"]\nmodel = "m"', "base_url must start with http://"),
        ('[endpoints.a]\nurl = "offline:"\nmodel = "m"', "must be an http:// or https://"),
        ('[endpoints.a]\nurls = ["http://h", "http://h/"]\nmodel = "m"', "is there twice"),
        ('[endpoints.a]\nurl = "http://h"\nmodel = " "', "model must be a non-blank string"),
        (_entry("") + '[stages]\nextrakt = "fast"', "stages.extrakt is no setting. Did you mean"),
        (_entry("") + "[stages]\nextract = 3", "stages.extract must be a string, got 3"),
        (
            _entry("") + '[stages]\nextract = "fsat"',
            "stages.extract = 'fsat' names no endpoint of this file. Did you mean 'fast'?",
        ),
        ("[stages", "is no TOML file"),
    ],
)
def test_what_cannot_work_is_named_with_file_setting_value_and_choices(
    tmp_path: Path, text: str, told: str
) -> None:
    assert told in _fail(tmp_path, text)


def test_an_endpoint_that_is_not_there_is_named_with_the_choices(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"no endpoint 'goood'. Did you mean 'good'\?"):
        _load(tmp_path, FULL)["goood"]


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="cannot be read: No such file"):
        load_endpoints(tmp_path / "memorypipe.toml")
    (tmp_path / "memorypipe.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidArgumentError, match="no UTF-8 text"):
        load_endpoints(tmp_path / "memorypipe.toml")


def test_neither_repr_nor_the_spec_s_shows_a_secret(tmp_path: Path) -> None:
    endpoint = _load(tmp_path, FULL)["fast"]
    expression = MemoryExtract(**endpoint.arguments())
    assert SECRET not in repr(endpoint) + str(endpoint) + repr(expression) + repr(expression.spec)


def test_a_pickle_holds_the_source_of_a_key_and_not_the_key(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(SECRET)
    for line in ('key_file = "key"', f'key_command = "cat {tmp_path}/key"', 'key_env = "MY_KEY"'):
        spec = MemoryExtract(**_load(tmp_path, _entry(line))["fast"].arguments()).spec
        assert SECRET.encode() not in pickle.dumps(spec)
