"""Named endpoints: the file `memorypipe.toml`, read and checked before anything slow starts.

::

    [endpoints.fast]
    urls = ["http://10.0.0.1:8000/v1", "http://10.0.0.2:8000/v1"]   # replicas; or url = "…"
    model = "small-model"
    key_env = "FAST_KEY"             # or key_file = "…", or key_command = "…"
    price_in = 0.15                  # per million tokens
    price_out = 0.60
    max_concurrency = 128
    params = {temperature = 0}

    [stages]
    extract = "fast"
    decide = "fast"

Paths are relative to the file's folder. Errors name file, setting and value, but never the value
of what may hold a secret.
"""

import difflib
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from memorypipe.errors import InvalidArgumentError
from memorypipe.llm.keys import KeySource, choose_key, display_key
from memorypipe.llm.spec import OFFLINE_URL, ModelSpec, Prices, display_url

__all__ = ["STAGES", "Endpoint", "EndpointFile", "load_endpoints"]

STAGES = ("extract", "decide")
"""The stages of a run that ask a model."""

# Settings, the types of their values, and how errors call these.
_TEXT = ((str,), "a string")
_COUNT = ((int,), "a whole number")
_NUMBER = ((int, float), "a number")
_TABLE = ((dict,), "a table")
_SETTINGS: dict[str, tuple[tuple[type, ...], str]] = {
    "urls": ((list,), "a list of addresses"),
    "url": _TEXT,
    "model": _TEXT,
    "headers": _TABLE,
    "query": _TABLE,
    "key_env": _TEXT,
    "key_file": _TEXT,
    "key_command": _TEXT,
    "ca_file": _TEXT,
    "proxy": _TEXT,
    "price_in": _NUMBER,
    "price_out": _NUMBER,
    "max_qps": _NUMBER,
    "max_concurrency": _COUNT,
    "max_tokens_per_minute": _COUNT,
    "max_retries": _COUNT,
    "params": _TABLE,
}
# What people write where they mean the key itself.
_LITERAL_KEYS = frozenset({"key", "api_key", "apikey", "token", "secret", "password", "bearer"})
# Values of these are not repeated in errors.
_SECRETIVE = frozenset({"headers", "query", "proxy", "params", "key_env", "key_command"})
_LIMITS = ("max_qps", "max_concurrency", "max_tokens_per_minute")
_NETWORK = ("ca_file", "proxy")


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """One endpoint of the file.

    Attributes:
        name: Its name in the file; stands for it in journals, errors and reports.
        urls: The addresses of its replicas, one at least.
        model: The model's name there.
        api_key: Where its key comes from; never the key.
        headers: Further headers of every request.
        query: Further parameters of every address.
        ca_file: PEM file of the certificates to trust; None for those of the system.
        proxy: Address of an HTTP proxy; None takes what the environment says.
        prices: What tokens cost; None where the file does not say.
        max_qps: Starts of requests per second, None for no limit.
        max_concurrency: Requests in flight; None for the default.
        max_tokens_per_minute: Prompt and reply tokens per minute; None for no limit.
        max_retries: Further attempts per request; None where the file does not say.
        params: Arguments of the chat-completions call.
    """

    name: str
    urls: tuple[str, ...] = field(repr=False)
    model: str
    api_key: KeySource = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    query: Mapping[str, Any] = field(default_factory=dict, repr=False)
    ca_file: str | None = None
    proxy: str | None = field(default=None, repr=False)
    prices: Prices | None = None
    max_qps: float | None = None
    max_concurrency: int | None = None
    max_tokens_per_minute: int | None = None
    max_retries: int | None = None
    params: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts of its replicas."""
        return tuple(urlsplit(url).hostname or "" for url in self.urls)

    def call_params(self) -> dict[str, Any]:
        """Give the arguments of the call, headers and query among them."""
        carried = {"extra_headers": dict(self.headers), "extra_query": dict(self.query)}
        return {**{name: value for name, value in carried.items() if value}, **self.params}

    def spec(self) -> ModelSpec:
        """Give it as what travels to a worker.

        Raises:
            InvalidArgumentError: Where a value cannot work.
        """
        return ModelSpec(
            base_url=self.urls[0],
            replicas=self.urls[1:],
            endpoint_name=self.name,
            params=self.call_params(),
            max_retries=self.max_retries or 0,
            prices=self.prices,
            **{name: getattr(self, name) for name in ("model", "api_key", *_LIMITS, *_NETWORK)},
        )

    def arguments(self) -> dict[str, Any]:
        """Give it as arguments of `MemoryExtract` and `MemoryBuildAction`.

        Example:
            >>> fast = Endpoint(name="fast", urls=("http://h/v1",), model="m", api_key="NOT_SET")
            >>> fast.arguments()["base_url"], fast.arguments()["endpoint_name"]
            (['http://h/v1'], 'fast')
        """
        return {
            "base_url": list(self.urls),
            "model": self.model,
            "api_key": self.api_key,
            "endpoint_name": self.name,
            "max_retries": self.max_retries or 0,
            **{name: getattr(self, name) for name in (*_LIMITS, *_NETWORK)},
            "price_in": self.prices.per_million_in if self.prices else None,
            "price_out": self.prices.per_million_out if self.prices else None,
            **self.call_params(),
        }

    def __repr__(self) -> str:
        urls = ", ".join(display_url(url) for url in self.urls)
        return (
            f"Endpoint(name={self.name!r}, urls=({urls}), model={self.model!r}, "
            f"api_key={display_key(self.api_key)})"
        )


@dataclass(frozen=True, kw_only=True)
class EndpointFile(Mapping[str, Endpoint]):
    """The endpoints of a file, by name.

    Attributes:
        path: The file.
        endpoints: By name.
        stages: The endpoint of each stage, as far as the file gives it one.
    """

    path: str
    endpoints: Mapping[str, Endpoint]
    stages: Mapping[str, str]

    def __getitem__(self, name: str) -> Endpoint:
        """Give an endpoint.

        Raises:
            InvalidArgumentError: For a name that the file does not have.
        """
        if name not in self.endpoints:
            known = _choices("Endpoints", name, self.endpoints)
            raise InvalidArgumentError(f"{self.path}: there is no endpoint {name!r}.{known}")
        return self.endpoints[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.endpoints)

    def __len__(self) -> int:
        return len(self.endpoints)


def load_endpoints(path: str | Path) -> EndpointFile:
    r"""Read and check a file of endpoints.

    Args:
        path: A TOML file, as above.

    Raises:
        InvalidArgumentError: For a file that cannot be read, a setting that is unknown, missing
            or of the wrong type, a value that cannot work, and a key that stands in the file.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        ...     _ = file.write('[endpoints.fast]\nurl = "http://h/v1"\nmodel = "m"\n')
        ...     file.flush()
        ...     load_endpoints(file.name)["fast"]
        Endpoint(name='fast', urls=(http://h/v1), model='m', api_key='NOT_SET')
    """
    shown = str(path)
    content = _read(Path(path).expanduser(), shown)
    _check_names(shown, "", content, {"endpoints": _TABLE, "stages": _TABLE})
    folder = Path(path).expanduser().absolute().parent
    endpoints = {
        name: _endpoint(f"{shown}: endpoints.{name}", name, entry, folder)
        for name, entry in content.get("endpoints", {}).items()
    }
    stages = content.get("stages", {})
    file = EndpointFile(path=shown, endpoints=endpoints, stages=stages)
    _check_names(shown, "stages.", stages, dict.fromkeys(STAGES, _TEXT))
    for stage, name in stages.items():
        if name not in endpoints:
            known = _choices("Endpoints", name, endpoints)
            raise InvalidArgumentError(
                f"{shown}: stages.{stage} = {name!r} names no endpoint of this file.{known}"
            )
    return file


def _read(path: Path, shown: str) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        # The message names line and column, and quotes no more than a character.
        raise InvalidArgumentError(f"{shown} is no TOML file: {error}.") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no UTF-8 text"
        raise InvalidArgumentError(f"{shown} cannot be read: {reason}.") from error


def _endpoint(where: str, name: str, entry: object, folder: Path) -> Endpoint:
    if not isinstance(entry, dict):
        raise InvalidArgumentError(f"{where} must be a table of settings, got {_kind(entry)}.")
    _check_no_key(where, entry)
    _check_names(f"{where}.", "", entry, _SETTINGS)
    urls = _urls(where, entry)
    try:
        endpoint = _build(name, urls, entry, folder)
        endpoint.spec()
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{where}: {error}") from None
    return endpoint


def _build(name: str, urls: tuple[str, ...], entry: Mapping[str, Any], folder: Path) -> Endpoint:
    params = entry.get("params", {})
    for carried, setting in {"extra_headers": "headers", "extra_query": "query"}.items():
        if carried in params:
            raise InvalidArgumentError(f"params.{carried} is given as {setting} = {{…}} here.")
    headers = entry.get("headers", {})
    if wrong := sorted(name for name in headers if not isinstance(headers[name], str)):
        raise InvalidArgumentError(f"headers.{wrong[0]} must be a string.")
    hosts = [urlsplit(url).hostname or "" for url in urls]
    ca_file = entry.get("ca_file")
    return Endpoint(
        name=name,
        urls=urls,
        model=entry["model"],
        api_key=choose_key(
            hosts,
            key_env=entry.get("key_env"),
            key_file=entry.get("key_file"),
            key_command=entry.get("key_command"),
            folder=folder,
        ),
        headers=headers,
        query=entry.get("query", {}),
        ca_file=ca_file and str(folder / Path(ca_file).expanduser()),
        proxy=entry.get("proxy"),
        prices=_prices(entry),
        max_retries=entry.get("max_retries"),
        params=params,
        **{limit: entry.get(limit) for limit in _LIMITS},
    )


def _urls(where: str, entry: Mapping[str, Any]) -> tuple[str, ...]:
    if ("url" in entry) == ("urls" in entry):
        both = "both are there" if "url" in entry else "both are missing"
        raise InvalidArgumentError(
            f'{where} needs url = "…" (one address) or urls = ["…", "…"] (replicas); {both}.'
        )
    if "model" not in entry:
        raise InvalidArgumentError(f'{where} needs model = "…", its name at the endpoint.')
    urls = entry["urls"] if "urls" in entry else [entry["url"]]
    if not urls or not all(isinstance(url, str) for url in urls):
        raise InvalidArgumentError(f"{where}.urls must be a list of addresses, one at least.")
    if OFFLINE_URL in urls:
        raise InvalidArgumentError(f"{where} must be an http:// or https:// address.")
    return tuple(urls)


def _prices(entry: Mapping[str, Any]) -> Prices | None:
    given = [name for name in ("price_in", "price_out") if name in entry]
    if len(given) == 1:
        raise InvalidArgumentError(f"{given[0]} stands alone; give price_in and price_out.")
    if not given:
        return None
    return Prices(per_million_in=entry["price_in"], per_million_out=entry["price_out"])


def _check_no_key(where: str, entry: Mapping[str, Any]) -> None:
    for name in entry:
        if name.lower().replace("-", "_") in _LITERAL_KEYS:
            raise InvalidArgumentError(
                f'{where}.{name}: no key stands in this file. Give key_env = "NAME" (an '
                f'environment variable), key_file = "PATH" or key_command = "COMMAND ARGS".'
            )


def _check_names(
    where: str,
    prefix: str,
    table: Mapping[str, Any],
    known: Mapping[str, tuple[tuple[type, ...], str]],
) -> None:
    """Check that all names of a table are known, and their values of the right types."""
    dotted = where if where.endswith(".") else f"{where}: {prefix}"
    for name, value in table.items():
        if name not in known:
            choices = _choices("Settings", name, known)
            raise InvalidArgumentError(f"{dotted}{name} is no setting.{choices}")
        types, wanted = known[name]
        if not isinstance(value, types) or isinstance(value, bool):
            shown = _kind(value) if name in _SECRETIVE else f"{value!r} ({_kind(value)})"
            raise InvalidArgumentError(f"{dotted}{name} must be {wanted}, got {shown}.")


def _choices(what: str, name: str, known: Collection[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    meant = f" Did you mean {close[0]!r}?" if close else ""
    return f"{meant} {what}: {', '.join(sorted(known)) or 'none'}."


def _kind(value: object) -> str:
    names = {str: "a string", bool: "a boolean", int: "a whole number", float: "a number"}
    names |= {list: "a list", dict: "a table"}
    return names.get(type(value), f"a {type(value).__name__}")
