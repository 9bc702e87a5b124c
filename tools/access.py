"""Write docs/reference/access.md: what every kind of caller may do at every route of a real node.

    make access        walks over all routes, and writes the page

The walk needs Linux, root (for a caller that is another user) and the proxies that `tools/proxies` installs. A page
with a cell that is not known is not written.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.e2e.access.walk import walk, written  # noqa: E402 - found through the line above

PAGE: Final = ROOT / "docs" / "reference" / "access.md"
HEAD: Final = """# Who may do what

<!-- Written by `make access`; a test walks again and compares. -->

Every route of the web server, asked by every kind of caller at a real node. `yes` says that the caller is let in. A
number is the status of the refusal: 401 without a valid token, 403 with too small a scope, 421 for a name that is not
the server's. [The threat model](../explanation/threat-model.md) says why, and [how to give access](../how-to/tokens.md)
says how. Routes that need `public` are open to all callers that name the right host.

"""


def main() -> int:
    """Walk, and write the page. Returns the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        columns = walk(Path(folder))
    unknown = [name for name, column in columns.items() if column is None]
    if unknown:
        print(f"not written: this machine cannot ask as {', '.join(unknown)}; run as root, after tools/proxies")
        return 1
    PAGE.write_text(HEAD + written(columns), "utf-8")
    print(f"{PAGE.relative_to(ROOT)} is written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
