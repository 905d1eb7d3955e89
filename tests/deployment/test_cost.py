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
from cost import BUSY, QUIET, Counted, Usage, Way  # noqa: E402
from count import counted as count_anew  # noqa: E402

HANDLER = ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "debug/retry-handler"

# The tolerance for log bytes, because durations in the log have different numbers of digits.
LOG_TOLERANCE = 0.03

# The calls of a batch in each mode, and those for each of its messages.
CHANGE, READ = {"ChangeMessageVisibilityBatch": 1}, {"BatchGetItem": 1}
KINDS: dict[tuple[str, str], tuple[dict[str, int], dict[str, int]]] = {
    ("waits", "plain"): (CHANGE, {}),
    ("waits", "ledger"): (CHANGE, {}),
    ("waits", "register"): (CHANGE, {"PutItem": 1}),
    ("waits", "probes"): (CHANGE, {"PutItem": 1}),
    ("invoked", "plain"): ({}, {"Invoke": 1}),
    ("invoked", "ledger"): ({}, {"Invoke": 1, "PutItem": 2}),
    ("invoked", "register"): (READ, {"Invoke": 1, "PutItem": 2}),
    ("invoked", "probes"): (READ, {"Invoke": 1, "PutItem": 2}),
    ("waits", "transparent"): (CHANGE | READ, {}),
    ("invoked", "transparent"): (READ, {"Invoke": 1, "TransactWriteItems": 2}),
    ("waits", "records"): (CHANGE, {"GetObject": 1}),
    ("invoked", "records"): ({}, {"Invoke": 1, "GetObject": 1}),
    ("given_up", "plain"): ({"SendMessageBatch": 1}, {}),
}


def kind(fate: str, mode: str, size: int) -> dict[str, Any]:
    """A batch with 1,000 bytes of log per message in a warm environment, including CloudWatch's overhead."""
    of_batch, of_message = KINDS[fate, mode]
    calls = of_batch | {name: size * count for name, count in of_message.items()}
    if mode == "probes" and size > 1:
        calls["UpdateItem"] = 1
    lines = len(cost.PLATFORM_LINES) + 1
    added = sum(map(len, cost.PLATFORM_LINES)) + lines * cost.LINE_OVERHEAD_BYTES
    return {
        "fate": fate,
        "messages": size,
        "mode": mode,
        "calls": calls,
        # A batch with probes or a register reads the items of its messages and of their target.
        "largest_requests": dict.fromkeys(calls, 1000)
        # Without envelopes it reads two items of each message consistently, and the transactions have five items.
        | (
            {"BatchGetItem": 4 * size, "TransactWriteItems": 5} if mode == "transparent" else {"BatchGetItem": size + 1}
        ),
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

    def test_a_function_without_envelopes_has_ten_units_of_transactions_and_four_consistent_reads_for_a_retry(
        self,
    ) -> None:
        # Two KiB of claim and note for 14 days.
        kept = 2.048 * 0.25 * 14 / 30
        for size in (BUSY, QUIET):
            expected = 10 * 0.625 + 4 * 0.125 + kept
            self.assert_dollars(cost.retry(ROUND, Way(size, "transparent")), "DynamoDB", expected)

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

    def test_a_claim_is_billed_by_the_size_of_the_larger_item_that_it_replaces(self) -> None:
        way = Way(QUIET, "register")
        large = copy.deepcopy(ROUND)
        large.of("waits", way)["largest_requests"]["PutItem"] = 1025
        more = cost.retry(large, way)
        more.subtract(cost.retry(ROUND, way))
        # The wait, its entry in the index, the claim, and the entry's removal take two units instead of one.
        self.assert_dollars(more, "DynamoDB", 4 * 0.625 + 25 * 0.25e-3 * 2 * 0.5 / 30)

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
        with_alarms = cost.deployed(10, 1, 11, with_alarms=True)
        self.assertEqual((with_alarms["sqs_request"], with_alarms["alarm"]), (11 * 657_000, 14 + 33 + 70))

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


class CountTest(unittest.TestCase):
    def test_a_function_without_envelopes_takes_at_most_one_read_a_batch_and_one_write_a_message_more(self) -> None:
        kinds = json.loads((ROOT / "infra/cost/counted.json").read_text())["batches"]
        calls = {(each["mode"], each["fate"], each["messages"]): each["calls"] for each in kinds}
        compared = [key for key in calls if key[0] == "transparent"]
        self.assertEqual(len(compared), 4)
        for _, fate, size in compared:
            own, enveloped = calls["transparent", fate, size], calls["ledger", fate, size]
            self.assertLessEqual(own.get("BatchGetItem", 0), 1)
            more = own.get("TransactWriteItems", 0) - enveloped.get("PutItem", 0)
            self.assertLessEqual(more, size)
            others = {name: count for name, count in own.items() if name not in ("BatchGetItem", "TransactWriteItems")}
            self.assertEqual(others, {name: count for name, count in enveloped.items() if name != "PutItem"})

    def test_it_needs_the_counted_calls(self) -> None:
        before = json.loads((ROOT / "infra/cost/counted.json").read_text())
        now = asyncio.run(count_anew(HANDLER))
        for old, new in zip(before["batches"], now["batches"], strict=True):
            allowed = LOG_TOLERANCE * old["log_bytes"]
            self.assertAlmostEqual(new["log_bytes"], old["log_bytes"], delta=allowed, msg=old)
            new["log_bytes"] = old["log_bytes"]
        self.assertEqual(now, before)
