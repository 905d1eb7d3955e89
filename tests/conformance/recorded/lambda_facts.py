"""What AWS Lambda was recorded to do, asked of the local cloud from outside."""

import json
from pathlib import Path
from typing import Any

from bootstrap import zipped
from endpoints import ROLE

from recorded import Cloud, same

FUNCTION = Path(__file__).with_name("function.py").read_bytes()


def a_runtime_that_exits_is_an_exit_error(aws: Cloud) -> None:
    _function(aws)
    for status, what in ((0, "without providing a reason"), (1, "with error: exit status 1")):
        _failed(aws, {"exit": status}, "Runtime.ExitError", f"Runtime exited {what}")


def a_time_out_is_of_the_sandbox(aws: Cloud) -> None:
    _function(aws, Timeout=1)
    _failed(aws, {"sleep": 60}, "Sandbox.Timedout", "Task timed out after 1.00 seconds")


def _function(
    aws: Cloud,
    own: str = "f",
    init: dict[str, Any] | None = None,
    do: dict[str, Any] | None = None,
    **settings: Any,
) -> str:
    """Creates the function `function.py`; its name."""
    variables = {"INIT": json.dumps(init or {}), "DO": json.dumps(do or {})}
    aws.functions.create_function(
        FunctionName=aws.name(own),
        Role=ROLE,
        Runtime="provided.al2023",
        Handler="bootstrap",
        Code={"ZipFile": zipped(FUNCTION)},
        Environment={"Variables": variables},
        **settings,
    )
    return aws.name(own)


def _invoke(aws: Cloud, event: Any, own: str = "f") -> dict[str, Any]:
    payload = json.dumps(event)
    return dict(aws.functions.invoke(FunctionName=aws.name(own), Payload=payload))


def _failed(aws: Cloud, event: Any, error_type: str, what: str) -> None:
    """Holds what an invocation's error is to what Lambda itself says of it."""
    answer = _invoke(aws, event)
    request_id = answer["ResponseMetadata"]["RequestId"]
    message = f"RequestId: {request_id} Error: {what}"
    same(answer["FunctionError"], "Unhandled")
    same(
        json.loads(answer["Payload"].read()), {"errorType": error_type, "errorMessage": message}
    )
