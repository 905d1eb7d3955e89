# Inputs that are refused. `terraform test` needs no account: the provider is mocked. The values of settings are checked
# in one way for all targets, with the bounds of the contract, so each kind of value is here once.

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

run "refuses_what_aws_or_the_module_does_not_know" {
  command = plan
  variables {
    name                          = "a/b"
    architecture                  = "riscv"
    memory_size                   = 64
    handler_timeout               = 5
    max_concurrency               = 1
    pollers                       = { minimum = 9, maximum = 8 }
    reserved_concurrency          = 1
    log_retention_days            = 2
    tracing                       = "On"
    kms_key_arn                   = "alias/comeback"
    central_dead_letter_queue_arn = "arn:aws:sqs:us-east-1:222222222222:letters.fifo"
  }
  expect_failures = [
    var.name,
    var.architecture,
    var.memory_size,
    var.handler_timeout,
    var.max_concurrency,
    var.pollers,
    var.reserved_concurrency,
    var.log_retention_days,
    var.tracing,
    var.kms_key_arn,
    var.central_dead_letter_queue_arn,
  ]
}

run "refuses_keys_of_functions" {
  command = plan
  variables { functions = { "a b" = var.functions.orders } }
  expect_failures = [var.functions]
}

run "refuses_without_a_version_or_an_alias" {
  command = plan
  variables { functions = { orders = merge(var.functions.orders, { arn = "${var.functions.orders.arn}:live" }) } }
  expect_failures = [var.functions]
}

run "refuses_role_arn" {
  command = plan
  variables { functions = { orders = merge(var.functions.orders, { role_arn = "orders" }) } }
  expect_failures = [var.functions]
}

run "refuses_at_least_one_qualifier" {
  command = plan
  variables { functions = { orders = merge(var.functions.orders, { qualifiers = [] }) } }
  expect_failures = [var.functions]
}

run "refuses_durations_of_functions" {
  command = plan
  variables { functions = { orders = merge(var.functions.orders, { max_age = "1 day" }) } }
  expect_failures = [aws_lambda_function.handler]
}

run "refuses_maximum_event_age" {
  command = plan
  variables { functions = { orders = merge(var.functions.orders, { maximum_event_age = 30 }) } }
  expect_failures = [var.functions]
}

run "refuses_only_once" {
  command = plan
  variables { functions = { a = var.functions.orders, b = var.functions.orders } }
  expect_failures = [aws_lambda_function.handler]
}

run "refuses_longer_than_base_backoff" {
  command = plan
  variables { functions = { orders = merge(var.functions.orders, { max_age = "10s", base_backoff = "1m" }) } }
  expect_failures = [aws_lambda_function.handler]
}

run "refuses_base_backoff" {
  command = plan
  variables { base_backoff = "soon" }
  expect_failures = [aws_lambda_function.handler]
}

run "refuses_at_most_12h" {
  command = plan
  variables {
    base_backoff = "13h"
    max_backoff  = "1d"
    max_age      = "2d"
  }
  expect_failures = [aws_lambda_function.handler]
}

run "refuses_from_base_backoff_to_13d" {
  command = plan
  variables {
    base_backoff = "2m"
    max_backoff  = "1m"
  }
  expect_failures = [aws_lambda_function.handler]
}

run "refuses_longer_than_base_backoff_2" {
  command = plan
  variables { max_age = "1s" }
  expect_failures = [aws_lambda_function.handler]
}

run "refuses_max_attempts" {
  command = plan
  variables { max_attempts = 1.5 }
  expect_failures = [aws_lambda_function.handler]
}

run "refuses_jitter" {
  command = plan
  variables { jitter = "some" }
  expect_failures = [aws_lambda_function.handler]
}

run "refuses_a_duration_of_a_list" {
  command = plan
  variables { backoffs = ["1m", "14d"] }
  expect_failures = [aws_lambda_function.handler]
}

run "refuses_a_list_beside_a_base" {
  command = plan
  variables {
    backoffs     = ["1m"]
    base_backoff = "2s"
  }
  expect_failures = [aws_lambda_function.handler]
}

run "refuses_a_value_of_an_error" {
  command = plan
  variables { errors = [{ type = "Slow", jitter = "some" }] }
  expect_failures = [aws_lambda_function.handler]
}

run "refuses_a_list_beside_a_maximum_of_an_error" {
  command = plan
  variables { errors = [{ type = "Slow", backoffs = ["1m"], max_backoff = "1h" }] }
  expect_failures = [aws_lambda_function.handler]
}

run "refuses_an_error_twice" {
  command = plan
  variables { errors = [{ type = "Slow" }, { type = "Slow", max_age = "1h" }] }
  expect_failures = [var.errors]
}

run "refuses_non_retryable_errors" {
  command = plan
  variables { non_retryable_errors = [" "] }
  expect_failures = [aws_lambda_function.handler]
}

run "refuses_either_handler_zip_or_handler_s3" {
  command = plan
  variables { handler_zip = null }
  expect_failures = [aws_lambda_function.handler]
}

run "refuses_either_handler_zip_or_handler_s3_2" {
  command = plan
  variables { handler_s3 = { bucket = "b", key = "k" } }
  expect_failures = [aws_lambda_function.handler]
}

run "refuses_at_least_max_concurrency" {
  command = plan
  variables { reserved_concurrency = 5 }
  expect_failures = [aws_lambda_function.handler]
}

run "refuses_in_flight_max" {
  command = plan
  variables { in_flight_max = 0 }
  expect_failures = [aws_lambda_function.handler]
}

run "refuses_need_the_ledger" {
  command = plan
  variables { register = true }
  expect_failures = [aws_lambda_function.handler]
}

run "refuses_need_the_ledger_2" {
  command = plan
  variables { probe = true }
  expect_failures = [aws_lambda_function.handler]
}

run "refuses_an_arn_as_the_name_of_a_bucket" {
  command = plan
  variables { records_bucket = { name = "arn:aws:s3:::records" } }
  expect_failures = [var.records_bucket]
}

run "refuses_an_alias_as_the_key_of_a_bucket" {
  command = plan
  variables { records_bucket = { name = "records", kms_key_arn = "alias/records" } }
  expect_failures = [var.records_bucket]
}

run "refuses_records_without_functions" {
  command = plan
  variables {
    records   = true
    functions = {}
  }
  expect_failures = [aws_lambda_function.handler]
}

run "refuses_transparent_functions_need_the_ledger" {
  command = plan
  variables { transparent = true }
  expect_failures = [aws_lambda_function.handler]
}

run "refuses_transparent_functions_need_the_ledger_2" {
  command = plan
  variables {
    functions = {
      orders = {
        arn         = "arn:aws:lambda:us-east-1:123456789012:function:orders"
        role_arn    = "arn:aws:iam::123456789012:role/orders"
        transparent = true
      }
    }
  }
  expect_failures = [aws_lambda_function.handler]
}

run "refuses_that_docs_deploy_cdk_operations_md_lists" {
  command = plan
  variables { alarms = { settings = { Late = {} } } }
  expect_failures = [var.alarms]
}

run "refuses_page_or_ticket" {
  command = plan
  variables { alarms = { settings = { Lateness = { severity = "high" } } } }
  expect_failures = [var.alarms]
}

run "refuses_period_of_an_alarm" {
  command = plan
  variables { alarms = { settings = { Lateness = { period = 45 } } } }
  expect_failures = [var.alarms]
}

run "refuses_keys_of_queues" {
  command = plan
  variables { queues = { "a b" = { queue = { arn = "arn:aws:sqs:us-east-1:123456789012:imports", url = "https://sqs.us-east-1.amazonaws.com/123456789012/imports" } } } }
  expect_failures = [var.queues]
}

run "refuses_a_fifo_queue" {
  command = plan
  variables { queues = { imports = { queue = { arn = "arn:aws:sqs:us-east-1:123456789012:imports.fifo", url = "https://sqs.us-east-1.amazonaws.com/123456789012/imports" } } } }
  expect_failures = [var.queues]
}

run "refuses_more_than_10_receives" {
  command = plan
  variables { queues = { imports = { queue = { arn = "arn:aws:sqs:us-east-1:123456789012:imports", url = "https://sqs.us-east-1.amazonaws.com/123456789012/imports" }, max_receive_count = 11 } } }
  expect_failures = [var.queues]
}

run "refuses_errors_of_a_queue" {
  command = plan
  variables { queues = { imports = { queue = { arn = "arn:aws:sqs:us-east-1:123456789012:imports", url = "https://sqs.us-east-1.amazonaws.com/123456789012/imports" }, non_retryable_errors = ["X"] } } }
  expect_failures = [var.queues]
}

run "refuses_a_tenant_of_a_queue" {
  command = plan
  variables { queues = { imports = { queue = { arn = "arn:aws:sqs:us-east-1:123456789012:imports", url = "https://sqs.us-east-1.amazonaws.com/123456789012/imports" }, tenant_id = "/tenant" } } }
  expect_failures = [var.queues]
}

run "refuses_executions_of_a_queue" {
  command = plan
  variables { queues = { imports = { queue = { arn = "arn:aws:sqs:us-east-1:123456789012:imports", url = "https://sqs.us-east-1.amazonaws.com/123456789012/imports" }, durable = true } } }
  expect_failures = [var.queues]
}

run "refuses_durations_of_queues" {
  command = plan
  variables { queues = { imports = { queue = { arn = "arn:aws:sqs:us-east-1:123456789012:imports", url = "https://sqs.us-east-1.amazonaws.com/123456789012/imports" }, max_age = "1 day" } } }
  expect_failures = [aws_lambda_function.handler]
}

run "refuses_a_key_of_a_function_and_a_queue" {
  command = plan
  variables { queues = { orders = { queue = { arn = "arn:aws:sqs:us-east-1:123456789012:imports", url = "https://sqs.us-east-1.amazonaws.com/123456789012/imports" } } } }
  expect_failures = [aws_lambda_function.handler]
}

run "refuses_a_key_of_a_consumer_and_a_queue" {
  command = plan
  variables {
    queues    = { imports = { queue = { arn = "arn:aws:sqs:us-east-1:123456789012:imports", url = "https://sqs.us-east-1.amazonaws.com/123456789012/imports" } } }
    consumers = { imports = "importer" }
  }
  expect_failures = [aws_lambda_function.handler]
}

run "refuses_a_queue_with_a_dead_letter_queue" {
  command = plan
  variables { queues = { imports = { queue = { arn = "arn:aws:sqs:us-east-1:123456789012:imports", url = "https://sqs.us-east-1.amazonaws.com/123456789012/imports", redrive_policy = "{\"deadLetterTargetArn\":\"arn:aws:sqs:us-east-1:123456789012:dead\"}" } } } }
  expect_failures = [aws_sqs_queue_redrive_policy.source]
}

run "refuses_a_key_that_is_an_alias" {
  command = plan
  variables { queues = { imports = { queue = { arn = "arn:aws:sqs:us-east-1:123456789012:imports", url = "https://sqs.us-east-1.amazonaws.com/123456789012/imports", kms_master_key_id = "alias/imports" } } } }
  expect_failures = [aws_sqs_queue_redrive_policy.source]
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

run "accepts_a_queue_whose_dead_letter_queue_is_replaced" {
  command = plan
  variables {
    queues = { imports = {
      queue                   = { arn = "arn:aws:sqs:us-east-1:123456789012:imports", url = "https://sqs.us-east-1.amazonaws.com/123456789012/imports", redrive_policy = "{\"deadLetterTargetArn\":\"arn:aws:sqs:us-east-1:123456789012:dead\"}" }
      replaces_redrive_policy = true
    } }
  }
}

run "accepts_a_queue_with_sqs_s_own_key" {
  command = plan
  variables { queues = { imports = { queue = { arn = "arn:aws:sqs:us-east-1:123456789012:imports", url = "https://sqs.us-east-1.amazonaws.com/123456789012/imports", kms_master_key_id = "alias/aws/sqs" } } } }
}
