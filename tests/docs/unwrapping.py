"""The code in the kit's README that takes an envelope off, in Java and in Go, with the events that all languages share.

tests/end-to-end/tests/system/other_languages.rs runs the code in Python and TypeScript.
"""

import json
import math
import subprocess
from pathlib import Path
from typing import Any

from pages import ROOT

README = (ROOT / "shared/kit/README.md").read_text()
CASES: list[dict[str, Any]] = json.loads((ROOT / "shared/core/fixtures/envelopes.json").read_text())

GO = """\
package main

import (
	"context"
	"encoding/json"
	"math"
	"os"

	"github.com/aws/aws-lambda-go/lambdacontext"
)

func place(order json.RawMessage, key string) (any, error) { return key, nil }

%s

type answer struct {
	Payload json.RawMessage `json:"payload"`
	Retry   map[string]any  `json:"retry"`
	Key     any             `json:"key"`
}

func main() {
	var cases []struct{ Event json.RawMessage }
	if err := json.NewDecoder(os.Stdin).Decode(&cases); err != nil {
		panic(err)
	}
	ctx := lambdacontext.NewContext(context.Background(), &lambdacontext.LambdaContext{AwsRequestID: "own"})
	answers := []answer{}
	for _, each := range cases {
		payload, retry := unwrap(each.Event)
		key, _ := handler(ctx, each.Event)
		answers = append(answers, answer{payload, retry, key})
	}
	json.NewEncoder(os.Stdout).Encode(answers)
}
"""

JAVA = """\
import com.amazonaws.services.lambda.runtime.Context;
import java.util.*;

public class Told {
    static Object place(Object order, String key) { return key; }

%s

    static Map<String, Object> map(Object... of) {
        var made = new LinkedHashMap<String, Object>();
        for (int nth = 0; nth < of.length; nth += 2) made.put((String) of[nth], of[nth + 1]);
        return made;
    }

    static void check(Object event, Object payload, boolean isEnvelope, String key) {
        var unwrapped = unwrap(event);
        var told = new Told().handleRequest(event, () -> "own");
        if (!Objects.equals(unwrapped.payload(), payload) || unwrapped.retry().isEmpty() == isEnvelope
                || !key.equals(told)) throw new AssertionError(event + " gave " + unwrapped + " and " + told);
    }

    public static void main(String[] arguments) {
%s
    }
}
"""


def code(language: str) -> str:
    """The first block of a language in the README."""
    return README.split(f"```{language}\n")[1].split("```")[0]


def in_java(value: Any) -> str:
    """A Java expression for a value as Jackson reads it from JSON."""
    match value:
        case dict():
            return f"map({', '.join(f'{json.dumps(key)}, {in_java(each)}' for key, each in value.items())})"
        case list():
            return f"Arrays.asList(new Object[] {{{', '.join(map(in_java, value))}}})"
        case bool() | str():
            return json.dumps(value)
        case None:
            return "null"
        case int():
            return str(value) if abs(value) < 2**31 else f'new java.math.BigInteger("{value}")'
        case _:
            return f"{'-' if value < 0 else ''}Double.POSITIVE_INFINITY" if math.isinf(value) else repr(value)


def expected(case: dict[str, Any]) -> tuple[Any, bool, str]:
    """The payload of an event, whether the event is an envelope, and the idempotency key."""
    payload = case["event"]["_original_payload"] if case["is_envelope"] else case["event"]
    return payload, case["is_envelope"], case.get("request_id") or "own"


def run_java(folder: Path) -> None:
    """Runs the Java code. The folder has the stand-ins."""
    checks = (
        f"check({in_java(case['event'])}, {in_java(payload)}, {in_java(is_envelope)}, {in_java(key)});"
        for case in CASES
        for payload, is_envelope, key in [expected(case)]
    )
    (folder / "Told.java").write_text(JAVA % (code("java"), "\n".join(checks)))
    subprocess.run(["javac", "-cp", "lib/*", "-d", "classes", "Told.java"], cwd=folder, check=True)
    subprocess.run(["java", "-cp", "classes:lib/*", "Told"], cwd=folder, check=True)


def run_go(folder: Path) -> list[tuple[Any, bool, str]]:
    """Runs the Go code. Returns its result for each event. The folder has the stand-in."""
    (folder / "main.go").write_text(GO % code("go"))
    given = (ROOT / "shared/core/fixtures/envelopes.json").read_bytes()
    answers = json.loads(
        subprocess.run(["go", "run", "."], cwd=folder, input=given, check=True, capture_output=True).stdout
    )
    return [(each["payload"], each["retry"] is not None, each["key"]) for each in answers]
