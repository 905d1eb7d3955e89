"""The checks of differences and of models must fail for what is wrong."""

import unittest

import models
from conformance import Difference, complaints
from patterns import expanded

FOUND = Difference(local="400 InvalidAttributeValue Sender", moto='200 {"QueueUrl": "q"}')


class TableTest(unittest.TestCase):
    def test_a_difference_that_is_not_listed_or_has_changed_or_is_gone_is_a_complaint(self) -> None:
        changed = Difference(local="400 InvalidAttributeName Sender", moto=FOUND.moto)
        for listed, complaint in (
            ({"place": FOUND}, None),
            ({"place": Difference(local=FOUND.local, moto="200 …")}, None),
            ({}, FOUND.render("place")),
            ({"place": changed}, FOUND.render("place")),
            ({"place": Difference(local=FOUND.local, moto="500 …")}, FOUND.render("place")),
            ({"place": FOUND, "elsewhere": FOUND}, "they agree: elsewhere"),
        ):
            found = complaints(listed, {"place": FOUND})
            self.assertEqual(len(found), 0 if complaint is None else 1, found)
            self.assertIn(complaint or "", "".join(found))

    def test_a_pattern_means_every_choice(self) -> None:
        places = ["a/b 1", "a/b 2", "c/b 1", "c/b 2"]
        self.assertEqual([*expanded("{a,c}/b {1,2}")], places)
        self.assertEqual([*expanded("a/b 1")], ["a/b 1"])


class ModelTest(unittest.TestCase):
    def test_a_wrong_request_is_a_fault(self) -> None:
        headers = {"x-amz-target": "AmazonSQS.SendMessage"}
        found = models.operation("POST", "/", headers)
        for body, expected in (
            (b'{"QueueUrl":"q","MessageBody":"m"}', []),
            (b'{"QueueUrl":7,"Body":"m"}', [".Body", ".MessageBody", ".QueueUrl"]),
        ):
            faults = [*models.faults_of_request(*found, headers, body)]
            self.assertEqual([fault.partition(":")[0] for fault in faults], [f"SendMessage{each}" for each in expected])

    def test_a_name_in_a_path_has_its_pattern(self) -> None:
        for name, is_right in (("orders", True), ("a%20b", False)):
            headers = {"x-amz-invocation-type": "Event"}
            found = models.operation("POST", f"/2015-03-31/functions/{name}/invocations", headers)
            self.assertEqual([*models.faults_of_request(*found, headers, b"")] == [], is_right)

    def test_a_wrong_answer_is_a_fault(self) -> None:
        operation = models.MODELS["sqs"].operation_model("SendMessageBatch")
        for status, body, count in (
            (200, b'{"Successful":[],"Failed":[]}', 0),
            (200, b'{"Successful":[{"Id":"1"}]}', 3),
            (400, b'{"__type":"com.amazonaws.sqs#QueueDoesNotExist"}', 0),
            (400, b'{"__type":"com.amazonaws.sqs#NoSuchError"}', 1),
        ):
            self.assertEqual(len([*models.faults_of_answer(operation, status, {}, body)]), count, body)
