"""The rules of a node for all tasks: which hosts may receive a secret, and which pods may be created.

The settings are `secret_hosts`, `pod_images`, `pod_namespaces`, `pod_service_accounts` and `pod_allow`. A task is
checked when it is declared, so that `itinerary check` finds a mistake. The executors check again when the task runs,
because its definition may come from a program with other settings than this node.
"""

from __future__ import annotations

from typing import assert_never

import msgspec

from itinerary.executors.definitions import ForeignTask, HttpCall, PodTask, PythonCall, ShellCommand, TaskDefinition
from itinerary.executors.pods.manifest import pod_spec
from itinerary.executors.pods.policy import PodPolicy
from itinerary.executors.secret_hosts import ANY_HOST, SecretHosts

__all__ = ["TaskPolicy"]


class TaskPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of a node for its tasks.

    By default no secret is restricted, and pods have no rights on their machine.
    """

    secret_hosts: SecretHosts = ANY_HOST
    pods: PodPolicy = PodPolicy()

    def check(self, task: TaskDefinition) -> None:
        """Raise ConfigError, which begins with the key, if this node does not allow a task."""
        match task:
            case HttpCall():
                self.secret_hosts.check(task)
            case PodTask():
                self.pods.check(pod_spec(task), task.namespace)
            case PythonCall() | ShellCommand() | ForeignTask():
                pass
            case _:
                assert_never(task)
