"""What lies between the client and an endpoint: certificates, proxies, redirects, slow bytes."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import trustme
from aiohttp import web

from memorypipe.errors import EndpointError, InvalidArgumentError, ModelError, RetryableModelError
from memorypipe.llm.client import OpenAIModel
from memorypipe.llm.models import make_model
from memorypipe.llm.replicas import ReplicaModel
from memorypipe.llm.spec import ModelSpec
from memorypipe.llm.types import Reply, Request
from tests.support.access import COMPLETION, Proxy, serving

SECRET = "sk-secret-4711"
PASSWORD = "p@ss:word"
BASIC = "Basic bWU6cEBzczp3b3Jk"
REQUEST = Request(messages=[{"role": "user", "content": "x"}])


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def ca_file(authority: trustme.CA, tmp_path: Path) -> str:
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return str(path)


@pytest.fixture
def tls(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1", "model.example").configure_cert(context)
    return context


@pytest.fixture(autouse=True)
def no_proxy_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


async def _ask(base_url: str, **changes: Any) -> str | None:
    spec = ModelSpec(**{"base_url": base_url, "model": "m", "api_key": SECRET, **changes})
    model = make_model(spec, environ={})
    try:
        reply: Reply = await model.complete(REQUEST)
    except ModelError as error:
        _check_shows_no_secret(error)
        raise
    finally:
        await model.close()
    return reply.content


def _check_shows_no_secret(error: ModelError) -> None:
    shown = str(error) + repr(error)
    assert SECRET not in shown
    assert PASSWORD not in shown


def test_a_server_is_trusted_by_the_file_of_certificates(tls: ssl.SSLContext, ca_file: str) -> None:
    async def main() -> str | None:
        async with serving(tls=tls) as server:
            return await _ask(f"https://127.0.0.1:{server.port}/v1", ca_file=ca_file)

    assert asyncio.run(main()) == "hi"


def test_a_certificate_that_is_not_trusted_is_final_and_points_to_ca_file(
    tls: ssl.SSLContext,
) -> None:
    async def main() -> None:
        async with serving(tls=tls) as server:
            with pytest.raises(EndpointError, match=r"not trusted for its host.*ca_file"):
                await _ask(f"https://127.0.0.1:{server.port}/v1")
            assert server.requests == []

    asyncio.run(main())


def test_a_file_without_certificates_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("no certificate")
    for name in ("none.pem", "empty.pem"):
        spec = ModelSpec(base_url="https://h/v1", model="m", ca_file=str(tmp_path / name))
        with pytest.raises(EndpointError, match=rf"ca_file .*{name}"):
            OpenAIModel(spec, environ={})


def _proxy_url(proxy: Proxy) -> str:
    return f"http://me:{quote(PASSWORD, safe='')}@{proxy.address}"


def test_https_goes_through_a_tunnel_of_the_proxy_that_sees_the_login_alone(
    tls: ssl.SSLContext, ca_file: str
) -> None:
    async def main() -> None:
        async with serving(tls=tls) as server, Proxy(server.port, login=BASIC) as proxy:
            answer = await _ask(
                "https://model.example/v1", ca_file=ca_file, proxy=_proxy_url(proxy)
            )
            assert answer == "hi"
            assert (proxy.asked, proxy.logins) == (["CONNECT model.example:443 HTTP/1.1"], [BASIC])
            ((path, headers),) = server.requests
            assert path == "/v1/chat/completions"
            assert headers["authorization"] == f"Bearer {SECRET}"
            assert "proxy-authorization" not in headers

    asyncio.run(main())


def test_http_is_forwarded_by_the_proxy() -> None:
    async def main() -> None:
        async with serving() as server, Proxy(server.port, login=BASIC) as proxy:
            assert await _ask("http://model.example/v1", proxy=_proxy_url(proxy)) == "hi"
            assert proxy.asked == ["POST http://model.example/v1/chat/completions HTTP/1.1"]
            assert proxy.logins == [BASIC]

    asyncio.run(main())


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_wants_a_login_is_final_and_named(scheme: str, ca_file: str) -> None:
    async def main() -> None:
        async with serving() as server, Proxy(server.port, login=BASIC) as proxy:
            with pytest.raises(EndpointError, match="proxy that asks for a login") as raised:
                await _ask(
                    f"{scheme}://model.example/v1",
                    ca_file=ca_file,
                    proxy=f"http://{proxy.address}",
                )
            assert raised.value.status == 407
            assert server.requests == []

    asyncio.run(main())


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"])
def test_a_proxy_of_the_environment_is_used_for_https(
    variable: str, tls: ssl.SSLContext, ca_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with serving(tls=tls) as server, Proxy(server.port) as proxy:
            monkeypatch.setenv(variable, f"http://{proxy.address}")
            assert await _ask("https://model.example/v1", ca_file=ca_file) == "hi"
            assert proxy.asked == ["CONNECT model.example:443 HTTP/1.1"]

    asyncio.run(main())


@pytest.mark.parametrize("hosts", ["127.0.0.1", "other.example,127.0.0.1", "*"])
def test_hosts_in_no_proxy_are_reached_directly(
    hosts: str, tls: ssl.SSLContext, ca_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with serving(tls=tls) as server, Proxy(server.port) as proxy:
            monkeypatch.setenv("HTTPS_PROXY", f"http://{proxy.address}")
            monkeypatch.setenv("NO_PROXY", hosts)
            url = f"https://127.0.0.1:{server.port}/v1"
            assert await _ask(url, ca_file=ca_file) == "hi"
            assert proxy.asked == []

    asyncio.run(main())


def test_the_proxy_of_the_spec_goes_before_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        async with serving() as server, Proxy(server.port) as proxy:
            monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
            monkeypatch.setenv("NO_PROXY", "model.example")
            assert await _ask("http://model.example/v1", proxy=f"http://{proxy.address}") == "hi"
            assert len(proxy.asked) == 1

    asyncio.run(main())


def test_a_proxy_that_is_not_there_is_a_failed_connection() -> None:
    async def main() -> None:
        with pytest.raises(RetryableModelError) as raised:
            await _ask("https://model.example/v1", proxy=f"http://me:{SECRET}@127.0.0.1:9")
        assert raised.value.kind == "connection"

    asyncio.run(main())


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "ALL_PROXY"])
def test_a_kind_of_proxy_that_is_not_spoken_to_is_an_error_that_says_so(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, f"socks5://me:{SECRET}@127.0.0.1:9")

    async def main() -> None:
        with pytest.raises(EndpointError, match="HTTP proxies only"):
            await _ask("https://model.example/v1")

    asyncio.run(main())


async def _drip(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b" ")
        await asyncio.sleep(0.02)


def test_a_server_that_drips_bytes_cannot_hold_a_call() -> None:
    async def main() -> None:
        # The outer time is there to fail, not to wait for.
        async with asyncio.timeout(30), serving(_drip) as server:
            with pytest.raises(RetryableModelError, match="in time") as raised:
                await _ask(server.base_url, params={"timeout": 0.3})
            assert raised.value.kind == "timeout"

    asyncio.run(main())


def test_a_timeout_of_another_kind_is_an_error() -> None:
    spec = ModelSpec(base_url="http://h/v1", model="m", params={"timeout": "fast"})
    with pytest.raises(InvalidArgumentError, match="timeout must be a number"):
        OpenAIModel(spec, environ={})


def _redirect(status: int, to: Callable[[], str]) -> Callable[[web.Request], Any]:
    async def handler(request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/here"):
            return web.json_response(COMPLETION)
        return web.Response(status=status, headers={"Location": to()})

    return handler


def test_a_redirect_on_the_same_host_is_followed_with_key_and_body() -> None:
    async def main() -> None:
        async with serving(_redirect(307, lambda: "/here")) as server:
            assert await _ask(server.base_url) == "hi"
            (_, first), (path, second) = server.requests
            assert path == "/here"
            assert first["authorization"] == second["authorization"] == f"Bearer {SECRET}"
            assert int(second["content-length"]) > 10

    asyncio.run(main())


@pytest.mark.parametrize("status", [302, 307])
def test_a_redirect_to_another_host_gets_neither_key_nor_headers_nor_prompt(status: int) -> None:
    async def main() -> None:
        async with serving() as other:
            target = f"http://localhost:{other.port}/here"
            async with serving(_redirect(status, lambda: target)) as server:
                headers = {"X-Key": SECRET}
                with pytest.raises(EndpointError, match="redirects"):
                    await _ask(server.base_url, params={"extra_headers": headers})
            assert other.requests == []

    asyncio.run(main())


def test_a_query_in_the_address_stays_behind_the_path() -> None:
    async def main() -> None:
        async with serving() as server:
            query = {"token": "a b", "many": ["1", "2"]}
            url = f"{server.base_url}?api-version=1"
            await _ask(url, params={"extra_query": query})
            await _ask(url)
            paths = [path for path, _ in server.requests]
            assert paths[0].startswith("/v1/chat/completions?api-version=1&token=a")
            assert paths[0].count("many") == 2
            assert paths[1] == "/v1/chat/completions?api-version=1"

    asyncio.run(main())


@pytest.mark.parametrize("key", ["sk-ключ", "sk-1\nX-Other: 1"])
def test_a_key_that_no_header_can_carry_is_an_error_that_does_not_show_it(key: str) -> None:
    async def main() -> None:
        with pytest.raises(EndpointError, match="no header can carry") as raised:
            await _ask("http://127.0.0.1:9/v1", api_key=key)
        assert key not in str(raised.value)

    asyncio.run(main())


def test_a_replica_that_is_down_costs_one_attempt_and_the_other_answers() -> None:
    async def main() -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            down = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
        async with serving() as server:
            spec = ModelSpec(base_url=down, model="m", replicas=(server.base_url,), api_key=SECRET)
            model = make_model(spec, environ={})
            assert isinstance(model, ReplicaModel)
            with pytest.raises(RetryableModelError, match="cannot be reached"):
                await model.complete(REQUEST)
            assert [(await model.complete(REQUEST)).content for _ in range(3)] == ["hi"] * 3
            await model.close()
            keys = {headers["authorization"] for _, headers in server.requests}
            assert keys == {f"Bearer {SECRET}"}

    asyncio.run(main())
