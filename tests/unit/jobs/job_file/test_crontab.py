"""A crontab becomes a job file that does the same; what cannot be translated is told."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from itinerary import Itinerary
from itinerary.jobs.job_file.crontab import ConvertedCrontab, Note, translate
from itinerary.jobs.job_file.crontab_secrets import looks_secret
from itinerary.jobs.job_file.declarations import declarations_in
from itinerary.jobs.job_file.document import document_of
from itinerary.jobs.job_file.settings import settings_in


def translated(text: str, **options: Any) -> ConvertedCrontab:
    return translate(text, "crontab", timezone="Europe/Berlin", **options)


def jobs(text: str, **options: Any) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads(translated(text, **options).text).get("jobs", {})
    return found


def run_of(text: str) -> dict[str, Any]:
    """The one task of the last job."""
    (task,) = list(jobs(text).values())[-1]["tasks"]
    assert task.pop("name") == "run"
    found: dict[str, Any] = task
    return found


@pytest.mark.spec("U2", "a crontab can be imported")
def test_a_line_becomes_a_job_whose_command_is_run_by_the_shell() -> None:
    assert jobs("0 3 * * 1-5\t/usr/bin/backup.sh --full > log 2>&1  ") == {
        "backup": {
            "schedule": "0 3 * * 1-5",
            "tasks": [{"name": "run", "shell": ["/bin/sh", "-c", "/usr/bin/backup.sh --full > log 2>&1"]}],
        }
    }


@pytest.mark.spec("U2", "a crontab can be imported")
@pytest.mark.parametrize("nickname", ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"])
def test_nicknames_stay_as_they_are(nickname: str) -> None:
    assert jobs(f"{nickname} backup")["backup"]["schedule"] == nickname


@pytest.mark.parametrize(
    "schedule", ["*/5 * * * *", "0 0 1,15 * 3", "7-59/10 6 * jan mon-fri", "0 0 * * 7", "0 0 */2 * 1"]
)
def test_a_schedule_stays_as_it_is_and_no_h_is_made_up(schedule: str) -> None:
    assert jobs(f"{schedule} backup")["backup"]["schedule"] == schedule


@pytest.mark.spec("U2", "environment lines")
def test_variables_count_for_the_lines_below_them() -> None:
    found = jobs('0 1 * * * a\nPATH=/opt/bin\nX = \'a b\' \n0 1 * * * b\n"Y"="$X:c"\nPATH=\n0 1 * * * c\n')
    assert [job["tasks"][0].get("env") for job in found.values()] == [
        None,
        {"PATH": "/opt/bin", "X": "a b"},
        {"PATH": "", "X": "a b", "Y": "$X:c"},
    ]


@pytest.mark.spec("U2", "environment lines")
def test_some_variables_mean_something_to_cron_itself() -> None:
    assert run_of("SHELL=/bin/bash\n0 1 * * * a")["shell"] == ["/bin/bash", "-c", "a"]
    assert run_of("HOME=/srv\n0 1 * * * a")["cwd"] == "/srv"
    assert run_of("0 1 * * * b\nTZ=UTC\n0 1 * * * a")["env"] == {"TZ": "UTC"}
    found = jobs("0 1 * * * a\nCRON_TZ=Asia/Tokyo\n0 1 * * * b\nCRON_TZ=\n0 1 * * * c")
    assert [job.get("timezone") for job in found.values()] == [None, "Asia/Tokyo", None]
    assert tomllib.loads(translated("0 1 * * * a").text)["timezone"] == "Europe/Berlin"


@pytest.mark.spec("U2", "environment lines")
@pytest.mark.parametrize(
    ("line", "note"),
    [
        (
            "MAILTO=anna",
            Note(
                1, "MAILTO=anna: Itinerary sends no mail; `itinerary show JOB --last` prints the output of the last run"
            ),
        ),
        (
            "RANDOM_DELAY=5",
            Note(1, 'RANDOM_DELAY=5: no run is delayed; add jitter = "5m" to a schedule'),
        ),
        (
            "CRON_TZ=Europe/Berln",
            Note(
                1,
                "CRON_TZ has no effect, and the lines below keep their zone: time zone 'Europe/Berln' is unknown; did "
                "you mean 'Europe/Berlin'?",
                is_left_out=True,
            ),
        ),
        ("LOGNAME=anna", Note(1, "LOGNAME=anna: cron sets LOGNAME itself, so this line has no effect; it is left out")),
        (
            "PATH=$PATH:/opt/bin",
            Note(1, "PATH=$PATH:/opt/bin: cron does not expand variables here, and neither does Itinerary"),
        ),
    ],
)
def test_variables_that_cannot_be_translated_are_told(line: str, note: Note) -> None:
    found = translated(f"{line}\n0 1 * * * a\n")
    assert found.notes == (note,)
    assert found.jobs == 1
    assert translated('MAILTO=""\n0 1 * * * a\n').notes == ()


@pytest.mark.spec("U2", "percent signs")
@pytest.mark.parametrize(
    ("command", "output"),
    [
        (r"echo 100\% of '\%'", "100% of %\n"),
        ("cat%one%two", "one\ntwo\n"),
        ("cat%one%two%", "one\ntwo\n"),
        (r"cat%100\%%'$HOME' \"", "100%\n'$HOME' \\\"\n"),
        ("read a; echo got $a; cat%x%y", "got x\ny\n"),
        ("cat%", ""),
        ("cat%%", "\n"),
        ("cat%one%%", "one\n\n"),
        (r"printf '\%s\n' \\%one", "\\\n"),
        (r"printf '\%s-\%d\n' \\a 3", "\\a-3\n"),
        (r"cat%a\\%b", "a\\%b\n"),
        ("exit 3 % x", None),
    ],
)
def test_what_follows_a_percent_sign_is_read_by_the_command(command: str, output: str | None) -> None:
    run = run_of(f"0 1 * * * {command}")
    done = subprocess.run(run["shell"], capture_output=True, text=True, check=False, input=run.get("input", ""))  # noqa: S603 - ours
    if output is None:
        assert done.returncode == 3
    else:
        assert (done.returncode, done.stdout) == (0, output)


@pytest.mark.spec("U2", "@reboot is reported")
def test_what_cannot_be_translated_is_told_with_its_line_and_the_rest_is_there() -> None:
    found = translated(
        "@reboot /usr/bin/start\n0 1 * * * a\n61 * * * * b\n0 22-5 * * * c\n* * * * *\nnonsense\n"
        "@fortnightly d\n0 1 * * * %x\n"
    )
    assert [(note.line, note.is_left_out) for note in found.notes] == [(line, True) for line in (1, 3, 4, 5, 6, 7, 8)]
    assert [note.message.partition(";")[0] for note in found.notes] == [
        "@reboot runs when the machine starts, and a node does not know when that is",
        "cron '61 * * * *': minute 61 is out of range 0-59",
        "cron '0 22-5 * * *': hour 22-5 runs backwards",
        "this is no comment, no variable, and no schedule with a command",
        "this is no comment, no variable, and no schedule with a command",
        "cron '@fortnightly' is unknown",
        "there is no command on this line",
    ]
    assert not found.is_whole
    assert list(tomllib.loads(found.text)["jobs"]) == ["a"]
    assert "# @reboot /usr/bin/start\n" in found.text


@pytest.mark.spec("U2", "system crontabs")
def test_a_system_crontab_names_users_and_a_task_runs_as_its_node_does() -> None:
    text = "0 1 * * * root  run-parts /etc/cron.daily\n@daily\tanna\tbackup now\n5 * * * * root x\n0 2 * * * bob\n"
    found = translated(text, is_system=True)
    assert [note.line for note in found.notes] == [1, 2, 4]
    assert (
        found.notes[1].message == "cron ran this as 'anna', and a task runs as the user of its node: start the node as "
        "'anna', or change the command to switch the user"
    )
    assert found.notes[2].is_left_out
    assert {name: job["tasks"][0]["shell"][2] for name, job in tomllib.loads(found.text)["jobs"].items()} == {
        "run-parts": "run-parts /etc/cron.daily",
        "backup": "backup now",
        "x": "x",
    }
    assert "# line 2 of the crontab, as anna" in found.text


@pytest.mark.spec("U2", "system crontabs")
@pytest.mark.parametrize(
    ("text", "is_system"),
    [
        ("# x\nA=1\n0 1 * * * root a\n@daily root b c\n", True),
        ("0 1 * * * root a\n@daily b c\n", False),
        ("0 1 * * * root\n", False),
        ("# nothing\n", False),
        ("0 1 * * * root a\n0 2 * * * anna /usr/bin/b\n", True),
        ("0 1 * * * www-data php x\n0 2 * * * postgres vacuumdb\n", True),
        ("0 1 * * * ben sync now\n@daily ben x\n", True),
        ("# m h dom mon dow user\tcommand\n0 1 * * * carl sync\n", True),
        ("# *  *  *  *  * user-name  command to be executed\n0 1 * * * carl sync\n", True),
        ("0 1 * * * carl sync\n", False),
        ("0 1 * * * mail -s x anna\n0 2 * * * backup /srv\n", False),
        ("0 1 * * * root a\n0 2 * * * /usr/bin/b c\n", False),
        ("0 1 * * * root a\n0 2 * * * John.Doe /usr/bin/b\n", True),
        ("0 1 * * * root a\n0 2 * * * ben:staff /usr/bin/b\n", True),
        ("0 1 * * * root a\nnonsense\n", True),
    ],
)
def test_whether_lines_name_users_is_found_out(text: str, is_system: bool) -> None:
    assert translated(text, users=["root", "ben", "mail", "backup"]).is_system is is_system


@pytest.mark.spec("U2", "what only some crons know")
def test_a_dash_before_a_schedule_is_about_the_system_log_and_is_left_out() -> None:
    text = "-*/20 * * * * root /usr/lib/sa1\n- 0 3 * * * root b\n-@daily root c\n"
    found = translated(text, users=["root"])
    assert found.is_whole
    assert [job["schedule"] for job in tomllib.loads(found.text)["jobs"].values()] == [
        "*/20 * * * *",
        "0 3 * * *",
        "@daily",
    ]


@pytest.mark.spec("U2", "what only some crons know")
def test_options_of_cron_before_a_command_are_told_and_left_out() -> None:
    found = translated("0 3 * * * -n -q backup -n\n")
    assert found.notes == (
        Note(1, "-n -q: an option of cron about mail and the system log, and not of the command; it is left out"),
    )
    assert run_of("0 3 * * * -n -q backup -n")["shell"][2] == "backup -n"


@pytest.mark.spec("U2", "what only some crons know")
@pytest.mark.parametrize(
    ("schedule", "hashed"),
    [
        ("~ 3 * * *", "H 3 * * *"),
        ("0~59 * * * *", "H * * * *"),
        ("10~20,40 ~5 * * *", "H(10-20),40 H(0-5) * * *"),
        ("0 0 * * 3~", "0 0 * * H(3-6)"),
    ],
)
def test_a_time_that_cron_chooses_at_random_is_chosen_by_the_name(schedule: str, hashed: str) -> None:
    found = translated(f"{schedule} a\n")
    assert found.notes == (
        Note(1, f"{schedule}: cron chooses a time at random; {hashed} chooses one by the job's name"),
    )
    assert jobs(f"{schedule} a\n")["a"]["schedule"] == hashed


@pytest.mark.spec("U2", "what only some crons know")
def test_every_minute_has_a_nickname_in_freebsd() -> None:
    assert jobs("@every_minute a")["a"]["schedule"] == "* * * * *"


@pytest.mark.spec("U2", "environment lines")
@pytest.mark.parametrize(
    ("line", "value"),
    [
        ('X="  a b  "', "  a b  "),
        ("X = 'say \"hi\"'", 'say "hi"'),
        ("X=a b  c  ", "a b  c"),
        ('X=say "hi"', 'say "hi"'),
        ("X=/bin # not a comment", "/bin # not a comment"),
        ('X=""', ""),
        ("'X'=\"it's\"", "it's"),
    ],
)
def test_quotes_around_a_value_are_read_as_cron_reads_them(line: str, value: str) -> None:
    assert tomllib.loads(translated(f"{line}\n0 1 * * * a\n").text)["defaults"]["env"] == {"X": value}


@pytest.mark.spec("U2", "environment lines")
@pytest.mark.parametrize("line", ["X='it's'", 'X="a" # why', 'X="a', "X='"])
def test_a_value_whose_quotes_do_not_match_is_left_out_as_by_cron(line: str) -> None:
    found = translated(f"{line}\n0 1 * * * a\n")
    (note,) = found.notes
    assert (note.line, note.is_left_out) == (1, True)
    assert note.message.endswith("and nothing follows; cron reads no variable here")
    assert f"# {line}\n" in found.text
    assert "env" not in tomllib.loads(found.text)["defaults"]


@pytest.mark.spec("U2", "environment lines")
def test_commands_see_the_shell_that_the_crontab_sets() -> None:
    assert tomllib.loads(translated("SHELL=/bin/bash\n0 1 * * * a\n").text)["defaults"]["env"] == {"SHELL": "/bin/bash"}


@pytest.mark.spec("U2", "files of other machines")
def test_lines_that_end_in_cr_lf_are_told_and_mean_what_they_say() -> None:
    found = translated("A=1\r\n# Nightly backup\r\n0 3 * * * backup%x\r\n")
    assert found.notes == (
        Note(1, "lines end in CR LF; cron passes the CR to its commands, and the job file leaves it out"),
    )
    table = tomllib.loads(found.text)
    assert table["defaults"]["env"] == {"A": "1"}
    assert table["jobs"]["nightly-backup"]["tasks"] == [
        {"name": "run", "shell": ["/bin/sh", "-c", "backup"], "input": "x\n"}
    ]


@pytest.mark.spec("U2", "files of other machines")
def test_a_last_line_without_a_newline_is_a_job_and_is_told() -> None:
    found = translated("0 3 * * * a\n0 4 * * * b")
    assert found.jobs == 2
    assert found.notes == (
        Note(2, "the last line has no newline: cron ignores such a line, and the job file has its job"),
    )
    assert translated("0 3 * * * a\n# end").notes == ()


@pytest.mark.spec("U2", "files of other machines")
def test_bytes_that_are_not_utf_8_are_told_with_their_line_and_the_rest_is_there() -> None:
    content = "# café\n0 3 * * * a\n0 4 * * * echo café\nX=é\n0 5 * * * b\n".encode("latin-1")
    found = translated(content.decode("utf-8", "surrogateescape"))
    assert [(note.line, note.is_left_out) for note in found.notes] == [(1, False), (3, True), (4, True)]
    assert found.notes[0].message == "byte 0xe9 is not UTF-8; the comment in the job file has \ufffd there"
    assert found.notes[1].message == (
        "byte 0xe9 is not UTF-8, as a job file is; convert the crontab, such as with `iconv -f latin1 -t utf-8`"
    )
    assert "# caf\ufffd\n" in found.text
    assert "# 0 4 * * * echo caf\ufffd\n" in found.text
    assert list(tomllib.loads(found.text)["jobs"]) == ["a", "b"]


def test_comments_stay_above_what_they_are_about() -> None:
    text = translated("# all of it\n\n#\tnightly [x] = 'y'\n0 1 * * * a\n# 0 2 * * * off\n0 3 * * * b\n# end").text
    places = [
        text.index(part)
        for part in ("# all of it", "# nightly [x] = 'y'", "[jobs.a]", "# 0 2 * * * off", "[jobs.b]", "# end")
    ]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("/usr/local/bin/backup.sh -x", "backup"),
        ("cd /srv && ./run me", "run"),
        ("FOO=1 nice -n 10 python3 /opt/report.py", "report"),
        ("sudo -u anna php /var/www/artisan schedule:run", "anna"),
        ("[ -x /usr/bin/certbot ] && certbot renew", "certbot"),
        ("if [ -x /usr/bin/mandb ]; then mandb; fi", "mandb"),
        ("sh -c 'echo hi'", "echo-hi"),
        ("echo 'unfinished", "echo"),
        ("( ; )", "job-568410"),
        ("é", "job-1c1bb2"),
    ],
)
def test_a_job_is_named_after_its_command(command: str, name: str) -> None:
    assert list(jobs(f"0 1 * * * {command}")) == [name]


@pytest.mark.spec("U2", "names of imported jobs")
def test_a_name_does_not_change_with_the_order_of_the_lines() -> None:
    lines = ["0 1 * * * a", "0 2 * * * a", "0 3 * * * b", "30 4 * * * ( ; )", "0 4 * * * a"]
    names = {job["schedule"]: name for name, job in jobs("\n".join(lines)).items()}
    assert names["0 3 * * *"] == "b"
    assert len(set(names.values())) == 5
    assert all(name.startswith(("a-", "b", "job-")) for name in names.values())
    turned = {job["schedule"]: name for name, job in jobs("\n".join(reversed(lines))).items()}
    assert turned == names
    same = list(jobs("0 1 * * * a\n0 1 * * * a\n"))
    assert same[1] == f"{same[0]}-2", "two lines that are the same are two jobs"


@pytest.mark.spec("U2", "names of imported jobs")
@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("# Nightly backup\n0 1 * * * /opt/run.sh\n", ["nightly-backup"]),
        ("# name: shop-sync\n0 1 * * * a\n0 2 * * * b\n", ["shop-sync", "b"]),
        ("# Backups\n0 1 * * * a\n0 2 * * * b\n", ["a", "b"]),
        ("# Nightly backup\n\n0 1 * * * a\n", ["a"]),
        ("# 0 2 * * * off\n0 1 * * * a\n", ["a"]),
        ("# one line\n# and another\n0 1 * * * a\n", ["a"]),
        ("# this explains at length what the line below is for\n0 1 * * * a\n", ["a"]),
    ],
    ids=["words", "a name", "a heading", "elsewhere", "a line switched off", "two lines", "a sentence"],
)
def test_a_job_is_named_after_a_comment_that_is_about_its_line_alone(text: str, names: list[str]) -> None:
    assert list(jobs(text)) == names


@pytest.mark.spec("U2", "one environment for all jobs")
def test_variables_that_all_commands_share_stand_once() -> None:
    text = translated("PATH=/bin\nA=1\n0 1 * * * a\nA=2\nB=3\n0 2 * * * b\n").text
    table = tomllib.loads(text)
    assert table["defaults"]["env"] == {"PATH": "/bin"}
    assert [job["tasks"][0]["env"] for job in table["jobs"].values()] == [{"A": "1"}, {"A": "2", "B": "3"}]


@pytest.mark.spec("U2", "a crontab can be imported")
def test_the_jobs_keep_the_ways_of_cron(tmp_path: Path) -> None:
    (tmp_path / "jobs.toml").write_text(translated("0 1 * * * a").text, "utf-8")
    defaults = Itinerary(job_file=tmp_path / "jobs.toml").configuration.defaults
    assert (defaults.overlap, defaults.recovery.strategy) == ("allow", "mark_as_missed")
    assert (defaults.task_timeout, defaults.execution_timeout) == (None, "1w")


LINES = st.lists(
    st.one_of(
        st.text(max_size=40),
        st.binary(max_size=40).map(lambda found: found.decode("utf-8", "surrogateescape")),
        st.builds(
            "{} {}".format,
            st.sampled_from(["0 3 * * *", "@daily", "*/5 1-5 * * mon", "@reboot", "x", "-~ 1~5 * * *", "0 3 * * * -n"]),
            st.text(max_size=60),
        ),
        st.builds(
            "{}={}".format,
            st.sampled_from(["PATH", "HOME", "SHELL", "MAILTO", "CRON_TZ", "É", '"a b"']),
            st.text(max_size=20),
        ),
        st.builds("# {}".format, st.text(max_size=20)),
    ),
    max_size=8,
)


@settings(max_examples=200, deadline=None)
@given(LINES, st.booleans())
def test_whatever_a_crontab_holds_the_job_file_is_right_and_no_line_is_lost(lines: list[str], is_system: bool) -> None:
    text = "\n".join(lines)
    found = translate(text, "a\nb", timezone="UTC", is_system=is_system)
    document = document_of("jobs.toml", found.text)
    problems = document.problems()
    settings_in(document, problems)
    app = Itinerary(store="memory:")
    if found.jobs:
        assert len(declarations_in(document, problems, app._rules)) == found.jobs
    assert problems.found == []


@pytest.mark.spec("Q7", "secrets of a crontab")
def test_variables_that_look_like_secrets_become_references_and_no_value_is_shown() -> None:
    values = ["hunter2", "abc.def", "postgres://bob:open-sesame@db/x", "another"]
    text = (
        f"PATH=/bin\nPGPASSWORD={values[0]}\nAPI_TOKEN='{values[1]}'\nDATABASE_URL={values[2]}\n0 1 * * * a\n"
        f"PGPASSWORD={values[3]}\n0 2 * * * b\n"
    )
    found = translated(text)
    table = tomllib.loads(found.text)
    shared = {"PATH": "/bin", "API_TOKEN": {"secret": "API_TOKEN"}, "DATABASE_URL": {"secret": "DATABASE_URL"}}
    assert table["defaults"]["env"] == shared
    own = [job["tasks"][0]["env"] for job in table["jobs"].values()]
    assert own == [{"PGPASSWORD": {"secret": "PGPASSWORD"}}, {"PGPASSWORD": {"secret": "PGPASSWORD_2"}}]
    assert [(note.line, note.message.split()[0]) for note in found.notes] == [
        (2, "PGPASSWORD"),
        (3, "API_TOKEN"),
        (4, "DATABASE_URL"),
        (6, "PGPASSWORD"),
    ]
    assert "set ITINERARY_SECRET_PGPASSWORD_2 in the environment of the node" in found.notes[3].message
    said = found.text + "".join(note.message for note in found.notes)
    assert not [value for value in values if value in said]


@pytest.mark.parametrize(
    ("name", "value", "is_secret"),
    [
        ("PGPASSWORD", "x", True),
        ("MYSQL_PWD", "x", True),
        ("DB_PASS", "x", True),
        ("AWS_SECRET_ACCESS_KEY", "x", True),
        ("api_key", "x", True),
        ("GITHUB_TOKEN", "x", True),
        ("REDIS_URL", "redis://:pw@cache", True),
        ("PASSWORD_FILE", "/run/secrets/db", False),
        ("PWD", "/tmp", False),  # noqa: S108 - text
        ("AWS_ACCESS_KEY_ID", "AKIA", False),
        ("TOKENIZERS_PARALLELISM", "true", False),
        ("COMPASS_HOME", "/opt", False),
        ("GITHUB_TOKEN", "", False),
        ("REDIS_URL", "redis://cache:6379/0", False),
    ],
)
def test_a_secret_is_recognised_by_its_name_or_its_value(name: str, value: str, is_secret: bool) -> None:
    assert looks_secret(name, value) is is_secret


def test_a_secret_in_a_command_is_warned_about_without_its_value() -> None:
    found = translated("0 1 * * * PGPASSWORD=hunter2 pg_dump db\n0 2 * * * curl https://bob:hunter2@example.com/\n")
    assert [note.message.partition(",")[0] for note in found.notes] == [
        "the command has PGPASSWORD=…",
        "the command has a URL with a password",
    ]
    assert not [note for note in found.notes if "hunter2" in note.message]
