"""Scopes are put together in lots: each in one, heavy ones first and on their own."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from memorypipe.pipeline.lots import Lot, cut_lots, in_pieces, make_lots, read_lot


def part(folder: Path, name: str, *windows: int) -> str:
    """Write a file with scopes of so many windows each."""
    keys = [f"{name}-{n:04d}" for n, count in enumerate(windows) for _ in range(count)]
    path = folder / f"{name}.parquet"
    rows = pa.table({"scope_key": keys, "n": range(len(keys)), "left_out": keys})
    pq.write_table(rows, path, row_group_size=100)
    return str(path)


def scopes_of(lot: Lot) -> list[str]:
    return [row["scope_key"] for row in read_lot(lot, ["scope_key"]).to_pylist()]


def test_each_window_is_in_one_lot_and_each_scope_in_one(tmp_path: Path) -> None:
    paths = [
        part(tmp_path, "a", 3, 1, 700, 2, 1, 1, 90, 40, 5),
        part(tmp_path, "b", *[1] * 300, 260, *[4] * 200),
    ]
    lots = make_lots(paths, at_least=8)
    rows = [row for lot in lots for row in read_lot(lot, ["scope_key", "n"]).to_pylist()]
    wanted = [row for path in paths for row in pq.read_table(path).to_pylist()]
    assert sorted((r["scope_key"], r["n"]) for r in rows) == [
        (r["scope_key"], r["n"]) for r in wanted
    ]
    found = [set(scopes_of(lot)) for lot in lots]
    assert sum(map(len, found)) == len(set.union(*found)) == sum(lot.scopes for lot in lots)
    assert [lot.scopes for lot in lots] == [len(keys) for keys in found]


def test_lots_with_heavy_scopes_come_first_and_hold_scopes_of_about_one_weight(
    tmp_path: Path,
) -> None:
    paths = [part(tmp_path, "a", *[1] * 50, 600, *[1] * 50), part(tmp_path, "b", 2, 9_000, 20, 31)]
    lots = make_lots(paths, at_least=4)
    heaviest = [lot.heaviest for lot in lots]
    assert heaviest == sorted(heaviest, reverse=True)
    assert [(lot.heaviest, lot.scopes) for lot in lots[:3]] == [(9_000, 1), (600, 1), (31, 2)]


def test_no_lot_has_too_much_and_there_are_enough_for_all_workers(tmp_path: Path) -> None:
    many = make_lots([part(tmp_path, "a", *[10] * 2_000)], at_least=4)
    assert max(sum(count for _, count in lot.ranges) for lot in many) <= 512
    light = make_lots([part(tmp_path, "b", *[1] * 2_000)], at_least=4)
    assert max(lot.scopes for lot in light) == 128
    few = make_lots([part(tmp_path, "c", *[1] * 16)], at_least=16)
    assert [lot.scopes for lot in few] == [1] * 16


def test_scopes_beside_each_other_are_read_as_one_range(tmp_path: Path) -> None:
    (lot, *_) = make_lots([part(tmp_path, "a", *[1] * 400)], at_least=4)
    assert len(lot.ranges) == 1


def test_no_files_give_no_lots() -> None:
    assert make_lots([], at_least=4) == []


@pytest.mark.parametrize("ranges", [((99, 2),), ((0, 1), (150, 1), (299, 1)), ((0, 300),)])
def test_rows_are_found_in_whatever_group_they_are(
    tmp_path: Path, ranges: tuple[tuple[int, int], ...]
) -> None:
    path = part(tmp_path, "a", *[1] * 300)
    lot = Lot(path=path, ranges=ranges, scopes=1, heaviest=1)
    rows = read_lot(lot, ["n"])
    assert rows["n"].to_pylist() == [
        n for start, count in ranges for n in range(start, start + count)
    ]
    assert rows.column_names == ["n"]


def test_files_are_cut_into_lots_of_so_many_rows_and_long_ones_finer(tmp_path: Path) -> None:
    path = part(tmp_path, "a", *[1] * 250)
    lots = cut_lots([path, part(tmp_path, "b", 3)], rows=100)
    assert [lot.ranges for lot in lots] == [((0, 100),), ((100, 100),), ((200, 50),), ((0, 3),)]
    assert [read_lot(lot, ["n"]).num_rows for lot in lots] == [100, 100, 50, 3]
    said = [f"{n:05d}" * 100_000 for n in range(4)]
    pq.write_table(pa.table({"said": said}), tmp_path / "long.parquet", use_dictionary=False)
    assert len(cut_lots([str(tmp_path / "long.parquet")], rows=100)) == 2


def test_a_lot_is_cut_across_its_ranges(tmp_path: Path) -> None:
    lot = Lot(path=part(tmp_path, "a", *[1] * 10), ranges=((0, 3), (8, 2)), scopes=5, heaviest=1)
    pieces = in_pieces(lot, rows=2)
    assert [piece.ranges for piece in pieces] == [((0, 2),), ((2, 1), (8, 1)), ((9, 1),)]
    path = str(tmp_path / "long.parquet")
    said = [f"{n:05d}" * 100_000 for n in range(4)]
    pq.write_table(pa.table({"said": said}), path, use_dictionary=False)
    long = Lot(path=path, ranges=((0, 4),))
    assert [piece.ranges for piece in in_pieces(long, rows=4)] == [((0, 2),), ((2, 2),)]
