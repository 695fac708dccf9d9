"""A journal on S3, as far as a server on loopback behaves like it."""

import asyncio
from collections.abc import Iterator

import pytest

from memorypipe.errors import JournalError
from memorypipe.llm.journal.open import compact_journal, drop_scopes, open_journal, take_inventory
from memorypipe.llm.journal.types import JournalSettings
from tests.support.journals import KEYS, REPLY
from tests.support.s3 import make_bucket, serve

moto_server = pytest.importorskip("moto.server")

ANN = '[["user_id","ann"]]'


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    yield from serve(moto_server)


@pytest.fixture
def uri(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    return f"{make_bucket(endpoint, monkeypatch)}/runs/journal"


def test_replies_are_kept_found_merged_and_erased(uri: str) -> None:
    async def main() -> None:
        journal = open_journal(uri, settings=JournalSettings(linger_s=0))
        puts = [journal.put(key, REPLY, usable=True) for key in KEYS[:5]]
        await asyncio.gather(*puts)
        await journal.put(KEYS[5], REPLY, usable=True, scope_key=ANN)
        journal.close()
        again = open_journal(uri)
        assert [await again.get(key) for key in KEYS[:7]] == [REPLY] * 6 + [None]
        assert take_inventory(uri).usable == 6
        assert compact_journal(uri).made == 1
        assert [await again.get(key) for key in KEYS[:6]] == [REPLY] * 6
        assert drop_scopes(uri, {ANN}).erased == 1
        assert [await again.get(key) for key in KEYS[:6]] == [REPLY] * 5 + [None]
        again.close()

    asyncio.run(main())
    found = take_inventory(uri)
    assert (found.segments, found.usable) == (1, 5)


def test_a_bucket_that_is_not_there_is_one_clear_error(uri: str) -> None:
    with pytest.raises(JournalError, match="cannot be listed") as caught:
        open_journal(uri.replace("bucket", "nobucket"))
    assert len(str(caught.value)) < 400
