"""Checks traces of `comeback trace --otlp` against OpenTelemetry's schema and its semantic conventions."""

import re
from pathlib import Path

from google.protobuf.json_format import Parse
from opentelemetry import semconv
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

# All attributes of the conventions, without those that are deprecated.
CONVENTION = re.compile(r'^\w+: Final = "([\w.]+)"\n(?!"""\nDeprecated)', re.MULTILINE)

# The code also has the names of what happens only sometimes.
SOURCE = Path(__file__).parents[2] / "scripts/comeback/src/operate/trace/otlp.rs"


def check(trace: str) -> int:
    request = Parse(trace, ExportTraceServiceRequest())
    spans = [span for each in request.resource_spans for scope in each.scope_spans for span in scope.spans]
    (folder,) = semconv.__path__
    known = {name for file in Path(folder).rglob("*_attributes.py") for name in CONVENTION.findall(file.read_text())}
    used = set(re.findall(r'"key": *"([^"]+)"', trace))
    used |= set(re.findall(r'\b(?:attribute|whole)\(\s*"([^"]+)"', SOURCE.read_text()))
    wrong = {name for name in used if name not in known and not name.startswith("comeback.")}
    ids = {len(each) for each in re.findall(r'"(?:traceId|spanId)": *"([0-9a-f]+)"', trace)}
    if wrong or ids != {32, 16}:
        raise ValueError(f"expected the names of OpenTelemetry's conventions and ids, got {sorted(wrong)} and {ids}")
    return len(spans)
