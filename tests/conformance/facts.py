"""Checks that the local cloud behaves like AWS, according to answers that LocalStack's authors have recorded there.

LocalStack's tests include dated snapshots of AWS's answers. `facts.yaml` lists the facts in them that matter to a retry
system, each with its test, the date of its snapshot, and the calls with their answers. Only the facts are used, no text
or code.

With `--localstack` or `--localemu` instead of the local cloud's program, lists the facts that don't hold in that
emulator, which the Python that runs this has.
"""

import json
import re
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import endpoints
import jmespath
import recorded
import yaml
from botocore.exceptions import ClientError
from conformance import CASES_AT_A_TIME, Notebook, expanded_names, is_like
from endpoints import Endpoint
from recorded import Cloud

FACTS: dict[str, dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("facts.yaml").read_text())
# Steps that several facts share.
del FACTS["steps"]

# One of the facts is about an answer of several megabytes.
LISTED_MAX = 4000


class Player(Notebook):
    """Plays the steps of a fact, and compares the answers with the recorded ones."""

    times = Notebook.times | {"StartedTimestamp"}
    identifiers = Notebook.identifiers | {"TaskHandle"}
    documents = Notebook.documents | {"Body", "Payload"}
    callers = frozenset()
    nothing = ()
    length_max = sys.maxsize

    def __init__(self, endpoint: Endpoint, fact: str) -> None:
        super().__init__(endpoint, fact)
        self._function: str | None = None

    def follow(self, steps: list[Any]) -> None:
        for step in steps:
            if isinstance(step, list):
                self.follow(step)
                continue
            (operation, given), *told = step.items()
            calls = given if isinstance(given, list) else [given]
            for nth, parameters in enumerate(calls):
                answer = self._answer(operation, parameters)
                is_refused = isinstance(answer, str) and operation != "raw"
                assert told or not is_refused, f"{operation}: {answer}"
                for kind, expected in told:
                    self._compare(kind, expected[nth] if isinstance(expected, list) else expected, answer)

    def _answer(self, operation: str, given: Any) -> Any:
        """Makes a call. Returns the answer, or the status, the code and the message of a refusal."""
        match operation:
            case "queue":
                return self._make_queue(given)
            case "function":
                ((own, settings),) = (given if isinstance(given, dict) else {given: {}}).items()
                self._function = self._cloud.function(own, **self._meant(settings))
                return None
            case "raw":
                asked = self._meant(given)
                status, headers, body = self._send(asked.get("url"), asked["headers"], asked["body"])
                return f"{status} {headers['Content-Type']} {body.decode()}"
        try:
            answer = self._made(operation, self._meant(given))
        except ClientError as error:
            told, status = error.response["Error"], error.response["ResponseMetadata"]["HTTPStatusCode"]
            parts = (status, told["Code"], told["Message"], error.response.get("Reason"))
            return self._masked(" ".join(str(part) for part in parts if part))
        metadata = answer.pop("ResponseMetadata")
        if operation == "Invoke":
            answer = {"RequestId": metadata.get("RequestId"), **answer, "Payload": answer["Payload"].read().decode()}
        return self._masked(answer)

    def _completed(self, parameters: dict[str, Any], shape: Any) -> dict[str, Any]:
        if "FunctionName" in shape.required_members:
            parameters = {"FunctionName": self._function, **parameters}
        if isinstance(parameters.get("Payload"), dict):
            parameters["Payload"] = json.dumps(parameters["Payload"])
        return super()._completed(parameters, shape)

    def _compare(self, kind: str, expected: Any, answer: Any) -> None:
        if kind == "is":
            assert self._is(expected, answer), f"recorded {expected!r}, got {answer!r}"
            return
        for path, part in expected.items():
            got = jmespath.search(re.sub(r"\.(\d+)", r"[\1]", path), answer)
            assert self._is(part, got), f"recorded {path} = {part!r}, got {answer!r}"

    def _is(self, expected: Any, got: Any) -> bool:
        match expected, got:
            case dict(), dict():
                return expected.keys() == got.keys() and all(self._is(expected[name], got[name]) for name in got)
            case list(), list():
                return len(expected) == len(got) and all(map(self._is, expected, got))
            case str(), _ if expected.startswith("/") and expected.endswith("/"):
                return re.fullmatch(expected[1:-1], str(got)) is not None
            case str(), str():
                return is_like(got, expanded_names(expected))
        return expected == got


def complaint(name: str, fact: Mapping[str, Any], endpoint: Endpoint) -> str | None:
    """Checks a fact. Returns what is wrong, or None. A fact with `otherwise` must not hold."""
    try:
        if "steps" in fact:
            Player(endpoint, name).follow(fact["steps"])
        else:
            getattr(recorded, name)(Cloud(endpoint, name))
    except Exception as error:
        if "otherwise" in fact:
            return None
        what = str(error) if isinstance(error, AssertionError) else repr(error)
        return f"{name}: {fact['fact']}\n  {fact['test']}, {fact['recorded']}\n  {what}"
    return f"{name} holds, although the table says: {fact['otherwise']}" if "otherwise" in fact else None


def complaints(facts: Mapping[str, Mapping[str, Any]], endpoint: Endpoint) -> list[str]:
    """Checks facts, several at a time."""
    with ThreadPoolExecutor(CASES_AT_A_TIME) as pool:
        found = pool.map(lambda fact: complaint(*fact, endpoint), facts.items())
        return [complaint for complaint in found if complaint is not None]


def main() -> int:
    program, *names = sys.argv[1:]
    chosen = {name: fact for name, fact in FACTS.items() if not names or name in names}
    if program.startswith("--"):
        recorded_only = {name: {**fact} for name, fact in chosen.items()}
        for fact in recorded_only.values():
            fact.pop("otherwise", None)
        with endpoints.localstack(package=program.removeprefix("--")) as emulator:
            found = complaints(recorded_only, emulator)
        print(
            *(each[:LISTED_MAX] for each in found),
            f"{len(found)} of {len(chosen)} facts recorded on AWS don't hold",
            sep="\n\n",
        )
        return 0
    with endpoints.local(Path(program).resolve()) as local:
        found = complaints(chosen, local)
    for each in found:
        print(each, end="\n\n", file=sys.stderr)
    intended = sum("otherwise" in fact for fact in chosen.values())
    print(f"{len(chosen)} facts recorded on AWS, {intended} of them not meant to hold here, {len(found)} complaints")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
