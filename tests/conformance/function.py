#!/usr/bin/env python3
"""A function that calls the Runtime API directly. Its variable DO or, without that, its event says what it does."""

import http.client
import json
import os
import sys
import time
import urllib.request

API = os.environ["AWS_LAMBDA_RUNTIME_API"]
RUNTIME = "/2018-06-01/runtime"


def call(method, path, body=None):
    connection = http.client.HTTPConnection(API)
    connection.request(method, RUNTIME + path, body)
    response = connection.getresponse()
    return response.headers, response.read()


def forward(queue, event):
    credential = "local/20260101/us-east-1/sqs/aws4_request"
    headers = {
        "Authorization": f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders=host, Signature=0",
        "Content-Type": "application/x-amz-json-1.0",
        "X-Amz-Target": "AmazonSQS.SendMessage",
    }
    body = json.dumps({"QueueUrl": queue, "MessageBody": json.dumps(event)}).encode()
    urllib.request.urlopen(urllib.request.Request(os.environ["AWS_ENDPOINT_URL"], body, headers))


def failures(event, bodies):
    """The response that reports the messages with these bodies as failed."""
    failed = [record["messageId"] for record in event["Records"] if record["body"] in bodies]
    return {"batchItemFailures": [{"itemIdentifier": identifier} for identifier in failed]}


def do(told, event, path):
    if "forward" in told:
        forward(told["forward"], event)
    if "sleep" in told:
        time.sleep(told["sleep"])
    if "exit" in told:
        os._exit(told["exit"])
    if "error" in told:
        return call("POST", f"{path}/error", json.dumps(told["error"]))
    answer = told.get("answer")
    if "count" in told:
        answer = count
    if "bytes" in told:
        answer = "x" * told["bytes"]
    if "fail" in told:
        answer = failures(event, told["fail"])
    return call("POST", f"{path}/response", json.dumps(answer))


count = 0
if "INIT_SIGNAL" in os.environ:
    os.kill(os.getpid(), int(os.environ["INIT_SIGNAL"]))
if "INIT_EXIT" in os.environ:
    sys.exit(int(os.environ["INIT_EXIT"]))
while True:
    headers, payload = call("GET", "/invocation/next")
    count += 1
    event = json.loads(payload)
    told = {} if event == "warm up" else json.loads(os.environ.get("DO", "null")) or event
    do(told, event, f"/invocation/{headers['Lambda-Runtime-Aws-Request-Id']}")
