"""What AWS Lambda was recorded to do, asked of the local cloud from outside."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bootstrap import zipped
from endpoints import ACCOUNT, REGION, ROLE

from recorded import Cloud, eventually, refusal, same

FUNCTION = Path(__file__).with_name("function.py").read_bytes()

# What `function.py` only answers, whatever else it is to do.
WARM_UP = "warm up"

ERROR = {"errorType": "OrderError", "errorMessage": "no stock"}

NOT_FOUND = 404, "ResourceNotFoundException"
INVALID = 400, "InvalidParameterValueException"
REPORTS = {"FunctionResponseTypes": ["ReportBatchItemFailures"]}


# How an invocation ends


def a_runtime_that_exits_is_an_exit_error(aws: Cloud) -> None:
    _function(aws)
    for status, what in ((0, "without providing a reason"), (1, "with error: exit status 1")):
        _failed(aws, {"exit": status}, "Runtime.ExitError", f"Runtime exited {what}")


def a_runtime_that_exits_at_its_start_is_an_exit_error(aws: Cloud) -> None:
    _function(aws, variables={"INIT_EXIT": "0"})
    _failed(aws, {}, "Runtime.ExitError", "Runtime exited without providing a reason")


def a_wrapper_that_is_missing_is_an_exit_error(aws: Cloud) -> None:
    # The local cloud's form of a runtime that a wrapper starts: a command of this machine.
    _function(
        aws,
        PackageType="Image",
        Code={"ImageUri": "local-command"},
        ImageConfig={"Command": ["python3"]},
        variables={"AWS_LAMBDA_EXEC_WRAPPER": "/no/such/wrapper"},
    )
    _failed(aws, {}, "Runtime.ExitError", "Runtime exited with error: exit status 127")


def a_time_out_is_of_the_sandbox(aws: Cloud) -> None:
    _function(aws, Timeout=1)
    _failed(aws, {"sleep": 60}, "Sandbox.Timedout", "Task timed out after 1.00 seconds")


def a_segmentation_fault_at_the_start_is_a_time_out(aws: Cloud) -> None:
    # The status that a shell gives it.
    _function(aws, Timeout=1, variables={"INIT_EXIT": "139"})
    _failed(aws, {}, "Sandbox.Timedout", "Task timed out after 1.00 seconds")


def a_function_keeps_its_memory_until_it_times_out(aws: Cloud) -> None:
    _function(aws, Timeout=1)
    counts = [_answer(_invoke(aws, {"count": True})) for _ in range(2)]
    _invoke(aws, {"sleep": 60})
    same([*counts, _answer(_invoke(aws, {"count": True}))], [1, 2, 1])


def a_response_that_is_too_large_is_an_error_of_the_function(aws: Cloud) -> None:
    _function(aws)
    answer = _invoke(aws, {"bytes": 7 * 1024 * 1024})
    same(answer["FunctionError"], "Unhandled")
    size = "maximum allowed payload size (6291556 bytes)"
    message = f"Response payload size exceeded {size}."
    same(
        _answer(answer),
        {"errorType": "Function.ResponseSizeTooLarge", "errorMessage": message},
    )


def an_invocation_is_answered_by_its_type(aws: Cloud) -> None:
    _function(aws)
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
        (*NOT_FOUND, f"Function not found: {_arn(name)}:$LATEST"),
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
    _function(aws)
    for payload in (b'n\x87r\x9e', b'"\x99"'):
        status, code, message = refusal(
            aws.functions.invoke, FunctionName=aws.name("f"), Payload=payload
        )
        same((status, code), (400, "InvalidRequestContentException"))
        assert message.startswith("Could not parse request body into json: "), message


def without_concurrency_an_invocation_is_throttled(aws: Cloud) -> None:
    _function(aws)
    _reserve(aws, 0)
    try:
        _invoke(aws, {})
    except aws.functions.exceptions.TooManyRequestsException as error:
        same(error.response["ResponseMetadata"]["HTTPStatusCode"], 429)
        reason = "ReservedFunctionConcurrentInvocationLimitExceeded"
        same((error.response["Reason"], error.response["message"]), (reason, "Rate Exceeded."))
    else:
        raise AssertionError("expected to be throttled")


# What becomes of events


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
    _function(aws, DeadLetterConfig={"TargetArn": aws.queue_arn()})
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
    name = _function(aws, DeadLetterConfig=config)
    for _ in range(2):
        answer = aws.functions.update_function_configuration(FunctionName=name, DeadLetterConfig={})
        same(answer["DeadLetterConfig"], config)


# Functions and what is set of them


def a_new_function_is_pending(aws: Cloud) -> None:
    same(_create(aws)["State"], "Pending")


def a_runtime_that_there_is_not_is_refused(aws: Cloud) -> None:
    for runtime in ("non-existent-runtime", "PYTHON3.9"):
        status, code, message = refusal(_create, aws=aws, Runtime=runtime)
        same((status, code), INVALID)
        beginning = f"Value {runtime} at 'runtime' failed to satisfy constraint: "
        assert message.startswith(beginning), message


def an_environment_of_over_4_kb_is_refused(aws: Cloud) -> None:
    status, code, message = refusal(_create, aws=aws, variables={"LARGE": "x" * 4096})
    same((status, code), INVALID)
    limit = "the environment variables you have provided exceeded the 4KB limit"
    assert limit in message, message


def reserved_concurrency_is_kept(aws: Cloud) -> None:
    name = _function(aws)

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
            (*NOT_FOUND, f"Function not found: {_arn(name)}:$LATEST"),
        )


def a_part_of_the_accounts_concurrency_cannot_be_reserved(aws: Cloud) -> None:
    _function(aws)
    # Of the 100 that the local cloud has; the other checks run in the rest.
    status, code, message = refusal(_reserve, aws=aws, concurrency=50)
    same((status, code), INVALID)
    assert "below its minimum value of" in message, message


def a_function_in_a_loop_is_stopped_by_default(aws: Cloud) -> None:
    of = {"FunctionName": _function(aws)}
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
    arn = f"{_arn(_function(aws))}:$LATEST"
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
    of = {"FunctionName": _function(aws)}
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
    arn = _arn(_function(aws))
    absent = _arn("doesnotexist")
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
    other = _arn(_function(aws, "other"))
    answer = _configure(aws, DestinationConfig={"OnSuccess": {"Destination": other}})
    same(answer["DestinationConfig"], {"OnSuccess": {"Destination": other}, "OnFailure": {}})


def event_invoke_configs_that_there_are_not(aws: Cloud) -> None:
    functions = aws.functions
    absent = {"FunctionName": aws.name("none")}
    without = {"FunctionName": _function(aws)}
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
        arn = f"{_arn(str(of['FunctionName']))}:$LATEST"
        message = f"The function {arn} doesn't have an EventInvokeConfig"
        same(refusal(call, **of), (*NOT_FOUND, message))
    same(functions.list_function_event_invoke_configs(**without)["FunctionEventInvokeConfigs"], [])


# Mappings


def a_mapping_is_told_with_these_members(aws: Cloud) -> None:
    _, mapping = _mapped(aws, {})
    uuid = mapping["UUID"]
    told = mapping.keys() - {"LastModified", "ResponseMetadata"}
    same(
        {name: mapping[name] for name in told},
        {
            "BatchSize": 10,
            "EventSourceArn": aws.queue_arn("source"),
            "EventSourceMappingArn": f"arn:aws:lambda:{REGION}:{ACCOUNT}:event-source-mapping:{uuid}",
            "FunctionArn": _arn(aws.name("f")),
            "FunctionResponseTypes": [],
            "MaximumBatchingWindowInSeconds": 0,
            "State": "Creating",
            "StateTransitionReason": "USER_INITIATED",
            "UUID": uuid,
        },
    )


def a_mapping_passes_through_states(aws: Cloud) -> None:
    forwarded = aws.queue("forwarded")
    source, mapping = _mapped(aws, {"forward": forwarded})
    of = {"UUID": mapping["UUID"]}
    same(mapping["State"], "Creating")
    # It delivers once it is enabled.
    aws.sqs.send_message(QueueUrl=source, MessageBody="1")
    aws.receive(forwarded)
    same(aws.functions.get_event_source_mapping(**of)["State"], "Enabled")
    same(aws.functions.update_event_source_mapping(BatchSize=5, **of)["State"], "Updating")
    eventually(lambda: aws.functions.get_event_source_mapping(**of)["State"] == "Enabled")
    same(aws.functions.delete_event_source_mapping(**of)["State"], "Deleting")


def a_mapping_that_cannot_be_is_refused(aws: Cloud) -> None:
    create = aws.functions.create_event_source_mapping
    absent = {"FunctionName": aws.name("none"), "EventSourceArn": aws.queue_arn("none")}
    existing = {"FunctionName": _function(aws), "EventSourceArn": aws.queue_arn("none")}
    destination = {"DestinationConfig": {"OnSuccess": {"Destination": aws.queue_arn("other")}}}
    for of, message in (
        ({"FunctionName": aws.name("none")}, "Unrecognized event source."),
        (absent, "Function does not exist"),
        (
            {**absent, **destination},
            "Unsupported DestinationConfig parameter for given event source mapping type.",
        ),
        (
            existing,
            "Error occurred while ReceiveMessage. SQS Error Code: "
            "AWS.SimpleQueueService.NonExistentQueue. SQS Error Message: The specified queue does "
            "not exist.",
        ),
    ):
        same(refusal(create, **of), (*INVALID, message))


def a_queue_is_mapped_to_a_function_once(aws: Cloud) -> None:
    _, mapping = _mapped(aws, {})
    name, arn = aws.name("f"), aws.queue_arn("source")
    same(
        refusal(aws.functions.create_event_source_mapping, FunctionName=name, EventSourceArn=arn),
        (
            409,
            "ResourceConflictException",
            f'An event source mapping with SQS arn (" {arn} ") and function (" {name} ") already '
            f"exists. Please update or delete the existing mapping with UUID {mapping['UUID']}",
        ),
    )


def mappings_that_there_are_not(aws: Cloud) -> None:
    functions = aws.functions
    of = {"UUID": "00000000-0000-4000-8000-000000000000"}
    message = "The resource you requested does not exist."
    for call in (functions.get_event_source_mapping, functions.delete_event_source_mapping):
        same(refusal(call, **of), (*NOT_FOUND, message))
    same(
        refusal(functions.update_event_source_mapping, Enabled=False, **of), (*NOT_FOUND, message)
    )
    for of in ({"FunctionName": aws.name("none")}, {"EventSourceArn": aws.queue_arn("none")}):
        same(functions.list_event_source_mappings(**of)["EventSourceMappings"], [])


def a_filter_keeps_messages_from_the_function(aws: Cloud) -> None:
    pattern = json.dumps({"body": ["wanted"]})
    _mapped(aws, {}, FilterCriteria={"Filters": [{"Pattern": pattern}]})


def a_batch_is_told_with_these_members(aws: Cloud) -> None:
    record = _delivered(aws)
    assert record.pop("messageId")
    assert record.pop("receiptHandle")
    attributes = record.pop("attributes")
    same(
        attributes.keys(),
        {
            "ApproximateReceiveCount",
            "SentTimestamp",
            "SenderId",
            "ApproximateFirstReceiveTimestamp",
        },
    )
    same(
        record,
        {
            "body": "1",
            "messageAttributes": {},
            "md5OfBody": "c4ca4238a0b923820dcc509a6f75849b",
            "eventSource": "aws:sqs",
            "eventSourceARN": aws.queue_arn("source"),
            "awsRegion": REGION,
        },
    )


def a_mapping_with_a_window_says_that_a_message_has_no_attributes(aws: Cloud) -> None:
    record = _delivered(aws, MaximumBatchingWindowInSeconds=1)
    same(record.get("md5OfMessageAttributes", "absent"), None)


def message_attributes_are_told_in_lambdas_form(aws: Cloud) -> None:
    sent = {
        "Title": {"DataType": "String", "StringValue": "The Whistler"},
        "Author": {"DataType": "String", "StringValue": "John Grisham"},
        "WeeksOn": {"DataType": "Number", "StringValue": "6"},
    }
    record = _delivered(aws, attributes=sent)
    same(record["md5OfMessageAttributes"], "d25a6aea97eb8f585bfa92d314504a92")
    same(
        record["messageAttributes"],
        {
            name: {
                "stringValue": attribute["StringValue"],
                "stringListValues": [],
                "binaryListValues": [],
                "dataType": attribute["DataType"],
            }
            for name, attribute in sent.items()
        },
    )


def only_the_named_failures_of_a_batch_come_again(aws: Cloud) -> None:
    def scenario(source: str, forwarded: str) -> None:
        for body in ("good", "bad"):
            aws.sqs.send_message(QueueUrl=source, MessageBody=body)
        seen: list[tuple[str, str]] = []
        while len(seen) < 3:
            for record in json.loads(aws.receive(forwarded)["Body"])["Records"]:
                seen.append((record["body"], record["attributes"]["ApproximateReceiveCount"]))
        same(sorted(seen), [("bad", "1"), ("bad", "2"), ("good", "1")])

    _batches(aws, {"fail": ["bad"]}, scenario, **REPORTS)


def a_report_that_is_wrong_fails_the_whole_batch(aws: Cloud) -> None:
    for number, wrong in enumerate(
        (
            {"itemIdentifier": "not-of-this-batch"},
            {"itemIdentifier": ""},
            {"itemIdentifier": None},
            {"itemIdentifier": 123},
            {"foo": 123},
            {"foo": None},
        )
    ):
        report = {"answer": {"batchItemFailures": [wrong]}}
        _batches(aws, report, lambda *of: _comes_again(aws, *of), own=f"{number}", **REPORTS)


def an_error_fails_the_whole_batch(aws: Cloud) -> None:
    _batches(aws, {"error": ERROR}, lambda *of: _comes_again(aws, *of), **REPORTS)


def what_says_nothing_of_failures_is_success(aws: Cloud) -> None:
    for number, response in enumerate(
        ("", [], None, {}, {"batchItemFailures": []}, {"batchItemFailures": None})
    ):
        answer = {"answer": response}
        _batches(aws, answer, lambda *of: _is_done(aws, *of), own=f"{number}", **REPORTS)


def a_message_that_keeps_failing_is_dead_lettered_as_it_is(aws: Cloud) -> None:
    dead_letters = aws.queue("dead")
    redrive = json.dumps({"deadLetterTargetArn": aws.queue_arn("dead"), "maxReceiveCount": 2})

    def scenario(source: str, forwarded: str) -> None:
        sent = aws.sqs.send_message(QueueUrl=source, MessageBody="1")
        message = aws.receive(dead_letters)
        same((message["MessageId"], message["Body"]), (sent["MessageId"], "1"))

    _batches(aws, {"error": ERROR}, scenario, queue={"RedrivePolicy": redrive})


# How they are asked


def _create(
    aws: Cloud,
    own: str = "f",
    do: dict[str, Any] | None = None,
    variables: dict[str, str] | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Creates a function of `function.py`, which does what `do` says, or else what its event says."""
    environment = {"Variables": {"DO": json.dumps(do), **(variables or {})}}
    described = {
        "FunctionName": aws.name(own),
        "Role": ROLE,
        "Runtime": "provided.al2023",
        "Handler": "bootstrap",
        "Code": {"ZipFile": zipped(FUNCTION)},
        "Environment": environment,
    }
    return dict(aws.functions.create_function(**{**described, **settings}))


def _function(aws: Cloud, own: str = "f", **settings: Any) -> str:
    """Creates a function, and waits until it can be invoked; its name."""
    _create(aws, own, **settings)
    aws.functions.get_waiter("function_active_v2").wait(FunctionName=aws.name(own))
    return aws.name(own)


def _arn(name: str) -> str:
    return f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{name}"


def _reserve(aws: Cloud, concurrency: int) -> dict[str, Any]:
    return dict(
        aws.functions.put_function_concurrency(
            FunctionName=aws.name("f"), ReservedConcurrentExecutions=concurrency
        )
    )


def _configure(aws: Cloud, **settings: Any) -> dict[str, Any]:
    """Puts the function's event invoke config."""
    put = aws.functions.put_function_event_invoke_config
    return dict(put(FunctionName=aws.name("f"), **settings))


def _invoke(aws: Cloud, event: Any, **parameters: Any) -> dict[str, Any]:
    of = {"FunctionName": aws.name("f"), "Payload": json.dumps(event)}
    return dict(aws.functions.invoke(**of, **parameters))


def _answer(invoked: dict[str, Any]) -> Any:
    return json.loads(invoked["Payload"].read())


def _failed(aws: Cloud, event: Any, error_type: str, what: str) -> None:
    """Holds what an invocation's error is to what Lambda itself says of it."""
    answer = _invoke(aws, event)
    request_id = answer["ResponseMetadata"]["RequestId"]
    message = f"RequestId: {request_id} Error: {what}"
    same(answer["FunctionError"], "Unhandled")
    same(_answer(answer), {"errorType": error_type, "errorMessage": message})


def _record(
    aws: Cloud, event: Any, *, paused: bool = False, **settings: Any
) -> tuple[str, dict[str, Any]]:
    """Sends an event to a new function with a queue for both its destinations; the event's request id,
    and the message that comes of it."""
    own = "paused" if paused else "running"
    records = aws.queue(own)
    destination = {"Destination": aws.queue_arn(own)}
    name = _function(aws, own)
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
        "functionArn": f"{_arn(aws.name(own))}:$LATEST",
        "condition": condition,
        "approximateInvokeCount": count,
    }


def _mapped(
    aws: Cloud,
    do: dict[str, Any],
    own: str = "",
    queue: dict[str, str] | None = None,
    **settings: Any,
) -> tuple[str, dict[str, Any]]:
    """A queue that is mapped to a function, which is warm: its URL, and the mapping. What fails is seen
    again after three seconds."""
    source = aws.queue(f"source{own}", VisibilityTimeout="3", **(queue or {}))
    name = _function(aws, f"f{own}", do=do, Timeout=3)
    aws.functions.invoke(FunctionName=name, Payload=json.dumps(WARM_UP))
    mapping = aws.functions.create_event_source_mapping(
        FunctionName=name, EventSourceArn=aws.queue_arn(f"source{own}"), **settings
    )
    return source, dict(mapping)


def _batches(
    aws: Cloud,
    do: dict[str, Any],
    scenario: Callable[[str, str], None],
    own: str = "",
    **settings: Any,
) -> None:
    """Runs a scenario on a mapped queue and on the queue that its function forwards its events to.
    Afterwards nothing of it runs on."""
    forwarded = aws.queue(f"forwarded{own}")
    source, mapping = _mapped(aws, {"forward": forwarded, **do}, own, **settings)
    try:
        scenario(source, forwarded)
    finally:
        aws.functions.delete_event_source_mapping(UUID=mapping["UUID"])


def _delivered(aws: Cloud, attributes: dict[str, Any] | None = None, **settings: Any) -> Any:
    """A message with the body 1 as a mapping delivers it."""
    records: list[Any] = []

    def scenario(source: str, forwarded: str) -> None:
        aws.sqs.send_message(QueueUrl=source, MessageBody="1", MessageAttributes=attributes or {})
        records.extend(json.loads(aws.receive(forwarded)["Body"])["Records"])

    _batches(aws, {}, scenario, **settings)
    (record,) = records
    return record


def _comes_again(aws: Cloud, source: str, forwarded: str) -> None:
    aws.sqs.send_message(QueueUrl=source, MessageBody="1")
    for count in ("1", "2"):
        (record,) = json.loads(aws.receive(forwarded)["Body"])["Records"]
        same((record["body"], record["attributes"]["ApproximateReceiveCount"]), ("1", count))


def _is_done(aws: Cloud, source: str, forwarded: str) -> None:
    aws.sqs.send_message(QueueUrl=source, MessageBody="1")
    aws.receive(forwarded)
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    of = {"QueueUrl": source, "AttributeNames": names}
    eventually(lambda: {*aws.sqs.get_queue_attributes(**of)["Attributes"].values()} == {"0"})
