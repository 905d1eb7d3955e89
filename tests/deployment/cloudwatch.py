"""CloudWatch's evaluation of data points: metrics from log lines, statistics, queries, expressions and alarms.

It supports only what the alarms of Comeback need. Anything else is an error.
"""

import ast
import itertools
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# The values by the start of their period, in seconds.
Series = dict[int, float]

OPERATORS: dict[type[ast.AST], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Sub: operator.sub,
    ast.Eq: operator.eq,
}

QUERY = re.compile(r"SELECT SUM\((\w+)\) FROM SCHEMA\((\w+), ([\w, ]+)\)(?: WHERE (.+))?")
SEARCH = re.compile(
    r"""SEARCH\('{([\w/]+),([\w,]+)} MetricName="(\w+)"(?: (\w+)="([^"]+)")?', '(\w+)', (\d+)\)""",
)
FILTER = re.compile(r"{ \$\.([\w.\[\]]+) = \"(\w+)\" }")
CONDITION = re.compile(r"(\w+) != '(\w+)'")


@dataclass(frozen=True)
class Point:
    """The values of one metric at one time, in seconds."""

    at: int
    namespace: str
    name: str
    dimensions: Mapping[str, str]
    values: tuple[float, ...]


def of_log(line: Mapping[str, Any], at: int, names: Mapping[str, str]) -> Iterator[Point]:
    """The metrics in a line in embedded metric format, written at this time. Targets have these names."""
    for directive in line.get("_aws", {}).get("CloudWatchMetrics", []):
        for dimensions in directive["Dimensions"]:
            values = {name: names.get(line[name], line[name]) for name in dimensions}
            for metric in directive["Metrics"]:
                value = line[metric["Name"]]
                sampled = tuple(value) if isinstance(value, list) else (value,)
                yield Point(at, directive["Namespace"], metric["Name"], values, sampled)


def of_filter(properties: Mapping[str, Any], line: Any, at: int) -> Iterator[Point]:
    """The metrics of a metric filter when this line arrives."""
    match = FILTER.fullmatch(properties["FilterPattern"])
    if match is None:
        raise NotImplementedError(properties["FilterPattern"])
    selector, expected = match.groups()
    value = line
    for name in re.findall(r"\w+", selector):
        value = value[int(name)] if isinstance(value, list) else value.get(name, {})
    for each in properties["MetricTransformations"]:
        counted = float(each["MetricValue" if value == expected else "DefaultValue"])
        yield Point(at, each["MetricNamespace"], each["MetricName"], {}, (counted,))


@dataclass
class CloudWatch:
    points: Sequence[Point]

    def begins(self, alarm: Mapping[str, Any]) -> list[int]:
        """When an alarm goes off: the ends of the periods that change it from off to on."""
        period, series = self._watched(alarm)
        periods = int(alarm["EvaluationPeriods"])
        needed = int(alarm.get("DatapointsToAlarm", periods))
        above = {at for at, value in series.items() if value > float(alarm["Threshold"])}
        if (alarm["ComparisonOperator"], alarm["TreatMissingData"]) != ("GreaterThanThreshold", "notBreaching"):
            raise NotImplementedError(f"an alarm like {alarm}")
        ends = range(0, max(above, default=0) + period * periods, period)
        on = [at for at in ends if sum(at - back * period in above for back in range(periods)) >= needed]
        return [at + period for at in on if at - period not in on]

    def drawn(self, graph: Mapping[str, Any]) -> dict[str, Series]:
        """The visible lines of a dashboard's graph, by their labels."""
        lines: dict[str, Series] = {}
        metrics: dict[str, Series] = {}
        expressions = []
        for line in graph["metrics"]:
            options = line[-1] if isinstance(line[-1], dict) else {}
            if "expression" in options:
                expressions.append(options["expression"])
                continue
            namespace, name, *pairs = (each for each in line if each is not options)
            dimensions = [{"Name": each, "Value": value} for each, value in zip(pairs[::2], pairs[1::2], strict=True)]
            metric = {"Namespace": namespace, "MetricName": name, "Dimensions": dimensions}
            timed = {"Period": options.get("period", graph.get("period", 300))}
            series = self._statistic(metric, options.get("stat", "Average"), timed)
            if "id" in options:
                metrics[options["id"]] = series
            if options.get("visible", True):
                lines[f"{namespace} {name} {pairs}"] = series

        def searched(search: re.Match[str]) -> str:
            namespace, schema, name, dimension, owner, statistic, period = search.groups()
            found = self._found(namespace, name, schema)
            meant = (each for each in found if dimension is None or each.dimensions[dimension] == owner)
            key = f"search{len(metrics)}"
            metrics[key] = aggregated(meant, int(period), statistic)
            return key

        return lines | {each: calculated(SEARCH.sub(searched, each), metrics) for each in expressions}

    def _watched(self, alarm: Mapping[str, Any]) -> tuple[int, Series]:
        if "Metrics" not in alarm:
            statistic = alarm.get("Statistic") or alarm["ExtendedStatistic"]
            return int(alarm["Period"]), self._statistic(alarm, statistic, alarm)
        (expression,) = (each for each in alarm["Metrics"] if "Expression" in each)
        if query := QUERY.fullmatch(expression["Expression"]):
            return int(expression["Period"]), self._query(int(expression["Period"]), *query.groups())
        parts = {each["Id"]: each["MetricStat"] for each in alarm["Metrics"] if "MetricStat" in each}
        (period,) = {int(each["Period"]) for each in parts.values()}
        metrics = {name: self._statistic(each["Metric"], each["Stat"], each) for name, each in parts.items()}
        return period, calculated(expression["Expression"], metrics)

    def _statistic(self, metric: Mapping[str, Any], statistic: str, timed: Mapping[str, Any]) -> Series:
        dimensions = {each["Name"]: each["Value"] for each in metric.get("Dimensions", [])}
        watched = (metric["Namespace"], metric["MetricName"], dimensions)
        found = (point for point in self.points if (point.namespace, point.name, point.dimensions) == watched)
        return aggregated(found, int(timed["Period"]), statistic)

    def _query(self, period: int, name: str, namespace: str, schema: str, where: str | None) -> Series:
        excluded = [CONDITION.fullmatch(each) for each in where.split(" AND ")] if where else []
        if None in excluded:
            raise NotImplementedError(where)
        pairs = {(each[1], each[2]) for each in excluded if each}
        found = self._found(namespace, name, schema)
        return aggregated((point for point in found if not pairs & point.dimensions.items()), period, "Sum")

    def _found(self, namespace: str, name: str, schema: str) -> Iterator[Point]:
        """The points of all metrics with this name and with these dimensions, separated by commas."""
        wanted = (namespace, name, set(re.findall(r"\w+", schema)))
        return (point for point in self.points if (point.namespace, point.name, set(point.dimensions)) == wanted)


def aggregated(points: Iterable[Point], period: int, statistic: str) -> Series:
    """One value for each period that has any."""
    values: dict[int, list[float]] = {}
    for point in points:
        values.setdefault(point.at // period * period, []).extend(point.values)
    match statistic:
        case "Sum" | "Minimum" | "Maximum":
            function = {"Sum": sum, "Minimum": min, "Maximum": max}[statistic]
            return {at: function(each) for at, each in values.items()}
        case "p99":
            return {at: sorted(each)[-(-99 * len(each) // 100) - 1] for at, each in values.items()}
    raise NotImplementedError(statistic)


def calculated(expression: str, metrics: Mapping[str, Series]) -> Series:
    """The value of an expression in each period. A missing value stays missing, except in the sum of a list."""
    times = sorted({at for series in metrics.values() for at in series})

    def value(node: ast.AST) -> Series:
        match node:
            case ast.Constant(value=constant):
                return dict.fromkeys(times, float(constant))
            case ast.Name(id=name):
                return metrics[name]
            case ast.BinOp(left=left, op=op, right=right):
                return both(op, value(left), value(right))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return both(op, value(left), value(right))
            case ast.Call(func=ast.Name(id=function), args=[ast.List(elts=arguments)] | arguments):
                return called(function, [value(each) for each in arguments])
        raise NotImplementedError(ast.dump(node))

    def both(op: ast.AST, left: Series, right: Series) -> Series:
        return {at: OPERATORS[type(op)](left[at], right[at]) for at in left.keys() & right.keys()}

    def called(function: str, arguments: list[Series]) -> Series:
        match function, arguments:
            case "SUM", _:
                return {at: sum(each.get(at, 0) for each in arguments) for at in set().union(*arguments)}
            case "IF", [condition, then, otherwise]:
                chosen = {at: then if holds else otherwise for at, holds in condition.items()}
                return {at: series[at] for at, series in chosen.items() if at in series}
            case "DIFF", [series]:
                ordered = sorted(series)
                return {at: series[at] - series[before] for before, at in itertools.pairwise(ordered)}
        raise NotImplementedError(function)

    return value(ast.parse(expression, mode="eval").body)
