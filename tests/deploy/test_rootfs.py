"""The root of an image that tools/rootfs.py makes holds no hidden files of the code."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOTFS = runpy.run_path(str(Path(__file__).parents[2] / "tools/rootfs.py"))


def test_hidden_files_of_the_code_are_not_copied(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs"
    (jobs / ".git").mkdir(parents=True)
    (jobs / ".git/config").write_text("[remote]\n")
    (jobs / ".env").write_text("PASSWORD=1\n")
    (jobs / "daily.py").write_text("\n")
    ROOTFS["Root"](tmp_path / "rootfs").put_code([jobs])
    assert [path.name for path in (tmp_path / "rootfs/app").rglob("*")] == ["jobs", "daily.py"]
