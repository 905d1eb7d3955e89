"""AWS's prices in US East (N. Virginia): the first tier of each, without the free tier.

AWS's price pages load their numbers with JavaScript, so stored copies of the pages mostly lack them. Each price in
`infra/cdk/contract/prices.json` therefore names the source that quoted it and the date.
"""

import json
from dataclasses import dataclass
from datetime import date
from pathlib import Path

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


QUOTED = {
    name: Price(
        it["what"], it["service"], it["dollars"], it["unit"], Quote(date.fromisoformat(it["seen"]), it["source"])
    )
    for name, it in json.loads((Path(__file__).parents[1] / "cdk/contract/prices.json").read_text()).items()
}
PRICES = tuple(QUOTED.values())
REQUEST = QUOTED["lambda_request"]
DURATION = QUOTED["gb_second"]
SQS_REQUEST = QUOTED["sqs_request"]
LOG_INGESTION = QUOTED["gb_of_log"]
LOG_STORAGE = QUOTED["log_storage"]
METRIC = QUOTED["metric"]
ALARM = QUOTED["alarm"]
METRIC_READ = QUOTED["metric_read"]
DASHBOARD = QUOTED["dashboard"]
WRITE = QUOTED["write_of_dynamodb"]
READ = QUOTED["read"]
ITEM_STORAGE = QUOTED["item_storage"]
TRANSITION = QUOTED["transition"]
OPERATION = QUOTED["operation"]
DATA_WRITTEN = QUOTED["data_written"]
DATA_RETAINED = QUOTED["data_retained"]
