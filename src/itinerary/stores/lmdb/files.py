"""The directory of a store: its lock, its files, and whether it is ours.

    data.mdb, lock.mdb    LMDB's
    node.lock             ours: held by the process that has the store open, whose number is in it

It is a directory since there are several files, which have to be moved, copied and protected together. Only its owner
can read what is created here. Files that another user can change are refused (see `ownership`), and no link is
followed: neither that of a file, nor one that leads nowhere.

**One process.** The protocol promises one node for LMDB. LMDB itself would let a second process in, and both would
give out the same numbers from what they remember. The lock is a record lock, not `flock`: it belongs to the process, so
it is gone when that dies, and a child that it forked and that lives on does not keep it. The price is that such a lock
does not stop the same process, so what this process has open is kept in a list. Network file systems are not for LMDB.
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
"""Read transactions at a time: our reading threads, and whoever looks into the store from outside (`mdb_copy`)."""

_DATA: Final = "data.mdb"
_LOCK: Final = "node.lock"
_LOCKS: Final = "lock.mdb"
_OURS: Final = frozenset({_DATA, _LOCKS, _LOCK})
_LOCKS_BYTES: Final = (READERS_MAX + 2) * 64
"""A line of the processor's cache for each reader, and a header."""
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_ROOM_MIN: Final = 1 << 20
"""Bytes; with less the disk is full, since a write that is cut short has taken what there was."""
_opened: Final[dict[tuple[int, int], int]] = {}
"""The directories that are open, and in which process: a fork copies this list, but not the locks."""
_taking: Final = threading.Lock()
"""Held while the list is asked and the lock taken: of two threads, the loser would let go of the winner's lock."""


class Directory:
    """A store's directory, while it is open."""

    def __init__(self, path: Path, *, map_size: int, sync: bool, trust: Trust = PRIVATE) -> None:
        self.path = path
        self._trust = trust
        self._map_size = map_size
        self._sync = sync
        self._lock: int | None = None
        self._identity = (0, 0)

    def open(self) -> lmdb.Environment:
        """Create what is not there, take the lock, and see that the store is ours."""
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
        """LMDB's own open, which can be done again if LMDB has given up on itself."""
        is_new = not (self.path / _DATA).exists()
        try:
            _reserve_locks(self.path / _LOCKS, self._trust)
            check_store(self.path, self._trust)
            env = lmdb.open(
                str(self.path),
                map_size=self._map_size,
                sync=self._sync,
                metasync=self._sync,
                mode=self._trust.file_mode | 0o100,  # LMDB leaves out the execute bits for its files
                max_readers=READERS_MAX,
            )
        except lmdb.Error as error:
            failure = explained(error, self.path)
            if is_new:  # half of a beginning: left there, it would be taken for a damaged store for ever
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
        """Give the lock back."""
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
    """Why the files cannot be opened or created."""
    if error.errno in _NO_ROOM:
        return StoreFull(f"lmdb:///{path} has no room on its disk ({error.strerror}): make some, and open it again")
    return StoreError(f"lmdb:///{path} cannot be opened: {error}")


def check_store(path: Path, trust: Trust) -> None:
    """Raise StoreError if another user can change the files in a directory, or if one of them is a link."""
    check_directory(path.parent, trust)
    check_files([path], trust)
    if path.exists():
        check_files([path / name for name in sorted(_OURS)], trust)
    for name in sorted(_OURS):
        if (path / name).is_symlink():
            raise StoreError(f"{path / name}: is a symbolic link, which LMDB would follow; put the file itself there")


def _created(path: Path, trust: Trust) -> int:
    """Open a file, and make it if it does not exist. No link is followed. A file of root gets the directory's owner."""
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
    """Have room for LMDB's own locks, which it maps: on a full disk, touching a page that is not there is a signal that
    ends the process."""
    handle = _created(path, trust)
    try:
        os.posix_fallocate(handle, 0, _LOCKS_BYTES)
    finally:
        os.close(handle)


def explained(error: lmdb.Error, path: Path) -> StoreError:
    """LMDB's error in our terms."""
    url = f"lmdb:///{path}"
    code = getattr(error, "code", 0)  # the classes for LMDB's own errors have none
    match error:
        case lmdb.MapFullError():
            return StoreFull(f"{url} has reached its map_max: remove history, or open it with a larger one")
        case lmdb.ReadersFullError():
            return StoreBusy(f"{url} has {READERS_MAX} readers: end those that look into it from outside")
        case lmdb.CorruptedError() | lmdb.PageNotFoundError():
            return SchemaError(f"{url} is damaged: {error}; restore a backup")
        case lmdb.InvalidError() | lmdb.VersionMismatchError():
            return SchemaError(f"{url} is not an LMDB store, or of another version of LMDB: {error}")
    # A write that is cut short since the disk has become full is an input/output error to LMDB.
    if isinstance(error, lmdb.DiskError) or code in _NO_ROOM or (code == errno.EIO and not _has_room(path)):
        return StoreFull(f"{url} has no room on its disk ({error}): make some; what was asked is not written")
    return StoreError(f"{url} failed: {error}")


def _has_room(path: Path) -> bool:
    disk = os.statvfs(path)
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = (path / _DATA).stat().st_size if (path / _DATA).exists() else 0
    return disk.f_bavail * disk.f_frsize > _ROOM_MIN and (limit == resource.RLIM_INFINITY or size + _ROOM_MIN < limit)


def _claim(env: lmdb.Environment, path: Path) -> None:
    """A store without anything in it becomes ours, an older one becomes as ours are; any other has to be."""
    try:
        with env.begin(write=True) as txn:
            stored = txn.get(MARK)
            # What an older layout has is where it is in ours, so that to migrate is to raise the number: from then on a
            # program that knows the older one only stays out.
            if env.stat()["entries"] == 0 or (stored is not None and 0 < int.from_bytes(stored) < SCHEMA):
                txn.put(MARK, SCHEMA.to_bytes(4))
            check_schema(txn.get(MARK))
    except SchemaError as error:
        raise SchemaError(f"lmdb:///{path}: {error}") from None
    except lmdb.Error as error:
        raise explained(error, path) from error


def schema_in(path: Path, trust: Trust = PRIVATE) -> int | None:
    """The schema of the store in a directory, which is only read; None if there is none yet. Raises SchemaError if it
    is somebody else's."""
    check_store(path, trust)
    if not (path / _DATA).exists():
        return None
    about = path.stat()
    if _opened.get((about.st_dev, about.st_ino)) == os.getpid():
        return SCHEMA  # opened here, and LMDB must not be opened twice in a process
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
    """Make sure that the names of new files survive a power cut."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
