"""From a spec to the live model that it describes."""

from collections.abc import Mapping

from memorypipe.llm.offline import OfflineModel
from memorypipe.llm.spec import OFFLINE_URL, ModelSpec
from memorypipe.llm.types import Model

__all__ = ["make_model"]


def make_model(spec: ModelSpec, *, environ: Mapping[str, str]) -> Model:
    """Make the model of a spec; no connection is opened yet.

    Args:
        spec: What to call.
        environ: Where keys named ``"env:NAME"`` are looked up.
    """
    if spec.base_url == OFFLINE_URL:
        return OfflineModel()
    # Importing the client library takes a second, which the rules need not spend.
    from memorypipe.llm.client import OpenAIModel  # noqa: PLC0415  # see above

    return OpenAIModel(spec, environ=environ)
