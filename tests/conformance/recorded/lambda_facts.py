"""Checks of facts about AWS Lambda: invocations, events, and the settings of functions."""

import json
import re
import signal
from typing import Any

from endpoints import ACCOUNT, REGION

from recorded import ERROR, INVALID, NOT_FOUND, Cloud, create_function, function, function_arn, refusal, same

# How an invocation ends


def a_runtime_that_exits_is_an_exit_error(aws: Cloud) -> None:
    function(aws)
    for status, what in ((0, "without providing a reason"), (1, "with error: exit status 1")):
        _failed(aws, {"exit": status}, "Runtime.ExitError", f"Runtime exited {what}")


def a_runtime_that_exits_at_its_start_is_an_exit_error(aws: Cloud) -> None:
    function(aws, variables={"INIT_EXIT": "0"})
    _failed(aws, {}, "Runtime.ExitError", "Runtime exited without providing a reason")


def a_wrapper_that_is_missing_is_an_exit_error(aws: Cloud) -> None:
    # In the local cloud a wrapper can be any command of this machine, which takes the place of a runtime.
    function(
        aws,
        PackageType="Image",
        Code={"ImageUri": "local-command"},
        ImageConfig={"Command": ["python3"]},
        variables={"AWS_LAMBDA_EXEC_WRAPPER": "/no/such/wrapper"},
    )
    _failed(aws, {}, "Runtime.ExitError", "Runtime exited with error: exit status 127")


def a_time_out_is_of_the_sandbox(aws: Cloud) -> None:
    function(aws, Timeout=1)
    _failed(aws, {"sleep": 60}, "Sandbox.Timedout", "Task timed out after 1.00 seconds")


def a_segmentation_fault_at_the_start_is_a_time_out(aws: Cloud) -> None:
    function(aws, Timeout=1, variables={"INIT_SIGNAL": str(int(signal.SIGSEGV))})
    _failed(aws, {}, "Sandbox.Timedout", "Task timed out after 1.00 seconds")


def a_function_keeps_its_memory_until_it_times_out(aws: Cloud) -> None:
    function(aws, Timeout=1)
    counts = [_answer(_invoke(aws, {"count": True})) for _ in range(2)]
    _invoke(aws, {"sleep": 60})
    same([*counts, _answer(_invoke(aws, {"count": True}))], [1, 2, 1])


def a_response_that_is_too_large_is_an_error_of_the_function(aws: Cloud) -> None:
    function(aws)
    answer = _invoke(aws, {"bytes": 7 * 1024 * 1024})
    same(answer["FunctionError"], "Unhandled")
    size = "maximum allowed payload size (6291556 bytes)"
    message = f"Response payload size exceeded {size}."
    same(
        _answer(answer),
        {"errorType": "Function.ResponseSizeTooLarge", "errorMessage": message},
    )


def an_invocation_is_answered_by_its_type(aws: Cloud) -> None:
    function(aws)
    for kind, status, payload in (
        ("RequestResponse", 200, b"null"),
        ("Event", 202, b""),
        ("DryRun", 204, b""),
    ):
        answer = _invoke(aws, {"answer": None}, InvocationType=kind)
        same((answer["StatusCode"], answer["Payload"].read()), (status, payload))


def an_invocation_of_an_absent_function_names_its_version(aws: Cloud) -> None:
    name = aws.name("none")
    same(
        refusal(aws.functions.invoke, FunctionName=name),
        (*NOT_FOUND, f"Function not found: {function_arn(name)}:$LATEST"),
    )


def a_function_of_another_region_is_out_of_reach(aws: Cloud) -> None:
    arn = f"arn:aws:lambda:ap-southeast-1:{ACCOUNT}:function:f"
    message = f"Functions from 'ap-southeast-1' are not reachable in this region ('{REGION}')"
    for call in (
        aws.functions.invoke,
        aws.functions.get_function,
        aws.functions.delete_function,
        aws.functions.get_function_concurrency,
        aws.functions.get_function_event_invoke_config,
    ):
        same(refusal(call, FunctionName=arn), (*NOT_FOUND, message))


def a_payload_must_be_json(aws: Cloud) -> None:
    function(aws)
    for payload in (b"n\x87r\x9e", b'"\x99"'):
        status, code, message = refusal(aws.functions.invoke, FunctionName=aws.name("f"), Payload=payload)
        same((status, code), (400, "InvalidRequestContentException"))
        assert message.startswith("Could not parse request body into json: "), message


def without_concurrency_an_invocation_is_throttled(aws: Cloud) -> None:
    function(aws)
    _reserve(aws, 0)
    try:
        _invoke(aws, {})
    except aws.functions.exceptions.TooManyRequestsException as error:
        same(error.response["ResponseMetadata"]["HTTPStatusCode"], 429)
        reason = "ReservedFunctionConcurrentInvocationLimitExceeded"
        same((error.response["Reason"], error.response["message"]), (reason, "Rate Exceeded."))
    else:
        raise AssertionError("expected to be throttled")


# Events and their destinations


def a_failure_record_has_these_members(aws: Cloud) -> None:
    event = {"error": ERROR}
    request_id, message = _record(aws, event, MaximumRetryAttempts=0)
    record = json.loads(message["Body"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", record.pop("timestamp"))
    same(
        record,
        {
            "version": "1.0",
            "requestContext": _context(aws, request_id, "RetriesExhausted", 1),
            "requestPayload": event,
            "responseContext": {
                "statusCode": 200,
                "executedVersion": "$LATEST",
                "functionError": "Unhandled",
            },
            "responsePayload": ERROR,
        },
    )


def the_record_of_a_success_has_no_function_error(aws: Cloud) -> None:
    event = {"answer": [1]}
    request_id, message = _record(aws, event)
    record = json.loads(message["Body"])
    same(record["requestContext"], _context(aws, request_id, "Success", 1))
    same(record["responseContext"], {"statusCode": 200, "executedVersion": "$LATEST"})
    same(record["responsePayload"], [1])


def a_retry_that_would_come_too_late_is_not_made(aws: Cloud) -> None:
    request_id, message = _record(aws, {"error": ERROR}, MaximumEventAgeInSeconds=60)
    record = json.loads(message["Body"])
    same(record["requestContext"], _context(aws, request_id, "EventAgeExceeded", 1))
    same(record["responsePayload"], ERROR)


def an_event_that_may_not_run_becomes_a_record_without_a_response(aws: Cloud) -> None:
    request_id, message = _record(aws, {}, paused=True, MaximumRetryAttempts=0)
    record = json.loads(message["Body"])
    del record["timestamp"]
    same(
        record,
        {
            "version": "1.0",
            "requestContext": _context(aws, request_id, "ZeroReservedConcurrency", 0),
            "requestPayload": {},
        },
    )


def every_record_belongs_to_a_trace(aws: Cloud) -> None:
    for paused in (False, True):
        _, message = _record(aws, {"error": ERROR}, paused=paused, MaximumRetryAttempts=0)
        header = message["Attributes"]["AWSTraceHeader"]
        assert re.match(r"Root=1-[0-9a-f]{8}-[0-9a-f]{24};", header), header


def a_record_comes_from_a_session_of_the_functions_role(aws: Cloud) -> None:
    _, message = _record(aws, {"error": ERROR}, MaximumRetryAttempts=0)
    sender = message["Attributes"]["SenderId"]
    assert re.fullmatch(r"AROA[A-Z0-9]{17}:awslambda_\d+_\d{17}", sender), sender


def a_dead_letter_is_the_event_with_the_failure_in_attributes(aws: Cloud) -> None:
    dead_letters = aws.queue()
    function(aws, DeadLetterConfig={"TargetArn": aws.queue_arn()})
    _configure(aws, MaximumRetryAttempts=0)
    event = {"error": ERROR}
    request_id = _invoke(aws, event, InvocationType="Event")["ResponseMetadata"]["RequestId"]
    message = aws.receive(dead_letters)
    same(json.loads(message["Body"]), event)
    same(
        message["MessageAttributes"],
        {
            "ErrorCode": {"DataType": "Number", "StringValue": "200"},
            "ErrorMessage": {"DataType": "String", "StringValue": "no stock"},
            "RequestID": {"DataType": "String", "StringValue": request_id},
        },
    )


def an_empty_dead_letter_config_keeps_what_is_there(aws: Cloud) -> None:
    aws.queue()
    config = {"TargetArn": aws.queue_arn()}
    name = function(aws, DeadLetterConfig=config)
    for _ in range(2):
        answer = aws.functions.update_function_configuration(FunctionName=name, DeadLetterConfig={})
        same(answer["DeadLetterConfig"], config)


# Functions and their settings


def a_new_function_is_pending(aws: Cloud) -> None:
    same(create_function(aws)["State"], "Pending")


def a_runtime_that_there_is_not_is_refused(aws: Cloud) -> None:
    for runtime in ("non-existent-runtime", "PYTHON3.9"):
        status, code, message = refusal(create_function, aws=aws, Runtime=runtime)
        same((status, code), INVALID)
        beginning = f"Value {runtime} at 'runtime' failed to satisfy constraint: "
        assert message.startswith(beginning), message


def an_environment_of_over_4_kb_is_refused(aws: Cloud) -> None:
    status, code, message = refusal(create_function, aws=aws, variables={"LARGE": "x" * 4096})
    same((status, code), INVALID)
    limit = "the environment variables you have provided exceeded the 4KB limit"
    assert limit in message, message


def reserved_concurrency_is_kept(aws: Cloud) -> None:
    name = function(aws)

    def reserved() -> Any:
        answer = aws.functions.get_function_concurrency(FunctionName=name)
        return answer.get("ReservedConcurrentExecutions")

    same(reserved(), None)
    for concurrency in (0, 1):
        same(_reserve(aws, concurrency)["ReservedConcurrentExecutions"], concurrency)
        same(reserved(), concurrency)
    aws.functions.delete_function_concurrency(FunctionName=name)
    same(reserved(), None)


def reserved_concurrency_of_an_absent_function_is_not_found(aws: Cloud) -> None:
    name = aws.name("f")
    for concurrency in (1, -1):
        same(
            refusal(_reserve, aws=aws, concurrency=concurrency),
            (*NOT_FOUND, f"Function not found: {function_arn(name)}:$LATEST"),
        )


def a_part_of_the_accounts_concurrency_cannot_be_reserved(aws: Cloud) -> None:
    function(aws)
    # The local cloud's account has a concurrency of 100, and the other checks need the rest of it.
    status, code, message = refusal(_reserve, aws=aws, concurrency=50)
    same((status, code), INVALID)
    assert "below its minimum value of" in message, message


def a_function_in_a_loop_is_stopped_by_default(aws: Cloud) -> None:
    of = {"FunctionName": function(aws)}
    same(aws.functions.get_function_recursion_config(**of)["RecursiveLoop"], "Terminate")
    aws.functions.put_function_recursion_config(RecursiveLoop="Allow", **of)
    same(aws.functions.get_function_recursion_config(**of)["RecursiveLoop"], "Allow")
    same(
        refusal(aws.functions.put_function_recursion_config, RecursiveLoop="InvalidValue", **of),
        (
            400,
            "ValidationException",
            "1 validation error detected: Value 'InvalidValue' at 'recursiveLoop' failed to satisfy "
            "constraint: Member must satisfy enum value set: [Terminate, Allow]",
        ),
    )


def an_event_invoke_config_is_told_with_both_destinations(aws: Cloud) -> None:
    arn = f"{function_arn(function(aws))}:$LATEST"
    none: dict[str, Any] = {"OnSuccess": {}, "OnFailure": {}}
    for settings in (
        {"MaximumRetryAttempts": 0},
        {"MaximumEventAgeInSeconds": 60},
        {"DestinationConfig": {"OnSuccess": {}}},
        {"DestinationConfig": {"OnFailure": {}}},
    ):
        answer = _configure(aws, **settings)
        told = {name: answer[name] for name in answer.keys() - {"LastModified", "ResponseMetadata"}}
        same(told, {**settings, "DestinationConfig": none, "FunctionArn": arn})


def an_event_invoke_config_is_put_anew_and_updated_in_parts(aws: Cloud) -> None:
    of = {"FunctionName": function(aws)}
    limits = {"MaximumRetryAttempts": 2, "MaximumEventAgeInSeconds": 60}

    def told() -> dict[str, Any]:
        answer = aws.functions.get_function_event_invoke_config(**of)
        return {name: answer[name] for name in limits if name in answer}

    _configure(aws, **limits)
    aws.functions.update_function_event_invoke_config(MaximumRetryAttempts=0, **of)
    same(told(), {**limits, "MaximumRetryAttempts": 0})
    _configure(aws, MaximumRetryAttempts=0)
    same(told(), {"MaximumRetryAttempts": 0})


def an_event_invoke_config_that_sets_nothing_is_refused(aws: Cloud) -> None:
    message = "You must specify at least one of error handling or destination setting."
    same(refusal(_configure, aws=aws), (*INVALID, message))


def a_destination_that_cannot_be_is_refused(aws: Cloud) -> None:
    arn = function_arn(function(aws))
    absent = function_arn("doesnotexist")
    for destination, expected in (
        (arn, "You can't specify the function as a destination for itself."),
        (absent, f"The destination ARN {absent} is invalid."),
        (arn.replace(":lambda:", ":iam:"), None),
    ):
        config = {"OnSuccess": {"Destination": destination}}
        status, code, message = refusal(_configure, aws=aws, DestinationConfig=config)
        same((status, code), INVALID)
        if expected is not None:
            same(message, expected)
    other = function_arn(function(aws, "other"))
    answer = _configure(aws, DestinationConfig={"OnSuccess": {"Destination": other}})
    same(answer["DestinationConfig"], {"OnSuccess": {"Destination": other}, "OnFailure": {}})


def event_invoke_configs_that_there_are_not(aws: Cloud) -> None:
    functions = aws.functions
    absent = {"FunctionName": aws.name("none")}
    without = {"FunctionName": function(aws)}
    put = {"MaximumRetryAttempts": 1}
    for call, of in (
        (functions.put_function_event_invoke_config, {**absent, **put}),
        (functions.update_function_event_invoke_config, {**absent, **put}),
        (functions.list_function_event_invoke_configs, absent),
    ):
        same(refusal(call, **of), (*NOT_FOUND, "The function doesn't exist."))
    for call, of in (
        (functions.get_function_event_invoke_config, absent),
        (functions.delete_function_event_invoke_config, absent),
        (functions.get_function_event_invoke_config, without),
        (functions.delete_function_event_invoke_config, without),
        (functions.update_function_event_invoke_config, {**without, **put}),
    ):
        arn = f"{function_arn(str(of['FunctionName']))}:$LATEST"
        message = f"The function {arn} doesn't have an EventInvokeConfig"
        same(refusal(call, **of), (*NOT_FOUND, message))
    same(functions.list_function_event_invoke_configs(**without)["FunctionEventInvokeConfigs"], [])


# Helpers


def _reserve(aws: Cloud, concurrency: int) -> dict[str, Any]:
    return dict(
        aws.functions.put_function_concurrency(FunctionName=aws.name("f"), ReservedConcurrentExecutions=concurrency)
    )


def _configure(aws: Cloud, **settings: Any) -> dict[str, Any]:
    """Sets the function's event invoke config."""
    put = aws.functions.put_function_event_invoke_config
    return dict(put(FunctionName=aws.name("f"), **settings))


def _invoke(aws: Cloud, event: Any, **parameters: Any) -> dict[str, Any]:
    of = {"FunctionName": aws.name("f"), "Payload": json.dumps(event)}
    return dict(aws.functions.invoke(**of, **parameters))


def _answer(invoked: dict[str, Any]) -> Any:
    return json.loads(invoked["Payload"].read())


def _failed(aws: Cloud, event: Any, error_type: str, what: str) -> None:
    """Checks that an invocation fails with this error type and message of Lambda itself."""
    answer = _invoke(aws, event)
    request_id = answer["ResponseMetadata"]["RequestId"]
    message = f"RequestId: {request_id} Error: {what}"
    same(answer["FunctionError"], "Unhandled")
    same(_answer(answer), {"errorType": error_type, "errorMessage": message})


def _record(aws: Cloud, event: Any, *, paused: bool = False, **settings: Any) -> tuple[str, dict[str, Any]]:
    """Sends an event to a new function, whose two destinations are the same queue. Returns the request id and the
    message that arrives in the queue."""
    own = "paused" if paused else "running"
    records = aws.queue(own)
    destination = {"Destination": aws.queue_arn(own)}
    name = function(aws, own)
    aws.functions.put_function_event_invoke_config(
        FunctionName=name,
        DestinationConfig={"OnSuccess": destination, "OnFailure": destination},
        **settings,
    )
    if paused:
        aws.functions.put_function_concurrency(FunctionName=name, ReservedConcurrentExecutions=0)
    payload = json.dumps(event)
    invoked = aws.functions.invoke(FunctionName=name, InvocationType="Event", Payload=payload)
    return invoked["ResponseMetadata"]["RequestId"], aws.receive(records)


def _context(aws: Cloud, request_id: str, condition: str, count: int) -> dict[str, Any]:
    own = "running" if count else "paused"
    return {
        "requestId": request_id,
        "functionArn": f"{function_arn(aws.name(own))}:$LATEST",
        "condition": condition,
        "approximateInvokeCount": count,
    }
