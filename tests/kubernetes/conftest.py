"""A real cluster for the tests: whatever KUBECONFIG names. Each session has a namespace of its own, and leaves none."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.kubernetes.cluster import RealCluster


@pytest.fixture(scope="session")
def cluster() -> Iterator[RealCluster]:
    """The cluster, and a namespace in it."""
    cluster = RealCluster(f"itinerary-test-{os.getpid()}")
    cluster.make_namespace()
    try:
        yield cluster
    finally:
        cluster.remove_namespace()


@pytest.fixture
def image(cluster: RealCluster) -> str:
    """An image that holds Itinerary, and `work.py` of this folder; built by tools/rootfs.py."""
    name = os.environ.get("ITINERARY_TEST_IMAGE")
    if not name:
        pytest.skip("no image with Itinerary in it: ITINERARY_TEST_IMAGE names none")
    return name
