"""Cold start: importing each Lambda's handler in a fresh process, beside a bare boto3 client and each of its parts.

`make bench-cold`. CPU milliseconds (user and system) of the whole process less those of an empty Python; median of
several processes, taking turns. Lambda bills the initialisation, and a vCPU share makes it longer: trust the ratios.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HANDLERS = ("ticker", "scanner", "reconciler", "api")
CLIENTS = "import boto3; boto3.client('dynamodb'); boto3.client('sqs')"
PARTS = {
    "a bare boto3 client of DynamoDB": "import boto3; boto3.client('dynamodb')",
    "bare clients of DynamoDB and SQS": CLIENTS,
    "the same, and Powertools' Logger and Metrics": f"{CLIENTS}; from aws_lambda_powertools import Logger, Metrics",
    "the same, and its HTTP resolver": (
        f"{CLIENTS}; from aws_lambda_powertools import Logger, Metrics; "
        "from aws_lambda_powertools.event_handler import APIGatewayHttpResolver"
    ),
    "the same, and pydantic": (
        f"{CLIENTS}; from aws_lambda_powertools import Logger, Metrics; "
        "from aws_lambda_powertools.event_handler import APIGatewayHttpResolver; import pydantic; "
        "pydantic.create_model('M', a=(int, 1))"
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--imports", choices=HANDLERS, help="print what this handler imports, by its own time")
    chosen = parser.parse_args()
    if chosen.imports:
        print(imports(chosen.imports))
        return
    codes = {"": "pass", **PARTS} | {f"**{name}**": f"import {name}.handler" for name in HANDLERS}
    for code in codes.values():
        cpu_ms(code)  # compiles what is not compiled yet
    rounds = [{name: cpu_ms(code) for name, code in codes.items()} for _ in range(chosen.rounds)]
    median = {name: statistics.median(one[name] - one[""] for one in rounds) for name in codes}
    bare = median["bare clients of DynamoDB and SQS"]
    print("| fresh process | CPU ms | of the two bare clients |\n|---|---|---|")
    for name, took_ms in median.items():
        if name:
            print(f"| {name} | {took_ms:.0f} | {took_ms / bare:.2f} |")


def environ() -> dict[str, str]:
    return os.environ | {
        "PYTHONPATH": str(ROOT / "functions"),
        "AWS_ACCESS_KEY_ID": "bench",
        "AWS_SECRET_ACCESS_KEY": "bench",
        "AWS_DEFAULT_REGION": "us-east-1",
        "POWERTOOLS_METRICS_DISABLED": "false",
    }


def cpu_ms(code: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], env=environ(), check=True, cwd=ROOT / "functions")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1_000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def imports(name: str) -> str:
    command = [sys.executable, "-X", "importtime", "-c", f"import {name}.handler"]
    done = subprocess.run(command, env=environ(), check=True, cwd=ROOT / "functions", capture_output=True, text=True)
    rows = [line.removeprefix("import time:").split("|") for line in done.stderr.splitlines()[1:]]
    heavy = sorted(((int(row[1]), row[2]) for row in rows if row[1].strip().isdigit()), reverse=True)
    return "\n".join(f"{us / 1000:8.1f} ms {module}" for us, module in heavy[:60])


if __name__ == "__main__":
    main()
