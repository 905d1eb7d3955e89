"""A retry handler as you would write it in Python. The bench compares ours with it.

It follows the usual design and does no needless work: clients are built once, and each message takes one AWS call. A
message that is received for the first time is hidden for its backoff and reported as failed, so it stays in the queue.
When it comes back, its function is invoked again, with an envelope that counts the attempts.
"""

import json
import os
import random
import time
from datetime import datetime
from typing import Any

import boto3

BASE_BACKOFF = int(os.environ["BASE_BACKOFF"])
MAX_BACKOFF = int(os.environ["MAX_BACKOFF"])
MAX_AGE = int(os.environ["MAX_AGE"])
RETRY_QUEUE_URL = os.environ["RETRY_QUEUE_URL"]
DEAD_LETTER_QUEUE_URL = os.environ["DEAD_LETTER_QUEUE_URL"]

sqs = boto3.client("sqs")
functions = boto3.client("lambda")


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Handles a batch, and reports the messages that must stay in the queue."""
    staying = [record["messageId"] for record in event["Records"] if stays(record)]
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in staying]}


def stays(record: dict[str, Any]) -> bool:
    """Handles one message. If that fails, only this message stays in the queue, and the others are still handled."""
    try:
        return handle(record)
    except Exception as error:
        print(f"{record['messageId']}: {error!r}")
        return True


def handle(record: dict[str, Any]) -> bool:
    """Makes the one call that a message needs. Returns whether the message stays in the queue."""
    failure = json.loads(record["body"])
    payload = failure["requestPayload"]
    if "_retry_metadata" in payload:
        metadata = payload["_retry_metadata"]
        payload = payload["_original_payload"]
        attempt = metadata["attempt"] + 1
        initial_timestamp = metadata["initial_timestamp"]
    else:
        attempt = 1
        initial_timestamp = int(datetime.fromisoformat(failure["timestamp"]).timestamp())

    if time.time() - initial_timestamp > MAX_AGE:
        sqs.send_message(QueueUrl=DEAD_LETTER_QUEUE_URL, MessageBody=json.dumps(payload))
        return False

    # The count is approximate. At worst, a message waits twice or not at all.
    if int(record["attributes"]["ApproximateReceiveCount"]) <= 1:
        ceiling = min(MAX_BACKOFF, BASE_BACKOFF * 2 ** (attempt - 1))
        sqs.change_message_visibility(
            QueueUrl=RETRY_QUEUE_URL,
            ReceiptHandle=record["receiptHandle"],
            VisibilityTimeout=round(random.uniform(BASE_BACKOFF, ceiling)),
        )
        return True

    envelope = {
        "_retry_metadata": {"attempt": attempt, "initial_timestamp": initial_timestamp},
        "_original_payload": payload,
    }
    functions.invoke(
        FunctionName=failure["requestContext"]["functionArn"],
        InvocationType="Event",
        Payload=json.dumps(envelope),
    )
    return False
