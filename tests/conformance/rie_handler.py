"""The check of the handler: it acts on messages of the local cloud, also after it was stopped for minutes and hours."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import endpoints
from emulator import CLOCK_CAN_SHIFT, Answer, Function, Rie, free_port
from endpoints import Endpoint
from inputs import failure_record, zipped
from witness import FREEZES, LONG, Witness, expect


def handler(witness: Witness) -> None:
    """The handler invokes, gives up and keeps waiting.

    It also does after minutes in which it was stopped, its connections were closed and its credentials expired. If
    an event's deadline is over, it leaves all messages in the queue.
    """
    command = [str(witness.binaries / "retry-handler")]
    with witness.running(Function(command)) as rie:
        expect("no settings", rie.invoke(b"{}"), Answer(502, b""))
        assert "DEAD_LETTER_QUEUE_URL must be" in rie.told(), "expected the setting's name in the log"
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    variables = {**Endpoint("", url).environment(), "BASE_BACKOFF": "1h", "MAX_BACKOFF": "1h", "MAX_AGE": "365d"}
    variables["DEAD_LETTER_QUEUE_URL"] = f"{url}/{endpoints.ACCOUNT}/dead"
    # RIE invents the function's account, so the target is none of its own.
    variables["TARGET_FUNCTIONS"] = f"arn:aws:lambda:{endpoints.REGION}:{endpoints.ACCOUNT}:function:target"
    del variables["AWS_ACCESS_KEY_ID"], variables["AWS_SECRET_ACCESS_KEY"]
    with (
        credentials(lasting=FREEZES[1] / 2) as (url, given),
        witness.running(
            Function(command, {**variables, "AWS_CONTAINER_CREDENTIALS_FULL_URI": url}, timeout=900, can_freeze=True)
        ) as rie,
    ):
        for ahead in FREEZES:
            # A cloud of its own, which closes all connections when it ends.
            with endpoints.local(witness.binaries / "comeback-local", arguments=[str(port)]) as cloud:
                if ahead:
                    rie.freeze(ahead)
                _one_of_each(rie, cloud, witness, is_late=CLOCK_CAN_SHIFT and ahead == LONG)
    expect("how often it asked for credentials", len(given), 2 if CLOCK_CAN_SHIFT else 1)


@contextmanager
def credentials(lasting: timedelta) -> Iterator[tuple[str, list[str]]]:
    """The URL of a server that gives out credentials, and those that it gave. Only the first expire that soon."""
    given: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Nothing."""

        def do_GET(self) -> None:
            expires = datetime.now(UTC) + (timedelta(days=1) if given else lasting)
            given.append(f"KEY{len(given)}")
            body = {"AccessKeyId": given[-1], "SecretAccessKey": "local", "Token": "token"}
            text = json.dumps({**body, "Expiration": expires.strftime("%Y-%m-%dT%H:%M:%SZ")}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/", given
        server.shutdown()


def _one_of_each(rie: Rie, cloud: Endpoint, witness: Witness, *, is_late: bool) -> None:
    sqs, functions = cloud.client("sqs"), cloud.client("lambda")
    dead = sqs.create_queue(QueueName="dead")["QueueUrl"]
    queue = sqs.create_queue(QueueName="retry")["QueueUrl"]
    code = zipped({"bootstrap": (witness.binaries / "example-target").read_bytes()})
    arn = functions.create_function(
        FunctionName="target",
        Role=endpoints.ROLE,
        Runtime="provided.al2023",
        Handler="bootstrap",
        Code={"ZipFile": code},
    )["FunctionArn"]
    now = datetime.now(UTC)
    first, second = (failure_record(f"{arn}:$LATEST", {"id": 7}, failed) for failed in (now - timedelta(hours=2), now))
    for record in (first, second):
        sqs.send_message(QueueUrl=queue, MessageBody=json.dumps(record))
    sqs.send_message(QueueUrl=queue, MessageBody="no record")
    received = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, AttributeNames=["All"])["Messages"]
    batch = [
        {
            "messageId": message["MessageId"],
            "receiptHandle": message["ReceiptHandle"],
            "body": message["Body"],
            "attributes": message["Attributes"],
            "messageAttributes": {},
            "eventSource": "aws:sqs",
            "eventSourceARN": f"arn:aws:sqs:{endpoints.REGION}:{endpoints.ACCOUNT}:retry",
            "awsRegion": endpoints.REGION,
        }
        for message in received
    ]
    (waits,) = (each["messageId"] for each in batch if second["timestamp"] in each["body"])
    got = rie.invoke(json.dumps({"Records": batch}).encode()).value
    stay = [each["messageId"] for each in batch] if is_late else [waits]
    expect("what stays in the queue", got, {"batchItemFailures": [{"itemIdentifier": each} for each in stay]})
    if is_late:
        return
    letters = sqs.receive_message(QueueUrl=dead, MaxNumberOfMessages=10, MessageAttributeNames=["Reason"])["Messages"]
    told = [(letter["Body"], letter["MessageAttributes"]["Reason"]["StringValue"]) for letter in letters]
    expect("the dead letters", told, [("no record", "unreadable")])
