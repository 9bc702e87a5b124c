"""The Dockerfile pins all that it installs, and its image runs without root, a writable root or tools to build with."""

from __future__ import annotations

import json
import re

from tests.deploy.dockerfile import ROOT, context, stages


def test_both_stages_begin_with_an_image_that_a_digest_names() -> None:
    before, (builder, final) = stages()
    assert builder.base == final.base == "${PYTHON}@${PYTHON_DIGEST}"
    arguments = [one.rest for one in before]
    assert arguments == ["PYTHON=python:3.12-slim", "PYTHON_DIGEST"], "without a default: no digest, no build"


def test_the_way_to_a_digest_is_documented_where_the_image_is_built() -> None:
    for path in ("deploy/Dockerfile", "docs/how-to/kubernetes.md"):
        text = (ROOT / path).read_text("utf-8")
        assert "docker buildx imagetools inspect" in text
        assert "--build-arg PYTHON_DIGEST=" in text


def test_everything_from_an_index_is_installed_with_hashes_and_nothing_is_built_from_sources() -> None:
    _, (builder, final) = stages()
    runs = [part.strip() for one in builder.all("RUN") for part in one.rest.split("&&")]
    installs = [part for part in runs if re.search(r"\b(install|wheel|download)\b", part)]
    assert len(installs) == 4
    for install in installs:
        pinned = "--require-hashes" in install and "--only-binary :all:" in install
        assert pinned or ("--no-index" in install and "--no-deps" in install), install
    assert not [one.rest for one in final.all("RUN") if re.search(r"\b(pip|apt-get|curl|wget)\b", one.rest)]


def test_the_image_gets_the_finished_environment_and_no_file_of_the_build() -> None:
    _, (builder, final) = stages()
    assert builder.name == "builder"
    assert [one.words for one in final.all("COPY")] == [["--from=builder", "/opt/itinerary", "/opt/itinerary"]]
    assert not final.all("ADD")
    assert not builder.all("ADD")


def test_docker_sees_the_files_that_are_copied_and_no_others() -> None:
    _, (builder, _) = stages()
    copied = {source for one in builder.all("COPY") for source in one.words[:-1]}
    shut_out, let_in = context()
    assert shut_out[0] == "*"
    assert copied == set(let_in)
    assert all((ROOT / source).exists() for source in copied)


def test_the_image_runs_as_a_user_with_a_number_that_is_not_root() -> None:
    _, (_, final) = stages()
    (user,) = final.all("USER")
    assert user.rest == "10001:10001", "a number: the kubelet compares no names with runAsNonRoot"
    assert any("--uid 10001" in one.rest for one in final.all("RUN"))
    keywords = [one.keyword for one in final.instructions]
    assert "RUN" not in keywords[keywords.index("USER") :]
    assert "COPY" not in keywords[keywords.index("USER") :], "no file of the image belongs to its user"


def test_the_image_needs_no_writable_root() -> None:
    _, (_, final) = stages()
    assert final.variables()["PYTHONDONTWRITEBYTECODE"] == "1"
    assert not final.all("VOLUME")


def test_the_image_has_a_health_check_that_needs_no_shell() -> None:
    _, (_, final) = stages()
    (check,) = final.all("HEALTHCHECK")
    options, _, command = check.rest.partition(" CMD ")
    assert {one.partition("=")[0] for one in options.split()} == {
        "--interval",
        "--timeout",
        "--start-period",
        "--retries",
    }
    assert json.loads(command)[:2] == ["python", "-c"]
    assert [json.loads(one.rest) for one in final.all("ENTRYPOINT")] == [["itinerary"]]
