"""The cost of the run at AWS's prices, computed from its logs and calls."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from cloudwatch import of_log
from cost import MONTH_SECONDS, each
from world import documents

HOUR_SECONDS = 3600
# Each mapping has five pollers, and each of their requests takes up to 20 s.
POLLS_A_SECOND = 5 / 20
# S3's requests, and the existence of a table, a queue or a bucket, cost far less than a cent.
REPORT = re.compile(r"Billed Duration: (\d+) ms\s+Memory Size: (\d+) MB")


@dataclass(frozen=True)
class Cost:
    """An item of the bill: its quantity and its price in dollars."""

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
