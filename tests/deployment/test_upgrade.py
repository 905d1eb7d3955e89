"""Compares the statements of UPGRADE.md with the real handler, of which it needs the debug build."""

import json
import re
import time
import unittest
from collections.abc import Iterator, Sequence
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
        (waiting,) = handler.kept(batches_of(Fate.WAITS, 1, 1), handler.LEDGER | {"REGISTER": "true"})
        run = members("ledger item of a run")
        without = run | members("without an envelope also")
        # A message's own attributes are no part of the format.
        back = now["queue_message_sent_back"]["attributes"].keys() - handler.OWN_ATTRIBUTES.keys()
        again = now["queue_message_sent_again"]["attributes"].keys() - back - handler.OWN_ATTRIBUTES.keys()
        for kind, written, listed in (
            ("dead letter", now["dead_letter"]["attributes"], members("dead letter")),
            ("re-sent message", now["sent_again"]["attributes"], members("re-sent message")),
            ("dead letter of a queue", now["queue_dead_letter"]["attributes"], members("dead letter")),
            ("re-sent message of a queue", again, members("re-sent message")),
            ("message sent back", back, members("message sent back")),
            ("envelope", now["envelope"] | now["envelope"]["_retry_metadata"], members("envelope")),
            ("run", now["claim"], run),
            ("waiting event", waiting, run | members("and of an event that waits")),
            ("function", now["circuit"], members("ledger item of a function")),
            ("failure that a call retries", handler.members(now["without_envelope"]["held"]), without),
            ("run that a call has started", handler.members(now["without_envelope"]["note"]), without),
        ):
            self.assertLessEqual(set(written), listed, kind)


class HandlerTest(unittest.TestCase):
    def test_a_version_or_an_alias_that_is_gone_is_a_configuration_fault_and_the_events_wait(self) -> None:
        log = handler_log(Fate.INVOKED, "Invoke", (404, "ResourceNotFoundException"))
        said = {name: value for line in log if "_aws" in line for name, value in line.items()}
        self.assertEqual((said["ConfigurationFaults"], said["Waited"]), (10, 10))
        self.assertNotIn("DeadLettered", said)


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

    def sent_back(self, batches: Sequence[handler.Batch]) -> tuple[str, Any]:
        """The body and the metadata with which a queue's message is sent back, after a check of its own attributes."""
        message = handler.sent(handler.played(batches, handler.QUEUES))
        metadata = message["attributes"].pop("_retry_metadata", None)
        self.assertEqual(message["attributes"], handler.OWN_ATTRIBUTES)
        return message["body"], metadata and json.loads(metadata["StringValue"])

    def test_a_queues_message_whose_consumer_fails_again_is_counted_on(self) -> None:
        for recorded in self.recorded.values():
            before = recorded["queue_message_sent_back"]
            metadata = json.loads(before["attributes"]["_retry_metadata"]["StringValue"])
            again = self.sent_back(handler.moved(before["body"], before["attributes"], self.at))
            self.assertEqual(again, (before["body"], {**metadata, "attempt": 2}))

    def test_a_queues_message_that_was_sent_again_goes_on(self) -> None:
        for recorded in self.recorded.values():
            delayed = recorded["queue_message_sent_again"]
            metadata = json.loads(delayed["attributes"]["_retry_metadata"]["StringValue"])
            # The wait began with the failure, not when the message was sent.
            again = self.sent_back(handler.received(delayed["body"], delayed["attributes"], self.at + 3000))
            self.assertEqual(again, (delayed["body"], {**metadata, "attempt": 2}))

    def test_a_queues_dead_letter_starts_over_after_a_redrive(self) -> None:
        for recorded in self.recorded.values():
            letter = recorded["queue_dead_letter"]
            again = self.sent_back(handler.received(letter["body"], letter["attributes"], self.at))
            self.assertEqual(again, (letter["body"], None))

    def test_an_open_circuit_still_holds_back_all_events_but_a_probe(self) -> None:
        for recorded in self.recorded.values():
            found = handler.found(recorded["circuit"])
            seen = handler.played(batches_of(Fate.INVOKED, 10, 1), handler.PROBES, instead=found)
            self.assertEqual(len(seen.invocations), 1)
            (probing,) = handler.circuits(seen)
            self.assertIn("probing", json.loads(probing["circuit"]["S"])["phase"])

    def recalled(self, body: str, item: dict[str, Any], seconds_later: int, **system: str) -> dict[str, Any]:
        """The note of the next run after a failure of this body, if the ledger has this item."""
        table = handler.Table()
        table.put(item)
        batches = handler.received(body, {}, self.at + seconds_later, **system)
        handler.played(batches, handler.TRANSPARENT, table=table)
        *_, note = table.items()
        return note

    def test_a_retry_without_an_envelope_is_counted_on_by_its_note(self) -> None:
        for recorded in self.recorded.values():
            before = recorded["without_envelope"]
            body = handler.failed(before["payload"], before["note"]["run"]["S"], self.at)
            self.assert_next(self.recalled(body, before["note"], 1), before["note"])

    def test_what_a_handler_of_an_earlier_release_was_sending_when_it_died_is_counted_on(self) -> None:
        for recorded in self.recorded.values():
            before = recorded["without_envelope"]
            ((call, said),) = ((name, it["S"]) for name, it in before["held"].items() if name.startswith("call/"))
            run, root = "3f6a0f5e-2f0b-4c0e-9a55-5a9d6a6e7c11", json.loads(said)["root"]
            body = handler.failed(before["payload"], run, self.at + 5)
            note = self.recalled(body, before["held"], 6, AWSTraceHeader=f"Root={root};Sampled=0")
            self.assertEqual(note["parent"]["S"], run, call)
            self.assert_next(note, before["note"])

    def assert_next(self, note: dict[str, Any], before: dict[str, Any]) -> None:
        """Asserts that this is the note of the retry after the one with that note."""
        metadata = json.loads(before["metadata"]["S"])
        expected = {**metadata, "attempt": metadata["attempt"] + 1}
        self.assertEqual(json.loads(note["metadata"]["S"]), expected)

    def test_no_member_is_gone(self) -> None:
        now = handler.written_now()
        for version, recorded in self.recorded.items():
            for name, written in recorded.items():
                if isinstance(written, dict):
                    self.assertLessEqual(set(paths(written)), set(paths(now[name])), f"{version}: {name}")


def paths(value: Any, path: str = "") -> Iterator[str]:
    """The paths of all members in a JSON value, also of JSON in a string, except in lists."""
    if isinstance(value, str) and value.startswith("{"):
        value = json.loads(value)
    if isinstance(value, dict):
        for name, each in value.items():
            yield f"{path}/{name}"
            yield from paths(each, f"{path}/{name}")
