"""AWS's prices in US East (N. Virginia): the first tier of each, without the free tier.

AWS's price pages load their numbers with JavaScript, so stored copies of the pages mostly lack them. Each price
therefore names AWS's page, the source that quoted it, and the date.
"""

from dataclasses import dataclass
from datetime import date

MILLION = 1_000_000
# Some services may count 2^30 bytes as a GB. Then the real price is a little lower than the one computed here.
GIGABYTE = 10**9

LAMBDA = "Lambda"
SQS = "SQS"
DYNAMODB = "DynamoDB"
CLOUDWATCH = "CloudWatch"
STEP_FUNCTIONS = "Step Functions"
DURABLE = "durable functions"

PAGES = {
    LAMBDA: "https://aws.amazon.com/lambda/pricing/",
    SQS: "https://aws.amazon.com/sqs/pricing/",
    DYNAMODB: "https://aws.amazon.com/dynamodb/pricing/on-demand/",
    CLOUDWATCH: "https://aws.amazon.com/cloudwatch/pricing/",
    STEP_FUNCTIONS: "https://aws.amazon.com/step-functions/pricing/",
    DURABLE: "https://aws.amazon.com/lambda/pricing/",
}


@dataclass(frozen=True)
class Quote:
    """Where a price was read."""

    seen: date
    url: str


LAMBDA_NOTES = Quote(
    date(2026, 5, 11),
    "https://git.mcrn.ar/mariano/lambda_local_runner/src/branch/main/docs/lambdas-md/lambda-13-cost.md",
)
LAMBDA_PLANS = Quote(
    date(2026, 9, 20),
    "https://github.com/api-evangelist/aws-lambda/blob/main/plans/aws-lambda-plans-pricing.yml",
)
CLOUDWATCH_PLANS = Quote(
    date(2026, 5, 5),
    "https://github.com/api-evangelist/cloudwatch/blob/main/plans/cloudwatch-plans-pricing.yml",
)
DYNAMODB_POST = Quote(date(2025, 7, 21), "https://airbyte.com/data-engineering-resources/dynamodb-pricing")
METRICS_POST = Quote(date(2026, 2, 15), "https://signoz.io/guides/cloudwatch-pricing")
CLOUDWATCH_POST = Quote(
    date(2026, 6, 13),
    "https://www.factualminds.com/blog/amazon-cloudwatch-pricing-metrics-logs-alarms-dashboards/",
)
SQS_POST = Quote(
    date(2026, 6, 13),
    "https://www.factualminds.com/blog/amazon-sqs-pricing-64kb-rule-fifo-vs-standard/",
)
DURABLE_POST = Quote(
    date(2026, 1, 12),
    "https://www.thecandidstartup.org/2026/01/12/aws-lambda-durable-functions.html",
)
STEP_FUNCTIONS_POST = Quote(date(2026, 3, 14), "https://www.wring.co/blog/aws-step-functions-pricing-guide")


@dataclass(frozen=True)
class Price:
    """The price of a unit of a service."""

    what: str
    service: str
    dollars: float
    unit: str
    quote: Quote

    @property
    def each(self) -> float:
        """Dollars for one request, one second, one byte or one month."""
        sizes = {"thousand": 1000, "million": MILLION, "GB": GIGABYTE, "GB-month": GIGABYTE}
        return self.dollars / sizes.get(self.unit, 1)


REQUEST = Price("request of Lambda", LAMBDA, 0.20, "million", LAMBDA_NOTES)
DURATION = Price("duration of Lambda, arm64", LAMBDA, 0.0000133334, "GB-second", LAMBDA_NOTES)
SQS_REQUEST = Price("request of SQS, standard queue", SQS, 0.40, "million", SQS_POST)
LOG_INGESTION = Price("logs taken in", CLOUDWATCH, 0.50, "GB", CLOUDWATCH_POST)
LOG_STORAGE = Price("logs kept", CLOUDWATCH, 0.03, "GB-month", CLOUDWATCH_PLANS)
METRIC = Price("custom metric", CLOUDWATCH, 0.30, "month", METRICS_POST)
ALARM = Price("alarm", CLOUDWATCH, 0.10, "month", CLOUDWATCH_PLANS)
METRIC_READ = Price("metric read by `GetMetricData`", CLOUDWATCH, 0.01, "thousand", CLOUDWATCH_PLANS)
DASHBOARD = Price("dashboard", CLOUDWATCH, 3.00, "month", CLOUDWATCH_POST)
WRITE = Price("write of DynamoDB, on demand", DYNAMODB, 0.625, "million", DURABLE_POST)
READ = Price("read of DynamoDB, on demand", DYNAMODB, 0.125, "million", DYNAMODB_POST)
ITEM_STORAGE = Price("storage of DynamoDB", DYNAMODB, 0.25, "GB-month", DURABLE_POST)
TRANSITION = Price("state transition, standard workflow", STEP_FUNCTIONS, 25.00, "million", STEP_FUNCTIONS_POST)
OPERATION = Price("durable operation", DURABLE, 8.00, "million", LAMBDA_PLANS)
DATA_WRITTEN = Price("durable data written", DURABLE, 0.25, "GB", DURABLE_POST)
DATA_RETAINED = Price("durable data retained", DURABLE, 0.15, "GB-month", DURABLE_POST)

PRICES = (
    REQUEST,
    DURATION,
    SQS_REQUEST,
    LOG_INGESTION,
    LOG_STORAGE,
    METRIC,
    ALARM,
    METRIC_READ,
    DASHBOARD,
    WRITE,
    READ,
    ITEM_STORAGE,
    TRANSITION,
    OPERATION,
    DATA_WRITTEN,
    DATA_RETAINED,
)
