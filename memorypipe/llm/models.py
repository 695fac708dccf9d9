"""From a spec to the live model that it describes."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from memorypipe.llm.replicas import ReplicaModel
from memorypipe.llm.spec import OFFLINE_URL, ModelSpec, display_url
from memorypipe.llm.types import Model

__all__ = ["make_model", "over_replicas"]


def make_model(spec: ModelSpec, *, environ: Mapping[str, str]) -> Model:
    """Make the model of a spec; no connection is opened yet.

    Args:
        spec: What to call.
        environ: Where keys named ``"env:NAME"`` are looked up.

    Raises:
        InvalidArgumentError: For a `timeout` that is none.
        EndpointError: For a file of certificates that cannot be read.
    """
    # Importing what sends takes a tenth of a second, which the rules need not spend, and the other
    # way round.
    if spec.base_url == OFFLINE_URL:
        from memorypipe.llm.offline import OfflineModel  # noqa: PLC0415  # see above

        return OfflineModel()
    from memorypipe.llm.client import OpenAIModel  # noqa: PLC0415  # see above

    return over_replicas(spec, lambda each: OpenAIModel(each, environ=environ))


def over_replicas(spec: ModelSpec, make: Callable[[ModelSpec], Model]) -> Model:
    """Make the model of every address of a spec, and one model over them where there are several.

    Args:
        spec: What to call.
        make: Makes the model of one address.
    """
    if not spec.replicas:
        return make(spec)
    replicas: dict[str, Model] = {}
    for url in spec.urls:
        each = replace(spec, base_url=url, replicas=(), endpoint_name=_name(spec, url, replicas))
        replicas[each.endpoint] = make(each)
    return ReplicaModel(replicas)


def _name(spec: ModelSpec, url: str, taken: Collection[str]) -> str:
    """Name a replica in errors and counters: some differ only in what is not shown."""
    shown = display_url(url)
    name = shown if spec.endpoint_name is None else f"{spec.endpoint_name} at {shown}"
    return name if name not in taken else f"{name} ({len(taken) + 1})"
