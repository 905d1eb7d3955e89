#!/usr/bin/env python3
"""A function that speaks the Runtime API by itself, and does what its variable DO or its event says."""

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
    """Sends an event to a queue, as any client of SQS would."""
    credential = "local/20260101/us-east-1/sqs/aws4_request"
    headers = {
        "Authorization": f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders=host, Signature=0",
        "Content-Type": "application/x-amz-json-1.0",
        "X-Amz-Target": "AmazonSQS.SendMessage",
    }
    body = json.dumps({"QueueUrl": queue, "MessageBody": json.dumps(event)}).encode()
    urllib.request.urlopen(urllib.request.Request(os.environ["AWS_ENDPOINT_URL"], body, headers))


def do(told, event, path):
    if "forward" in told:
        forward(told["forward"], event)
    if "sleep" in told:
        time.sleep(told["sleep"])
    if "exit" in told:
        os._exit(told["exit"])
    if "error" in told:
        return call("POST", f"{path}/error", json.dumps(told["error"]))
    return call("POST", f"{path}/response", told.get("answer", json.dumps(event)))


init = json.loads(os.environ.get("INIT", "{}"))
time.sleep(init.get("sleep", 0))
if "exit" in init:
    sys.exit(init["exit"])
while True:
    headers, payload = call("GET", "/invocation/next")
    event = json.loads(payload)
    told = json.loads(os.environ.get("DO", "{}")) or event
    do(told, event, f"/invocation/{headers['Lambda-Runtime-Aws-Request-Id']}")
