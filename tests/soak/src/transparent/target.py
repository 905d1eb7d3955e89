"""The function of soak-target.rs."""

import json
import os


class ConnectionFailed(Exception):
    pass


class PermanentFailure(Exception):
    pass


def handler(event, context):
    run = context.aws_request_id
    print(json.dumps({"run": run, "trace": os.environ["_X_AMZN_TRACE_ID"]}), flush=True)
    if int(run[:2], 16) >= event["fails"]:
        return
    if event["how"] == "crash":
        os._exit(1)
    raise globals()[event["how"]]("the upstream is down")
