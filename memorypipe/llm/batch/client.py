"""The OpenAI client library's client, for the parts of the API that are not called often."""

import httpx2
import openai

from memorypipe.llm.connecting import DEFAULT_TIMEOUT_S, find_proxy, split_login, trusted
from memorypipe.llm.spec import ModelSpec

__all__ = ["make_client"]


def make_client(spec: ModelSpec) -> openai.AsyncOpenAI:
    """Make a client, without a key yet; it opens no connection and retries nothing.

    Args:
        spec: What to call, at its `base_url`.

    Raises:
        EndpointError: For certificates that cannot be read, or a proxy that is not spoken to.
    """
    address, headers = split_login(spec.base_url)
    proxy = find_proxy(spec)
    client = openai.AsyncOpenAI(
        api_key="NOT_SET",
        base_url=address,
        max_retries=0,
        timeout=DEFAULT_TIMEOUT_S,
        http_client=openai.DefaultAsyncHttpxClient(
            timeout=DEFAULT_TIMEOUT_S,
            verify=trusted(spec.ca_file),
            proxy=None if proxy is None else httpx2.Proxy(proxy.url, headers=proxy.headers),
            trust_env=False,
        ),
    )
    # The library takes headers and account names from variables that are meant for its own
    # service; they must not go to any other host.
    client.organization = client.project = client.admin_api_key = None
    client._custom_headers = headers  # noqa: SLF001  # the argument would be merged with them
    return client
