"""Commands: arguments, an environment, a working directory, and their output.

    begin ──► parsed, secrets looked up, spawned in a helper thread ──► Child ──► exit status, output
    stop  ──► SIGTERM to its process group          kill ──► SIGKILL to its process group

Exit status 0 is a success. A command that was asked to end is always `Stopped`: a program that catches SIGTERM and
exits with 0 has not done its work. No content of a request reaches a shell, unless the definition has `use_shell` (Q3).
Output is kept as text up to its limit, with the values of secrets replaced by their names.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from itinerary.daemon_pool import DaemonPool
from itinerary.executors.base import BaseExecutor, InFlight
from itinerary.executors.definitions import ShellCommand, read_shell
from itinerary.executors.environment import inherited_variables
from itinerary.executors.outcomes import could_not_begin
from itinerary.executors.output import when_text_is_made
from itinerary.executors.run_as import account_of
from itinerary.executors.secrets import SecretResolver, environment_secret, resolve_values
from itinerary.executors.subprocesses import Child, describe_status
from itinerary.executors.supervision import Supervision
from itinerary.model.attempts import Assignment, AttemptKey, Failed, Outcome, Stopped, Succeeded
from itinerary.model.retries import exception_names
from itinerary.model.text import clean_text

__all__ = ["FORCE_TIMEOUT", "ShellExecutor"]

FORCE_TIMEOUT: Final = 5.0
"""Seconds to wait for a process to die after SIGKILL before it is abandoned. Such a process hangs in the kernel."""

_SPAWNING_THREADS: Final = 4
"""Several threads: the start of a program may hang on an unreachable file system, and must not block the others."""


class _Running(InFlight):
    """An attempt. Its child is set once the command was spawned."""

    __slots__ = ("child", "command", "secrets")

    def __init__(self, assignment: Assignment, command: ShellCommand) -> None:
        super().__init__(assignment)
        self.command = command
        self.child: Child | None = None
        self.secrets: Mapping[str, str] = {}


class ShellExecutor(BaseExecutor[_Running]):
    """The executor of commands, on the node's loop, which may be in any thread.

    `user` and `group` are the account of the commands, a setting of the node and not of a definition (see `run_as`).
    `supervision` ends the commands together with the node. The executors of a node share it.
    """

    def __init__(
        self,
        *,
        secrets: SecretResolver = environment_secret,
        user: str | int | None = None,
        group: str | int | None = None,
        supervision: Supervision | None = None,
    ) -> None:
        super().__init__()
        self._secrets = secrets
        self._account = account_of(user, group)
        self._supervision = Supervision() if supervision is None else supervision

    async def _prepare(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._spawners = DaemonPool("itinerary-spawn", _SPAWNING_THREADS)
        self._all_over = asyncio.Event()
        self._supervision.open()

    def _accept(self, assignment: Assignment) -> _Running:
        return _Running(assignment, read_shell(assignment.run))

    def _launch(self, attempt: _Running) -> None:
        self._spawners.submit(self._spawn, attempt)

    def _stop(self, attempt: _Running) -> None:
        attempt.is_stop_asked = True
        if attempt.child is not None:
            attempt.child.terminate()
        elif not attempt.was_called:  # it never will be, even if earlier commands hang
            self._over_uncalled(attempt)

    def _kill(self, attempt: _Running) -> None:
        if not attempt.is_given_up:
            attempt.is_stop_asked = attempt.is_given_up = True
            if attempt.child is not None:
                attempt.child.kill()
            self._loop.call_later(FORCE_TIMEOUT, self._give_up, attempt.key)

    def _over_uncalled(self, attempt: _Running) -> None:
        self._end(attempt.key, Stopped(was_called=False))
        self._all_over.set()

    def _give_up(self, key: AttemptKey) -> None:
        attempt = self._in_flight.get(key)
        if attempt is not None:
            self._over(attempt, Stopped(abandoned=True, output=_output(attempt)))

    async def _shut_down(self) -> None:
        self.kill(list(self._in_flight))
        while self._in_flight:
            self._all_over.clear()
            await self._all_over.wait()
        self._spawners.shutdown(wait=False, cancel_futures=True)
        await asyncio.to_thread(self._supervision.close)

    # -- in a helper thread --------------------------------------------------------------------------------------------

    def _spawn(self, attempt: _Running) -> None:
        made: subprocess.Popen[bytes] | Outcome
        attempt.was_called = True
        if attempt.is_stop_asked:
            made = Stopped(was_called=False)
        else:
            try:
                made = self._spawned_process(attempt)
            except OSError as error:
                made = _not_started(attempt.command, error)
            except Exception as error:  # noqa: BLE001 - an attempt ends here
                made = could_not_begin(error)
        try:
            self._loop.call_soon_threadsafe(self._spawned, attempt, made)
        except RuntimeError:  # the loop is closed, and the attempt was already abandoned
            if isinstance(made, subprocess.Popen):
                self._end_at_once(made)

    def _end_at_once(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.communicate()
        self._supervision.forget(process.pid)

    def _spawned_process(self, attempt: _Running) -> subprocess.Popen[bytes]:
        command = attempt.command
        own, attempt.secrets = resolve_values(command.env, self._secrets)
        given = None
        if command.input is not None:
            read, hidden = resolve_values({"input": command.input}, self._secrets)
            given, attempt.secrets = read["input"], {**attempt.secrets, **hidden}
        account = self._account
        inherited = inherited_variables(os.environ) if command.inherit_env else {}
        if account is not None and command.inherit_env:
            inherited |= account.variables
        return self._supervision.spawn(
            command.arguments,
            env={**inherited, **own},
            cwd=command.cwd,
            user=None if account is None else account.uid,
            group=None if account is None else account.gid,
            given=given,
        )

    # -- on the node's loop again --------------------------------------------------------------------------------------

    def _spawned(self, attempt: _Running, made: subprocess.Popen[bytes] | Outcome) -> None:
        if isinstance(made, Stopped):
            self._over_uncalled(attempt)
            return
        if not isinstance(made, subprocess.Popen):
            self._over(attempt, made)
            return
        try:
            attempt.child = child = Child(self._loop, made, lambda status: self._exited(attempt, made, status))
        except OSError as error:  # for example, no more file descriptors
            self._end_at_once(made)
            self._over(attempt, could_not_begin(error))
            return
        if attempt.is_given_up:
            child.kill()
        elif attempt.is_stop_asked:
            child.terminate()

    def _exited(self, attempt: _Running, process: subprocess.Popen[bytes], status: int | None) -> None:
        assert attempt.child is not None, "it has exited"
        self._supervision.forget(process.pid)
        was_asked = attempt.is_stop_asked  # a later request, while the text is made, did not end it
        text, made = attempt.child.output, lambda output: self._ended(attempt, status, output, was_asked=was_asked)
        when_text_is_made(text, attempt.secrets, made)

    def _ended(self, attempt: _Running, status: int | None, output: str | None, *, was_asked: bool) -> None:
        outcome: Outcome
        if was_asked:
            outcome = Stopped(output=output)
        elif status == 0:
            outcome = Succeeded(output=output)
        else:
            outcome = Failed(describe_status(status), output=output)
        self._over(attempt, outcome)

    def _over(self, attempt: _Running, outcome: Outcome) -> None:
        if not self._end(attempt.key, outcome):
            self._came_back(attempt.assignment, outcome)
        self._all_over.set()


def _output(attempt: _Running) -> str | None:
    return None if attempt.child is None else attempt.child.output.text(attempt.secrets)


def _not_started(command: ShellCommand, error: OSError) -> Failed:
    """Describe why a program did not start. The system's error is the same for a missing program and a missing cwd."""
    if command.cwd is not None and not Path(command.cwd).is_dir():
        text = f"cwd: {command.cwd}: there is no such directory on this node"
    else:
        text = f"shell: {command.arguments[0]} could not be started: {error.strerror or error}"
    return Failed(clean_text(text, 2_000), exception_names(type(error)))
