"""How an endpoint is reached: its address without the login, its certificates, its proxy."""

import base64
import functools
import ssl
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

from memorypipe.errors import EndpointError
from memorypipe.llm.spec import ModelSpec

__all__ = [
    "CONNECT_TIMEOUT_S",
    "DEFAULT_TIMEOUT_S",
    "Proxy",
    "find_proxy",
    "split_login",
    "trusted",
]

DEFAULT_TIMEOUT_S = 600.0
"""For a whole call, from connecting to the last byte; a `timeout` among the parameters wins.

There is no bound on silence within it: a model that thinks for minutes is silent, and asking it
again would pay again.
"""

CONNECT_TIMEOUT_S = 30.0
"""For opening a connection, where the call has not less."""


@dataclass(frozen=True, kw_only=True)
class Proxy:
    """A proxy on the way to an endpoint.

    Attributes:
        url: Its address, without a login.
        headers: What it gets of its own: the login, where it has one.
    """

    url: str
    headers: dict[str, str]


def split_login(url: str) -> tuple[str, dict[str, str]]:
    """Take user and password out of an address and give them as a header.

    Example:
        >>> split_login("https://me:pw@host/v1")
        ('https://host/v1', {'Authorization': 'Basic bWU6cHc='})
    """
    parts = urlsplit(url)
    login, _, host = parts.netloc.rpartition("@")
    if not login:
        return url, {}
    token = base64.b64encode(unquote(login).encode()).decode()
    return urlunsplit(parts._replace(netloc=host)), {"Authorization": f"Basic {token}"}


def find_proxy(spec: ModelSpec) -> Proxy | None:
    """Find the proxy on the way to an endpoint; None where there is none.

    That of the spec goes first, then what the environment names in `HTTP_PROXY`, `HTTPS_PROXY` and
    `ALL_PROXY`, except for hosts in `NO_PROXY`.

    Raises:
        EndpointError: For a proxy of the environment that does not speak HTTP.
    """
    address = spec.proxy
    if address is None:
        parts = urlsplit(spec.base_url)
        if proxy_bypass(parts.hostname or ""):
            return None
        proxies = getproxies()
        address = proxies.get(parts.scheme) or proxies.get("all")
        if not address:
            return None
        scheme, has_scheme, _ = address.partition("://")
        if not has_scheme:
            address = f"http://{address}"
        elif scheme.lower() not in {"http", "https"}:
            raise EndpointError(
                f"The environment names a {scheme} proxy for {spec.endpoint!r}; HTTP proxies only "
                f"are spoken to. Set proxy to one, or put the host into NO_PROXY."
            )
    url, login = split_login(address)
    return Proxy(url=url, headers={f"Proxy-{name}": value for name, value in login.items()})


@functools.cache
def trusted(ca_file: str | None) -> ssl.SSLContext:
    """Load certificates, once for all replicas.

    Args:
        ca_file: PEM file of the certificates to trust; None for those of the system.

    Raises:
        EndpointError: For a file that cannot be read.
    """
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:  # also of a file that holds no certificate
        reason = error.strerror if isinstance(error, FileNotFoundError) else type(error).__name__
        raise EndpointError(
            f"ca_file {ca_file!r} cannot be read as PEM certificates on this machine: {reason}."
        ) from error
