"""`itinerary token create`, `list` and `revoke` (U3, Q1), and that a token's text is nowhere afterwards (Q7)."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from itinerary.cli.main import app as command_line
from itinerary.cli.tokens import print_tokens
from itinerary.model.scopes import Scope
from itinerary.operations.tokens import TokenInfo, digest_of
from itinerary.read.snapshot import at
from tests.unit.cli.looks import Terminal, terminal

__all__ = ["terminal"]

TOKEN = re.compile(r"itn_[0-9a-f]{56}")


def run(url: str, *words: str) -> Result:
    return CliRunner().invoke(command_line, ["token", *words, "--store", url])


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'itinerary.db'}"


@pytest.mark.spec("U3", "token")
def test_a_token_is_printed_alone_on_standard_output_and_once(url: str) -> None:
    made = run(url, "create", "ci", "--scope", "operate")
    assert made.exit_code == 0
    assert TOKEN.fullmatch(made.stdout.strip())
    first, *_, last = made.stderr.splitlines()
    assert re.fullmatch(r"token ci has scope operate, and expires \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", first)
    assert last == "It is shown this once: only its hash is kept. Put it where your secrets are."
    assert made.stdout.strip() not in made.stderr


@pytest.mark.spec("U3", "token")
def test_tokens_are_made_listed_and_revoked_in_json(url: str) -> None:
    made = msgspec.json.decode(run(url, "create", "ci", "--scope", "admin", "--expires", "never", "--json").stdout)
    text = made.pop("token")
    assert TOKEN.fullmatch(text)
    assert (made["name"], made["scope"], made["state"], made["expires_at"]) == ("ci", "admin", "good", None)
    assert msgspec.json.decode(run(url, "create", "wall", "--json").stdout)["scope"] == "read"
    revoked = msgspec.json.decode(run(url, "revoke", "ci", "--reason", "lost", "--json").stdout)
    assert (revoked["state"], revoked["reason"]) == ("revoked", "lost")
    assert msgspec.json.decode(run(url, "revoke", "ci", "--json").stdout) == revoked
    found = msgspec.json.decode(run(url, "list", "--json").stdout)
    assert found[0] == revoked
    assert [(token["name"], token["state"]) for token in found] == [("ci", "revoked"), ("wall", "good")]
    assert set(found[0]) == {*made}, "and neither a token nor a hash"


@pytest.mark.spec("Q1", "expires")
def test_a_token_expires_after_90_days_unless_asked_otherwise(url: str) -> None:
    for words, days in (((), 90), (("--expires", "7d"), 7), (("--expires", "never"), None)):
        made = msgspec.json.decode(run(url, "create", f"for-{days}", *words, "--json").stdout)
        begun = datetime.fromisoformat(made["created_at"])
        ends = None if days is None else begun + timedelta(days=days)
        assert (made["expires_at"] and datetime.fromisoformat(made["expires_at"])) == ends
    never = run(url, "create", "wall", "--expires", "never").stderr.splitlines()[0]
    assert never == "token wall has scope read, and never expires"


@pytest.mark.spec("U3", "token")
def test_what_goes_wrong_is_told_in_a_line_with_what_to_do(url: str) -> None:
    missing = run(url, "list")
    assert (missing.exit_code, "there is no store at" in missing.stderr) == (1, True)
    run(url, "create", "ci")
    for words, line in (
        (("create", "ci"), "there is a token 'ci' already"),
        (("create", "local"), "choose another"),
        (("create", "x", "--expires", "soon"), "duration 'soon' cannot be read"),
        (("revoke", "zoe"), "there is no token 'zoe'"),
    ):
        result = run(url, *words)
        assert (result.exit_code, result.stdout, line in result.stderr) == (1, "", True), result.stderr
        assert result.stderr.startswith("itinerary: ")
    assert run(url, "create", "x", "--scope", "root").exit_code == 2
    in_memory = run("memory:", "create", "x")
    assert (in_memory.exit_code, "gone with this process" in in_memory.stderr) == (1, True)


def test_an_empty_list_says_how_to_make_one_and_a_revoked_token_says_since_when(url: str) -> None:
    run(url, "create", "ci")
    assert re.fullmatch(
        r"token ci is revoked since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC, by .+", run(url, "revoke", "ci").stdout.strip()
    )
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
        connection.execute("DELETE FROM itinerary_tokens")
        connection.commit()
    assert run(url, "list").stdout == "there are no tokens; `itinerary token create NAME` makes one\n"


@pytest.mark.spec("U3", "tables")
def test_the_list_reads_well_wide_narrow_and_in_a_pipe(terminal: Terminal) -> None:
    made = at(1_800_000_000_000_000)
    good = TokenInfo(
        name="grafana",
        scope=Scope.READ,
        state="good",
        created_at=made,
        created_by="anna",
        expires_at=None,
        revoked_at=None,
        revoked_by=None,
        reason=None,
    )
    gone = msgspec.structs.replace(
        good, name="ci", state="revoked", revoked_at=made, revoked_by="boris", reason="left the company\x1b[31m"
    )
    terminal.wide(60)
    print_tokens([gone, good])
    assert terminal.text.splitlines() == [
        "token    scope  state    until                    by",
        "ci       read   revoked  2027-01-15 08:00:00 UTC  anna",
        "    created 2027-01-15 08:00:00 UTC; why revoked by boris:",
        "    left the company\\x1b[31m",
        "grafana  read   good     no end                   anna",
        "    created 2027-01-15 08:00:00 UTC",
    ]
    terminal.wide(None)
    print_tokens([gone, good])
    header, first, second = terminal.text.splitlines()
    assert header.split() == ["token", "scope", "state", "until", "created", "by", "why"]
    assert first.endswith("anna  revoked by boris: left the company\\x1b[31m")
    assert second.endswith("no end                   2027-01-15 08:00:00 UTC  anna")


@pytest.mark.spec("Q7", "canary")
@pytest.mark.spec("Q1", "stored hashed")
@pytest.mark.parametrize("kind", ["sqlite", "lmdb"])
def test_the_text_of_a_token_is_in_no_file_and_in_nothing_that_is_printed_later(tmp_path: Path, kind: str) -> None:
    url = f"{kind}:///{tmp_path / 'store'}"
    text = run(url, "create", "ci", "--scope", "admin").stdout.strip()
    later = [run(url, *words) for words in (["list"], ["list", "--json"], ["create", "ci"], ["revoke", "ci", "--json"])]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    content = b"".join(path.read_bytes() for path in files)
    digest = str(digest_of(text))
    assert digest.encode() in content, "what is looked through is where it would be"
    for part in (text, text.removeprefix("itn_"), text[4:-8]):
        assert part.encode() not in content
        assert bytes.fromhex(part.removeprefix("itn_")) not in content
        assert part not in "".join(result.output for result in later)
    assert digest not in "".join(result.output for result in later)
