"""The package with a custom kind is installed for the contract tests, and gone again after them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contracts.custom_kind import install


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the package is: a folder on `sys.path` with nothing in it but the package's metadata."""
    folder = tmp_path_factory.mktemp("site")
    install(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield folder
