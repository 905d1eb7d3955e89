"""What tests send: the code of functions, and failure records."""

import io
import uuid
import zipfile
from datetime import UTC, datetime
from typing import Any


def zipped(files: dict[str, bytes]) -> bytes:
    """Makes a zip of files that everybody may run. The same files always give the same bytes."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name)
            # The mode of a regular file that everybody may run.
            entry.external_attr = 0o100755 << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED, 1)
    return packed.getvalue()


def failure_record(
    function_arn: str,
    payload: Any,
    failed_at: datetime | None = None,
    request_id: str = "",
    error: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The document that Lambda sends to a destination when a function has failed, now by default."""
    timestamp = (failed_at or datetime.now(UTC)).isoformat(timespec="milliseconds")
    return {
        "version": "1.0",
        "timestamp": timestamp.replace("+00:00", "Z"),
        "requestContext": {
            "requestId": request_id or str(uuid.uuid4()),
            "functionArn": function_arn,
            "condition": "RetriesExhausted",
            "approximateInvokeCount": 1,
        },
        "requestPayload": payload,
        "responseContext": {"statusCode": 200, "executedVersion": "$LATEST", "functionError": "Unhandled"},
        "responsePayload": error or {"errorType": "UpstreamUnavailable", "errorMessage": ""},
    }
