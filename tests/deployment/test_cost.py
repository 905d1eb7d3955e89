"""COST.md: the costs agree with calculations by hand, and the handler still needs the counted calls.

Counting the calls needs the retry handler's debug build.
"""

import asyncio
import copy
import json
import os
import sys
import unittest
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "infra/cost"), str(ROOT / "tests/bench")]

import cost  # noqa: E402
import tables  # noqa: E402
from cloud import NotMeasured  # noqa: E402
from cost import BUSY, QUIET, Counted, Usage, Way  # noqa: E402
from count import checked  # noqa: E402
from count import counted as count_anew  # noqa: E402
from table import ConditionFailed, Table  # noqa: E402

HANDLER = ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "debug/retry-handler"

# The tolerance for log bytes, because durations in the log have different numbers of digits.
LOG_TOLERANCE = 0.03

# The calls of a batch in each mode, those for each of its messages, and the bytes that the ledger then has of each.
CHANGE, READ = {"ChangeMessageVisibilityBatch": 1}, {"BatchGetItem": 1}
CLAIM = {"Invoke": 1, "UpdateItem": 2}
KINDS: dict[tuple[str, str], tuple[dict[str, float], dict[str, float], int]] = {
    ("waits", "plain"): (CHANGE, {}, 0),
    ("waits", "ledger"): (CHANGE, {}, 0),
    ("waits", "register"): (CHANGE, {"UpdateItem": 1}, 2000),
    ("waits", "probes"): (CHANGE, {"UpdateItem": 1}, 2000),
    ("invoked", "plain"): ({}, {"Invoke": 1}, 0),
    ("invoked", "ledger"): ({}, CLAIM, 1000),
    ("invoked", "register"): (READ, CLAIM, 1000),
    ("invoked", "probes"): (READ, CLAIM, 1000),
    # One of five failures is not found, and is queried for.
    ("waits", "drop_in"): (CHANGE | READ, {"Query": 0.2}, 0),
    ("invoked", "drop_in"): (READ, CLAIM | {"Query": 0.2}, 1200),
    ("waits", "records"): (CHANGE, {"GetObject": 1}, 0),
    ("invoked", "records"): ({}, {"Invoke": 1, "GetObject": 1}, 0),
    ("waits", "drop_in_records"): (CHANGE | READ, {"GetObject": 1, "Query": 0.2}, 0),
    ("invoked", "drop_in_records"): (READ, CLAIM | {"GetObject": 1, "Query": 0.2}, 1200),
    ("given_up", "plain"): ({"SendMessageBatch": 1}, {}, 0),
}

# DynamoDB's units of a call, if they are not one. With a register, an item is in the index while it waits.
UNITS = {("waits", "register"): 2, ("waits", "probes"): 2, ("invoked", "register"): 1.5, ("invoked", "probes"): 1.5}


def kind(fate: str, mode: str, size: int) -> dict[str, Any]:
    """A batch with 1,000 bytes of log per message in a warm environment, including CloudWatch's overhead."""
    of_batch, of_message, stored_bytes = KINDS[fate, mode]
    calls = of_batch | {name: size * count for name, count in of_message.items()}
    write_units = UNITS.get((fate, mode), 1)
    if mode == "probes" and size > 1:
        # The circuit's write takes one unit.
        write_units = (calls["UpdateItem"] * write_units + 1) / (calls["UpdateItem"] + 1)
        calls["UpdateItem"] += 1
    lines = len(cost.PLATFORM_LINES) + 1
    added = sum(map(len, cost.PLATFORM_LINES)) + lines * cost.LINE_OVERHEAD_BYTES
    return {
        "fate": fate,
        "messages": size,
        "mode": mode,
        "calls": calls,
        "sizes": {
            "ChangeMessageVisibilityBatch": 1000,
            "SendMessageBatch": 1000,
            "GetObject": 0,
            "UpdateItem": write_units,
            "Query": 1,
            # Half a unit for each key. A batch with probes or a register also reads the item of its target.
            "BatchGetItem": (size + (mode in ("register", "probes"))) / 2,
            "Invoke": 1000 if mode.startswith("drop_in") else 1100,
        },
        "stored_bytes": stored_bytes,
        "log_lines": 1,
        "log_bytes": 1000 * size - added,
        "metrics": ["A by Target", f"{fate} by Target"],
    }


# Round numbers, for calculation by hand.
ROUND = Counted(
    {
        "message": {"payload_bytes": 1000, "record_bytes": 2000, "error_bytes": 400, "notice_bytes": 900},
        "batches": [kind(*each, size) for each in KINDS for size in (BUSY, QUIET)],
    }
)


class CostTest(unittest.TestCase):
    """Dollars for a million, calculated by hand."""

    def assert_dollars(self, usage: Usage, service: str, million: float) -> None:
        self.assertAlmostEqual(cost.dollars(usage, service) * 1_000_000, million, places=3)

    def test_a_size_is_billed_by_whole_chunks(self) -> None:
        for size, expected in ((0, 1), (1, 1), (65_536, 1), (65_537, 2), (1_048_576, 16)):
            self.assertEqual(cost.chunks(size, cost.CHUNK_BYTES), expected, size)

    def test_an_asynchronous_invocation_is_a_request_up_to_256_kib_and_one_more_for_each_further_64(self) -> None:
        for size, expected in ((0, 1), (262_144, 1), (262_145, 2), (327_680, 2), (327_681, 3), (1_048_576, 13)):
            # Without the target's own run.
            self.assertEqual(cost.invoked(size)["lambda_request"], expected - 1, size)

    def test_messages_share_a_request_of_a_mebibyte_at_most(self) -> None:
        for size, messages, expected in (
            (2_000, 10, 1),
            (65_536, 10, 10),
            (102_400, 10, 16),
            # Three, three, three and one.
            (264_000, 10, 3 * 13 + 5),
            (1_048_576, 10, 160),
        ):
            self.assertEqual(cost.carried(size, messages)["sqs_request"], expected, (size, messages))

    def test_a_payload_of_a_mebibyte_takes_twelve_requests_more_and_comes_back_only_from_a_bucket_without_an_envelope(
        self,
    ) -> None:
        for size in (BUSY, QUIET):
            for mode, kib, requests in (
                ("plain", 1, 0),
                ("plain", 100, 0),
                # The envelope is 100 bytes.
                ("plain", 256, 1),
                ("drop_in", 256, 0),
                ("drop_in", 320, 1),
                ("drop_in_records", 1024, 12),
            ):
                way = Way(size, mode, kib * 1024 - ROUND.payload_bytes)
                more = cost.retry(ROUND, way)["lambda_request"] - cost.retry(ROUND, Way(size, mode))["lambda_request"]
                self.assertTrue(ROUND.is_possible(way), way)
                self.assertAlmostEqual(more, requests, msg=way)
            for mode in ("plain", "drop_in", "records"):
                self.assertFalse(ROUND.is_possible(Way(size, mode, 1_048_576 - ROUND.payload_bytes)), mode)

    def test_a_batch_shares_its_sqs_requests_except_for_sending_and_deleting(self) -> None:
        large = 100 * 1024 - 2000
        for usage, requests in (
            # Sent, received twice, changed, deleted.
            (cost.retry(ROUND, Way(QUIET)), 5.0),
            (cost.retry(ROUND, Way(BUSY)), 1 + 2 / 10 + 1 / 10 + 1),
            # Two chunks each, and sixteen for ten of them.
            (cost.retry(ROUND, Way(QUIET, more_bytes=large)), 2 + 2 * 2 + 1 + 1),
            (cost.retry(ROUND, Way(BUSY, more_bytes=large)), 2 + 2 * 16 / 10 + 1 / 10 + 1),
            # Received and changed; received, sent again and deleted; sent, received, sent again and deleted.
            (cost.handled(ROUND, "waits", Way(QUIET)), 2),
            (cost.delay(ROUND, Way(QUIET)), 3),
            (cost.delay(ROUND, Way(BUSY)), 1 / 10 + 1 / 10 + 1),
            (cost.dead_letter(ROUND, Way(QUIET)), 4),
            (cost.dead_letter(ROUND, Way(BUSY)), 1 + 1 / 10 + 1 / 10 + 1),
        ):
            self.assert_dollars(usage, "SQS", 0.40 * requests)

    @mock.patch.multiple(cost, MESSAGE_CPU_MS=0.067, START_CPU_MS=5.7)
    def test_an_invocation_is_billed_for_its_cpu_its_calls_and_its_cold_start(self) -> None:
        for fate, way, expected in (
            # 2 x 0.67 ms x 1769/128 = 18.52 ms, and one call of 25 ms.
            ("waits", Way(BUSY), 44),
            # 2 x 5.767 ms x 1769/128 = 159.40, one call, and 50.
            ("waits", Way(QUIET), 235),
            # 2 x (10 + 20) x 0.067 ms x 1769/128 = 55.56, and three calls.
            ("invoked", Way(BUSY, "ledger"), 131),
            # 2 x (10 + 22) x 0.067 ms x 1769/128 = 59.26, and five calls.
            ("invoked", Way(BUSY, "probes"), 185),
            # 2 x (10 + 10) x 0.067 ms x 1769/128 = 37.04, and one call after ten, of which three run at a time.
            ("waits", Way(BUSY, "records"), 163),
            # 2 x (10 + 1 + 2) x 0.067 ms x 1769/128 = 24.08, and a call after a read and two queries at a time.
            ("waits", Way(BUSY, "drop_in"), 100),
            # 2 x (10 + 20 + 1 + 2) x 0.067 ms x 1769/128 = 61.11, and two writes more.
            ("invoked", Way(BUSY, "drop_in"), 187),
        ):
            self.assertEqual(cost.billed_ms(ROUND, fate, way), expected, (fate, way))
        # Two invocations of a batch. 44 ms of an eighth of a GB are 0.0733 dollars a million, 235 ms 0.3917.
        self.assert_dollars(cost.retry(ROUND, Way(BUSY)), "Lambda", 2 * (0.20 + 0.0733) / 10)
        self.assert_dollars(cost.retry(ROUND, Way(QUIET)), "Lambda", 2 * (0.20 + 0.3917))

    def test_logs_are_billed_for_ingestion_and_for_a_month_of_storage(self) -> None:
        self.assert_dollars(cost.retry(ROUND, Way(BUSY)), "CloudWatch", 2 * 0.53)
        # A cold start has a line of its own: 168 characters plus 26 bytes.
        self.assert_dollars(cost.retry(ROUND, Way(QUIET)), "CloudWatch", 2 * 1.194 * 0.53)

    def test_a_ledger_is_two_writes_a_register_three_more_and_a_batch_shares_reads_and_the_write_of_probes(
        self,
    ) -> None:
        # A thousand bytes: 14 days for the claim, and half a day in the table and in the index for the wait.
        claim, wait = 0.25 * 14 / 30, 0.25 * 2 * 0.5 / 30
        for way, expected in (
            (Way(BUSY), 0),
            (Way(BUSY, "ledger"), 2 * 0.625 + claim),
            (Way(QUIET, "ledger"), 2 * 0.625 + claim),
            (Way(QUIET, "register"), 5 * 0.625 + 2 * 0.125 / 2 + claim + wait),
            (Way(BUSY, "register"), 5 * 0.625 + 1.1 * 0.125 / 2 + claim + wait),
            (Way(BUSY, "probes"), (5 + 2 / 10) * 0.625 + 1.1 * 0.125 / 2 + claim + wait),
        ):
            self.assert_dollars(cost.retry(ROUND, way), "DynamoDB", expected)

    def test_a_drop_in_retry_is_two_writes_and_a_read_and_for_one_failure_of_five_two_queries(self) -> None:
        # Twelve hundred bytes for 14 days.
        kept = 1.2 * 0.25 * 14 / 30
        for size in (BUSY, QUIET):
            expected = 2 * 0.625 + (2 * 0.5 + 2 * 0.2) * 0.125 + kept
            self.assert_dollars(cost.retry(ROUND, Way(size, "drop_in")), "DynamoDB", expected)

    def test_a_record_in_a_bucket_is_put_once_read_at_each_receive_and_kept_and_its_message_stays_small(self) -> None:
        for size in (BUSY, QUIET):
            for more in (0, 1_000_000):
                way = Way(size, "records", more)
                # A day, two weeks and a day more.
                kept = (2 + more / 1000) * 0.023 * 16 / 30
                self.assert_dollars(cost.retry(ROUND, way), "S3", 5 + 2 * 0.4 + kept)
                self.assert_dollars(
                    cost.retry(ROUND, way), "SQS", cost.dollars(cost.retry(ROUND, Way(size)), "SQS") * 1e6
                )

    def test_a_durable_function_pays_for_operations_and_data(self) -> None:
        # An error of 400 bytes, and a payload of 1,000 bytes: $0.25 a GB, and $0.07 for 14 days.
        self.assert_dollars(cost.durable_retry(ROUND), "", 8 + 0.4 * 0.32)
        self.assert_dollars(cost.durable_event(ROUND), "", 16 + 1.0 * 0.32)

    def test_a_month_has_fixed_costs_and_costs_per_retry(self) -> None:
        self.assertEqual(cost.POLLING["sqs_request"], 5 * 3 * 60 * 730)
        self.assertEqual(ROUND.target_metrics(), ["A by Target", "invoked by Target", "waits by Target"])
        for usage, expected in zip(
            cost.month(ROUND).values(),
            (
                (10_000 + 50_000) * 25e-6,
                50_000 * cost.dollars(cost.retry(ROUND, Way(QUIET))) + 657_000 * 0.4e-6 + 3 * 0.30,
                (1_000_000 * 16.32 + 50_000 * 8.128) / 1e6,
                (1_000_000 + 50_000) * 25e-6,
            ),
            strict=True,
        ):
            self.assertAlmostEqual(cost.dollars(usage), expected)

    def test_alarms_cost_by_the_metrics_that_they_watch(self) -> None:
        alarms = {
            "query": {"of": "region", "metrics": {}},
            "of a queue": {"of": "queue", "metrics": {"a": [], "b": []}},
            "of a function": {"of": "function", "metrics": {"a": []}},
            "optional": {"of": "function", "metrics": {"a": []}, "only_with": "anything"},
        }
        with mock.patch.dict(cost.DEFINITIONS, alarms, clear=True):
            month = cost.deployed(10, 1, 11, with_alarms=True)
        self.assertEqual((month["sqs_request"], month["alarm"]), (11 * 657_000, 1 + 11 * 2 + 10 * 1))

    def test_an_alarm_that_needs_something_to_be_switched_on_has_a_row_and_costs_nothing_without_it(self) -> None:
        month = partial(cost.deployed, 1, 1, 1, with_alarms=True)
        without, fixed, sentence = month(), tables.fixed(ROUND), tables.price_of_alarms()
        for of, said in (("region", "the system"), ("queue", "each retry queue"), ("function", "each target")):
            alarm = {"of": of, "only_with": "anything", "metrics": {"a": [], "b": []}}
            with mock.patch.dict(cost.DEFINITIONS, Alarm=alarm):
                added = set(tables.fixed(ROUND).splitlines()) - set(fixed.splitlines())
                self.assertEqual(added, {f"| with `anything`, alarms of {said}, on 2 more | $0.20 |"})
                self.assertEqual(month(), without)
                self.assertEqual(tables.price_of_alarms(), sentence)


class ReadmeTest(unittest.TestCase):
    """What the README and COST.md say in words about these prices."""

    counted = Counted(json.loads((ROOT / "infra/cost/counted.json").read_text()))

    def price(self, size: int, mode: str, kib: int = 1) -> float:
        way = tables.sized(self.counted, Way(size, mode), kib)
        return cost.dollars(cost.retry(self.counted, way)) * 1_000_000

    def test_drop_in_stays_within_its_goal(self) -> None:
        self.assertLessEqual(round(self.price(BUSY, "drop_in"), 2), 3.20)
        self.assertLessEqual(round(self.price(QUIET, "drop_in"), 2), 6.50)

    def test_a_durable_functions_retry_is_cheaper_where_the_pages_say_so_and_nowhere_else(self) -> None:
        theirs = cost.dollars(cost.durable_retry(self.counted)) * 1_000_000
        for size in (BUSY, QUIET):
            for mode, kib, is_cheaper in (
                ("plain", 1, False),
                ("drop_in", 1, False),
                ("drop_in", 100, False),
                ("drop_in", 256, True),
                ("everything", 1, True),
                ("drop_in_records", 1024, True),
            ):
                self.assertEqual(theirs < self.price(size, mode, kib), is_cheaper, (size, mode, kib))

    def test_the_ledgers_writes_and_the_put_of_a_record_are_most_of_everything_together(self) -> None:
        for size in (BUSY, QUIET):
            whole = cost.retry(self.counted, Way(size, "everything"))
            parts = {price: number * cost.each(price) for price, number in whole.items()}
            largest = sorted(parts, key=parts.__getitem__)[-2:]
            self.assertEqual(set(largest), {"put", "write_of_dynamodb"})
            self.assertGreater(sum(parts[price] for price in largest), sum(parts.values()) / 2)


class TableTest(unittest.TestCase):
    """The bench's table bills what DynamoDB does, and refuses what it refuses."""

    def setUp(self) -> None:
        self.table = Table({"run"})

    def put(self, size: int, id_: str = "run", **members: object) -> float:
        item = {"id": {"S": id_}, "run": {"S": "1"}, "text": {"S": "x" * size}, **members}
        return self.table.answer("PutItem", {"Item": item})[1]

    def test_a_write_is_billed_by_the_larger_item_and_by_what_changes_in_the_index(self) -> None:
        indexed = {"target": {"S": "orders"}, "due_at": {"N": "1"}}
        for size, members, expected in (
            (100, {}, 1),
            (2000, {}, 2),
            (100, {}, 2),
            # Put into the index, not changed, changed, moved, and removed.
            (100, indexed, 2),
            (100, indexed, 1),
            (200, indexed, 2),
            (200, indexed | {"due_at": {"N": "2"}}, 3),
            (200, {}, 2),
        ):
            self.assertEqual(self.put(size, **members), expected, (size, members))
        self.assertEqual(self.put(3000, id_="another"), 3)
        self.assertEqual(len(self.table.items()), 1)
        key = {"id": {"S": "run"}, "run": {"S": "1"}}
        writes = [{"Put": {"Item": key}}, {"Delete": {"Key": key}}]
        self.assertEqual(self.table.answer("TransactWriteItems", {"TransactItems": writes})[1], 4)

    def test_a_read_is_billed_by_4_kib_twice_if_it_is_consistent_and_also_if_it_finds_nothing(self) -> None:
        self.put(5000)
        keys = [{"id": {"S": id_}, "run": {"S": "1"}} for id_ in ("run", "missing")]
        for is_consistent, expected in ((False, 1.5), (True, 3)):
            wanted = {"ledger": {"Keys": keys, "ConsistentRead": is_consistent}}
            answer, units = self.table.answer("BatchGetItem", {"RequestItems": wanted})
            self.assertEqual((len(answer["Responses"]["ledger"]), units), (1, expected))
            for id_, count, of_query in (
                ("run", 1, expected - (0.5, 1)[is_consistent]),
                ("missing", 0, (0.5, 1)[is_consistent]),
            ):
                query = {
                    "KeyConditionExpression": "#id = :id",
                    "ExpressionAttributeNames": {"#id": "id"},
                    "ExpressionAttributeValues": {":id": {"S": id_}},
                    "ConsistentRead": is_consistent,
                }
                answer, units = self.table.answer("Query", query)
                self.assertEqual((answer["Count"], units), (count, of_query))

    def test_a_write_is_refused_and_billed_if_its_condition_fails(self) -> None:
        self.put(2000, state={"S": "held"}, until={"N": "10"})
        names = {"#s": "state", "#u": "until", "#n": "none"}
        values = {":held": {"S": "held"}, ":done": {"S": "done"}, ":at": {"N": "9"}, ":ru": {"S": "ru"}}
        for condition, holds in (
            ("attribute_not_exists(id)", False),
            ("attribute_exists(#s) AND #s = :held", True),
            ("#s = :done OR #s = :held AND #u < :at", False),
            ("(#s = :done OR #s = :held) AND NOT #u < :at", True),
            ("#s <> :done AND #u >= :at AND begins_with(id, :ru)", True),
            ("#n = :at OR #n > :at OR contains(id, :held)", False),
        ):
            request = {
                "Key": {"id": {"S": "run"}, "run": {"S": "1"}},
                "UpdateExpression": "SET #s = #s REMOVE #n",
                "ConditionExpression": condition,
                "ExpressionAttributeNames": names,
                "ExpressionAttributeValues": values,
            }
            with self.subTest(condition):
                if holds:
                    self.assertEqual(self.table.answer("UpdateItem", request)[1], 2)
                else:
                    with self.assertRaises(ConditionFailed) as refused:
                        self.table.answer("UpdateItem", request)
                    self.assertEqual(refused.exception.units, 2)
        key = {"id": {"S": "run"}, "run": {"S": "1"}}
        with self.assertRaises(ValueError):
            self.table.answer("UpdateItem", {"Key": key, "UpdateExpression": "SET a.b = :c"})

    def test_an_update_sets_removes_and_adds(self) -> None:
        key = {"id": {"S": "run"}, "run": {"S": "1"}}
        request = {
            "Key": key,
            "UpdateExpression": "SET a = :one, b = if_not_exists(b, :one) + :one REMOVE c ADD n :one",
            "ExpressionAttributeValues": {":one": {"N": "1"}},
        }
        for b, n in (("2", "1"), ("3", "2")):
            self.table.answer("UpdateItem", request)
            (item,) = self.table.items()
            self.assertEqual(item, key | {"a": {"N": "1"}, "b": {"N": b}, "n": {"N": n}})


class CountTest(unittest.TestCase):
    def test_nothing_is_counted_if_a_retry_takes_more_of_the_ledger_than_it_may(self) -> None:
        document = json.loads((ROOT / "infra/cost/counted.json").read_text())
        self.assertEqual(checked(document), document)
        for operation, units in (
            ("PutItem", 1),
            ("UpdateItem", 1),
            ("DeleteItem", 1),
            ("TransactWriteItems", 2),
            ("Query", 1),
        ):
            for mode in ("ledger", "drop_in_first", "drop_in_later"):
                more = copy.deepcopy(document)
                (batch,) = (
                    each
                    for each in more["batches"]
                    if (each["mode"], each["fate"], each["messages"]) == (mode, "invoked", BUSY)
                )
                batch["calls"][operation] = batch["calls"].get(operation, 0) + 1
                batch["sizes"].setdefault(operation, units)
                with self.subTest(operation, mode=mode), self.assertRaisesRegex(NotMeasured, f"{mode}, batches of 10"):
                    checked(more)

    def test_it_needs_the_counted_calls(self) -> None:
        before = json.loads((ROOT / "infra/cost/counted.json").read_text())
        now = checked(asyncio.run(count_anew(HANDLER)))
        for old, new in zip(before["batches"], now["batches"], strict=True):
            allowed = LOG_TOLERANCE * old["log_bytes"]
            self.assertAlmostEqual(new["log_bytes"], old["log_bytes"], delta=allowed, msg=old)
            new["log_bytes"] = old["log_bytes"]
        self.assertEqual(now, before)
