"""Other ways to send the same requests to the same endpoint, each in a process of its own.

Run by the benchmarks::

    python benchmarks/peers.py NAME < JOB.json

`NAME` is ``aiohttp``, ``openai``, ``ray_llm`` or ``daft``. A job has `base_url` and `chains`: lists
of request bodies, each list sent one after the other. ``aiohttp`` also takes `in_flight`;
``openai`` takes `in_flight` (per place in the chain), `max_retries` and `api_key`. Prints one JSON
object: `wall_s` from the first request to be sent to the last answer, without imports and
start-up, `answered`, and `error` where it gave up.
"""

import asyncio
import json
import logging
import sys
import time
from typing import Any


async def _aiohttp(job: dict[str, Any]) -> int:
    """Send by the bare transport, a lane per request in flight; answers are not even read."""
    import aiohttp  # noqa: PLC0415  # each peer needs its own library only

    bodies = iter([body for chain in job["chains"] for body in chain])
    url = f"{job['base_url']}/chat/completions"
    answered = 0

    async def lane(session: aiohttp.ClientSession) -> None:
        nonlocal answered
        for body in bodies:
            async with session.post(url, json=body) as response:
                await response.read()
                answered += response.status == 200  # noqa: PLR2004  # HTTP: OK

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await asyncio.gather(*[lane(session) for _ in range(job["in_flight"])])
    return answered


def aiohttp_client(job: dict[str, Any]) -> dict[str, Any]:
    """Measure the bare transport: what endpoint and machine give to anybody."""
    started_s = time.monotonic()
    answered = asyncio.run(_aiohttp(job))
    return {"answered": answered, "wall_s": time.monotonic() - started_s}


async def _openai(job: dict[str, Any]) -> int:
    """Send with the client library over aiohttp, with a semaphore per place in the chain."""
    import openai  # noqa: PLC0415  # as above

    client = openai.AsyncOpenAI(
        base_url=job["base_url"],
        api_key=job.get("api_key", "NOT_SET"),
        max_retries=job.get("max_retries", 0),
        http_client=openai.DefaultAioHttpClient(),
    )
    places = max(len(chain) for chain in job["chains"])
    slots = [asyncio.Semaphore(job["in_flight"]) for _ in range(places)]
    answered = 0

    async def send(chain: list[dict[str, Any]]) -> None:
        nonlocal answered
        for slot, body in zip(slots, chain, strict=False):
            async with slot:
                completion = await client.chat.completions.create(**body)
            answered += bool(completion.choices[0].message.content)

    try:
        await asyncio.gather(*map(send, job["chains"]))
    finally:
        await client.close()
    return answered


def openai_client(job: dict[str, Any]) -> dict[str, Any]:
    """Measure the client library alone."""
    started_s = time.monotonic()
    try:
        answered = asyncio.run(_openai(job))
    except Exception as error:  # noqa: BLE001  # what a user of the bare script would see
        return {"error": type(error).__name__, "wall_s": time.monotonic() - started_s}
    return {"answered": answered, "wall_s": time.monotonic() - started_s}


def ray_llm(job: dict[str, Any]) -> dict[str, Any]:
    """Measure Ray's HTTP request processor with two actors."""
    import ray  # noqa: PLC0415  # as above
    from ray.data.llm import HttpRequestProcessorConfig, build_processor  # noqa: PLC0415  # as above

    bodies = [body for chain in job["chains"] for body in chain]
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    ray.data.DataContext.get_current().enable_progress_bars = False
    config = HttpRequestProcessorConfig(
        url=f"{job['base_url']}/chat/completions",
        headers={"Authorization": f"Bearer {job.get('api_key', 'NOT_SET')}"},
        concurrency=(2, 2),
        batch_size=max(len(bodies) // 4, 1),
    )
    processor = build_processor(
        config,
        preprocess=lambda row: {"payload": json.loads(row["body"])},
        postprocess=lambda row: {"reply": json.dumps(row["http_response"])},
    )
    items = [{"body": json.dumps(body)} for body in bodies]
    started_s = time.monotonic()
    rows = processor(ray.data.from_items(items, override_num_blocks=4)).take_all()
    wall_s = time.monotonic() - started_s
    answered = sum('"choices"' in row["reply"] for row in rows)
    return {"answered": answered, "wall_s": wall_s, "rows": len(rows)}


def daft(job: dict[str, Any]) -> dict[str, Any]:
    """Measure Daft's `prompt` over its own openai provider."""
    import daft as engine  # type: ignore[import-not-found]  # noqa: PLC0415  # its own environment
    from daft.ai.openai.provider import (  # type: ignore[import-not-found]  # noqa: PLC0415  # as above
        OpenAIProvider,
    )
    from daft.functions import prompt  # type: ignore[import-not-found]  # noqa: PLC0415  # as above

    chains = job["chains"]
    system, model = chains[0][0]["messages"][0]["content"], chains[0][0]["model"]
    texts = [chain[0]["messages"][-1]["content"] for chain in chains]
    provider = OpenAIProvider(
        base_url=job["base_url"], api_key=job.get("api_key", "NOT_SET"), max_retries=0
    )
    frame = engine.from_pydict({"text": texts}).with_column(
        "reply",
        prompt(
            engine.col("text"),
            system_message=system,
            provider=provider,
            model=model,
            use_chat_completions=True,
        ),
    )
    started_s = time.monotonic()
    replies = frame.to_pydict()["reply"]
    wall_s = time.monotonic() - started_s
    return {"answered": sum(map(bool, replies)), "wall_s": wall_s, "version": engine.__version__}


PEERS = {
    "aiohttp": aiohttp_client,
    "openai": openai_client,
    "ray_llm": ray_llm,
    "daft": daft,
}

if __name__ == "__main__":
    print("\n" + json.dumps(PEERS[sys.argv[1]](json.load(sys.stdin))))
