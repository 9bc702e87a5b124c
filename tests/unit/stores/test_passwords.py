"""The password in the address of a store: found in each place where it may stand, and shown nowhere."""

from __future__ import annotations

import pytest

from itinerary import masking as hidden
from itinerary.config.configuration import configured
from itinerary.executors.outcomes import failure
from itinerary.masking import hidden_values, hide, without_hidden
from itinerary.stores.passwords import address_without_password, hide_passwords, passwords_in


@pytest.mark.spec("Q7", "the password of the store")
@pytest.mark.parametrize(
    ("url", "passwords"),
    [
        ("postgresql://bob:hunter2@db/jobs", ["hunter2"]),
        ("postgresql://bob:hun%40ter2@db/jobs", ["hun%40ter2", "hun@ter2"]),
        ("postgresql://bob:hunter@2@db/jobs", ["hunter@2"]),
        ("postgres://bob@db/jobs?password=hunter2&sslmode=require", ["hunter2"]),
        ("postgresql:///jobs?user=bob&sslpassword=hunter2", ["hunter2"]),
        ("postgresql://bob@db/jobs", []),
        ("postgresql://bob:@db/jobs", []),
        ("postgresql://db/jobs?passfile=/etc/pass", []),
        ("sqlite:///a:b@c.db", []),
    ],
)
def test_a_password_is_found_wherever_it_stands(url: str, passwords: list[str]) -> None:
    assert passwords_in(url) == passwords
    assert not [password for password in passwords if password in address_without_password(url)]


@pytest.mark.spec("Q7", "the password of the store")
def test_the_password_of_the_store_is_in_no_repr_and_in_no_error_of_a_task() -> None:
    configuration = configured({"store": "postgresql://bob:Sesame-open-71@db/jobs"})
    assert "Sesame-open-71" not in repr(configuration)
    assert "Sesame-open-71" not in failure(ValueError(configuration.store)).error
    assert configuration.store.partition(":")[2].startswith("//bob:Sesame-open-71@")


@pytest.mark.spec("Q7", "the password of the store")
def test_a_password_that_is_a_word_of_the_address_does_not_garble_every_text() -> None:
    hide_passwords("postgresql://postgres:postgres@localhost/postgres")
    hide_passwords("postgresql://bob:a1@localhost/jobs")
    assert without_hidden("postgresql://localhost/a1") == "postgresql://localhost/a1"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("amqp://bob:hunter2@mq:5672/x failed", "amqp://bob:…@mq:5672/x failed"),
        ("store = 'postgresql://:hunter2@db'", "store = 'postgresql://:…@db'"),
        ("http://db:8080/a@b and x:y@z", "http://db:8080/a@b and x:y@z"),
    ],
)
def test_a_password_of_any_url_is_left_out(text: str, shown: str) -> None:
    assert without_hidden(text) == shown


def test_the_values_that_are_hidden_are_limited_in_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hidden, "_values", {})
    monkeypatch.setattr(hidden, "_longest_first", ())
    for number in range(1_200):
        hide(f"value number {number}")
    assert len(hidden_values()) == 1_000
    assert without_hidden("value number 1199!") == "…hidden…!"
