"""The example app with a job whose pod looks around: what the nodes of the test run from their image."""

from __future__ import annotations

import importlib
import os

from itinerary import Itinerary, every

app: Itinerary = importlib.import_module("app").app

LOOK = """
echo user $(id -u)
echo token $(ls /var/run/secrets/kubernetes.io/serviceaccount 2>/dev/null | wc -l)
echo variables $(env | grep -i -c -e postgres -e ^ITINERARY)
"""
RESTRICTED = {
    "spec": {
        "securityContext": {"runAsNonRoot": True, "runAsUser": 10001, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            {
                "name": "main",
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            }
        ],
    }
}
app.job("looks", every("10s")).pod(
    "main",
    image=os.environ.get("ITINERARY_TEST_BUSYBOX", "local/busybox:1"),
    command=["sh", "-c", LOOK],
    pull_policy="IfNotPresent",
    template=RESTRICTED,
)
