"""When a schedule is due: against an oracle that looks at every minute, and what is refused."""

from collections.abc import Callable
from datetime import datetime
from itertools import takewhile
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim

from adderclaw.core.decode import thaw
from adderclaw.core.errors import UsageError
from adderclaw.core.json_text import to_json
from adderclaw.flows.schedules import when, zones
from adderclaw.flows.schedules.when import When
from tests.flows.schedules.oracle import due_times, utc

ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe")
YEAR = utc(2026, 1, 1), utc(2027, 1, 1)
NOW = utc(2026, 1, 1)
CHANGES = {
    "Europe/Berlin": ((2026, 3, 29), (2026, 10, 25)),
    "America/New_York": ((2026, 3, 8), (2026, 11, 1)),
    "Australia/Lord_Howe": ((2026, 4, 4), (2026, 10, 3)),
}


def found(text: str, zone: str, start: float, end: float) -> list[float]:
    made = when.cron(text, zone, start)
    return list(takewhile(lambda at: at < end, when.following(made, start - 1)))


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize(
    "text",
    [
        "30 2 * * *",
        "0,30 1-3 * * *",
        "15 */6 * * *",
        "*/20 2 * * *",
        "0 0 29-31 * *",
        "45 1 * * SUN",
        "0 12 1 * MON",
        "59 23 28 * *",
        "30 2 1,15 JAN-DEC *",
    ],
)
def test_a_year_is_as_the_oracle_says(text: str, zone: str) -> None:
    assert found(text, zone, *YEAR) == due_times(text, zone, *YEAR)


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize(
    "text", ["* * * * *", "*/7 * * * *", "10 * * * *", "50 * * * *", "0 * * * *", "*/15 2-5 * * *", "5-55/10 1-3 * * *"]
)
def test_the_days_around_each_change_of_the_clocks(text: str, zone: str, which: int) -> None:
    start = utc(*CHANGES[zone][which]) - 86_400
    assert found(text, zone, start, start + 3 * 86_400) == due_times(text, zone, start, start + 3 * 86_400)


@pytest.mark.parametrize("zone", ["America/Havana", "Asia/Beirut", "Africa/Casablanca", "Pacific/Chatham"])
def test_zones_that_change_at_midnight_or_by_quarters(zone: str) -> None:
    for text in ("0 0 * * *", "*/30 * * * *", "45 2 * * *"):
        start = utc(2026, 2, 1)
        assert found(text, zone, start, start + 90 * 86_400) == due_times(text, zone, start, start + 90 * 86_400)


@pytest.mark.parametrize("zone", ZONES[:2])
@pytest.mark.parametrize("text", ["30 2 * * *", "30 * * * *", "0 9 * * MON#2", "0 0 L * *", "0 18 * * 5L"])
def test_it_follows_cronsim_where_the_clocks_move_by_an_hour(text: str, zone: str) -> None:
    ours = found(text, zone, *YEAR)
    theirs = CronSim(text, datetime.fromtimestamp(YEAR[0] - 1, ZoneInfo(zone)))
    assert ours == [next(theirs).timestamp() for _ in ours]


def shown(at: float) -> str:
    return when.shown(at, "Europe/Berlin")


def test_half_past_two_on_the_day_that_has_none_and_on_the_day_that_has_two() -> None:
    fixed, hourly = (when.cron(text, "Europe/Berlin", NOW) for text in ("30 2 * * *", "30 * * * *"))
    spring, autumn = utc(2026, 3, 28, 23), utc(2026, 10, 24, 22)
    assert shown(when.after(fixed, spring) or 0) == "Sun 2026-03-29 03:00 CEST"
    first = when.after(fixed, autumn) or 0
    assert shown(first) == "Sun 2026-10-25 02:30 CEST"
    assert shown(when.after(fixed, first) or 0) == "Mon 2026-10-26 02:30 CET"
    assert shown(when.after(fixed, first + 3_000) or 0) == "Mon 2026-10-26 02:30 CET", "asked in the second hour"
    both = takewhile(lambda at: at < autumn + 5 * 3_600, when.following(hourly, autumn))
    times = [shown(at).split(" ", 2)[2] for at in both]
    assert times == ["00:30 CEST", "01:30 CEST", "02:30 CEST", "02:30 CET", "03:30 CET"]


def test_an_interval_is_real_time() -> None:
    daily = when.every("1d", "Europe/Berlin", utc(2026, 3, 28, 8))
    times = [shown(at) for at in takewhile(lambda at: at < utc(2026, 3, 31), when.following(daily, utc(2026, 3, 28)))]
    assert times == ["Sat 2026-03-28 09:00 CET", "Sun 2026-03-29 10:00 CEST", "Mon 2026-03-30 10:00 CEST"]


def test_leap_days_and_ends_of_months() -> None:
    leap = when.cron("0 0 29 2 *", "UTC", NOW)
    assert [when.shown(at, "UTC")[4:14] for _, at in zip(range(3), when.following(leap, NOW), strict=False)] == [
        "2028-02-29",
        "2032-02-29",
        "2036-02-29",
    ]
    ends = when.cron("0 0 31 * *", "UTC", NOW)
    months = [when.shown(at, "UTC")[9:11] for at in takewhile(lambda at: at < YEAR[1], when.following(ends, NOW))]
    assert months == ["01", "03", "05", "07", "08", "10", "12"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("0 0 30 2 *", "never fires: month 2 has no day 30"),
        ("0 0 31 4,6,9,11 *", "never fires"),
        ("* * * * * *", "six fields"),
        ("*/5 * * * * *", "six fields"),
        ("* * * *", "4 fields"),
        ("", "0 fields"),
        ("61 * * * *", "the minute '61'"),
        ("0 24 * * *", "the hour '24'"),
        ("0 0 0 * *", "the day of month '0'"),
        ("0 0 * FOO *", "the month 'FOO'"),
        ("0 0 * * FUN", "the day of week 'FUN'"),
        ("*/0 * * * *", "the minute '*/0'"),
        ("@reboot", "not supported"),
        ("@often", "use one of @yearly"),
        ("{{ x }} * * * *", "fields"),
    ],
)
def test_an_expression_that_is_none(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why.replace("*", r"\*")):
        when.cron(text, "Europe/Berlin", NOW)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: when.every("30s", "UTC", NOW), "at least 1m"),
        (lambda: when.every("1", "UTC", NOW), "with units"),
        (lambda: when.every("-5m", "UTC", NOW), "with units"),
        (lambda: when.every("999999w", "UTC", NOW), "at most ten years"),
        (lambda: when.at("2025-12-01T09:00", "UTC", NOW), "is in the past"),
        (lambda: when.at("2026-03-29T02:30", "Europe/Berlin", NOW), "skip that time; the next is .* 03:00 CEST"),
        (lambda: when.at("2026-03-29", "Europe/Berlin", NOW), "the time is missing"),
        (lambda: when.at("soon", "UTC", NOW), "a date and a time"),
        (lambda: when.changed(["/etc/*"], "UTC", 5), "relative to the workspace"),
        (lambda: when.changed(["../x"], "UTC", 5), "relative to the workspace"),
        (lambda: when.changed(["{a,b}" * 20], "UTC", 5), "too many patterns"),
        (lambda: when.cron("@daily", "Europe/Berln", NOW), "did you mean Europe/Berlin"),
        (lambda: when.cron("@daily", "berlin", NOW), "did you mean Europe/Berlin"),
        (lambda: when.cron("@daily", "../../etc/passwd", NOW), "no time zone"),
        (lambda: when.cron("@daily", "/etc/localtime", NOW), "no time zone"),
    ],
)
def test_what_is_refused(make: Callable[[], object], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        make()


def test_a_time_that_is_shown_twice_is_the_first_of_the_two() -> None:
    twice = when.at("2026-10-25T02:30", "Europe/Berlin", NOW)
    assert shown(twice.anchor) == "Sun 2026-10-25 02:30 CEST"
    assert when.at("2026-10-25T02:30+01:00", "Europe/Berlin", NOW).anchor == twice.anchor + 3_600


def test_names_stand_for_their_expressions() -> None:
    assert [when.cron(name, "UTC", NOW).expression for name in ("@daily", "@Hourly", "0 9  * * mon-fri")] == [
        "0 0 * * *",
        "0 * * * *",
        "0 9 * * mon-fri",
    ]


def test_a_zone_of_the_system_has_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", ":America/New_York")
    assert zones.system_zone() == "America/New_York"
    monkeypatch.setenv("TZ", "CET-1CEST")
    with pytest.raises(UsageError, match="give --zone"):
        zones.system_zone()


def test_json_and_back() -> None:
    for one in (
        when.cron("@daily", "Europe/Berlin", NOW),
        when.every("90m", "UTC", NOW),
        when.changed(["src/**/*.py"], "UTC", 5.0, "changed"),
        when.webhook("UTC", "github"),
    ):
        assert thaw(When, to_json(one, omit=when.UNSET)) == one
