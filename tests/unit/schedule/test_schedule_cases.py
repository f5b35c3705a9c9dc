"""The case files, through the command line's --json: what a user would see."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tickwork.cli.main import main

CASES = Path(__file__).parents[2] / "cases"
GOLDEN = json.loads((CASES / "dst_golden.json").read_text())["cases"]
CHECKS = json.loads((CASES / "schedule_cases.json").read_text())
KINDS = [json.loads(line) for line in (CASES / "kinds.jsonl").read_text().splitlines()]
#: Where each field stands in an expression that is otherwise true at every minute.
PLACES = {"minute": 0, "hour": 1, "dom": 2, "month": 3, "dow": 4}
YEAR_START = "2024-01-01T00:00:00Z"


def ask(*arguments: str, spec: dict[str, Any] | None = None) -> Result:
    """`tickwork next ... --json`. A refusal has exit code 2, and an error and a remedy alone."""
    given = ["--spec", "-"] if spec is not None else []
    result = CliRunner().invoke(main, ["next", "--json", *given, *arguments], input=json.dumps(spec))
    if result.exit_code == 2:
        assert result.stdout == ""
        assert result.stderr.startswith("error: ")
        assert "  try: " in result.stderr
        return result
    assert result.exit_code == 0, result.output
    return result


def run(*arguments: str, spec: dict[str, Any] | None = None) -> Any:
    """The rows; "reject" when it is refused."""
    result = ask(*arguments, spec=spec)
    return "reject" if result.exit_code == 2 else json.loads(result.stdout)


def instants(*arguments: str, spec: dict[str, Any] | None = None) -> Any:
    rows = run(*arguments, spec=spec)
    return rows if rows == "reject" else [row["scheduled_at"] for row in rows]


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: f"{case['id']}-{case['zone']}")
def test_golden_case_ahead(case: dict[str, Any]) -> None:
    got = instants(case["cron"], "--tz", case["zone"], "--after", case["after"], "--count", str(len(case["expected"])))
    assert got == case["expected"]


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: f"{case['id']}-{case['zone']}")
def test_golden_case_back_in_time(case: dict[str, Any]) -> None:
    expected = case["expected"]
    got = instants(
        case["cron"], "--tz", case["zone"], "--before", expected[-1], "--count", str(len(expected) - 1)
    )  # fmt: skip
    assert got == expected[-2::-1]


def answer(check: dict[str, Any], *policy: str) -> Any:
    zone = ["--tz", check["zone"]] if "zone" in check else []
    match check["op"]:
        case "next":
            return instants(check["cron"], *zone, "--after", check["after"], "--count", str(check["count"]), *policy)
        case "spec":
            return instants("--after", check["after"], "--count", str(check["count"]), spec=check["spec"])
        case "prev":
            return instants(check["cron"], *zone, "--before", check["before"], "--count", "1", *policy)[0]
        case "rate":
            rate = ["--rate", f"{check['every_s']} seconds", "--anchor", check["anchor"]]
            return instants(*rate, "--after", check["after"], "--count", str(check["count"]))
        case "cron":
            return "reject" if run(check["text"]) == "reject" else "accept"
        case "zone":
            return "reject" if run("0 0 * * *", "--tz", check["key"]) == "reject" else "accept"
        case "never":
            return run(check["cron"], "--after", YEAR_START) == "reject"
        case "field":
            return field_values(check["field"], check["text"])
        case "wall":
            return {"instants": instants("--at", check["local"], *zone, "--after", "2000-01-01T00:00:00Z")}
        case "local":
            return run("--at", check["utc"], *zone, "--after", "2000-01-01T00:00:00Z")[0]["local"]
        case "missed":
            rows = instants(check["cron"], *zone, "--after", check["last"], "--count", "1000")
            missed = [row for row in rows if row <= check["now"]]
            return {"count": len(missed), "first": missed[0], "last": missed[-1]}
    raise AssertionError(check)


def field_values(field: str, text: str) -> Any:
    """The values that a field matches, seen through the occurrences of a year."""
    parts = ["0", "0", "*", "*", "*"]
    parts[PLACES[field]] = text
    rows = run(" ".join(parts), "--after", "2023-12-31T23:59:59Z", "--count", "1000")
    if rows == "reject":
        return rows
    cut = {"minute": slice(14, 16), "hour": slice(11, 13), "dom": slice(8, 10), "month": slice(5, 7)}
    if field != "dow":
        return sorted({int(row["scheduled_at"][cut[field]]) for row in rows})
    first = {f"2024-01-{day:02d}": day % 7 for day in range(1, 8)}  # 1 January 2024 was a Monday
    return sorted({first[day] for row in rows if (day := row["scheduled_at"][:10]) in first})


@pytest.mark.parametrize("case", CHECKS, ids=lambda case: case["id"])
def test_case_from_the_field(case: dict[str, Any]) -> None:
    assert answer(case["check"]) == case["result"], case["tells"]


VARIANTS = [(case, name) for case in CHECKS for name in case["variants"]]


@pytest.mark.parametrize(("case", "name"), VARIANTS, ids=[f"{case['id']}-{name}" for case, name in VARIANTS])
def test_case_under_another_policy(case: dict[str, Any], name: str) -> None:
    policy, value = name.split("=")
    assert answer(case["check"], f"--{policy}", value) == case["variants"][name], case["tells"]


@pytest.mark.parametrize("case", KINDS, ids=[f"{number}-{case['kind']}" for number, case in enumerate(KINDS, start=1)])
def test_case_of_a_kind(case: dict[str, Any]) -> None:
    check, result = case["check"], case["result"]
    if check["op"] == "refuse":
        assert_refused(check["spec"], **result)
        return
    policy = [text for name, value in check.get("policy", {}).items() for text in (f"--{name}", value)]
    assert answer(check, *policy) == result
    if check["op"] == "next" and len(result) > 1:
        count = str(len(result) - 1)
        back = instants(check["cron"], "--tz", check["zone"], "--before", result[-1], "--count", count, *policy)
        assert back == result[-2::-1]


def assert_refused(spec: dict[str, Any], **told: Any) -> None:
    """The error names the field, the remedy has the text `try`, and what it says to `write` is accepted."""
    result = ask("--after", YEAR_START, spec=spec)
    assert result.exit_code == 2, result.output
    error, remedy = result.stderr.splitlines()
    assert error.startswith(f"error: {told['field']}: ")
    assert told["try"] in remedy
    if "write" in told:
        assert run("--after", YEAR_START, spec=told["write"]) != "reject"
