"""The report of a run, in words and as JSON, with the costs at AWS's prices. It can be attached to an issue."""

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from aws import Account
from cloudwatch import of_log
from cost import MONTH_SECONDS, each
from play import ANSWERED, FAILED, Result
from world import documents

HOUR_SECONDS = 3600
# Each mapping has five pollers, and each of their requests takes up to 20 s.
POLLS_A_SECOND = 5 / 20
# S3's requests, and the existence of a table, a queue or a bucket, cost far less than a cent.
REPORT = re.compile(r"Billed Duration: (\d+) ms\s+Memory Size: (\d+) MB")


@dataclass(frozen=True)
class Cost:
    what: str
    count: int
    dollars: float


def costs(logs: Iterable[list[str]], calls: dict[str, int], mappings: int, alarms: int, seconds: float) -> list[Cost]:
    """The costs of a run of this many seconds, from all logs and from the calls that the run itself made."""
    lines = [line for log in logs for line in log]
    reports = [REPORT.search(line) for line in lines if line.startswith("REPORT")]
    milliseconds = sum(int(found[1]) for found in reports if found)
    gigabyte_seconds = sum(int(found[1]) / 1000 * int(found[2]) / 1024 for found in reports if found)
    decisions = [line for line in documents(lines) if "decision" in line]
    metrics = {
        (point.namespace, point.name, *sorted(point.dimensions.items()))
        for line in documents(lines)
        for point in of_log(line, 0, {})
    }
    # CloudWatch bills metrics and alarms by the hour.
    month = MONTH_SECONDS / max(seconds, HOUR_SECONDS)
    # A message is sent, received, and then deleted or put back. The run's own requests come on top.
    requests = calls.get("sqs", 0) + 3 * len(decisions) + round(mappings * POLLS_A_SECOND * seconds)
    # A claim is written and marked as done, and the register's item is written and deleted.
    writes = 4 * len(decisions)
    taken = {
        "invocations of functions": (len(reports), "lambda_request", 1),
        "milliseconds of functions": (milliseconds, "gb_second", gigabyte_seconds / max(milliseconds, 1)),
        "requests of SQS": (requests, "sqs_request", 1),
        "writes of DynamoDB": (writes, "write_of_dynamodb", 1),
        "bytes of logs": (sum(len(line.encode()) for line in lines), "gb_of_log", 1),
        "metrics, for an hour": (len(metrics), "metric", 1 / month),
        "alarms, for an hour": (alarms, "alarm", 1 / month),
    }
    return [Cost(what, count, count * units * each(price)) for what, (count, price, units) in taken.items()]


@dataclass(frozen=True)
class Played:
    """The results of a run, in the form of its JSON document."""

    name: str
    region: str
    emulator: str | None
    seconds: int
    # Only scenarios decide whether the run has passed.
    verdict: str
    results: list[Result]
    # The answers to questions that only AWS can answer, whatever they are.
    answers: list[Result]
    costs: list[Cost]
    # The handlers' warnings and errors, with their counts.
    warnings: dict[str, int]

    @property
    def dollars(self) -> float:
        return sum(each.dollars for each in self.costs)


def played(
    name: str, account: Account, seconds: float, parts: list[Result], paid: list[Cost], warnings: dict[str, int]
) -> Played:
    """The report, in which nothing names the account."""

    def masked(text: str) -> str:
        return text.replace(account.id, "ACCOUNT")

    parts = [replace(each, said=masked(each.said)) for each in parts]
    warnings = {masked(warning): count for warning, count in warnings.items()}
    results = [each for each in parts if each.result != ANSWERED]
    answers = [each for each in parts if each.result == ANSWERED]
    counts = Counter(each.result for each in results)
    verdict = "failed" if counts[FAILED] else "passed"
    told = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
    where, took = (account.region, account.emulator), round(seconds)
    return Played(name, *where, took, f"{verdict}: {told}", results, answers, paid, warnings)


def markdown(played: Played) -> str:
    rows = [
        f"{played.name} in {played.emulator or played.region} {played.verdict}. It took {played.seconds} s, and costs "
        f"about {played.dollars:.2f} dollars.",
        "",
        "| scenario | result | seconds | |",
        "|---|---|---|---|",
        *(f"| {each.name} | {each.result} | {each.seconds:.1f} | {_cell(each.said)} |" for each in played.results),
    ]
    if played.answers:
        rows += ["", f"What {played.emulator or 'AWS'} answered, which is no part of the verdict:", ""]
        rows += ["| question | answer |", "|---|---|"]
        rows += [f"| {each.name} | {_cell(each.said)} |" for each in played.answers]
    rows += ["", "The costs, at AWS's prices in US East (N. Virginia):", "", "| what | how much | dollars |"]
    rows += ["|---|---|---|", *(f"| {each.what} | {each.count:,} | {each.dollars:.4f} |" for each in played.costs)]
    if played.warnings:
        rows += ["", "| what the handlers warned of | times |", "|---|---|"]
        rows += [f"| {_cell(warning)} | {count} |" for warning, count in played.warnings.items()]
    return "\n".join(rows)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def write(path: Path, played: Played) -> str:
    """Writes the report as JSON, and beside it in Markdown, which it returns."""
    document = asdict(played) | {"dollars": round(played.dollars, 4)}
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    words = markdown(played)
    path.with_suffix(".md").write_text(words + "\n")
    return words
