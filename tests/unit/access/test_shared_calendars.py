"""A calendar that is another team's: what it does to a job is shown, and nothing that is written in it."""

from __future__ import annotations

from tests.support.fakes import fake_ports
from tests.support.http import ApiUnderTest
from tests.unit.access.test_several_teams import who

OURS, THEIRS = "payments", "ops"


def test_of_another_teams_calendar_a_preview_shows_what_it_does_and_not_what_is_written_there() -> None:
    """A job that was registered before there was a wall goes on by it."""
    ports = fake_ports()
    platform, ours = ApiUnderTest(ports), ApiUnderTest(ports, who((OURS, "viewer")))
    for owner in (OURS, THEIRS):
        days = {"holidays": [{"rule": "12-25", "name": f"of {owner} alone"}]}
        assert platform.call("PUT", f"/calendars/{owner}:days", days)[0] in (200, 201)
    target = {"pool": "default", "handler": "h"}
    for name, calendar in (("own", "days"), ("old", f"{THEIRS}:days")):
        excluded = {"exclude": [calendar], "on_excluded": "next_working_day"}
        schedule = {"cron": "0 9 25 12 *", "calendars": excluded}
        body = {"team": OURS, "name": name, "schedule": schedule, "target": target}
        assert platform.call("POST", "/jobs", body)[0] == 201

    def note(api: ApiUnderTest, name: str) -> str:
        return str(api.call("GET", f"/jobs/{OURS}:{name}/next", count="1")[1]["occurrences"][0]["note"])

    assert f"of {OURS} alone" in note(ours, "own")
    assert f"of {THEIRS} alone" in note(platform, "old")
    assert note(ours, "old") == f"moved from 2026-12-25T09:00: {THEIRS}:days"
