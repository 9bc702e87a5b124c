"""The user and group that commands run as: the settings `user` and `group` of a node (Q7).

No task definition can change them:

    user                 the command has its uid, its primary group, and its HOME, USER and LOGNAME
    group                the command has this gid instead of the user's primary group
    neither              the command runs as the node

Supplementary groups are dropped in both cases: a command has none of the groups of the node or the user.

Only a process with the capabilities CAP_SETUID and CAP_SETGID may do this, usually root. To end such a command, a node
also needs CAP_KILL. The node checks this when it starts, not when the first command is due.
"""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from itinerary.errors import ConfigError
from itinerary.model.text import shown

__all__ = ["Account", "account_of"]

_SETGID, _SETUID = 6, 7
"""The numbers of the two capabilities."""
_STATUS: Final = Path("/proc/self/status")


class Account(msgspec.Struct, frozen=True):
    """The user and the group of a command."""

    uid: int
    gid: int
    variables: Mapping[str, str]
    """The variables that a login of this user sets: HOME, USER and LOGNAME."""


def account_of(user: str | int | None, group: str | int | None) -> Account | None:
    """Return the account that commands run as; None for the account of the node.

    Raises:
        ConfigError: If the user or group does not exist, or this process may not run commands as another user.
    """
    if user is None and group is None:
        return None
    entry = None if user is None else _user(user)
    uid = os.geteuid() if user is None else entry.pw_uid if entry is not None else int(user)
    if group is not None:
        gid = _group(group)
    elif entry is not None:
        gid = entry.pw_gid
    else:
        raise ConfigError(f"user: {uid} is not in the list of users, so its group is not known; set group, too")
    if (uid, gid) == (os.geteuid(), os.getegid()) and not _may_switch():
        return None
    if not _may_switch():
        key = "group" if user is None else "user"
        raise ConfigError(
            f"{key}: this node runs as user {os.geteuid()}, and may not run commands as uid {uid}, gid {gid}; start it "
            "as root, or with the capabilities CAP_SETUID, CAP_SETGID and CAP_KILL"
        )
    names = {} if entry is None else {"HOME": entry.pw_dir, "USER": entry.pw_name, "LOGNAME": entry.pw_name}
    return Account(uid, gid, names)


def _user(user: str | int) -> pwd.struct_passwd | None:
    """Return a user; None for a number without an entry, which can still own files."""
    try:
        return pwd.getpwuid(user) if isinstance(user, int) else pwd.getpwnam(user)
    except KeyError:
        if isinstance(user, int):
            return None
        raise ConfigError(f"user: there is no user {shown(user)} on this machine; see `getent passwd`") from None


def _group(group: str | int) -> int:
    try:
        return group if isinstance(group, int) else grp.getgrnam(group).gr_gid
    except KeyError:
        raise ConfigError(f"group: there is no group {shown(group)} on this machine; see `getent group`") from None


def _may_switch() -> bool:
    """True if this process may change its user and groups. In a container, even root may lack this right."""
    try:
        found = next(line for line in _STATUS.read_text("ascii").splitlines() if line.startswith("CapEff:"))
    except (OSError, StopIteration, UnicodeDecodeError):
        return os.geteuid() == 0
    capabilities = int(found.split()[1], 16)
    return all(capabilities >> number & 1 for number in (_SETGID, _SETUID))
