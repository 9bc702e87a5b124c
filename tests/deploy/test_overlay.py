"""The overlay of the documentation makes of the base what the page says."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # the library has no types

from tests.deploy.manifests import BASE, NODES, TASKS
from tests.docs.pages import DOCS, Page


@pytest.mark.spec("K5")
def test_the_overlay_of_the_documentation_changes_the_image_and_the_jobs_and_keeps_both_namespaces(
    tmp_path: Path,
) -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("no kubectl here, which builds overlays")
    page = Page(DOCS / "how-to/kubernetes.md")
    (block,) = (one.source for one in page.blocks if "# overlay/kustomization.yaml" in one.source)
    text = block.replace("../deploy/kubernetes/base", os.path.relpath(BASE, tmp_path))
    (tmp_path / "kustomization.yaml").write_text(text, "utf-8")
    (tmp_path / "jobs.toml").write_text("[jobs]\n", "utf-8")
    built = subprocess.run(  # noqa: S603 - kubectl, on a folder of this test
        [kubectl, "kustomize", str(tmp_path)], capture_output=True, text=True, check=False, timeout=300
    )
    assert built.returncode == 0, built.stderr
    found: list[dict[str, Any]] = list(yaml.safe_load_all(built.stdout))
    by_kind = {one["kind"]: one for one in found}
    (container,) = by_kind["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "models/itinerary:7"
    assert by_kind["ConfigMap"]["data"] == {"jobs.toml": "[jobs]\n"}
    assert {one["metadata"]["namespace"] for one in found if one["kind"] != "Namespace"} == {NODES, TASKS}
    assert {one["metadata"]["name"] for one in found if one["kind"] == "Namespace"} == {NODES, TASKS}
