"""Loading of an app from the argument of a command: `app.py`, `package.module`, `package.module:name`, `jobs.toml`.

A file is loaded under its own name, so that its functions have the same names as after an import: the names are stored.
The app is the only object of that kind in the file. If there are several, `file.py:name` chooses one.

An error during loading is an error of the user's code. The message has the line that raised it, and advice.

Import path: the directory of the file goes to the end of the module path, so a `json.py` beside the file replaces no
installed module. A job file is data: a command that only reads it (`check`, `plan`, `apply`, `simulate`) imports
nothing from its directory. Only `up` runs the functions that it names. A Python file is a program, and can always
import its neighbours.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Final

from itinerary.api import Itinerary
from itinerary.errors import ConfigError
from itinerary.jobs.undeclared import logical_path

__all__ = ["load_app", "load_job_file"]

_MODULE: Final = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")


def load_app(target: str, *, runs: bool = False) -> tuple[Itinerary, dict[str, str]]:
    """Load an app.

    Args:
        target: The argument of the command: a Python file, a module, or a job file.
        runs: True if the caller runs the functions that a job file names.

    Returns:
        The app, and the modules that are files, for worker processes.

    Raises:
        ConfigError: There is no app, or its code raised.
    """
    if target.endswith(".toml"):
        return load_job_file(target, runs=runs), {}
    place, _, name = target.partition(":")
    is_file = place.endswith(".py") or "/" in place
    module = _from_file(Path(place)) if is_file else _imported(place)
    paths = {module.__name__: str(Path(place).resolve())} if is_file else {}
    app = _app_in(module, place, name)
    if is_file and app.source == str(Path(place).resolve()):
        app.source = logical_path(place)
    return app, paths


def load_job_file(path: str, *, runs: bool = False) -> Itinerary:
    """Load an app with the jobs of a job file.

    Args:
        path: The job file.
        runs: True to find functions also in the directory of the file.

    Raises:
        JobFileError: The file has a mistake.
    """
    app = Itinerary(job_file=path)
    if runs:
        _add_directory(Path(path).resolve().parent)
    return app


def _add_directory(path: Path) -> None:
    """Add a directory to the end of the module path."""
    if str(path) not in sys.path:
        sys.path.append(str(path))


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ConfigError(f"{path}: there is no such file; give the Python file that your app is in")
    if not _MODULE.fullmatch(path.stem) or "." in path.stem:
        raise ConfigError(
            f"{path}: {path.stem!r} cannot name a module, and functions are stored by its name; rename it"
        )
    _add_directory(path.resolve().parent)
    spec = importlib.util.spec_from_file_location(path.stem, path.resolve())
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path}: this is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[path.stem]
        raise _blamed(error, str(path)) from error
    return module


def _imported(name: str) -> ModuleType:
    if not _MODULE.fullmatch(name):
        raise ConfigError(f"{name}: this is neither a file that ends in .py nor a module; write app.py, or package:app")
    _add_directory(Path.cwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name + ".").startswith(error.name + "."):
            raise ConfigError(
                f"{name}: there is no module {error.name}; install it, go where it is, or give a file: {name}.py"
            ) from error
        raise _blamed(error, name) from error
    except BaseException as error:
        raise _blamed(error, name) from error


def _blamed(error: BaseException, place: str) -> ConfigError:
    """Return the error of a user's file, with the line that caused it: the last one that is not ours."""
    if isinstance(error, KeyboardInterrupt):
        raise error
    if isinstance(error, SyntaxError):
        return ConfigError(f"{error.filename or place}:{error.lineno}: {error.msg}")
    ours = str(Path(__file__).parent.parent)
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith((ours, "<frozen"))
    ]
    where = f"{_short(frames[-1].filename)}:{frames[-1].lineno}" if frames else place
    line = f"\n    {frames[-1].line}" if frames and frames[-1].line else ""
    kind = "" if isinstance(error, ConfigError) else f"{type(error).__name__}: "
    return ConfigError(f"{where}: {kind}{error}{line}")


def _short(filename: str) -> str:
    try:
        return str(Path(filename).relative_to(Path.cwd()))
    except ValueError:
        return filename


def _app_in(module: ModuleType, place: str, name: str) -> Itinerary:
    if name:
        found = getattr(module, name, None)
        if found is None:
            raise ConfigError(f"{place}: there is no {name} in it")
        if not isinstance(found, Itinerary):
            raise ConfigError(f"{place}: {name} is a {type(found).__name__}, not an Itinerary")
        return found
    apps = {key: value for key, value in vars(module).items() if isinstance(value, Itinerary)}
    distinct = {id(value): key for key, value in apps.items()}
    match list(distinct.values()):
        case [only]:
            return apps[only]
        case []:
            raise ConfigError(f"{place}: there is no app in it; write app = Itinerary()")
        case several:
            raise ConfigError(f"{place}: there are several apps in it; say which: {place}:{several[0]}")
