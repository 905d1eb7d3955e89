"""COST.md: the model agrees with calculations by hand, the tables of its pages are current, and the handler still needs
the counted calls.

Counting the calls needs the retry handler's debug build.
"""

import asyncio
import copy
import json
import os
import re
import sys
import unittest
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "infra/cost"), str(ROOT / "tests/bench")]

import model  # noqa: E402
import tables  # noqa: E402
from count import counted as count_anew  # noqa: E402
from model import (  # noqa: E402
    BUSY,
    BUSY_LISTED,
    BUSY_ONCE,
    BUSY_PROBED,
    QUIET,
    QUIET_LISTED,
    QUIET_ONCE,
    QUIET_PROBED,
    Counted,
    Deployment,
    Month,
    Way,
)
from prices import (  # noqa: E402
    CLOUDWATCH,
    DURATION,
    DYNAMODB,
    LAMBDA,
    LOG_INGESTION,
    PRICES,
    REQUEST,
    SQS,
    SQS_REQUEST,
    WRITE,
)

HANDLER = ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "debug/retry-handler"
COUNTED = ROOT / "infra/cost/counted.json"

# The tolerance for log bytes, because durations in the log have different numbers of digits.
LOG_TOLERANCE = 0.03


def kind(fate: str, messages: int, mode: str, **calls: int) -> dict[str, Any]:
    """A batch with 1,000 bytes of log per message in a warm environment, including CloudWatch's overhead."""
    lines = len(model.PLATFORM_LINES) + 1
    added = sum(map(len, model.PLATFORM_LINES)) + lines * model.LINE_OVERHEAD_BYTES
    return {
        "fate": fate,
        "messages": messages,
        "mode": mode,
        "calls": calls,
        # A batch with probes or a register reads the items of its messages and of their target.
        "largest_requests": dict.fromkeys(calls, 1000) | {"BatchGetItem": messages + 1},
        "log_lines": 1,
        "log_bytes": 1000 * messages - added,
        "metrics": ["A by Target", f"{fate} by Target"],
    }


# Round numbers, for calculation by hand.
ROUND = Counted.of(
    {
        "message": {"payload_bytes": 1000, "record_bytes": 2000, "error_bytes": 400},
        "batches": [
            kind("waits", 1, "plain", ChangeMessageVisibilityBatch=1),
            kind("waits", 10, "plain", ChangeMessageVisibilityBatch=1),
            kind("waits", 1, "ledger", ChangeMessageVisibilityBatch=1),
            kind("waits", 10, "ledger", ChangeMessageVisibilityBatch=1),
            kind("invoked", 1, "plain", Invoke=1),
            kind("invoked", 10, "plain", Invoke=10),
            kind("invoked", 1, "ledger", Invoke=1, PutItem=2),
            kind("invoked", 10, "ledger", Invoke=10, PutItem=20),
            kind("waits", 1, "register", ChangeMessageVisibilityBatch=1, PutItem=1),
            kind("waits", 10, "register", ChangeMessageVisibilityBatch=1, PutItem=10),
            kind("invoked", 1, "register", BatchGetItem=1, Invoke=1, PutItem=2),
            kind("invoked", 10, "register", BatchGetItem=1, Invoke=10, PutItem=20),
            kind("waits", 1, "probes", ChangeMessageVisibilityBatch=1, PutItem=1),
            kind("waits", 10, "probes", ChangeMessageVisibilityBatch=1, PutItem=10, UpdateItem=1),
            kind("invoked", 1, "probes", BatchGetItem=1, Invoke=1, PutItem=2),
            kind("invoked", 10, "probes", BatchGetItem=1, Invoke=10, PutItem=20, UpdateItem=1),
            kind("given_up", 1, "plain", SendMessageBatch=1),
            kind("given_up", 1, "ledger", SendMessageBatch=1, PutItem=2),
            kind("given_up", 10, "plain", SendMessageBatch=1),
        ],
    }
)


class ModelTest(unittest.TestCase):
    """Dollars for a million, calculated by hand."""

    def assert_dollars(self, one: float, million: float) -> None:
        self.assertAlmostEqual(one * 1_000_000, million, places=3)

    def test_a_size_is_billed_by_whole_chunks(self) -> None:
        for size, expected in ((0, 1), (1, 1), (65_536, 1), (65_537, 2), (1_048_576, 16)):
            self.assertEqual(model.chunks(size, model.CHUNK_BYTES), expected, size)

    def test_a_batch_shares_its_sqs_requests_except_for_sending_and_deleting(self) -> None:
        large = 100 * 1024 - 2000
        for way, requests in (
            # Sent, received twice, changed, deleted.
            (QUIET, 5.0),
            (BUSY, 1 + 2 / 10 + 1 / 10 + 1),
            # Two chunks each, and sixteen for ten of them.
            (Way(1, more_bytes=large), 2 + 2 * 2 + 1 + 1),
            (Way(10, more_bytes=large), 2 + 2 * 16 / 10 + 1 / 10 + 1),
        ):
            self.assert_dollars(model.retry(ROUND, way)[SQS], 0.40 * requests)

    def test_a_waiting_message_is_received_and_changed_but_not_deleted(self) -> None:
        self.assert_dollars(model.handled(ROUND, "waits", QUIET)[SQS], 0.40 * 2)

    def test_a_delayed_message_is_received_sent_again_and_deleted(self) -> None:
        self.assert_dollars(model.delay(ROUND, QUIET)[SQS], 0.40 * 3)
        self.assert_dollars(model.delay(ROUND, BUSY)[SQS], 0.40 * (1 / 10 + 1 / 10 + 1))

    def test_a_deployment_polls_its_queues_and_has_alarms(self) -> None:
        for way, functions, queues, alarms in (
            (Deployment.with_a_queue_each, 1, 1, 14 + 3 + 7),
            # Ten queues of functions, and one for redrives.
            (Deployment.with_a_queue_each, 10, 11, 14 + 33 + 70),
            (Deployment.with_a_shared_queue, 10, 1, 14 + 3 + 70),
            (Deployment.with_a_system_each, 10, 10, 140 + 30 + 70),
        ):
            deployed = way(functions)
            self.assertAlmostEqual(deployed.polling, queues * 657_000 * 0.4e-6)
            self.assertEqual(deployed.alarms, alarms)

    def test_an_invocation_is_billed_for_its_cpu_its_calls_and_its_cold_start(self) -> None:
        for fate, way, expected in (
            # 2 x 0.67 ms x 1769/128 = 18.52 ms, and one call of 25 ms.
            ("waits", BUSY, 44),
            # 2 x 5.767 ms x 1769/128 = 159.40, one call, and 50.
            ("waits", QUIET, 235),
            # 2 x (10 + 20) x 0.067 ms x 1769/128 = 55.56, and three calls.
            ("invoked", BUSY_ONCE, 131),
            # 2 x (5.7 + 3 x 0.067) ms x 1769/128 = 163.11, three calls, and 50.
            ("invoked", QUIET_ONCE, 289),
            # 2 x (5.7 + 2 x 0.067) ms x 1769/128 = 161.26, two calls, and 50.
            ("waits", QUIET_LISTED, 262),
            # 2 x (10 + 22) x 0.067 ms x 1769/128 = 59.26, and five calls.
            ("invoked", BUSY_PROBED, 185),
        ):
            batch = ROUND.batches[fate, way.batch, way.mode]
            self.assertEqual(model.billed_ms(batch, way), expected, (fate, way))

    def test_lambda_bills_two_invocations_of_a_batch(self) -> None:
        # 44 ms of an eighth of a GB are 0.0733 dollars a million.
        self.assert_dollars(model.retry(ROUND, BUSY)[LAMBDA], 2 * (0.20 + 0.0733) / 10)
        # 235 ms are 0.3917.
        self.assert_dollars(model.retry(ROUND, QUIET)[LAMBDA], 2 * (0.20 + 0.3917))

    def test_logs_are_billed_for_ingestion_and_for_a_month_of_storage(self) -> None:
        self.assert_dollars(model.retry(ROUND, BUSY)[CLOUDWATCH], 2 * 0.53)
        # A cold start has a line of its own: 168 characters plus 26 bytes.
        self.assertEqual(sum(map(len, model.COLD_LINES)), 168)
        self.assert_dollars(model.retry(ROUND, QUIET)[CLOUDWATCH], 2 * 1.194 * 0.53)

    def test_a_ledger_is_two_writes_of_one_item(self) -> None:
        # 14 days of 1,000 bytes.
        item = 0.25 * 14 / 30
        for way in (BUSY_ONCE, QUIET_ONCE):
            self.assert_dollars(model.retry(ROUND, way)[DYNAMODB], 2 * 0.625 + item)
        self.assertNotIn(DYNAMODB, model.retry(ROUND, BUSY))

    def test_a_register_is_one_more_write_and_two_of_its_index(self) -> None:
        # 14 days of 1,000 bytes, and half a day of 1,000 bytes in both the table and the index.
        items = 0.25 * (14 + 2 * 0.5) / 30
        self.assert_dollars(model.retry(ROUND, QUIET_LISTED)[DYNAMODB], 5 * 0.625 + 2 * 0.125 / 2 + items)
        # The messages of a batch share one read of their target's item.
        self.assert_dollars(model.retry(ROUND, BUSY_LISTED)[DYNAMODB], 5 * 0.625 + 1.1 * 0.125 / 2 + items)

    def test_a_batch_with_probes_shares_its_write(self) -> None:
        register, probes = (model.retry(ROUND, way)[DYNAMODB] for way in (BUSY_LISTED, BUSY_PROBED))
        self.assert_dollars(probes - register, 2 * 0.625 / 10)

    def test_a_claim_is_billed_by_the_size_of_the_larger_item_that_it_replaces(self) -> None:
        ways = (QUIET_LISTED, QUIET_PROBED)
        small = [model.retry(ROUND, way)[DYNAMODB] for way in ways]
        large = copy.deepcopy(ROUND)
        for way in ways:
            large.batches["waits", 1, way.mode].largest_requests["PutItem"] = 1025
        # The wait, its entry in the index, the claim, and the entry's removal take two units instead of one.
        stored = 25 * 0.25e-3 * 2 * 0.5 / 30
        for way, before in zip(ways, small, strict=True):
            self.assert_dollars(model.retry(large, way)[DYNAMODB] - before, 4 * 0.625 + stored)

    def test_a_dead_letter_is_handled_once(self) -> None:
        # Sent, received, sent again, deleted.
        self.assert_dollars(model.dead_letter(ROUND, QUIET)[SQS], 0.40 * 4)
        self.assert_dollars(model.dead_letter(ROUND, BUSY)[SQS], 0.40 * (1 + 1 / 10 + 1 / 10 + 1))

    def test_a_durable_function_pays_for_operations_and_data(self) -> None:
        # An error of 400 bytes, and a payload of 1,000 bytes: $0.25 a GB, and $0.07 for 14 days.
        self.assert_dollars(model.durable_retry(ROUND), 8 + 0.4 * 0.32)
        self.assert_dollars(model.durable_event(ROUND), 16 + 1.0 * 0.32)

    def test_an_empty_queue_is_polled_by_five_every_twenty_seconds(self) -> None:
        self.assertEqual(model.idle_requests(), 5 * 3 * 60 * 730)

    def test_a_metric_of_several_kinds_of_batches_counts_once(self) -> None:
        expected = {"A by Target", "waits by Target", "invoked by Target"}
        self.assertEqual(model.target_metrics(ROUND), expected)

    def test_a_month_has_fixed_costs_and_costs_per_retry(self) -> None:
        month = Month(events=1000, failing=0.1, retries_each=4)
        self.assertAlmostEqual(month.step_functions(), (1000 + 400) * 25e-6)
        self.assertAlmostEqual(month.step_functions_for_failures(), (100 + 400) * 25e-6)
        self.assertAlmostEqual(month.durable(ROUND), (1000 * 16.32 + 400 * 8.128) / 1e6)
        quiet = sum(model.retry(ROUND, QUIET).values())
        self.assertAlmostEqual(month.comeback(ROUND), 400 * quiet + 657_000 * 0.4e-6 + 3 * 0.30)

    def test_a_call_without_a_price_is_an_error(self) -> None:
        with self.assertRaisesRegex(ValueError, "GetItem"):
            model.called("GetItem", 100)


class PageTest(unittest.TestCase):
    """The page and its sources."""

    def test_its_tables_are_those_of_the_model(self) -> None:
        pages = [page.read_text() for page in tables.DOCUMENTS]
        made = tables.tables(Counted.of(json.loads(COUNTED.read_text())))
        self.assertEqual(tables.filled(pages, made), pages, "python3 infra/cost --write")

    def test_a_changed_number_is_detected(self) -> None:
        made = {"a": "| new |"}
        page = "text\n\n<!-- table: a -->\n\n| old |\n\n<!-- end -->\n"
        self.assertEqual(tables.filled([page], made), [page.replace("old", "new")])

    def test_a_table_without_a_place_is_refused_and_a_place_without_a_table(self) -> None:
        page = "<!-- table: a -->\n<!-- end -->\n"
        for made in ({}, {"a": "", "b": ""}):
            with self.assertRaisesRegex(ValueError, "place"):
                tables.filled([page], made)

    def test_each_price_is_in_the_list_to_its_last_digit(self) -> None:
        listed = tables.price_list()
        self.assertEqual(len(listed.splitlines()), 2 + len(PRICES))
        for amount in ("$0.0000133334 |", "$0.625 |", "$25.00 |", "$0.20 |"):
            self.assertIn(amount, listed)

    def test_the_assumed_times_are_measured(self) -> None:
        measured = (ROOT / "docs/measured.md").read_text()
        for figure, assumed in (
            ("CPU per message, each batch half and half", f"{model.MESSAGE_CPU_MS * 1000:.0f} µs"),
            ("process start to first answer", f"{model.START_CPU_MS} ms"),
        ):
            row = re.search(rf"^\| {figure} \| (.*?) \|", measured, re.MULTILINE)
            self.assertEqual(row and row[1], assumed, figure)

    def test_the_pages_have_the_same_costs(self) -> None:
        row = re.compile(r"^\| (.+?)(?:: .*)? \| (\$[\d.]+) \| (\$[\d.]+) \|$", re.MULTILINE)
        measured = row.findall((ROOT / "docs/measured.md").read_text())
        page = row.findall((ROOT / "infra/COST.md").read_text().replace("**", ""))
        self.assertEqual(len(measured), 6)
        for each in measured:
            self.assertIn(each, page)

    def test_the_templates_have_the_priced_resources(self) -> None:
        system = (ROOT / "infra/sam/template.yaml").read_text()
        target = (ROOT / "infra/sam/target-alarms.yaml").read_text()
        alarms = (template.partition("\nResources:")[2] for template in (system, target))
        of_system, of_target = (len(re.findall(" Namespace: |SELECT SUM", each)) for each in alarms)
        self.assertEqual(of_system, model.SYSTEM_ALARMS + model.QUEUE_ALARMS)
        self.assertEqual(of_target, model.TARGET_ALARMS + model.LEDGER_ALARMS + model.PROBE_ALARMS)
        self.assertIn(f"MemorySize: {model.MEMORY_MB}\n", system)
        _, _, log_days = system.partition("\n  LogRetentionDays:\n")
        default = re.search(r"^    Default: (\d+)$", log_days, re.MULTILINE)
        self.assertEqual(default and default[1], str(model.LOG_DAYS))

    def test_the_dashboards_have_the_same_prices(self) -> None:
        sam = (ROOT / "infra/sam/template.yaml").read_text()
        cdk = (ROOT / "infra/cdk/lib/dashboard.ts").read_text()
        self.assertIn(f"{model.MEMORY_MB} / 1024", sam)
        for price in (REQUEST, DURATION, SQS_REQUEST, LOG_INGESTION, WRITE):
            millions = " / 1000000" if price.unit == "million" else ""
            amount = (
                f"{price.dollars:.10f}".rstrip("0") if price.dollars < 0.1 else f"{price.dollars:.3f}".removesuffix("0")
            )
            self.assertIn(f"* {amount}{millions}", sam)
            self.assertIn(f"'{amount}{millions}'", cdk)


class CountTest(unittest.TestCase):
    """Counts the handler's calls again."""

    def test_it_needs_the_counted_calls(self) -> None:
        before = json.loads(COUNTED.read_text())
        now = asyncio.run(count_anew(HANDLER))
        self.assertEqual(self.without_log_bytes(now), self.without_log_bytes(before))
        for old, new in zip(before["batches"], now["batches"], strict=True):
            allowed = LOG_TOLERANCE * old["log_bytes"]
            self.assertAlmostEqual(new["log_bytes"], old["log_bytes"], delta=allowed, msg=old)

    @staticmethod
    def without_log_bytes(document: dict[str, Any]) -> dict[str, Any]:
        batches = [
            {name: value for name, value in batch.items() if name != "log_bytes"} for batch in document["batches"]
        ]
        return {**document, "batches": batches}


if __name__ == "__main__":
    unittest.main()
