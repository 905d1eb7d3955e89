"""Helpers for functions, which the checks of several topics use."""

import json
from pathlib import Path
from typing import Any

from bootstrap import zipped
from endpoints import ACCOUNT, REGION, ROLE

from recorded import Cloud

PROGRAM = Path(__file__).with_name("function.py").read_bytes()

# An error as a function itself reports it.
ERROR = {"errorType": "OrderError", "errorMessage": "no stock"}

# The status and the code of a refusal.
NOT_FOUND = 404, "ResourceNotFoundException"
INVALID = 400, "InvalidParameterValueException"


def create_function(
    aws: Cloud,
    own: str = "f",
    do: dict[str, Any] | None = None,
    variables: dict[str, str] | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Creates a function with the code `function.py`. `do` or, without that, its event says what it does."""
    environment = {"Variables": {"DO": json.dumps(do), **(variables or {})}}
    described = {
        "FunctionName": aws.name(own),
        "Role": ROLE,
        "Runtime": "provided.al2023",
        "Handler": "bootstrap",
        "Code": {"ZipFile": zipped(PROGRAM)},
        "Environment": environment,
    }
    return dict(aws.functions.create_function(**{**described, **settings}))


def function(aws: Cloud, own: str = "f", **settings: Any) -> str:
    """Creates a function, and waits until it can be invoked. Returns its name."""
    create_function(aws, own, **settings)
    aws.functions.get_waiter("function_active_v2").wait(FunctionName=aws.name(own))
    return aws.name(own)


def function_arn(name: str) -> str:
    return f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{name}"
