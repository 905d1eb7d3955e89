"""The model's results as the tables of COST.md and docs/cost-sources.md."""

import re
from collections.abc import Sequence
from pathlib import Path

from model import (
    BUSY,
    BUSY_LISTED,
    BUSY_ONCE,
    BUSY_PROBED,
    DOWN_METRICS_READ,
    EVENT_TRANSITIONS,
    KIBIBYTE,
    LEDGER_ALARMS,
    LOOP_TRANSITIONS,
    PROBE_ALARMS,
    QUEUE_ALARMS,
    QUIET,
    QUIET_LISTED,
    QUIET_ONCE,
    QUIET_PROBED,
    RETRY_TRANSITIONS,
    SYSTEM_ALARMS,
    TARGET_ALARMS,
    Bill,
    Counted,
    Deployment,
    Fate,
    Month,
    Way,
    billed_ms,
    dead_letter,
    delay,
    durable_event,
    durable_retry,
    handled,
    idle_requests,
    logged_bytes,
    retry,
    target_metrics,
)
from prices import (
    ALARM,
    CLOUDWATCH,
    DASHBOARD,
    DYNAMODB,
    LAMBDA,
    METRIC,
    METRIC_READ,
    MILLION,
    PAGES,
    PRICES,
    SQS,
    SQS_REQUEST,
    TRANSITION,
    Price,
)

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "infra/COST.md", ROOT / "docs/cost-sources.md"]

LARGE_BYTES = 100 * KIBIBYTE

# The numbers of functions that are compared.
FUNCTIONS = (1, 10, 50)

MONTH = Month(events=MILLION, failing=0.01, retries_each=5)

WAYS = {
    "busy": BUSY,
    "busy, with a ledger": BUSY_ONCE,
    "busy, with a register": BUSY_LISTED,
    "busy, with register and probes": BUSY_PROBED,
    "quiet": QUIET,
    "quiet, with a ledger": QUIET_ONCE,
    "quiet, with a register": QUIET_LISTED,
    "quiet, with register and probes": QUIET_PROBED,
}


def dollars(amount: float) -> str:
    """Formats an amount."""
    return f"${amount:,.2f}"


def million(one: Bill | float) -> str:
    """Formats the dollars for a million of something."""
    return dollars((sum(one.values()) if isinstance(one, dict) else one) * MILLION)


def table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table. All columns except the first are numbers."""
    lines = [heading, ["---", *["---:"] * (len(heading) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def ways(counted: Counted) -> dict[str, Way]:
    """The kinds of batches that were counted."""
    return {name: way for name, way in WAYS.items() if counted.has(way)}


def summary(counted: Counted) -> str:
    """The cost of a million retries with each system."""
    durable = million(durable_retry(counted))
    simple = million(RETRY_TRANSITIONS * TRANSITION.each)
    loop = million(LOOP_TRANSITIONS * TRANSITION.each)
    rows = [
        ["**Comeback**", *(f"**{million(retry(counted, way))}**" for way in (BUSY, QUIET))],
        *(
            [f"Comeback with {more}", *(million(retry(counted, way)) for way in both)]
            for more, both in (
                ("a ledger", (BUSY_ONCE, QUIET_ONCE)),
                ("a register", (BUSY_LISTED, QUIET_LISTED)),
                ("register and probes", (BUSY_PROBED, QUIET_PROBED)),
            )
            if all(map(counted.has, both))
        ),
        ["Lambda's durable functions: a step's retry", durable, durable],
        ["Step Functions: a `Retry`", simple, simple],
        ["Step Functions: a loop of `Choice`, `Wait` and `Task`", loop, loop],
    ]
    return table(["a million retries", "busy: ten in a batch", "quiet: each alone"], rows)


def event(counted: Counted) -> str:
    """The cost of a million events that need no retry."""
    rows = [
        ["Comeback", dollars(0)],
        ["Lambda's durable functions: one step", million(durable_event(counted))],
        ["Step Functions: one `Task`", million(EVENT_TRANSITIONS * TRANSITION.each)],
    ]
    return table(["a million events that do not fail", "dollars"], rows)


def month(counted: Counted) -> str:
    """The cost of one function for a month."""
    heading = f"{MONTH.events:,} events, {MONTH.failing:.0%} of them fail and come back {MONTH.retries_each} times"
    rows = [
        ["Step Functions, started for failures only", dollars(MONTH.step_functions_for_failures())],
        ["Comeback, quiet", dollars(MONTH.comeback(counted))],
        ["Lambda's durable functions", dollars(MONTH.durable(counted))],
        ["Step Functions, around every event", dollars(MONTH.step_functions())],
    ]
    return table([heading, "dollars a month"], rows)


def parts(counted: Counted) -> str:
    """Comeback's cost by service."""
    services = (SQS, LAMBDA, CLOUDWATCH, DYNAMODB)
    more = LARGE_BYTES - counted.payload_bytes
    bills: dict[str, Bill] = {f"retries, {name}": retry(counted, way) for name, way in ways(counted).items()}
    bills |= {
        "retries of 100 KiB, busy": retry(counted, Way(BUSY.batch, more_bytes=more)),
        "retries of 100 KiB, quiet": retry(counted, Way(QUIET.batch, more_bytes=more)),
        "waits more, busy": handled(counted, "waits", BUSY),
        "waits more, quiet": handled(counted, "waits", QUIET),
        "waits as delays, busy": delay(counted, BUSY),
        "waits as delays, quiet": delay(counted, QUIET),
        "dead letters, busy": dead_letter(counted, BUSY),
        "dead letters, quiet": dead_letter(counted, QUIET),
        "dead letters, quiet, with a ledger": dead_letter(counted, QUIET_ONCE),
    }
    rows = [
        [name, *(million(bill.get(service, 0.0)) for service in services), million(bill)]
        for name, bill in bills.items()
    ]
    return table(["a million", *services, "together"], rows)


def counts(counted: Counted) -> str:
    """The counted calls, bytes and milliseconds of one retry."""
    fates: tuple[Fate, ...] = ("waits", "invoked")
    operations = sorted(
        {name for (fate, *_), batch in counted.batches.items() if fate in fates for name in batch.calls}
    )

    def row(name: str, way: Way) -> list[str]:
        batches = [counted.batches[fate, way.batch, way.mode] for fate in fates]
        amounts = [
            len(batches),
            *(sum(batch.calls.get(operation, 0) for batch in batches) for operation in operations),
            sum(batch.log_bytes for batch in batches),
            sum(logged_bytes(batch, way) for batch in batches),
            sum(billed_ms(batch, way) for batch in batches),
        ]
        return [name, *(f"{amount / way.batch:,.1f}".removesuffix(".0") for amount in amounts)]

    heading = [
        "of one retry",
        "handler invocations",
        *(f"`{operation}`" for operation in operations),
        "bytes of the handler's log",
        "bytes with Lambda's lines",
        "billed ms, assumed",
    ]
    return table(heading, [row(name, way) for name, way in ways(counted).items()])


def fixed(counted: Counted) -> str:
    """The monthly cost before any retry, and the cost of each target."""
    metrics = sorted(metric.split(" ")[0] for metric in target_metrics(counted))
    requests = idle_requests()
    rows = [
        [f"polling each retry queue while it is empty: {requests:,} requests", dollars(requests * SQS_REQUEST.each)],
        [f"alarms of the system, on {SYSTEM_ALARMS} metrics", dollars(SYSTEM_ALARMS * ALARM.each)],
        [f"alarms of each retry queue, on {QUEUE_ALARMS} metrics", dollars(QUEUE_ALARMS * ALARM.each)],
        [f"alarms of each target, on {TARGET_ALARMS} metrics", dollars(TARGET_ALARMS * ALARM.each)],
        [
            f"with a ledger, of each target: {LEDGER_ALARMS} more",
            dollars(LEDGER_ALARMS * ALARM.each),
        ],
        [f"with probes, of each target: {PROBE_ALARMS} more", dollars(PROBE_ALARMS * ALARM.each)],
        [
            f"with probes, of each target that is down all month: {DOWN_METRICS_READ:,} metrics read",
            dollars(DOWN_METRICS_READ * METRIC_READ.each),
        ],
        ["the dashboard", dollars(DASHBOARD.each)],
        ["with alarms, a metric of the handler: MetricLines", dollars(METRIC.each)],
        [
            f"metrics of each target: {len(metrics)} ({', '.join(metrics)})",
            dollars(len(metrics) * METRIC.each),
        ],
    ]
    return table(["a month", "dollars"], rows)


def deployment() -> str:
    """The cost of a month in which nothing fails, by the number of functions."""
    ways = {
        "a queue for each function": Deployment.with_a_queue_each,
        "one shared queue": Deployment.with_a_shared_queue,
        "SAM's application for each function": Deployment.with_a_system_each,
    }
    rows = []
    for name, way in ways.items():
        deployed = [way(functions) for functions in FUNCTIONS]
        rows.append([name, *(dollars(each.polling) for each in deployed)])
        rows.append([f"{name}, with alarms", *(dollars(each.polling + each.alarms * ALARM.each) for each in deployed)])
    heading = [f"{functions} function{'s' if functions > 1 else ''}" for functions in FUNCTIONS]
    return table(["a month in which nothing fails", *heading], rows)


def price_list() -> str:
    """Every price, its date, and where it was read."""
    heading = ["price in us-east-1", "dollars", "for a", "seen", "AWS's page", "quoted by"]
    rows = [_price(price) for price in PRICES]
    rule = ["---", "---:", *["---"] * 4]
    return "\n".join(f"| {' | '.join(line)} |" for line in [heading, rule, *rows])


def _price(price: Price) -> list[str]:
    host = price.quote.url.removeprefix("https://").removeprefix("www.").split("/")[0]
    # At least two decimals, and all significant digits.
    amount = re.sub(r"(?<=\.\d\d)(\d*?)0+$", r"\1", f"{price.dollars:.10f}")
    return [
        price.what,
        f"${amount}",
        price.unit,
        price.quote.seen.isoformat(),
        f"[{price.service}]({PAGES[price.service]})",
        f"[{host}]({price.quote.url})",
    ]


def tables(counted: Counted) -> dict[str, str]:
    """All tables, by their names in the page."""
    return {
        "summary": summary(counted),
        "event": event(counted),
        "month": month(counted),
        "parts": parts(counted),
        "counts": counts(counted),
        "fixed": fixed(counted),
        "deployment": deployment(),
        "prices": price_list(),
    }


def filled(pages: list[str], made: dict[str, str]) -> list[str]:
    """The pages with these tables filled in.

    Raises:
        ValueError: if a table has no place, or a place has no table.
    """
    place = re.compile(r"(<!-- table: (\w+) -->\n).*?(?=<!-- end -->)", re.DOTALL)
    places = [match[2] for page in pages for match in place.finditer(page)]
    if sorted(places) != sorted(made):
        raise ValueError(f"expected one place for each of {sorted(made)}, got {sorted(places)}")
    return [place.sub(lambda match: f"{match[1]}\n{made[match[2]]}\n\n", page) for page in pages]
