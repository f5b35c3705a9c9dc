"""`make templates-lint`: cfn-lint and checkov read every template; each finding is mended, or accepted with its reason.

Owns the comparison of what they find with `accepted.json`, by rule, template and resource: what is not accepted fails,
and so does what is accepted and not found any more. Refuses to know what the rules mean. The templates are those of the
three environments, and of one with a key of its own; they are made from a stub of the package, as in the tests.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ACCEPTED = Path(__file__).with_name("accepted.json")
KEYED = "prod-with-a-key"
KEY = "arn:aws:kms:eu-central-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
REGION = "eu-central-1"
LINTER_S_MAX = 300
"""Of one of them: half a minute on a busy machine."""
TOLD_CHARS_MAX = 2_000
_HASH = re.compile(r"[0-9A-F]{8}$")


@dataclass(frozen=True, order=True)
class Finding:
    """That a rule does not like a resource, which is called as in the code: without the CDK's hash."""

    rule: str
    template: str
    at: str


@dataclass(frozen=True)
class Answer:
    """Why a finding of some resources of some templates stands."""

    rule: str
    why: str
    templates: frozenset[str]
    at: frozenset[str]


def accepted(text: str) -> list[Answer]:
    """ValueError for an answer that says nothing, or twice the same."""
    answers = [Answer(one["rule"], one["why"], frozenset(one["in"]), frozenset(one["at"])) for one in json.loads(text)]
    seen: set[Finding] = set()
    for one in answers:
        if len(one.why) < WHY_CHARS_MIN or not one.at or not one.templates:
            raise ValueError(f"{one.rule}: say why, where, and in which templates")
        here = {Finding(one.rule, template, at) for template in one.templates for at in one.at}
        if seen & here:
            raise ValueError(f"{min(seen & here)} is accepted twice")
        seen |= here
    return answers


WHY_CHARS_MIN = 20
"""A reason is a sentence."""


def judged(found: Iterable[Finding], answers: Iterable[Answer], resources: Mapping[str, set[str]]) -> list[str]:
    """What is wrong. An answer holds for those of its resources that a template has: not every one has each pool."""
    standing = set(found)
    expected: set[Finding] = set()
    faults = []
    for one in answers:
        for template in one.templates:
            expected |= {Finding(one.rule, template, at) for at in one.at & resources.get(template, set())}
        everywhere = set().union(*(resources.get(template, set()) for template in one.templates))
        faults += [f"{one.rule}: there is no {at} any more" for at in sorted(one.at - everywhere)]
    faults += [f"new: {one.rule} at {one.at} in {one.template}" for one in sorted(standing - expected)]
    faults += [f"gone: {one.rule} at {one.at} in {one.template}" for one in sorted(expected - standing)]
    return faults


def resources_of(template: Mapping[str, Any]) -> set[str]:
    return {name_of(logical_id) for logical_id in template["Resources"]}


def name_of(logical_id: str) -> str:
    return _HASH.sub("", logical_id)


# --- running them -----------------------------------------------------------------------------------------------


def synthesized(package: Path) -> dict[str, dict[str, Any]]:
    """The templates by name. Starts Node."""
    import aws_cdk as cdk
    from aws_cdk.assertions import Template
    from infra.app import build_app
    from infra.asset import Asset
    from infra.stack import TickworkStack

    from tickwork.settings import ENVIRONMENTS

    (package / "stub.py").write_text("", encoding="utf-8")
    app = build_app(package=Asset(package))
    stacks = {name: app.node.find_child(f"tickwork-{name}") for name in ENVIRONMENTS}
    keyed = replace(ENVIRONMENTS["prod"], kms_key_arn=KEY)
    stacks[KEYED] = TickworkStack(cdk.App(), "tickwork-prod", environment=keyed, package=Asset(package))
    return {name: Template.from_stack(stack).to_json() for name, stack in stacks.items()}  # type: ignore[arg-type]


def by_cfn_lint(linters: Path, directory: Path) -> list[Finding]:
    files = sorted(map(str, directory.glob("*.json")))
    told = _told([linters / "cfn-lint", "--format", "json", "--regions", REGION, "--", *files])
    return [
        Finding(one["Rule"]["Id"], Path(one["Filename"]).stem, name_of(str((*one["Location"]["Path"], "", "")[1])))
        for one in told
    ]


def by_checkov(linters: Path, directory: Path) -> list[Finding]:
    told = _told(
        [
            *(linters / "checkov", "--directory", directory, "--framework", "cloudformation"),
            *("--output", "json", "--compact", "--quiet", "--skip-download"),
        ]
    )
    if told["results"].get("parsing_errors"):
        raise SystemExit(f"checkov cannot read {told['results']['parsing_errors']}")
    return [
        Finding(one["check_id"], Path(one["file_path"]).stem, name_of(one["resource"].rpartition(".")[2]))
        for one in told["results"]["failed_checks"]
    ]


def _told(command: list[Any]) -> Any:
    """Their exit codes say that something was found; that they could not run, says an answer that is none."""
    done = subprocess.run(
        [str(one) for one in command],
        capture_output=True,
        text=True,
        timeout=LINTER_S_MAX,
        check=False,
        env={**os.environ, "LOG_LEVEL": "ERROR"},
    )
    try:
        return json.loads(done.stdout)
    except ValueError:
        raise SystemExit(
            f"{command[0]} ended with {done.returncode}:\n{done.stdout[:2_000]}{done.stderr[:2_000]}"
        ) from None


def main(linters: Path) -> int:
    with tempfile.TemporaryDirectory() as at:
        package, directory = Path(at) / "package", Path(at) / "templates"
        package.mkdir()
        directory.mkdir()
        templates = synthesized(package)
        for name, template in templates.items():
            (directory / f"{name}.json").write_text(json.dumps(template, indent=1), encoding="utf-8")
        found = {*by_cfn_lint(linters, directory), *by_checkov(linters, directory)}
    answers = accepted(ACCEPTED.read_text(encoding="utf-8"))
    faults = judged(found, answers, {name: resources_of(template) for name, template in templates.items()})
    print("\n".join(faults) or f"{len(found)} findings in {len(templates)} templates, each with its reason")
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
