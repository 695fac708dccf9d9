"""Cancelling batches: what they answered until then can still be had."""

from http import HTTPStatus

from memorypipe.errors import EndpointError
from memorypipe.llm.batch.api import BatchApi, RemoteBatch
from memorypipe.llm.batch.records import BatchFolder, BatchRecord

__all__ = ["cancel_batches"]


async def cancel_batches(api: BatchApi, folder: BatchFolder, run_id: str) -> list[str]:
    """Cancel the batches of a run; what they answered until then is taken in by its next try.

    One that was never created, or that the provider does not know, is forgotten.

    Args:
        api: How to reach the batches.
        folder: Where the records are.
        run_id: The run.

    Returns:
        The provider's names of the batches that were cancelled.

    Raises:
        EndpointError: If the endpoint does not let us.
        PlanError: If another process is sending batches of this folder.
    """
    cancelled = []
    with folder.submitting():
        for record in [each for each in folder.records() if each.is_open]:
            if record.run_id != run_id:
                continue
            batch = await _whereabouts(api, record)
            if batch is not None and not batch.has_ended and batch.status != "cancelling":
                await api.cancel(batch.id)
                cancelled.append(batch.id)
            # One that waits for it may have taken it in meanwhile.
            elif batch is None and folder.record(record.name) == record:
                folder.drop(record)
    return cancelled


async def _whereabouts(api: BatchApi, record: BatchRecord) -> RemoteBatch | None:
    """Find the batch of a record; None where none was created, or none is known any more."""
    if record.batch_id is not None:
        try:
            return await api.retrieve(record.batch_id)
        except EndpointError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
    elif record.state != "creating":
        return None
    return await api.find(record.name)
