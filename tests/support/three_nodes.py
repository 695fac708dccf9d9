"""A run on a simulated cluster of three nodes, one of which is lost on the way.

    python tests/support/three_nodes.py LOG TABLE BASE_URL LOSE_AFTER_CALLS

Prints one JSON object: the summary of the run, and the nodes that had workers. It is a process of
its own since a process has one Ray. All nodes are on this machine and share its disk.
"""

import json
import logging
import sys
import threading
import time
from typing import Any

import ray
from ray._private import state  # nothing public tells where actors are without a dashboard
from ray.cluster_utils import Cluster

from memorypipe import MemoryBuildAction, MemoryExtract, MemoryPipeline
from tests.support.endpoint import Endpoint

_WITHIN_S = 120.0


def worker_nodes() -> list[str]:
    """Give the nodes on which workers of Ray Data live, as hex digits."""
    alive = [actor for actor in state.actors().values() if actor["State"] == "ALIVE"]
    workers = [actor for actor in alive if "MapWorker" in actor["ActorClassName"]]
    return sorted(actor["Address"]["NodeID"] for actor in workers)


def lose_a_node(
    cluster: Any, spare: str, server: Endpoint, after_calls: int, told: dict[str, Any]
) -> None:
    """Take away a node with a worker, once so many calls were made."""
    deadline_s = time.monotonic() + _WITHIN_S
    while time.monotonic() < deadline_s:
        nodes = worker_nodes() if server.call_count() >= after_calls else []
        found = [node for node in nodes if node != spare]
        if found:
            told |= {"worker_nodes": nodes, "lost": found[0]}
            lost = next(node for node in cluster.list_all_nodes() if node.node_id == found[0])
            cluster.remove_node(lost, allow_graceful=False)
            return
        time.sleep(0.02)


def main(log: str, table: str, base_url: str, after_calls: int) -> None:
    """Run, and print what came of it."""
    cluster: Any = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
    for _ in range(2):
        cluster.add_node(num_cpus=2)
    cluster.wait_for_nodes()
    ray.init(address=cluster.address, log_to_driver=False, logging_level=logging.ERROR)
    ray.data.DataContext.get_current().enable_progress_bars = False
    model: dict[str, Any] = {
        "base_url": base_url,
        "model": "m",
        "max_concurrency": 2,
        "max_retries": 2,
    }
    workers = {"num_workers": {"CPU": 3}}
    pipeline = MemoryPipeline(
        table=table,
        extract=MemoryExtract(**model).options(**workers),
        decide=MemoryBuildAction(**model).options(**workers),
        embedder="none",
        facts_per_call=1,
    )
    told: dict[str, Any] = {}
    own = ray.get_runtime_context().get_node_id()
    loss = threading.Thread(
        target=lose_a_node, args=(cluster, own, Endpoint(base_url), after_calls, told)
    )
    loss.start()
    summary = pipeline.run(log)
    loss.join()
    print(json.dumps({**told, "nodes_left": len(cluster.list_all_nodes()), **summary.to_dict()}))  # noqa: T201  # its result
    ray.shutdown()
    cluster.shutdown()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
