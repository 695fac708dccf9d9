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

    A commit under way can have written files that no version names. It has read the head that is
    replaced here, after the files were listed, so it cannot land: they go, too.

    Args:
        uri: Of the dataset.

    Raises:
        RaceLostError: Where a commit came first; do it again.
        OSError: Likewise.
    """
    filesystem, root = _place(uri)
    files = [info.path for info in _files(filesystem, root)]
    _, head_fragment = find_head(open_dataset(uri))
    merge(open_dataset(uri), [head_fragment], rows=_MOST_ROWS, materialise=True)
    _replace_head(open_dataset(uri))
    _rebuild_indexes(open_dataset(uri))
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


def _replace_head(dataset: Any) -> None:
    """Write the head row anew: nothing changes, but who has read the old one cannot commit."""
    head, head_fragment = find_head(dataset)
    operation = lance.LanceOperation.Update(
        removed_fragment_ids=[head_fragment],
        updated_fragments=[],
        new_fragments=write(dataset.uri, head_row(head)),
    )
    commit_operation(dataset, operation)


def _rebuild_indexes(dataset: Any) -> None:
    """Build indexes from the rows that are there: what was merged keeps entries of those that were.

    Only the index of scopes is worth having at any time; the others go until they are asked for.
    """
    for index in dataset.describe_indices():
        if index.name == SCOPE_INDEX:
            index_scopes(dataset, anew=True)
        else:
            dataset.drop_index(index.name)


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
