"""Compares the statements of UPGRADE.md with the real handler, of which it needs the debug build."""

import json
import re
import time
import unittest
from collections.abc import Iterator
from typing import Any

import handler
from handler import ROOT, Fate, handler_log
from messages import batches_of

PAGE = (ROOT / "UPGRADE.md").read_text()


def members(kind: str) -> set[str]:
    """The members that the page lists for a format."""
    (row,) = (line for line in PAGE.splitlines() if line.startswith(f"| {kind}"))
    return set(re.findall(r"`(\w+)`", row.split("|")[2]))


class FormatTest(unittest.TestCase):
    def test_each_member_that_is_written_is_on_the_page(self) -> None:
        now = handler.written_now()
        *_, waiting = handler.played(batches_of(Fate.WAITS, 1, 1), handler.LEDGER | {"REGISTER": "true"}).of("PutItem")
        claim = members("ledger item of a claim")
        for kind, written, listed in (
            ("dead letter", now["dead_letter"]["attributes"], members("dead letter")),
            ("re-sent message", now["sent_again"]["attributes"], members("re-sent message")),
            ("envelope", now["envelope"] | now["envelope"]["_retry_metadata"], members("envelope")),
            ("claim", now["claim"], claim),
            ("waiting event", waiting["Item"], claim | members("and of an event that waits")),
        ):
            self.assertLessEqual(written.keys(), listed, kind)


def metrics(log: list[dict[str, Any]]) -> dict[str, Any]:
    """The metrics of one batch by name, and the reasons of its dead letters."""
    lines = [line for line in log if "_aws" in line]
    return {name: value for line in lines for name, value in line.items() if name not in ("_aws", "Target")}


class HandlerTest(unittest.TestCase):
    def test_a_version_or_an_alias_that_is_gone_is_a_configuration_fault_and_the_events_wait(self) -> None:
        said = metrics(handler_log(Fate.INVOKED, "Invoke", (404, "ResourceNotFoundException")))
        self.assertEqual((said["ConfigurationFaults"], said["Waited"]), (10, 10))
        self.assertNotIn("DeadLettered", said)

    def test_a_function_that_is_detached_from_a_shared_queue_is_not_allowed(self) -> None:
        # The handler's settings if only payments shares the queue.
        environment = json.dumps({"QUEUE_TARGETS": '{"retry-queue":["payments"]}'})
        said = metrics(handler_log(Fate.WAITS, environment=environment))
        self.assertEqual((said["DeadLettered"], said["Reason"]), (10, "target_not_allowed"))

    def test_fewer_attempts_hold_for_events_that_wait_already(self) -> None:
        said = metrics(handler_log(Fate.WAITS, environment='{"MAX_ATTEMPTS":"1"}'))
        # Half of the ten events have been retried before.
        self.assertEqual((said["DeadLettered"], said["Reason"], said["Waited"]), (4, "max_attempts_exceeded", 6))

    def test_a_setting_that_it_does_not_know_does_not_stop_it(self) -> None:
        self.assertEqual(metrics(handler_log(Fate.INVOKED, environment='{"SETTING_OF_TOMORROW":"1"}'))["Invoked"], 10)


class ReleaseTest(unittest.TestCase):
    """This release's handler reads what each release wrote, as it was recorded."""

    def setUp(self) -> None:
        """Loads the recorded formats, as if they had been written an hour ago."""
        self.at = int(time.time()) - 3600
        self.recorded = {
            path.stem: handler.as_if_recorded(path.read_text(), self.at) for path in handler.RECORDED.glob("*.json")
        }
        self.assertTrue(self.recorded)

    def invoked(self, body: str, attributes: dict[str, Any], sent_seconds_later: int = 0) -> Any:
        """The envelope with which a message's function is invoked."""
        batches = handler.received(body, attributes, self.at + sent_seconds_later)
        ((_, envelope),) = handler.played(batches, {}).invocations
        return json.loads(envelope)

    def test_an_envelope_is_counted_on(self) -> None:
        for recorded in self.recorded.values():
            envelope = recorded["envelope"]
            failure = {**json.loads(recorded["sent_again"]["body"]), "requestPayload": envelope}
            metadata = {**envelope["_retry_metadata"], "attempt": 2}
            self.assertEqual(self.invoked(json.dumps(failure), {}), {**envelope, "_retry_metadata": metadata})

    def test_a_message_that_was_sent_again_goes_on(self) -> None:
        for recorded in self.recorded.values():
            body = recorded["sent_again"]["body"]
            failure = json.loads(body)
            # The wait began with the failure, not when the message was sent.
            envelope = self.invoked(body, recorded["sent_again"]["attributes"], sent_seconds_later=3000)
            self.assertEqual(envelope["_original_payload"], failure["requestPayload"])
            metadata = envelope["_retry_metadata"]
            expected = (1, failure["requestContext"]["requestId"])
            self.assertEqual((metadata["attempt"], metadata["request_id"]), expected)

    def test_a_dead_letter_starts_over_after_a_redrive(self) -> None:
        for recorded in self.recorded.values():
            letter = recorded["dead_letter"]
            envelope = self.invoked(letter["body"], letter["attributes"])
            self.assertEqual(envelope["_original_payload"], json.loads(letter["body"]))
            self.assertEqual(envelope["_retry_metadata"]["attempt"], 1)

    def test_a_failure_that_was_claimed_is_not_handled_again(self) -> None:
        for recorded in self.recorded.values():
            batches = handler.received(recorded["sent_again"]["body"], {}, self.at)
            seen = handler.played(batches, handler.LEDGER, recorded["claim"])
            self.assertEqual(seen.invocations, [])
            self.assertEqual(json.loads(seen.answers[0]), {"batchItemFailures": []})

    def test_no_member_is_gone(self) -> None:
        now = handler.written_now()
        for version, recorded in self.recorded.items():
            for name, written in recorded.items():
                if isinstance(written, dict):
                    self.assertLessEqual(set(paths(written)), set(paths(now[name])), f"{version}: {name}")


def paths(value: Any, path: str = "") -> Iterator[str]:
    """The paths of all members in a JSON value, except in lists."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield f"{path}/{name}"
            yield from paths(each, f"{path}/{name}")


if __name__ == "__main__":
    unittest.main()
