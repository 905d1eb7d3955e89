"""Tests that docs/review.md shows the policies that SAM's template makes today."""

import unittest

import review


class ReviewTest(unittest.TestCase):
    def test_the_page_shows_the_policies_of_today(self) -> None:
        self.assertEqual(review.PAGE.read_text(), review.page(), "tests/deployment/run-templates --review writes them")
