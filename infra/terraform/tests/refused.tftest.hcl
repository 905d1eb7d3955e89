# What is refused or warned of because of the ARNs of other resources, which only a mocked provider knows without an
# account. The inputs that are refused for themselves are in tests/deployment/refusals.toml.

mock_provider "aws" {
  mock_data "aws_partition" {
    defaults = { partition = "aws" }
  }
  mock_resource "aws_sqs_queue" {
    defaults        = { arn = "arn:aws:sqs:us-east-1:123456789012:queue" }
    override_during = plan
  }
}

variables {
  # The most that version 5 of the provider takes.
  max_message_size = 262144
  handler_zip      = "tests/refused.tftest.hcl"
  functions = {
    orders = {
      arn      = "arn:aws:lambda:us-east-1:123456789012:function:orders"
      role_arn = "arn:aws:iam::123456789012:role/orders"
    }
  }
}

run "says_how_late_a_failure_is_seen" {
  command = plan
  variables { queues = { imports = { queue = { arn = "arn:aws:sqs:us-east-1:123456789012:imports", url = "https://sqs.us-east-1.amazonaws.com/123456789012/imports", visibility_timeout_seconds = 1800 }, max_receive_count = 2 } } }
  expect_failures = [check.failures_are_seen_soon]
}

run "refuses_a_queue_of_another_region" {
  command = plan
  variables { queues = { imports = { queue = { arn = "arn:aws:sqs:eu-west-1:123456789012:imports", url = "https://sqs.eu-west-1.amazonaws.com/123456789012/imports" } } } }
  expect_failures = [aws_sqs_queue_redrive_policy.source]
}
