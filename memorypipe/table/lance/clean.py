"""Remove what no version of a Lance dataset needs: old versions, files of failed writers."""

import contextlib
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import PurePosixPath
from typing import Any

import lance
import pyarrow.fs as pafs

from memorypipe.table.lance.cluster import SCOPE_INDEX, index_scopes
from memorypipe.table.lance.dataset import (
    commit_operation,
    find_head,
    open_dataset,
    reading,
    write,
)
from memorypipe.table.lance.tidy import merge
from memorypipe.table.records import head_row
from memorypipe.table.storage import RaceLostError

__all__ = ["clean", "purge"]

# Folders of a dataset whose files only count where a version names them.
_FOLDERS = ("data", "_deletions", "_indices")

_NOW = timedelta(microseconds=1)  # Lance takes no age at all for "two weeks"

# What a merge takes for small.
_MOST_ROWS = 1 << 20


def clean(uri: str, *, older_than: timedelta, now: datetime) -> None:
    """Remove old versions, and files that no version names.

    Rows that were taken out are rewritten away, whoever took them out: what vacuum dropped goes
    with the old versions.

    Args:
        uri: Of the dataset.
        older_than: Younger versions and files stay: a commit under way has written files that no
            version names yet.
        now: The time, UTC.

    Raises:
        RaceLostError: Where a commit came first; do it again.
        OSError: Likewise.
    """
    filesystem, root = _place(uri)
    _rewrite_deleted(open_dataset(uri))
    # Listed before the versions are read: what a version names by then is not removed.
    files = [
        info.path
        for info in _files(filesystem, root)
        if info.mtime is not None and now - info.mtime >= older_than
    ]
    open_dataset(uri).cleanup_old_versions(
        max(older_than, _NOW), error_if_tagged_old_versions=False
    )
    _remove_unnamed(uri, filesystem, root, files)


def purge(uri: str) -> None:
    """Leave no file but those of the newest version, and in those no row that was taken out.

    A commit or a merge under way can have written files that no version names yet. It has read a
    version that is overwritten here, after the files were listed, so it cannot land: they go, too.

    Args:
        uri: Of the dataset.

    Raises:
        RaceLostError: Where a commit came first; do it again.
        OSError: Likewise.
    """
    filesystem, root = _place(uri)
    files = [info.path for info in _files(filesystem, root)]
    dataset = open_dataset(uri)
    # Of this very version: in the next one another fragment holds the head, which must stay alone.
    merge(dataset, [find_head(dataset)[1]], rows=_MOST_ROWS, materialise=True)
    dataset = open_dataset(uri)
    had_index = any(index.name == SCOPE_INDEX for index in dataset.describe_indices())
    _overwrite(dataset)
    if had_index:
        # A commit that comes first wins; rows that no index holds are found too.
        with contextlib.suppress(OSError):
            index_scopes(open_dataset(uri), anew=True)
    dataset = open_dataset(uri)
    for tag in dataset.tags.list():
        dataset.tags.delete(tag)
    open_dataset(uri).cleanup_old_versions(_NOW, error_if_tagged_old_versions=False)
    _remove_unnamed(uri, filesystem, root, files)


def _rewrite_deleted(dataset: Any) -> None:
    """Write the fragments anew of which rows were taken out, and no other."""
    whole = [each.fragment_id for each in dataset.get_fragments() if not each.num_deletions]
    with reading(dataset.uri):
        merge(dataset, whole, rows=_MOST_ROWS, materialise=True)


def _overwrite(dataset: Any) -> None:
    """Put the same rows in the place of all versions before: nothing that read one can land.

    Indexes do not outlast it: they keep entries of rows that were.

    Raises:
        RaceLostError: Where a commit came first.
    """
    head, head_fragment = find_head(dataset)
    others = [each for each in dataset.get_fragments() if each.fragment_id != head_fragment]
    if any(each.num_deletions for each in others):
        raise RaceLostError(f"Another commit to {dataset.uri!r} came first.")
    # The head comes last: see `find_head`.
    fragments = [*(each.metadata for each in others), *write(dataset.uri, head_row(head))]
    operation = lance.LanceOperation.Overwrite(dataset.schema, fragments)
    # Retried by Lance it would overwrite what came meanwhile.
    commit_operation(dataset, operation, max_retries=0)


def _remove_unnamed(uri: str, filesystem: pafs.FileSystem, root: str, files: list[str]) -> None:
    named = _named(open_dataset(uri))
    for path in files:
        parts = PurePosixPath(path.removeprefix(root).lstrip("/")).parts
        # An index is a folder.
        if "/".join(parts[:2]) not in named:
            # What Lance itself has removed meanwhile is gone.
            with contextlib.suppress(FileNotFoundError):
                filesystem.delete_file(path)


def _named(dataset: Any) -> set[str]:
    """List what any version of a dataset names: files, and folders of indexes."""
    named: set[str] = set()
    for version in dataset.versions():
        at = dataset.checkout_version(version["version"])
        for fragment in at.get_fragments():
            named.update(f"data/{file.path}" for file in fragment.data_files())
            if (deletions := fragment.deletion_file()) is not None:
                named.add(f"_deletions/{PurePosixPath(deletions).name}")
        named.update(
            f"_indices/{segment.uuid}"
            for index in at.describe_indices()
            for segment in index.segments
        )
    return named


def _files(filesystem: pafs.FileSystem, root: str) -> Iterator[pafs.FileInfo]:
    for folder in _FOLDERS:
        selector = pafs.FileSelector(f"{root}/{folder}", recursive=True, allow_not_found=True)
        yield from (each for each in filesystem.get_file_info(selector) if each.is_file)


def _place(uri: str) -> tuple[pafs.FileSystem, str]:
    if "://" in uri:
        filesystem, root = pafs.FileSystem.from_uri(uri)
        return filesystem, root
    return pafs.LocalFileSystem(), uri
