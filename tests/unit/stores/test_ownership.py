"""Files of a store that other users can change: refused, with what to do."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from itinerary.errors import ConfigError, StoreError, StoreUnavailable
from itinerary.stores.urls import open_store, schema_at
from tests.other_users import NOBODY, needs_root, public_directory

KINDS = pytest.mark.parametrize("kind", ["sqlite", "lmdb"])


def use(url: str, *, for_node: bool = True) -> None:
    """Open a store, and close it."""

    async def story() -> None:
        async with open_store(url, for_node=for_node):
            pass

    asyncio.run(story())


@contextmanager
def without_root() -> Iterator[None]:
    """Be a user who is bound by the permissions of files."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


def files_of(path: Path) -> list[Path]:
    return [path, *(sorted(path.iterdir()) if path.is_dir() else ())]


@KINDS
@pytest.mark.spec("Q7", "files for their owner only")
def test_a_new_store_is_for_its_owner_only(tmp_path: Path, kind: str) -> None:
    before = os.umask(0)
    try:
        use(f"{kind}:///{tmp_path}/runs")
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in files_of(tmp_path / "runs")}
    assert not [name for name, mode in modes.items() if mode & 0o077]


@KINDS
@pytest.mark.spec("Q7", "a store that others can change")
def test_a_link_that_leads_nowhere_is_not_followed(tmp_path: Path, kind: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    target = tmp_path / "elsewhere" / "made by the link"
    (tmp_path / "runs").symlink_to(target)
    for for_node in (True, False):
        with pytest.raises(StoreError, match=r"runs: is a symbolic link to .*made by the link, which does not exist"):
            use(f"{kind}:///{tmp_path}/runs", for_node=for_node)
    with pytest.raises(StoreError, match="which does not exist; remove the link"):
        asyncio.run(schema_at(f"{kind}:///{tmp_path}/runs"))
    assert not target.exists()


@KINDS
def test_a_link_of_ones_own_to_a_store_is_followed(tmp_path: Path, kind: str) -> None:
    use(f"{kind}:///{tmp_path}/runs")
    (tmp_path / "link").symlink_to(tmp_path / "runs")
    use(f"{kind}:///{tmp_path}/link")


@pytest.mark.spec("Q7", "a store that others can change")
def test_lmdb_follows_no_link_in_place_of_its_files(tmp_path: Path) -> None:
    use(f"lmdb:///{tmp_path}/runs")
    (tmp_path / "other").write_text("precious", "utf-8")
    for name in ("lock.mdb", "node.lock", "data.mdb"):
        (tmp_path / "runs" / name).rename(tmp_path / name)
        (tmp_path / "runs" / name).symlink_to(tmp_path / "other")
        with pytest.raises(StoreError, match=f"{name}: is a symbolic link"):
            use(f"lmdb:///{tmp_path}/runs", for_node=False)
        (tmp_path / "runs" / name).unlink()
        (tmp_path / name).rename(tmp_path / "runs" / name)
    assert (tmp_path / "other").read_text("utf-8") == "precious"


def open_to_all(path: Path) -> None:
    path.chmod(0o666)


def open_directory_to_all(path: Path) -> None:
    path.parent.chmod(0o777)


@KINDS
@pytest.mark.spec("Q7", "a store that others can change")
@pytest.mark.parametrize("spoil", [open_to_all, open_directory_to_all])
def test_a_store_that_every_user_can_change_is_refused(
    tmp_path: Path, kind: str, spoil: Callable[[Path], None]
) -> None:
    place = tmp_path / "place"
    place.mkdir()
    use(f"{kind}:///{place}/runs")
    spoil(place / "runs" if kind == "sqlite" or spoil is open_directory_to_all else place / "runs" / "data.mdb")
    with pytest.raises(StoreError, match=r"every user of this machine can write to it .* \(chmod o-w "):
        use(f"{kind}:///{place}/runs")


@KINDS
def test_a_store_in_a_directory_with_the_sticky_bit_is_allowed(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "as in tmp"
    place.mkdir()
    place.chmod(0o1777)
    use(f"{kind}:///{place}/runs")
    use(f"{kind}:///{place}/runs")


@needs_root
@KINDS
@pytest.mark.spec("Q7", "a store that others can change")
@pytest.mark.parametrize("which", ["the directory", "a file"])
def test_a_node_refuses_a_store_of_another_user_and_root_may_look_at_it(tmp_path: Path, kind: str, which: str) -> None:
    place = tmp_path / "place"
    place.mkdir()
    url = f"{kind}:///{place}/runs"
    use(url)
    for path in [place] if which == "the directory" else files_of(place / "runs"):
        os.chown(path, NOBODY, -1)
    with pytest.raises(StoreError, match=r"belongs to nobody, who can change what this store runs; .*\?owner=nobody"):
        use(url)
    use(url, for_node=False)
    use(f"{url}?owner=nobody")
    use(f"{url}?owner={NOBODY}")


@needs_root
def test_a_link_of_another_user_is_refused(tmp_path: Path) -> None:
    use(f"sqlite:///{tmp_path}/runs")
    (tmp_path / "link").symlink_to(tmp_path / "runs")
    os.chown(tmp_path / "link", NOBODY, -1, follow_symlinks=False)
    with pytest.raises(StoreError, match="is a symbolic link that belongs to nobody"):
        use(f"sqlite:///{tmp_path}/link")


@needs_root
@pytest.mark.spec("Q7", "a store that others can change")
def test_a_log_that_another_user_has_put_beside_a_store_is_refused() -> None:
    with public_directory(0, 0o1777) as place:
        (place / "runs.db-wal").touch()
        os.chown(place / "runs.db-wal", NOBODY, -1)
        with pytest.raises(StoreError, match=r"runs\.db-wal: belongs to nobody"):
            use(f"sqlite:///{place}/runs.db")


@needs_root
@KINDS
def test_a_group_shares_a_store_if_the_operator_says_so(tmp_path: Path, kind: str) -> None:
    group = 1  # daemon, which has a member on every system
    place = tmp_path / "place"
    place.mkdir()
    os.chown(place, -1, group)
    place.chmod(0o2770)
    with pytest.raises(StoreError, match=r"the members of group daemon can write to it .*\?group=daemon"):
        use(f"{kind}:///{place}/runs")
    use(f"{kind}:///{place}/runs?group=daemon")
    shared = [path.stat() for path in files_of(place / "runs")]
    assert {(about.st_gid, bool(about.st_mode & 0o060), bool(about.st_mode & 0o007)) for about in shared} == {
        (group, True, False)
    }
    use(f"{kind}:///{place}/runs?group=daemon")


def test_a_user_or_group_that_does_not_exist_is_an_error() -> None:
    for option in ("owner", "group"):
        with pytest.raises(ConfigError, match=f"{option} cannot be 'no-such-name'"):
            open_store(f"sqlite:///runs.db?{option}=no-such-name")


@KINDS
def test_a_store_in_a_directory_that_this_user_cannot_enter_is_unavailable_and_says_why(
    tmp_path: Path, kind: str
) -> None:
    use(f"{kind}:///{tmp_path}/runs")  # everything is imported
    with public_directory(os.geteuid()) as place:
        (place / "closed").mkdir(mode=0o000)
        url = f"{kind}:///{place}/closed/sub/runs"
        with without_root():
            with pytest.raises(StoreUnavailable, match="cannot be reached: Permission denied; run this as a user"):
                use(url)
            with pytest.raises(StoreUnavailable, match="cannot be reached: Permission denied; run this as a user"):
                asyncio.run(schema_at(url))
