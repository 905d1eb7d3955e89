"""Deploys the retry loop as a user would: two queues, the handler, and a target that sends its failures to one."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bootstrap import zipped
from endpoints import ACCOUNT, REGION, ROLE, Endpoint

HANDLER = "retry-handler"
TARGET = "example-target"
LEDGER = "ledger"

# Backoffs are short, because the test checks that all events are retried, not when.
SETTINGS = {"BASE_BACKOFF": "1s", "MAX_BACKOFF": "1s", "MAX_ATTEMPTS": "4"}

HANDLER_TIMEOUT_SECONDS = 10


@dataclass(frozen=True)
class Loop:
    """The deployed retry loop, with clients for its services."""

    sqs: Any
    functions: Any
    logs: Any
    dynamodb: Any
    retry_queue: str
    dead_letter_queue: str

    def run_count(self, function: str) -> int:
        """The number of runs of a function, according to its log."""
        pages = self.logs.get_paginator("filter_log_events").paginate(
            logGroupName=f"/aws/lambda/{function}", filterPattern='"START RequestId"'
        )
        events = (event for page in pages for event in page["events"])
        return sum(event["message"].startswith("START RequestId") for event in events)

    def claim_count(self) -> int:
        """The number of claims in the ledger that are done."""
        pages = self.dynamodb.get_paginator("scan").paginate(TableName=LEDGER)
        claims = [claim for page in pages for claim in page["Items"]]
        return sum(claim["state"]["S"] == "done" for claim in claims)

    def waiting_count(self) -> int:
        """The number of messages in the retry queue: visible, in flight and delayed."""
        names = [
            "ApproximateNumberOfMessages",
            "ApproximateNumberOfMessagesNotVisible",
            "ApproximateNumberOfMessagesDelayed",
        ]
        told = self.sqs.get_queue_attributes(QueueUrl=self.retry_queue, AttributeNames=names)
        return sum(int(told["Attributes"][name]) for name in names)


def deploy(endpoint: Endpoint, binaries: Path, *, with_ledger: bool) -> Loop:
    """Deploys the binaries in this folder."""
    sqs, functions, logs, dynamodb = map(endpoint.client, ("sqs", "lambda", "logs", "dynamodb"))
    dead_letter_queue = sqs.create_queue(QueueName="dead-letter-queue")["QueueUrl"]
    retry_queue = sqs.create_queue(
        QueueName="retry-queue",
        Attributes={"VisibilityTimeout": str(6 * HANDLER_TIMEOUT_SECONDS)},
    )["QueueUrl"]
    retry_queue_arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:retry-queue"

    def function(name: str, **settings: Any) -> None:
        functions.create_function(
            FunctionName=name,
            Role=ROLE,
            Runtime="provided.al2023",
            Handler="bootstrap",
            Code={"ZipFile": zipped((binaries / name).read_bytes())},
            **settings,
        )

    variables = {**SETTINGS, "DEAD_LETTER_QUEUE_URL": dead_letter_queue}
    if with_ledger:
        dynamodb.create_table(
            TableName=LEDGER,
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            BillingMode="PAY_PER_REQUEST",
        )
        variables["LEDGER_TABLE"] = LEDGER
    environment = {"Variables": variables}
    function(HANDLER, Timeout=HANDLER_TIMEOUT_SECONDS, Environment=environment)
    function(TARGET)
    functions.put_function_event_invoke_config(
        FunctionName=TARGET,
        MaximumRetryAttempts=0,
        DestinationConfig={"OnFailure": {"Destination": retry_queue_arn}},
    )
    functions.create_event_source_mapping(
        FunctionName=HANDLER,
        EventSourceArn=retry_queue_arn,
        BatchSize=10,
        FunctionResponseTypes=["ReportBatchItemFailures"],
    )
    return Loop(sqs, functions, logs, dynamodb, retry_queue, dead_letter_queue)
