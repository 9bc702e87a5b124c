"""The glossary has each term once, in order, and no term that only the glossary uses."""

from __future__ import annotations

import re

from tests.docs.pages import docs_pages, reference

GLOSSARY = reference("glossary")
WORDS_MAX = 25


def rows() -> list[tuple[str, str]]:
    """Each term of the glossary with its meaning."""
    return [(term, meaning) for term, meaning in GLOSSARY.table("Term", "Meaning")]


def use_of(term: str) -> re.Pattern[str]:
    """The pattern of a term in a sentence: any case, singular or plural, without the part in parentheses."""
    words = r"\s+".join(re.escape(word) for word in term.partition(" (")[0].split())
    return re.compile(rf"\b{words}s?\b", re.IGNORECASE)


def test_the_terms_of_the_glossary_are_sorted_and_unique() -> None:
    terms = [term.casefold() for term, _ in rows()]
    assert terms == sorted(set(terms))


def test_every_term_of_the_glossary_occurs_on_another_page() -> None:
    others = [page.prose for page in docs_pages() if page.path != GLOSSARY.path]
    unused = [term for term, _ in rows() if not any(use_of(term).search(text) for text in others)]
    assert not unused


def test_every_meaning_in_the_glossary_is_one_short_sentence() -> None:
    wrong = [term for term, meaning in rows() if len(meaning.split()) > WORDS_MAX or not meaning.endswith(".")]
    assert not wrong


def test_a_term_is_found_across_lines_and_in_its_plural_and_not_inside_another_word() -> None:
    assert use_of("overlap slot").search("the Overlap\nslots of a job")
    assert use_of("engine (of a store)").search("an engine")
    assert not use_of("run").search("a prerun or a runner")
