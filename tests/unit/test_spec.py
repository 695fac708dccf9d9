import functools
import inspect
import os
import pickle
from typing import Any

import openai
import pytest

from memorypipe.errors import InvalidArgumentError
from memorypipe.llm.spec import CALL_PARAMS, OFFLINE_URL, ModelSpec, Prices, display_url

SECRET = "sk-secret-4711"


def _spec(**changes: Any) -> ModelSpec:
    return ModelSpec(**{"base_url": "https://host/v1", "model": "m", **changes})


def test_the_parameters_taken_are_those_of_the_client_library() -> None:
    signature = inspect.signature(openai.AsyncOpenAI(api_key="x").chat.completions.create)
    ours = {"model", "messages", "stream", "stream_options"}
    assert set(signature.parameters) - ours == CALL_PARAMS


@pytest.mark.parametrize("url", ["", "host/v1", "ftp://host", "http://", "https://[::1", 7, None])
def test_an_address_must_be_http_or_offline(url: object) -> None:
    with pytest.raises(InvalidArgumentError, match="http:// or https://"):
        _spec(base_url=url)


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000", "https://host/v1?x=1", OFFLINE_URL])
def test_http_addresses_and_offline_are_taken(url: str) -> None:
    assert _spec(base_url=url).base_url == url


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model", " "),
        ("model", None),
        ("max_qps", 0),
        ("max_qps", -1.5),
        ("max_qps", float("nan")),
        ("max_qps", float("inf")),
        ("max_qps", "5"),
        ("max_qps", True),
        ("max_concurrency", 0),
        ("max_concurrency", 1.5),
        ("max_retries", -1),
        ("max_retries", None),
        ("max_tokens_per_minute", 0),
        ("max_tokens_per_minute", 1.5),
        ("endpoint_name", ""),
        ("repeat_key", 3),
        ("journal", " "),
        ("rate_scope", "galaxy"),
        ("api_key", None),
        ("replicas", ("h/v1",)),
        ("replicas", (OFFLINE_URL,)),
        ("ca_file", ""),
        ("proxy", "socks5://p"),
        ("proxy", OFFLINE_URL),
        ("journal_only", True),
    ],
)
def test_a_value_that_cannot_work_is_named_at_construction(name: str, value: object) -> None:
    with pytest.raises(InvalidArgumentError, match=name):
        _spec(**{name: value})


def test_an_unknown_parameter_is_pointed_to_extra_body() -> None:
    with pytest.raises(InvalidArgumentError, match=r"extra_body=\{'top_k': …\}"):
        _spec(params={"top_k": 3})


@pytest.mark.parametrize("name", ["model", "messages", "stream"])
def test_what_the_package_sets_itself_cannot_be_a_parameter(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=name):
        _spec(params={name: "x"})


def test_parameters_must_be_json() -> None:
    with pytest.raises(InvalidArgumentError, match="response_format must be made of JSON"):
        _spec(params={"response_format": ModelSpec})
    _spec(params={"timeout": object(), "logit_bias": {1: 2}})


def test_defaults_are_those_that_the_expressions_document() -> None:
    spec = _spec()
    assert (spec.api_key, spec.max_qps, spec.max_retries) == ("NOT_SET", None, 0)
    assert spec.concurrency == 64
    assert _spec(max_concurrency=3).concurrency == 3


def test_a_spec_survives_pickling_with_the_same_key() -> None:
    spec = _spec(api_key=functools.partial(os.path.join, "a"), params={"seed": 1})
    again = pickle.loads(pickle.dumps(spec))  # noqa: S301  # our own bytes
    assert again.key() == spec.key()
    assert again.endpoint == spec.endpoint


@pytest.mark.parametrize(
    "changes",
    [
        {"base_url": "https://host/v2"},
        {"base_url": "https://me:pw@host/v1"},
        {"model": "m2"},
        {"api_key": "other"},
        {"api_key": lambda: "NOT_SET"},
        {"max_qps": 1},
        {"max_concurrency": 64},
        {"max_retries": 1},
        {"max_tokens_per_minute": 100},
        {"params": {"seed": 1}},
        {"params": {"timeout": 1}},
        {"params": {"extra_headers": {"x": "y"}}},
        {"journal": "j"},
        {"endpoint_name": "e"},
        {"repeat_key": "r"},
        {"rate_scope": "cluster"},
        {"journal": "j", "journal_only": True},
        {"replicas": ("https://i/v1",)},
        {"ca_file": "ca.pem"},
        {"proxy": "http://p"},
        {"prices": Prices(per_million_in=1, per_million_out=2)},
        {"run": "run_1"},
        {"limit_group": "g"},
    ],
)
def test_specs_that_differ_get_workers_of_their_own(changes: dict[str, Any]) -> None:
    assert _spec(**changes).key() != _spec().key()
    assert _spec(**changes).key() == _spec(**changes).key()


def test_closures_over_different_keys_are_told_apart() -> None:
    def source(key: str) -> ModelSpec:
        return _spec(api_key=lambda: key)

    assert source("a").key() != source("b").key()
    assert source("a").key() == source("a").key()


def test_neither_repr_nor_key_nor_endpoint_shows_a_secret() -> None:
    spec = _spec(
        base_url=f"https://user:{SECRET}@host:8000/v1?key={SECRET}",
        api_key=SECRET,
        params={"extra_headers": {"X-Key": SECRET}, "extra_body": {"token": SECRET}},
    )
    shown = repr(spec) + str(spec) + spec.key() + spec.endpoint + spec.host + f"{[spec]}"
    assert SECRET not in shown
    assert "user" not in shown
    assert spec.endpoint == "https://host:8000/v1"
    assert spec.host == "host"


def test_errors_about_an_address_hide_its_password() -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        _spec(base_url=f"htp://user:{SECRET}@host")
    assert SECRET not in str(raised.value)


def test_repr_shows_where_a_key_comes_from() -> None:
    assert "api_key='env:MY_KEY'" in repr(_spec(api_key="env:MY_KEY"))
    assert "api_key=<callable>" in repr(_spec(api_key=lambda: SECRET))


def test_neither_repr_nor_errors_show_the_login_of_a_proxy_or_a_replica() -> None:
    login = f"http://user:{SECRET}@p"
    assert SECRET not in repr(_spec(proxy=login, replicas=(login,)))
    for changes in ({"proxy": f"htp://user:{SECRET}@p"}, {"replicas": (login, login)}):
        with pytest.raises(InvalidArgumentError) as raised:
            _spec(**changes)
        assert SECRET not in str(raised.value)


@pytest.mark.parametrize("urls", [("https://host/v1",), ("http://i", "http://i/")])
def test_an_address_stands_once(urls: tuple[str, ...]) -> None:
    with pytest.raises(InvalidArgumentError, match="is there twice"):
        _spec(replicas=urls)


def test_the_rules_take_no_replicas() -> None:
    with pytest.raises(InvalidArgumentError, match="takes no replicas"):
        _spec(base_url=OFFLINE_URL, replicas=("http://h",))


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({"extra_headers": {"X": 1}}, "'X' is none"),
        ({"extra_headers": [SECRET]}, "extra_headers must be a mapping, got list"),
        ({"timeout": 0}, "timeout must be above 0"),
        ({"timeout": float("nan")}, "timeout must be above 0"),
    ],
)
def test_headers_are_strings_and_a_timeout_is_a_time(params: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidArgumentError, match=told) as raised:
        _spec(params=params)
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize("price", [-1, float("nan"), float("inf"), True, "1"])
def test_a_price_is_a_number_from_zero(price: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="price_out must be a number"):
        Prices(per_million_in=0, per_million_out=price)


def test_the_endpoint_can_be_named() -> None:
    assert _spec(endpoint_name="prod").endpoint == "prod"
    assert _spec(base_url="https://host/v1/").endpoint == _spec().endpoint
    assert _spec(base_url=OFFLINE_URL).endpoint == "offline:"


def test_display_url_keeps_an_ipv6_host() -> None:
    assert display_url("http://a:b@[::1]:8000/v1/") == "http://[::1]:8000/v1"
