"""A runtime that makes unusual requests to the Runtime API, and returns the answers.

It makes them while it handles its first event, and returns their answers with its second.
"""

import json
import os
from http.client import HTTPConnection
from typing import Any

RUNTIME = "/2018-06-01/runtime"
# Every answer has these, or not, as its server likes.
TRANSPORT = {"content-length", "date", "transfer-encoding", "connection"}

answers: dict[str, Any] = {}
headers: dict[str, str] = {}


def ask(called: str, method: str, path: str, body: Any = None, sent: dict[str, str] | None = None) -> None:
    """Makes a request, and notes the answer: the status, the type of an error, and the names of the headers."""
    global headers
    content = body if body is None or isinstance(body, str) else json.dumps(body)
    api = HTTPConnection(os.environ["AWS_LAMBDA_RUNTIME_API"])
    api.request(method, path, content, sent or {})
    response = api.getresponse()
    text = response.read().decode()
    headers = {name.lower(): value for name, value in response.getheaders()}
    try:
        told = json.loads(text)
    except ValueError:
        told = {}
    names = " ".join(sorted(headers.keys() - TRANSPORT))
    answers[called] = f"{response.status} {told.get('errorType', '')} [{names}]"


def event() -> str:
    """Asks for an event, and returns the path of its answer."""
    ask("next event", "GET", f"{RUNTIME}/invocation/next")
    return f"{RUNTIME}/invocation/{headers['lambda-runtime-aws-request-id']}"


ask("no such path", "GET", "/2018-06-01/nowhere")
ask("a response before an event", "POST", f"{RUNTIME}/invocation/none/response", {})

current = event()
ask("an initialisation error after it", "POST", f"{RUNTIME}/init/error", {"errorType": "Late"})
ask("a response to another event", "POST", f"{RUNTIME}/invocation/none/response", {})
ask("an error of another event", "POST", f"{RUNTIME}/invocation/none/error", {})
ask("a response by GET", "GET", f"{current}/response")
ask("a response", "POST", f"{current}/response", {})
ask("a second response", "POST", f"{current}/response", {})
ask("an error after the response", "POST", f"{current}/error", {})

current = event()
ask("the answers", "POST", f"{current}/response", answers)
event()
