"""The tables of infra/COST.md and docs/cost-sources.md. infra/contract/generate.py writes them into the pages."""

import re
import textwrap
from collections import Counter
from collections.abc import Sequence

import cost
from cost import BUSY, DOWN, MILLION, POLLING, PRICES, QUIET, TRANSITION, Counted, Usage, Way, dollars, times, watched

SIZES = {"1 KiB": 1, "100 KiB": 100, "256 KiB": 256, "1 MiB": 1024}
SERVICES = ("SQS", "Lambda", "CloudWatch", "DynamoDB", "S3")
MODES = {
    "plain": "",
    "ledger": ", with a ledger",
    "register": ", with a register",
    "probes": ", with register and probes",
    "records": ", with records in a bucket",
    "drop_in": ", drop-in",
    "drop_in_records": ", drop-in, with records in a bucket",
    "everything": ", drop-in, with register, probes and records in a bucket",
}
WAYS = {
    f"{name}{said}": Way(size, mode)
    for name, size in (("busy", BUSY), ("quiet", QUIET))
    for mode, said in MODES.items()
}

# The numbers of functions that are compared, and the deployments: how many systems and queues they have. Several
# functions with a queue each also share one for redrives.
FUNCTIONS = (1, 10, 50)
DEPLOYMENTS = {
    "a queue for each function": lambda functions: (1, functions + (functions > 1)),
    "one shared queue": lambda _: (1, 1),
    "SAM's application for each function": lambda functions: (functions, functions),
}

PAGES = {
    "Lambda": "https://aws.amazon.com/lambda/pricing/",
    "SQS": "https://aws.amazon.com/sqs/pricing/",
    "DynamoDB": "https://aws.amazon.com/dynamodb/pricing/on-demand/",
    "S3": "https://aws.amazon.com/s3/pricing/",
    "CloudWatch": "https://aws.amazon.com/cloudwatch/pricing/",
    "EventBridge": "https://aws.amazon.com/eventbridge/pricing/",
    "Step Functions": "https://aws.amazon.com/step-functions/pricing/",
    "durable functions": "https://aws.amazon.com/lambda/pricing/",
}


def table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table. All columns except the first are numbers."""
    lines = [heading, ["---", *["---:"] * (len(heading) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def amount(usage: Usage, service: str = "") -> str:
    return f"${dollars(usage, service):,.2f}"


def million(usage: Usage, service: str = "") -> str:
    return amount(times(MILLION, usage), service)


def summary(counted: Counted) -> str:
    ours = [
        [
            f"Comeback{said.removeprefix(',')}",
            *(million(cost.retry(counted, Way(size, mode))) for size in (BUSY, QUIET)),
        ]
        for mode, said in MODES.items()
    ]
    ours[0] = [f"**{cell}**" for cell in ours[0]]
    others = {
        "Lambda's durable functions: a step's retry": cost.durable_retry(counted),
        "Step Functions: a `Retry`": TRANSITION,
        "Step Functions: a loop of `Choice`, `Wait` and `Task`": times(cost.LOOP_TRANSITIONS, TRANSITION),
    }
    rows = ours + [[name, million(usage), million(usage)] for name, usage in others.items()]
    return table(["a million retries", "busy: ten in a batch", "quiet: each alone"], rows)


def sized(counted: Counted, way: Way, kib: int) -> Way:
    """The same with a payload of this size."""
    return way._replace(more_bytes=kib * cost.KIBIBYTE - counted.payload_bytes)


def alternatives(counted: Counted) -> str:
    """The README's table of what else there is, and when to use it."""

    def ours(mode: str, kib: int = 1) -> str:
        return " to ".join(million(cost.retry(counted, sized(counted, Way(size, mode), kib))) for size in (BUSY, QUIET))

    rows = [
        (
            "Lambda's own retries",
            "only the runs",
            "failures that pass within three minutes",
            "more than two retries: then the event is lost, or in a dead-letter queue",
        ),
        (
            "SQS in front of the function",
            f"{million(Usage(sqs_request=1))} a million requests",
            "you own the callers, and one interval between retries is enough",
            "backoff; a wait of more than 12 hours; callers that use `Invoke`",
        ),
        (
            "Step Functions",
            million(TRANSITION),
            "a workflow with several steps",
            "a caller that invokes your function as before",
        ),
        (
            "Lambda's durable functions",
            million(cost.durable_retry(counted)),
            "new code that should wait and resume where it stopped",
            "support for existing functions",
        ),
        (
            "EventBridge Scheduler",
            f"{million(Usage(schedule=1))} for the schedules alone",
            "retries at set times, precise to a minute",
            "the code that decides and schedules",
        ),
        (
            "**Comeback, drop-in**, with the ledger",
            f"**{ours('drop_in')}**",
            "events of any function that must get through, however long that takes",
            "order; FIFO queues; targets of EventBridge other than functions and queues",
        ),
        (
            "Comeback with envelopes, without a ledger",
            ours("plain"),
            "a function that should know its attempt",
            "the same, and a failure that is delivered twice is retried twice",
        ),
        (
            "Comeback with everything on this page: drop-in, register, probes, records in a bucket",
            ours("everything"),
            "payloads of up to 1 MiB, and events that you list, hold back and cancel",
            "a low price",
        ),
    ]
    lines = [("", "cost of a million retries", "where it is the better choice", "what it lacks"), ("---",) * 4, *rows]
    said = (
        "The lower price is for full batches, as in an outage. The higher price is for events that fail one at a time. "
        "A durable function's retry is cheaper than Comeback's in two cases: if everything on this page is switched "
        f"on, and if a drop-in payload has 256 KiB ({ours('drop_in', 256)}). But a million events that do not fail "
        f"cost {million(cost.durable_event(counted))} with durable functions, and nothing with Comeback. Most of the "
        f"price of everything is the ledger's writes and S3's puts of records ({million(Usage(put=1))}). So use a "
        "bucket only for functions with large events."
    )
    table_of_rows = "\n".join(f"| {' | '.join(line)} |".replace("|  |", "| |") for line in lines)
    return f"{table_of_rows}\n\n{textwrap.fill(said, 120)}"


def event(counted: Counted) -> str:
    usages = {
        "Comeback": Usage(),
        "Lambda's durable functions: one step": cost.durable_event(counted),
        "Step Functions: one `Task`": TRANSITION,
    }
    rows = [[name, million(usage)] for name, usage in usages.items()]
    return table(["a million events that do not fail", "dollars"], rows)


def queue(counted: Counted) -> str:
    busy, quiet = Way(BUSY), Way(QUIET)
    usages = {
        "**Comeback**": (cost.back(counted, busy), cost.back(counted, quiet)),
        "the consumer changes the visibility timeout, in code of its own": (cost.changed(busy), cost.changed(quiet)),
        "EventBridge Pipes, to start something that waits": (Usage(pipe_request=1),) * 2,
        "Step Functions: a `Retry` around the work": (TRANSITION, TRANSITION),
    }
    rows = [[name, *map(million, both)] for name, both in usages.items()]
    return table(["a million messages back", "busy: ten in a batch", "quiet: each alone"], rows)


def month(counted: Counted) -> str:
    heading = f"{cost.EVENTS:,} events, {cost.FAILING:.0%} of them fail and come back {cost.RETRIES_EACH} times"
    rows = [[name, amount(usage)] for name, usage in cost.month(counted).items()]
    return table([heading, "dollars a month"], rows)


def parts(counted: Counted) -> str:
    both = (("busy", Way(BUSY)), ("quiet", Way(QUIET)))
    usages = {f"retries, {name}": cost.retry(counted, way) for name, way in WAYS.items()}
    usages |= {f"waits more, {name}": cost.handled(counted, "waits", way) for name, way in both}
    usages |= {f"waits as delays, {name}": cost.delay(counted, way) for name, way in both}
    usages |= {f"dead letters, {name}": cost.dead_letter(counted, way) for name, way in both}
    usages |= {
        f"dead letters, quiet{MODES[mode]}": cost.dead_letter(counted, Way(QUIET, mode))
        for mode in ("ledger", "drop_in")
    }
    rows = [[name, *(million(usage, each) for each in SERVICES), million(usage)] for name, usage in usages.items()]
    return table(["a million", *SERVICES, "together"], rows)


def sizes(counted: Counted) -> str:
    """The price of a million retries by the size of the payload, or a dash if no payload of this size comes back."""
    modes = ("plain", "drop_in", "records", "drop_in_records")
    rows = []
    for said, way in WAYS.items():
        if way.mode in modes:
            own = [sized(counted, way, kib) for kib in SIZES.values()]
            cells = [million(cost.retry(counted, each)) if counted.is_possible(each) else "–" for each in own]
            rows.append([f"Comeback, {said}", *cells])
    for name, usage, most in (
        ("Lambda's durable functions: a step's retry", cost.durable_retry(counted), cost.PAYLOAD_MAX_BYTES),
        ("Step Functions: a `Retry`", TRANSITION, cost.STATE_MAX_BYTES),
    ):
        is_possible = (kib * cost.KIBIBYTE <= most for kib in SIZES.values())
        rows.append([name, *(million(usage) if each else "–" for each in is_possible)])
    return table(["a million retries of a payload of", *SIZES], rows)


def ledger(counted: Counted) -> str:
    """What a retry takes of the ledger, with and without an envelope."""
    names = {
        "ledger": "with an envelope",
        "drop_in_first": "without, the first failure of an event",
        "drop_in_later": "without, a later failure",
        "drop_in": f"without, on average of {cost.RETRIES_EACH} failures of an event",
    }
    rows = []
    for mode, name in names.items():
        busy, quiet = (cost.retry(counted, Way(size, mode)) for size in (BUSY, QUIET))
        units = [f"{busy[price]:.2f}".rstrip("0").rstrip(".") for price in ("write_of_dynamodb", "read")]
        rows.append([name, *units, million(busy, "DynamoDB"), million(busy), million(quiet)])
    heading = ["a retry", "write units", "read units", "a million, of DynamoDB", "together, busy", "quiet"]
    return table(heading, rows)


def counts(counted: Counted) -> str:
    fates = ("waits", "invoked")
    operations = sorted({name for key, batch in counted.batches.items() if key[0] in fates for name in batch["calls"]})

    def row(name: str, way: Way) -> list[str]:
        batches = [counted.of(fate, way) for fate in fates]
        amounts = [
            len(batches),
            *(sum(batch["calls"].get(operation, 0) for batch in batches) for operation in operations),
            sum(batch["log_bytes"] for batch in batches),
            sum(cost.logged_bytes(counted, fate, way) for fate in fates),
            sum(cost.billed_ms(counted, fate, way) for fate in fates),
        ]
        return [name, *(f"{each / way.batch:,.1f}".removesuffix(".0") for each in amounts)]

    heading = [
        "of one retry",
        "handler invocations",
        *(f"`{operation}`" for operation in operations),
        "bytes of the handler's log",
        "bytes with Lambda's lines",
        "billed ms, assumed",
    ]
    return table(heading, [row(name, way) for name, way in WAYS.items()])


def fixed(counted: Counted) -> str:
    """The monthly cost before any retry, and the cost of each target."""
    metrics = [metric.split(" ")[0] for metric in counted.target_metrics()]
    owners = {"system": "the system", "queue": "each retry queue", "target": "each target"}
    always = {f"alarms of {said}, on {watched(of)} metrics": Usage(alarm=watched(of)) for of, said in owners.items()}
    more = {
        f"with `{switch}`, alarms of {said}, on {number} more": Usage(alarm=number)
        for switch in cost.switches()
        for of, said in owners.items()
        if (number := watched(of, switch))
    }
    usages = {
        f"polling each retry queue while it is empty: {POLLING['sqs_request']:,} requests": POLLING,
        **always,
        **more,
        f"with `probe`, of each target that is down all month: {DOWN['metric_read']:,} metrics read": DOWN,
        "the dashboard": Usage(dashboard=1),
        "with alarms, a metric of the handler: MetricLines": Usage(metric=1),
        f"metrics of each target: {len(metrics)} ({', '.join(metrics)})": Usage(metric=len(metrics)),
    }
    return table(["a month", "dollars"], [[name, amount(usage)] for name, usage in usages.items()])


def deployment() -> str:
    rows = [
        [
            f"{name}{', with alarms' if with_alarms else ''}",
            *(amount(cost.deployed(each, *made(each), with_alarms)) for each in FUNCTIONS),
        ]
        for name, made in DEPLOYMENTS.items()
        for with_alarms in (False, True)
    ]
    heading = [f"{each} function{'s' if each > 1 else ''}" for each in FUNCTIONS]
    return table(["a month in which nothing fails", *heading], rows)


def price_of_alarms() -> str:
    """What `retry.alarms()` costs without the alarms that need what may be switched on."""
    alarms = Counter(alarm["of"] for alarm in cost.DEFINITIONS.values() if "only_with" not in alarm)
    own = cost.OWNERS["queue"] + cost.OWNERS["target"]
    added, added_metrics = sum(alarms[of] for of in own), watched("queue") + watched("target")
    first, first_metrics = sum(alarms.values()), watched("system") + added_metrics
    said = (
        f"The alarms of one function cost {amount(Usage(alarm=first_metrics))} a month: {first} alarms on "
        f"{first_metrics} metrics. Each further function adds {added} alarms and "
        f"{amount(Usage(alarm=added_metrics))}, so two functions have {first + added} alarms for "
        f"{amount(Usage(alarm=first_metrics + added_metrics))}. With the polling of its retry queue, one function "
        f"costs {amount(POLLING + Usage(alarm=first_metrics))} a month while nothing fails."
    )
    return textwrap.fill(said, 120)


def prices() -> str:
    lines = [
        "| price in us-east-1 | dollars | for a | seen | AWS's page | quoted by |",
        "| --- | ---: |" + " --- |" * 4,
    ]
    for price in PRICES.values():
        # At least two decimals, and all significant digits.
        digits = re.sub(r"(?<=\.\d\d)(\d*?)0+$", r"\1", f"{price['dollars']:.10f}")
        host = price["source"].removeprefix("https://").removeprefix("www.").split("/")[0]
        links = f"[{price['service']}]({PAGES[price['service']]}) | [{host}]({price['source']})"
        lines.append(f"| {price['what']} | ${digits} | {price['unit']} | {price['seen']} | {links} |")
    return "\n".join(lines)
