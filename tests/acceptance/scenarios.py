"""The scenarios. The name of each function states what must hold."""

import json
import secrets
import uuid
from typing import Any

from botocore.exceptions import ClientError
from endpoints import queue_arn
from maker import ATTEMPTS_MAX
from play import public_functions
from stack import life_of_failing
from world import Failed, Skipped, World

# CloudWatch publishes metrics a minute or two late, and evaluates an alarm once a minute.
ALARM_SECONDS = 480


def the_request_id_of_an_answer_is_that_of_the_failure_record(world: World) -> None:
    """Functions without an envelope (`TRANSPARENT`) need this."""
    event = secrets.token_hex(6)
    answered = world.send_bytes("Spied", json.dumps({"id": event, "fail": {}}).encode())
    world.until("records", lambda: len(world.spied(event)), 1)
    recorded = json.loads(world.spied(event)[0]["Body"])["requestContext"].get("requestId")
    if recorded is None and world.account.emulator:
        raise Skipped("its failure records name no request id")
    if answered != recorded:
        raise Failed(
            f"the answer of Invoke names {answered}, and the failure record {recorded}: don't use TRANSPARENT here, "
            "but an envelope"
        )


def an_event_that_fails_twice_comes_back(world: World) -> None:
    event = world.send("Orders", fail={"attempts": 2})
    world.until("attempts that succeeded", lambda: world.placed(event), [2])


def an_event_comes_back_after_a_crash(world: World) -> None:
    event = world.send("Held", fail={"attempts": 1, "by": "crash"})
    world.until("attempts that succeeded", lambda: world.placed(event), [1])


def an_event_is_given_up_after_the_maximum_of_attempts(world: World) -> None:
    event = world.send("Orders", fail={})
    world.until("reason", lambda: world.reason(event), "max_attempts_exceeded")
    _equal("attempts", world.letter(event)[1], str(ATTEMPTS_MAX))


def a_permanent_failure_is_given_up_at_once(world: World) -> None:
    event = world.send("Shell", type="PermanentFailure")
    world.until("reason", lambda: world.reason(event), "not_retryable")
    _equal("attempts", world.letter(event)[1], "0")


def a_retry_waits_as_long_as_the_function_says(world: World) -> None:
    world.send("Shell", type="RetryAfter", message="6s: the upstream says 429")

    def ages() -> list[int]:
        """How many seconds after its failure the event was re-invoked."""
        return [line["age_seconds"] for line in world.handled(of="Shell", error_type="RetryAfter", decision="invoke")]

    # Without the retry hint, it would be at most 2 s.
    world.until("whether it was re-invoked after 6 s", lambda: [age >= 6 for age in ages()], [True])


def poison_is_set_aside_with_all_its_bytes(world: World) -> None:
    """Careless parsing would change some of these bytes."""
    event = secrets.token_hex(6)
    bytes_of = f'{{ "b":12345678901234567890123456789, "a":1.10,"id":"{event}", "text":"é \\u00e9 \U0001f600" }}'
    stranger = f"arn:aws:lambda:{world.account.region}:999999999999:function:foreign:$LATEST"
    world.fail(stranger, str(uuid.uuid4()), bytes_of)
    world.until("dead letter", lambda: world.letter(event), ("target_not_allowed", "0", bytes_of))
    unread = f"no JSON at all: {secrets.token_hex(6)}\t\u00e9 \U0001f600"
    world.put(unread)
    world.until("dead letter", lambda: world.letter(unread), ("unreadable", "", unread))


def all_events_of_a_throttled_function_come_back(world: World) -> None:
    _limit(world, "Narrow", 1)
    events = [world.send("Narrow", seconds=0.5, fail={"attempts": 1}) for _ in range(4)]
    world.until("how often each succeeded", lambda: [len(world.placed(each)) for each in events], [1] * len(events))


def events_of_a_function_without_concurrency_wait_for_it(world: World) -> None:
    _limit(world, "Halted", 0)
    event = world.send("Halted")
    world.until("whether it waits", lambda: any(world.handled(of="Halted", decision="wait")), True)
    _equal("attempts that succeeded", world.placed(event), [])
    world.account.client("lambda").delete_function_concurrency(FunctionName=world.names["Halted"])
    world.until("how often it succeeded", lambda: len(world.placed(event)), 1)


def a_failure_that_is_delivered_twice_is_retried_once(world: World) -> None:
    event, request_id = secrets.token_hex(6), str(uuid.uuid4())
    arn = world.arn("Orders")
    world.fail(arn, request_id, json.dumps({"id": event}))
    # A duplicate that arrives while the first is being handled waits for the end of the claim, which takes longer.
    world.until("re-invocations", lambda: len(world.handled(request_id=request_id, decision="invoke")), 1)
    world.fail(arn, request_id, json.dumps({"id": event}))
    world.until("dropped duplicates", lambda: len(world.handled(request_id=request_id, decision="drop")), 1)
    world.until("attempts that succeeded", lambda: world.placed(event), [1])


def an_operator_has_a_waiting_event_retried_now(world: World) -> None:
    event = _waiting(world, "Slow")
    done = world.comeback("waiting", "retry-now", "--message", event, "--yes")["done"]
    _equal("ordered", sum(done["ordered"].values()), 1)
    world.until("attempts that succeeded", lambda: world.placed(event), [1])


def an_operator_cancels_a_waiting_event(world: World) -> None:
    event = _waiting(world, "Slow")
    world.comeback("waiting", "cancel", "--message", event, "--yes")
    world.until("reason", lambda: world.reason(event), "cancelled")
    _equal("attempts that succeeded", world.placed(event), [])


def events_of_a_paused_function_wait_until_it_is_resumed(world: World) -> None:
    """A resumed function's events are retried up to 15 minutes later. A run has less time, so it uses an order."""
    function, event = world.names["Paused"], secrets.token_hex(6)
    world.comeback("pause", function, "--yes", as_operator=_may_look(world))
    # Needs the qualified ARN, which ministack's records lack.
    world.fail(world.arn("Paused"), str(uuid.uuid4()), json.dumps({"id": event}), event)

    def longest() -> float:
        return max((line.get("delay_seconds", 0) for line in world.handled(of="Paused")), default=0)

    # The backoff is at most 2 s, and the pause puts the event back for 12 to 15 minutes.
    world.until("whether it was put back for long", lambda: longest() > 600, True)
    _equal("attempts that succeeded", world.placed(event), [])
    world.comeback("resume", function, "--yes", as_operator=_may_look(world))
    world.comeback("waiting", "retry-now", "--message", event, "--yes")
    world.until("attempts that succeeded", lambda: world.placed(event), [1])


def waits_become_delays_when_too_many_are_in_flight(world: World) -> None:
    events = [world.send("Crowd", fail={"attempts": 3}) for _ in range(6)]
    world.until("whether there were delays", lambda: any(world.handled("Second", message="waits as a delay")), True)
    world.until("how often each succeeded", lambda: [len(world.placed(each)) for each in events], [1] * len(events))


def the_queues_refuse_strangers(world: World) -> None:
    """The caller has all permissions, but is not an operator."""
    queue = world.systems["Retry"].retry_queue_name
    sqs = world.account.client("sqs")
    try:
        # Nothing ever receives this message.
        url = sqs.get_queue_url(QueueName=queue)["QueueUrl"]
        sqs.send_message(QueueUrl=url, MessageBody="forged", DelaySeconds=900)
    except ClientError as error:
        code = error.response["Error"]["Code"]
        _equal("whether it was denied", "AccessDenied" in code, True)
        return
    raise Failed("a message of a stranger: expected to be denied, got accepted")


def a_stopped_loop_is_given_up_with_its_reason(world: World) -> None:
    """Lambda stops a loop after about 16 invocations."""
    event = world.send("Looping", fail={})
    world.until("reason", lambda: world.reason(event), "recursion_stopped")


def the_redrive_of_the_console_brings_dead_letters_back(world: World) -> None:
    second = world.systems["Second"]
    sqs = second.operators_queues()
    with world.second_letters:
        event = world.send("Crowd", fail={"attempts": 1, "error": "PermanentFailure"})
        _until_listed(world, event)
        source = queue_arn(sqs, second.variables()["DEAD_LETTER_QUEUE_URL"])
        sqs.start_message_move_task(SourceArn=source, DestinationArn=second.retry_queue_arn)
        # The redriven event starts over with attempt 1.
        world.until("attempts that succeeded", lambda: world.placed(event), [1])


def the_program_lists_dead_letters(world: World) -> None:
    with world.second_letters:
        _until_listed(world, world.send("Doomed", fail={}))


def an_alarm_goes_off(world: World) -> None:
    """The whole path: a log line, its metric, a query on metrics, the alarm."""
    world.send("Orders", fail={})
    name = world.names["Retry/EventsGivenUpAlarm"]
    cloudwatch = world.account.client("cloudwatch")

    def state() -> str:
        (alarm,) = cloudwatch.describe_alarms(AlarmNames=[name])["MetricAlarms"]
        return alarm["StateValue"]

    world.until("state of the alarm EventsGivenUp", state, "ALARM", ALARM_SECONDS)


def the_doctor_finds_no_problem(world: World) -> None:
    (system,) = world.comeback("doctor", world.names["Orders"], as_operator=False)["systems"]
    problems = [f"{each['name']}: {each}" for each in system["findings"] if each["verdict"] == "bad"]
    _equal("problems", problems, [])


def the_status_names_each_function(world: World) -> None:
    told = world.comeback("status", as_operator=_may_look(world))
    functions = {each["function"] for each in told["functions"]}
    expected = {world.arn(name) for name in ("Orders", "Slow", "Held", "Shell")}
    _equal("functions that are missing", sorted(expected - functions), [])


def the_trace_tells_the_life_of_an_event(world: World) -> None:
    event = world.send("Orders", fail={})
    world.until("reason", lambda: world.reason(event), "max_attempts_exceeded")
    (letter,) = (each for each in world.letters() if event in each["Body"])
    event_id = letter["MessageAttributes"]["RequestId"]["StringValue"]

    def turns(steps: list[str]) -> list[str]:
        """The steps without faults, such as a throttled call, and without the waits after them."""
        return [step for step in steps if step in ("failed", "retried", "given_up")]

    def life() -> Any:
        told = world.comeback("trace", event_id, as_operator=_may_look(world))
        return turns([step["what"] for step in told["steps"]]), told["next"]

    steps, end = life_of_failing(ATTEMPTS_MAX)
    world.until("the life of the event", life, (turns(steps), end))


def _equal(what: str, got: Any, expected: Any) -> None:
    if got != expected:
        raise Failed(f"{what}: expected {expected!r}, got {got!r}")


def _limit(world: World, function: str, executions: int) -> None:
    """Reserves concurrency for a function. Skips the scenario if the account has too little."""
    try:
        world.account.client("lambda").put_function_concurrency(
            FunctionName=world.names[function], ReservedConcurrentExecutions=executions
        )
    except ClientError as error:
        if "UnreservedConcurrentExecution" in str(error):
            raise Skipped("the account has too little concurrency to reserve any") from None
        raise


def _may_look(world: World) -> bool:
    """Whether the operator may use commands that show the state. deployed.py says why not in ministack."""
    return world.account.emulator != "ministack"


def _waiting(world: World, function: str) -> str:
    """Sends a function an event that fails once. Returns the event's id once it waits."""
    event = world.send(function, fail={"attempts": 1})

    def waiting() -> int:
        return len(world.comeback("waiting", "--message", event)["events"])

    world.until("how many events are listed as waiting", waiting, 1)
    return event


def _until_listed(world: World, event: str) -> None:
    def listed() -> int:
        return len(world.comeback("dead", "list", "--message", event, system="Second")["letters"])

    world.until("how many dead letters are listed", listed, 1)


SCENARIOS = public_functions(globals())
