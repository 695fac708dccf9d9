"""What is wrong with log, key or endpoint is found before Ray starts."""

from pathlib import Path
from typing import Any

import pytest

from memorypipe.cli.preflight import check_endpoint, check_key, check_log, is_proxied
from memorypipe.errors import EndpointError, InvalidArgumentError
from memorypipe.llm.keys import KeyCommand, KeyFile
from memorypipe.llm.spec import OFFLINE_URL, ModelSpec


def _spec(**values: Any) -> ModelSpec:
    return ModelSpec(**{"base_url": "https://host/v1", "model": "m", **values})


def test_a_log_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="No file at"):
        check_log([str(tmp_path / "none")], {})


@pytest.mark.parametrize(
    ("reading", "says"),
    [
        ({"format": "foo"}, "auto, openai"),
        ({}, "names no user"),
        ({"scope": {"user_id": "uid"}}, "'uid'.*'messages'"),
        ({"scope": {"user_id": "=u"}, "map": {"messages": "log"}}, "'log'.*'messages'"),
        ({"scope": {"user_id": "=u"}, "timezone": "Mars"}, "'Mars'.*Europe/Berlin"),
        ({"scope": {"user_id": "=u"}, "roles": {}}, "unknown role 'customer'.*--roles"),
    ],
)
def test_options_that_do_not_fit_the_log_are_an_error_with_the_choices(
    tmp_path: Path, reading: dict[str, Any], says: str
) -> None:
    log = tmp_path / "log"
    log.write_text('{"messages": [{"role": "customer", "content": "Hi"}]}')
    with pytest.raises(InvalidArgumentError, match=says):
        check_log([str(log)], reading)
    check_log([str(log)], {"scope": {"user_id": "=u"}, "roles": {"customer": "user"}, "limit": 1})


def test_a_log_of_no_known_format_is_left_to_the_reading(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("notes")
    check_log([str(tmp_path / "log")], {})


@pytest.mark.parametrize("environ", [{}, {"A_KEY": " "}])
def test_a_variable_that_is_not_set_is_an_error_with_its_name(environ: dict[str, str]) -> None:
    with pytest.raises(EndpointError, match="'A_KEY'"):
        check_key(_spec(api_key="env:A_KEY"), environ)


def test_a_variable_that_is_set_is_fine() -> None:
    check_key(_spec(api_key="env:A_KEY"), {"A_KEY": "sk-1"})
    check_key(_spec(), {})


def test_a_key_file_or_command_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EndpointError, match="is no file"):
        check_key(_spec(api_key=KeyFile(str(tmp_path / "none"))), {})
    with pytest.raises(EndpointError, match="there is no command 'no-such-command'"):
        check_key(_spec(api_key=KeyCommand(("no-such-command", "x"))), {})


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("https://host/v1", ("host", 443)),
        ("http://host/v1", ("host", 80)),
        ("http://me:pw@host:8000/v1", ("host", 8000)),
    ],
)
def test_the_endpoint_is_tried_at_its_port(url: str, place: tuple[str, int]) -> None:
    tried = []
    check_endpoint(_spec(base_url=url), connect=lambda where, _timeout_s: tried.append(where))
    assert tried == [place]


def test_an_endpoint_that_nobody_listens_at_is_an_error_without_its_password() -> None:
    def refuse(_where: tuple[str, int], _timeout_s: float) -> object:
        raise ConnectionRefusedError(111, "Connection refused")

    with pytest.raises(EndpointError, match="Connection refused") as caught:
        check_endpoint(_spec(base_url="http://me:pw@host:8000/v1"), connect=refuse)
    assert "pw" not in str(caught.value)


def test_one_replica_that_listens_is_enough_and_none_is_an_error_that_names_them() -> None:
    spec = _spec(replicas=("https://other:1/v1", "https://third/v1"))
    tried: list[str] = []

    def connect(where: tuple[str, int], _timeout_s: float) -> None:
        tried.append(where[0])
        if where[0] != "other":
            raise ConnectionRefusedError(111, "Connection refused")

    check_endpoint(spec, connect=connect)
    assert tried == ["host", "other"]
    with pytest.raises(EndpointError, match=r"'https://host/v1' .* or 'https://third/v1'"):
        check_endpoint(_spec(replicas=("https://third/v1",)), connect=connect)


def test_of_an_endpoint_behind_a_proxy_the_proxy_is_tried() -> None:
    tried = []
    spec = _spec(proxy="http://me:pw@proxy:3128")
    check_endpoint(spec, connect=lambda where, _timeout_s: tried.append(where))
    assert tried == [("proxy", 3128)]


def test_a_file_of_certificates_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EndpointError, match=r"ca_file .* is no file"):
        check_key(_spec(ca_file=str(tmp_path / "none.pem")), {})


def test_the_rules_are_nowhere() -> None:
    def fail(_where: tuple[str, int], _timeout_s: float) -> object:
        raise AssertionError

    check_endpoint(_spec(base_url=OFFLINE_URL), connect=fail)


def test_behind_a_proxy_a_direct_connection_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert is_proxied("https://host/v1")
    assert not is_proxied("https://127.0.0.1/v1")
