"""Functions without invocations: their settings, and which settings are refused."""

from typing import Any

from answers import Notebook
from bootstrap import zipped
from endpoints import ACCOUNT, REGION, ROLE

CONFIGURATION = (
    "FunctionName",
    "FunctionArn",
    "Runtime",
    "Handler",
    "Timeout",
    "MemorySize",
    "Version",
    "CodeSha256",
    "CodeSize",
    "Environment",
)
INVOKE_CONFIG = (
    "FunctionArn",
    "MaximumRetryAttempts",
    "MaximumEventAgeInSeconds",
    "DestinationConfig",
)


def created_and_told(aws: Notebook) -> None:
    _create(aws, Timeout=7, MemorySize=256, Environment={"Variables": {"A": "1"}})
    name = aws.name("f")
    aws.function("GetFunctionConfiguration", FunctionName=name, told=CONFIGURATION)
    aws.function("GetFunctionConfiguration", FunctionName=_arn(name), told=CONFIGURATION)
    partial = f"{ACCOUNT}:function:{name}"
    aws.function("GetFunctionConfiguration", FunctionName=partial, told=CONFIGURATION)


def created_with_defaults(aws: Notebook) -> None:
    _create(aws)


def created_twice(aws: Notebook) -> None:
    _create(aws)
    _create(aws)


def settings_that_cannot_be(aws: Notebook) -> None:
    for number, wrong in enumerate(({"Timeout": 0}, {"Timeout": 901}, {"MemorySize": 127})):
        _create(aws, f"{number}", **wrong)


def that_do_not_exist(aws: Notebook) -> None:
    name = aws.name("none")
    for operation in (
        "GetFunction",
        "GetFunctionConfiguration",
        "DeleteFunction",
        "GetFunctionConcurrency",
        "GetFunctionEventInvokeConfig",
        "PutFunctionEventInvokeConfig",
        "Invoke",
    ):
        aws.function(operation, FunctionName=name)
    aws.function("PutFunctionConcurrency", FunctionName=name, ReservedConcurrentExecutions=1)


def names_that_cannot_be(aws: Notebook) -> None:
    for name in ("two words", "n" * 65, "arn:aws:lambda:x"):
        aws.function("GetFunction", FunctionName=name)


def changed(aws: Notebook) -> None:
    _create(aws)
    name = aws.name("f")
    aws.function("UpdateFunctionConfiguration", FunctionName=name, Timeout=9, told=CONFIGURATION)
    other = zipped(b"another program")
    aws.function("UpdateFunctionCode", FunctionName=name, ZipFile=other, told=CONFIGURATION)
    aws.function("UpdateFunctionConfiguration", FunctionName=name, Timeout=901)


def deleted(aws: Notebook) -> None:
    _create(aws)
    name = aws.name("f")
    aws.function("DeleteFunction", FunctionName=name)
    aws.function("GetFunction", FunctionName=name)
    aws.function("DeleteFunction", FunctionName=name)


def reserved_concurrency(aws: Notebook) -> None:
    _create(aws)
    of = {"FunctionName": aws.name("f"), "told": ("ReservedConcurrentExecutions",)}
    aws.function("GetFunctionConcurrency", **of)
    aws.function("PutFunctionConcurrency", ReservedConcurrentExecutions=0, **of)
    aws.function("GetFunctionConcurrency", **of)
    aws.function("DeleteFunctionConcurrency", FunctionName=aws.name("f"))
    aws.function("GetFunctionConcurrency", **of)


def event_invoke_config(aws: Notebook) -> None:
    _create(aws)
    of = {"FunctionName": aws.name("f"), "told": INVOKE_CONFIG}
    queue = f"arn:aws:sqs:{REGION}:{ACCOUNT}:retry-queue"
    destination = {"OnFailure": {"Destination": queue}}
    aws.function("GetFunctionEventInvokeConfig", **of)
    aws.function(
        "PutFunctionEventInvokeConfig",
        MaximumRetryAttempts=0,
        MaximumEventAgeInSeconds=60,
        DestinationConfig=destination,
        **of,
    )
    aws.function("GetFunctionEventInvokeConfig", **of)
    aws.function("DeleteFunctionEventInvokeConfig", FunctionName=aws.name("f"))
    aws.function("GetFunctionEventInvokeConfig", **of)
    aws.function("DeleteFunctionEventInvokeConfig", FunctionName=aws.name("f"))


def event_invoke_config_put_again_forgets_and_updated_keeps(aws: Notebook) -> None:
    _create(aws)
    of = {"FunctionName": aws.name("f"), "told": INVOKE_CONFIG}
    aws.function("PutFunctionEventInvokeConfig", MaximumRetryAttempts=0, **of)
    aws.function("UpdateFunctionEventInvokeConfig", MaximumEventAgeInSeconds=60, **of)
    aws.function("PutFunctionEventInvokeConfig", MaximumEventAgeInSeconds=90, **of)
    aws.function("GetFunctionEventInvokeConfig", **of)


def event_invoke_config_limits(aws: Notebook) -> None:
    _create(aws)
    of = {"FunctionName": aws.name("f"), "told": INVOKE_CONFIG}
    for attempts in (-1, 3):
        aws.function("PutFunctionEventInvokeConfig", MaximumRetryAttempts=attempts, **of)
    for seconds in (59, 21_601):
        aws.function("PutFunctionEventInvokeConfig", MaximumEventAgeInSeconds=seconds, **of)


def recursion_config(aws: Notebook) -> None:
    _create(aws)
    of = {"FunctionName": aws.name("f"), "told": ("RecursiveLoop",)}
    aws.function("GetFunctionRecursionConfig", **of)
    aws.function("PutFunctionRecursionConfig", RecursiveLoop="Allow", **of)
    aws.function("GetFunctionRecursionConfig", **of)


def _create(aws: Notebook, own: str = "f", **settings: Any) -> None:
    aws.function(
        "CreateFunction",
        FunctionName=aws.name(own),
        Role=ROLE,
        Runtime="provided.al2023",
        Handler="bootstrap",
        Code={"ZipFile": zipped(b"program")},
        told=CONFIGURATION,
        **settings,
    )


def _arn(name: str) -> str:
    return f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{name}"
