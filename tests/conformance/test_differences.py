"""The check of differences must fail for unlisted differences and for listed ones that are gone."""

import unittest

from differences import Difference, Table, expanded

FOUND = Difference(local="400 InvalidAttributeValue Sender", moto='200 {"QueueUrl": "q"}')


class TableTest(unittest.TestCase):
    """Compares one found difference with different tables."""

    def complaints(self, **listed: Difference) -> list[str]:
        """The complaints if the only difference is at `place`."""
        return Table(listed).complaints({"place": FOUND})

    def test_a_difference_that_is_listed_is_no_complaint(self) -> None:
        self.assertEqual(self.complaints(place=FOUND), [])
        beginning = Difference(local=FOUND.local, moto="200 …")
        self.assertEqual(self.complaints(place=beginning), [])

    def test_a_difference_that_is_not_listed_is_shown_as_the_table_would_have_it(self) -> None:
        (complaint,) = self.complaints()
        self.assertIn(FOUND.render("place"), complaint)

    def test_an_answer_that_has_changed_is_a_complaint(self) -> None:
        for changed in (
            Difference(local="400 InvalidAttributeName Sender", moto=FOUND.moto),
            Difference(local=FOUND.local, moto="500 …"),
        ):
            self.assertEqual(len(self.complaints(place=changed)), 1)

    def test_a_difference_that_is_gone_is_a_complaint(self) -> None:
        (complaint,) = self.complaints(place=FOUND, elsewhere=FOUND)
        self.assertTrue(complaint.endswith("they agree: elsewhere"))

    def test_a_pattern_means_every_choice(self) -> None:
        places = ["a/b 1", "a/b 2", "c/b 1", "c/b 2"]
        self.assertEqual([*expanded("{a,c}/b {1,2}")], places)
        self.assertEqual([*expanded("a/b 1")], ["a/b 1"])

    def test_the_table_of_the_repository_can_be_read(self) -> None:
        self.assertTrue(Table.read().listed)


if __name__ == "__main__":
    unittest.main()
