"""The users who may change the files of a store: the one who runs this process, root, and those the operator names.

A store holds the commands that its nodes run. A user who can write to its files, or replace them, decides what a node
runs. So a store that another user can change is refused, and the error says what to do. The reasons are:

    the file or its directory belongs to another user
    every user can write to it (for a directory: and it has no sticky bit, unlike /tmp)
    a group with other members can write to it
    it is a symbolic link of another user, or a dangling one: creating its target would follow the link

`?owner=NAME` in the URL of the store names one more user. `?group=NAME` names a group whose members share the store.

Root can read and change everything anyway. So for commands that root runs (`sudo itinerary history`), only a dangling
link is refused. A node of root runs the commands of the store as root, and is checked like all others.

Not checked: the parent directories further up, and access control lists.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from itinerary.errors import StoreError, StoreUnavailable

__all__ = ["PRIVATE", "Trust", "check_directory", "check_files", "group_id", "user_id"]

_ROOT: Final = 0


class Trust(msgspec.Struct, frozen=True):
    """The users who may change the files of a store, besides root and the user who runs this process."""

    owner: int | None = None
    group: int | None = None
    is_node: bool = False
    """True if this process runs the commands in the store. Then the files are checked even for root."""

    @property
    def file_mode(self) -> int:
        """The permissions of a new file."""
        return 0o600 if self.group is None else 0o660

    def share(self, handle: int) -> None:
        """Give an open file to the group that shares the store.

        Raises:
            OSError: This user is not a member of the group.
        """
        if self.group is not None:
            os.fchown(handle, -1, self.group)
            os.fchmod(handle, self.file_mode)

    def has_user(self, uid: int) -> bool:
        """True if the files may belong to this user."""
        return uid in (_ROOT, os.geteuid(), self.owner) or (self.group is not None and _is_member(uid, self.group))

    @property
    def sees_all(self) -> bool:
        """True if only dangling links are refused: for root, with a command that runs no task."""
        return os.geteuid() == _ROOT and not self.is_node


PRIVATE: Final = Trust()


def check_files(paths: Iterable[Path], trust: Trust) -> None:
    """Check that no other user can change these files or their directories. Missing files are allowed.

    Raises:
        StoreError: Another user can change one of them.
        StoreUnavailable: A path cannot be reached.
    """
    directories: dict[Path, None] = {}
    for path in paths:
        real = _target(path, trust)
        directories |= {path.parent: None, real.parent: None}
        if _exists(real):
            _check(real, trust)
    for directory in directories:
        check_directory(directory, trust)


def check_directory(path: Path, trust: Trust) -> None:
    """Check that no other user can replace files in a directory.

    Raises:
        StoreError: Another user can.
    """
    if _exists(path):
        _check(_target(path, trust), trust)


def user_id(text: str) -> int:
    """Return the id of a user, given by name or number.

    Raises:
        ValueError: The user does not exist.
    """
    try:
        return int(text) if text.isdigit() else pwd.getpwnam(text).pw_uid
    except KeyError:
        raise ValueError(text) from None


def group_id(text: str) -> int:
    """Return the id of a group, given by name or number.

    Raises:
        ValueError: The group does not exist.
    """
    try:
        return int(text) if text.isdigit() else grp.getgrnam(text).gr_gid
    except KeyError:
        raise ValueError(text) from None


def _exists(path: Path) -> bool:
    """True if a path leads to a file. Raises StoreUnavailable if this user cannot reach it."""
    try:
        return path.exists()
    except OSError as error:
        raise StoreUnavailable(
            f"{path}: cannot be reached: {error.strerror}; run this as a user who may use its directory, or give the "
            "path of another store"
        ) from error


def _target(path: Path, trust: Trust) -> Path:
    """Return the file that a path leads to. Raises StoreError for a link that must not be followed."""
    try:
        about = path.lstat()
    except OSError:
        return path  # the file does not exist yet, or `_exists` reports why it cannot be reached
    if not stat.S_ISLNK(about.st_mode):
        return path
    if not _exists(path):
        raise StoreError(
            f"{path}: is a symbolic link to {path.readlink()}, which does not exist; remove the link, or give the path "
            "of the store itself"
        )
    if not trust.sees_all and not trust.has_user(about.st_uid):
        raise StoreError(
            f"{path}: is a symbolic link that belongs to {_user(about.st_uid)}; remove it, or give the path of the "
            "store itself"
        )
    return path.resolve()


def _check(path: Path, trust: Trust) -> None:
    about = path.stat()
    if trust.sees_all:
        return
    if not trust.has_user(about.st_uid):
        owner, me = _user(about.st_uid), _user(os.geteuid())
        raise StoreError(
            f"{path}: belongs to {owner}, who can change what this store runs; run this as {owner}, or have {me} own "
            f"it (chown {me} {path}), or add ?owner={owner} to the URL of the store if {owner} may"
        )
    if stat.S_ISDIR(about.st_mode) and about.st_mode & stat.S_ISVTX:
        return  # sticky bit: only owners can replace their files
    if about.st_mode & stat.S_IWOTH:
        raise StoreError(
            f"{path}: every user of this machine can write to it (its permissions are "
            f"{stat.S_IMODE(about.st_mode):o}); take that away (chmod o-w {path}), or keep the store elsewhere"
        )
    if about.st_mode & stat.S_IWGRP and about.st_gid != trust.group and _has_others(about.st_gid, trust):
        group = _group(about.st_gid)
        raise StoreError(
            f"{path}: the members of group {group} can write to it (its permissions are "
            f"{stat.S_IMODE(about.st_mode):o}); take that away (chmod g-w {path}), or add ?group={group} to the URL of "
            "the store if they may"
        )


def _has_others(gid: int, trust: Trust) -> bool:
    """True if a group has members who may not change the store. A private group of one user has none."""
    try:
        named = {pwd.getpwnam(name).pw_uid for name in grp.getgrgid(gid).gr_mem if _is_user(name)}
    except KeyError:
        named = set()
    primary = {one.pw_uid for one in pwd.getpwall() if one.pw_gid == gid}
    return any(not trust.has_user(uid) for uid in named | primary)


def _is_member(uid: int, gid: int) -> bool:
    try:
        user = pwd.getpwuid(uid)
    except KeyError:
        return False
    try:
        return user.pw_gid == gid or user.pw_name in grp.getgrgid(gid).gr_mem
    except KeyError:
        return False


def _is_user(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _group(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
