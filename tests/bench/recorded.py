"""The same messages as notices of a bucket, in which the failure records are."""

import json
from collections.abc import Sequence

from messages import REGION, Batch

BUCKET = "records"


def recorded(batches: Sequence[Batch]) -> tuple[list[Batch], dict[str, bytes]]:
    """The batches with a notice in place of each failure record, and the records by the paths of their objects."""
    made, objects = [], {}
    for batch in batches:
        event = json.loads(batch.event)
        for record in event["Records"]:
            key = f"aws/lambda/async/orders/2026/02/01/2026-02-01T12.00.00-{record['messageId']}"
            objects[f"/{BUCKET}/{key}"] = record["body"].encode()
            record["body"] = json.dumps(_notice(key, record["messageId"], len(record["body"])), separators=(",", ":"))
        made.append(Batch(batch.messages, json.dumps(event, separators=(",", ":")).encode()))
    return made, objects


def _notice(key: str, id_: str, size: int) -> dict[str, object]:
    """What S3 sends about an object, with the members that it was recorded to have."""
    digits = id_.replace("-", "")
    notice = {
        "eventVersion": "2.1",
        "eventSource": "aws:s3",
        "awsRegion": REGION,
        "eventTime": "2026-02-01T12:00:01.234Z",
        "eventName": "ObjectCreated:Put",
        "userIdentity": {"principalId": "AWS:AROAEXAMPLEEXAMPLEXMP:orders"},
        "requestParameters": {"sourceIPAddress": "203.0.113.7"},
        "responseElements": {"x-amz-request-id": digits[:16].upper(), "x-amz-id-2": digits * 2},
        "s3": {
            "s3SchemaVersion": "1.0",
            "configurationId": "orders",
            "bucket": {
                "name": BUCKET,
                "ownerIdentity": {"principalId": "A1EXAMPLEXMPL2"},
                "arn": f"arn:aws:s3:::{BUCKET}",
            },
            "object": {"key": key, "size": size, "eTag": digits, "sequencer": digits[:18].upper()},
        },
    }
    return {"Records": [notice]}
