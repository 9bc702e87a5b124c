"""The directory of a store: its lock, its files, and the check that it is an Itinerary store.

    data.mdb, lock.mdb    files of LMDB
    node.lock             held by the process that has the store open; contains its process id

The store is a directory because it has several files that must be moved, copied and protected together. Only the owner
can read new files. Files that another user can change are refused (see `ownership`). A file that is a symbolic link is
refused, and so is a dangling link.

**One process.** The protocol guarantees one node for LMDB. LMDB itself would admit a second process, and both would
assign the same numbers from their caches. The lock is a record lock, not `flock`. Such a lock belongs to the process
and ends with it: a surviving forked child does not keep it. But it does not stop a second open in the same process, so
a list holds the directories that this process has open. LMDB does not support network file systems.
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import threading
from pathlib import Path
from typing import Final

import lmdb

from itinerary.errors import SchemaError, StoreBusy, StoreError, StoreFull
from itinerary.stores.lmdb.layout import MARK
from itinerary.stores.lmdb.transaction import SCHEMA, check_schema
from itinerary.stores.ownership import PRIVATE, Trust, check_directory, check_files

__all__ = ["READERS_MAX", "Directory", "explained", "schema_in"]

READERS_MAX: Final = 32
"""The most read transactions at a time: our reader threads, and external tools such as `mdb_copy`."""

_DATA: Final = "data.mdb"
_LOCK: Final = "node.lock"
_LOCKS: Final = "lock.mdb"
_OURS: Final = frozenset({_DATA, _LOCKS, _LOCK})
_LOCKS_BYTES: Final = (READERS_MAX + 2) * 64
"""A processor cache line for each reader, and a header."""
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_ROOM_MIN: Final = 1 << 20
"""Bytes. With less free space the disk counts as full, because a truncated write has used up the rest."""
_opened: Final[dict[tuple[int, int], int]] = {}
"""The open directories, each with its process id: a fork copies this list, but not the locks."""
_taking: Final = threading.Lock()
"""Held while the list is checked and the lock taken. Otherwise a losing thread would release the winner's lock."""


class Directory:
    """The directory of a store, while it is open."""

    def __init__(self, path: Path, *, map_size: int, sync: bool, trust: Trust = PRIVATE) -> None:
        self.path = path
        self._trust = trust
        self._map_size = map_size
        self._sync = sync
        self._lock: int | None = None
        self._identity = (0, 0)

    def open(self) -> lmdb.Environment:
        """Create missing files, take the lock, and check that the store belongs to Itinerary.

        Raises:
            StoreBusy: Another process has the store open.
            SchemaError: The directory or the schema belongs to another program.
            StoreError: The files cannot be opened.
        """
        try:
            with _taking:
                self._take()
            env = self.environment()
        except OSError as error:
            self.close()
            raise _unopened(error, self.path) from error
        except BaseException:
            self.close()
            raise
        try:
            env.reader_check()
            _claim(env, self.path)
        except BaseException:
            env.close()
            self.close()
            raise
        return env

    def environment(self) -> lmdb.Environment:
        """Open the LMDB environment. This may run again after LMDB has reported a fatal error."""
        is_new = not (self.path / _DATA).exists()
        try:
            _reserve_locks(self.path / _LOCKS, self._trust)
            check_store(self.path, self._trust)
            env = lmdb.open(
                str(self.path),
                map_size=self._map_size,
                sync=self._sync,
                metasync=self._sync,
                mode=self._trust.file_mode | 0o100,  # LMDB removes the execute bits for its files
                max_readers=READERS_MAX,
            )
        except lmdb.Error as error:
            failure = explained(error, self.path)
            if is_new:  # a partial file would look like a damaged store from then on
                (self.path / _DATA).unlink(missing_ok=True)
            raise failure from error
        except OSError as error:
            raise _unopened(error, self.path) from error
        if is_new and self._trust.group is not None:
            os.chown(self.path / _DATA, -1, self._trust.group)
            (self.path / _DATA).chmod(self._trust.file_mode)
        if is_new and self._sync:
            for directory in (self.path, self.path.parent):
                _sync_directory(directory)
        return env

    def close(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
            _opened.pop(self._identity, None)

    def _take(self) -> None:
        check_store(self.path, self._trust)
        if self.path.exists() and not self.path.is_dir():
            raise SchemaError(f"lmdb:///{self.path} is a file; an LMDB store is a directory: choose another path")
        if not self.path.exists():
            self.path.mkdir(mode=0o700, exist_ok=True)
            if self._trust.group is not None:
                os.chown(self.path, -1, self._trust.group)
                self.path.chmod(0o2770)  # new files belong to the group of the directory
        found = {entry.name for entry in self.path.iterdir()}
        if _DATA not in found and (others := found - _OURS):
            raise SchemaError(
                f"lmdb:///{self.path} is a directory with other things in it ({min(others)!r}): choose an empty one"
            )
        about = self.path.stat()
        identity = (about.st_dev, about.st_ino)
        if _opened.get(identity) == os.getpid():
            raise StoreBusy(f"lmdb:///{self.path} is open in this process already: use that one")
        lock = _created(self.path / _LOCK, self._trust)
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(lock, 20).decode(errors="replace") or "unknown"
            os.close(lock)
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                raise
            raise StoreBusy(
                f"lmdb:///{self.path} is open in process {holder}, and LMDB serves one node only: stop that one first, "
                "or use SQLite or PostgreSQL for several"
            ) from None
        self._lock = lock
        self._identity = identity
        _opened[identity] = os.getpid()
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)


def _unopened(error: OSError, path: Path) -> StoreError:
    """Return the error for files that cannot be opened or created."""
    if error.errno in _NO_ROOM:
        return StoreFull(f"lmdb:///{path} has no room on its disk ({error.strerror}): make some, and open it again")
    return StoreError(f"lmdb:///{path} cannot be opened: {error}")


def check_store(path: Path, trust: Trust) -> None:
    """Check that no other user can change the files in a directory, and that none is a symbolic link.

    Raises:
        StoreError: Another user can change a file, or a file is a link.
    """
    check_directory(path.parent, trust)
    check_files([path], trust)
    if path.exists():
        check_files([path / name for name in sorted(_OURS)], trust)
    for name in sorted(_OURS):
        if (path / name).is_symlink():
            raise StoreError(f"{path / name}: is a symbolic link, which LMDB would follow; put the file itself there")


def _created(path: Path, trust: Trust) -> int:
    """Open a file, and create it if it does not exist. Follows no link. A file of root gets the directory's owner."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, trust.file_mode)
    try:
        about = os.fstat(handle)
        if os.geteuid() == 0 and about.st_size == 0:
            owner = path.parent.stat()
            os.fchown(handle, owner.st_uid, owner.st_gid)
        elif about.st_uid == os.geteuid():
            trust.share(handle)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _reserve_locks(path: Path, trust: Trust) -> None:
    """Reserve disk space for the lock file of LMDB, which LMDB maps.

    On a full disk, access to a missing page is a signal that ends the process.
    """
    handle = _created(path, trust)
    try:
        os.posix_fallocate(handle, 0, _LOCKS_BYTES)
    finally:
        os.close(handle)


def explained(error: lmdb.Error, path: Path) -> StoreError:
    """Return the store error for an error of LMDB."""
    url = f"lmdb:///{path}"
    code = getattr(error, "code", 0)  # some LMDB error classes have no code
    match error:
        case lmdb.MapFullError():
            return StoreFull(f"{url} has reached its map_max: remove history, or open it with a larger one")
        case lmdb.ReadersFullError():
            return StoreBusy(f"{url} has {READERS_MAX} readers: end those that look into it from outside")
        case lmdb.CorruptedError() | lmdb.PageNotFoundError():
            return SchemaError(f"{url} is damaged: {error}; restore a backup")
        case lmdb.InvalidError() | lmdb.VersionMismatchError():
            return SchemaError(f"{url} is not an LMDB store, or of another version of LMDB: {error}")
    # LMDB reports a write that a full disk truncated as an input/output error.
    if isinstance(error, lmdb.DiskError) or code in _NO_ROOM or (code == errno.EIO and not _has_room(path)):
        return StoreFull(f"{url} has no room on its disk ({error}): make some; what was asked is not written")
    return StoreError(f"{url} failed: {error}")


def _has_room(path: Path) -> bool:
    disk = os.statvfs(path)
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = (path / _DATA).stat().st_size if (path / _DATA).exists() else 0
    return disk.f_bavail * disk.f_frsize > _ROOM_MIN and (limit == resource.RLIM_INFINITY or size + _ROOM_MIN < limit)


def _claim(env: lmdb.Environment, path: Path) -> None:
    """Mark an empty store as ours, upgrade the number of an older schema, and check the result."""
    try:
        with env.begin(write=True) as txn:
            stored = txn.get(MARK)
            # Newer layouts keep the places of older ones, so a migration only raises the number. Programs that know
            # only the older layout then refuse the store.
            if env.stat()["entries"] == 0 or (stored is not None and 0 < int.from_bytes(stored) < SCHEMA):
                txn.put(MARK, SCHEMA.to_bytes(4))
            check_schema(txn.get(MARK))
    except SchemaError as error:
        raise SchemaError(f"lmdb:///{path}: {error}") from None
    except lmdb.Error as error:
        raise explained(error, path) from error


def schema_in(path: Path, trust: Trust = PRIVATE) -> int | None:
    """Return the schema of the store in a directory, or None if there is no store. Only reads.

    Raises:
        SchemaError: The store belongs to another program.
    """
    check_store(path, trust)
    if not (path / _DATA).exists():
        return None
    about = path.stat()
    if _opened.get((about.st_dev, about.st_ino)) == os.getpid():
        return SCHEMA  # open in this process, and a process must not open LMDB twice
    try:
        with lmdb.open(str(path), readonly=True, mode=0o700, max_readers=READERS_MAX) as env, env.begin() as txn:
            stored = txn.get(MARK)
            is_empty = env.stat()["entries"] == 0
    except lmdb.Error as error:
        raise explained(error, path) from error
    if is_empty:
        return None
    if stored is None:
        check_schema(None)
    return int.from_bytes(stored or b"")


def _sync_directory(path: Path) -> None:
    """Make sure that the names of new files survive a power failure."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
