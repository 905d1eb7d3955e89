# What only this module's options do, and what they do for several functions. All others are in
# tests/deployment/systems.toml. The provider is mocked, so that no account is needed.

mock_provider "aws" {
  mock_data "aws_partition" {
    defaults = { partition = "aws", dns_suffix = "amazonaws.com" }
  }
  mock_data "aws_region" {
    defaults = { id = "us-east-1" }
  }
  mock_resource "aws_sqs_queue" {
    defaults = { arn = "arn:aws:sqs:us-east-1:123456789012:queue" }
  }
  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::123456789012:role/handler" }
  }
  mock_resource "aws_lambda_function" {
    defaults = { arn = "arn:aws:lambda:us-east-1:123456789012:function:handler" }
  }
  mock_resource "aws_cloudwatch_log_group" {
    defaults = { arn = "arn:aws:logs:us-east-1:123456789012:log-group:handler" }
  }
  mock_resource "aws_dynamodb_table" {
    defaults = { arn = "arn:aws:dynamodb:us-east-1:123456789012:table/ledger" }
  }
  mock_resource "aws_s3_bucket" {
    defaults = { id = "comeback-records" }
  }
}

variables {
  # The most that version 5 of the provider takes.
  max_message_size = 262144
  handler_zip      = "tests/options.tftest.hcl"
  functions = {
    orders = {
      arn      = "arn:aws:lambda:us-east-1:123456789012:function:orders"
      role_arn = "arn:aws:iam::123456789012:role/orders"
    }
    payments = {
      arn        = "arn:aws:lambda:us-east-1:123456789012:function:payments"
      role_arn   = "arn:aws:iam::123456789012:role/payments"
      qualifiers = ["$LATEST", "live"]
    }
  }
}

run "each_function_has_a_queue_that_names_only_it" {
  assert {
    condition     = toset(values(jsondecode(local.environment.QUEUE_TARGETS))) == toset([["orders"], ["payments"]])
    error_message = "expected a queue for each function, got ${local.environment.QUEUE_TARGETS}"
  }
  assert {
    condition     = contains(keys(aws_lambda_function_event_invoke_config.this), "payments:live")
    error_message = "expected a config for each qualifier"
  }
  assert {
    condition     = alltrue([for it in aws_lambda_function_event_invoke_config.this : it.maximum_retry_attempts == 0])
    error_message = "expected no retries of Lambda's own"
  }
  assert {
    condition     = !strcontains(aws_sqs_queue_policy.retry["retry-orders"].policy, "role/payments")
    error_message = "expected that only the function sends to its queue"
  }
  assert {
    condition     = !contains(keys(local.environment), "POLICIES")
    error_message = "expected no policies of functions"
  }
}

run "functions_may_share_a_queue_that_may_be_redriven_to" {
  variables {
    shared_queue       = true
    redrive_principals = ["arn:aws:iam::123456789012:role/operator"]
  }
  assert {
    condition     = jsonencode(values(jsondecode(local.environment.QUEUE_TARGETS))) == jsonencode([["orders", "payments"]])
    error_message = "expected one queue, got ${local.environment.QUEUE_TARGETS}"
  }
  assert {
    condition     = strcontains(aws_sqs_queue_policy.retry["retry"].policy, "role/operator")
    error_message = "expected that the operator may redrive"
  }
}

run "those_who_redrive_have_a_queue_for_all_functions_and_re_invocation_can_be_limited" {
  variables {
    redrive_principals       = ["arn:aws:iam::123456789012:role/operator"]
    only_attached_qualifiers = true
  }
  assert {
    condition = alltrue([
      for resource in ["function:orders:$LATEST", "function:payments:$LATEST", "function:payments:live"] :
      strcontains(aws_iam_role_policy.handler.policy, resource)
    ])
    error_message = "expected each qualifier that is attached, got ${aws_iam_role_policy.handler.policy}"
  }
  assert {
    condition     = !strcontains(aws_iam_role_policy.handler.policy, "function:orders:*")
    error_message = "expected no other qualifier"
  }
  assert {
    condition     = contains(values(jsondecode(local.environment.QUEUE_TARGETS)), ["orders", "payments"])
    error_message = "expected a queue for all functions, got ${local.environment.QUEUE_TARGETS}"
  }
}

run "a_function_may_have_a_policy_of_its_own" {
  variables {
    functions = {
      orders = {
        arn                  = "arn:aws:lambda:us-east-1:123456789012:function:orders"
        role_arn             = "arn:aws:iam::123456789012:role/orders"
        base_backoff         = "5s"
        max_attempts         = 3
        non_retryable_errors = []
      }
    }
  }
  assert {
    condition = jsondecode(local.environment.POLICIES) == {
      orders = { BASE_BACKOFF = "5s", MAX_ATTEMPTS = "3", NON_RETRYABLE_ERRORS = "" }
    }
    error_message = "expected the function's own policy, got ${local.environment.POLICIES}"
  }
}

run "errors_keep_their_order_and_lists_of_backoffs_take_the_place_of_what_they_replace" {
  variables {
    backoffs = ["1m", "3h"]
    errors   = [{ type = "Slow", jitter = "none" }]
    functions = {
      orders = {
        arn          = "arn:aws:lambda:us-east-1:123456789012:function:orders"
        role_arn     = "arn:aws:iam::123456789012:role/orders"
        base_backoff = "5s"
        backoffs     = []
        errors       = [{ type = "Z*", max_attempts = 3 }, { type = "A", backoffs = ["90s"] }]
      }
    }
  }
  assert {
    condition     = local.environment.BACKOFFS == "1m,3h" && !contains(keys(local.environment), "BASE_BACKOFF")
    error_message = "expected the list alone"
  }
  assert {
    condition = jsondecode(local.environment.POLICIES) == {
      "*"    = { ERRORS = "{\"Slow\":{\"JITTER\":\"none\"}}" }
      orders = { BASE_BACKOFF = "5s", ERRORS = "{\"Z*\":{\"MAX_ATTEMPTS\":\"3\"},\"A\":{\"BACKOFFS\":\"90s\"}}" }
    }
    error_message = "expected the errors in order, got ${local.environment.POLICIES}"
  }
}

run "the_code_may_be_in_s3" {
  variables {
    handler_zip = null
    handler_s3  = { bucket = "code", key = "bootstrap.zip", version = "7" }
  }
  assert {
    condition     = aws_lambda_function.handler.s3_object_version == "7" && aws_lambda_function.handler.filename == null
    error_message = "expected the code of S3"
  }
}

run "one_function_may_be_transparent" {
  variables {
    ledger = true
    functions = {
      orders = {
        arn         = "arn:aws:lambda:us-east-1:123456789012:function:orders"
        role_arn    = "arn:aws:iam::123456789012:role/orders"
        transparent = true
      }
    }
  }
  assert {
    condition     = jsondecode(local.environment.POLICIES) == { orders = { TRANSPARENT = "true" } }
    error_message = "expected the function's own policy, got ${local.environment.POLICIES}"
  }
  assert {
    condition     = !contains(keys(local.environment), "TRANSPARENT")
    error_message = "expected no general value"
  }
}

run "each_alarm_exists_and_can_be_set" {
  variables {
    ledger   = true
    register = true
    probe    = true
    alarms = {
      actions  = ["arn:aws:sns:us-east-1:123456789012:pages"]
      settings = { Lateness = { evaluation_periods = 3 } }
    }
  }
  assert {
    condition     = toset([for it in local.watched : it.alarm]) == toset(keys(local.contract))
    error_message = "expected each alarm"
  }
  assert {
    condition = (
      aws_cloudwatch_metric_alarm.this["Lateness-orders"].evaluation_periods == 3 &&
      aws_cloudwatch_metric_alarm.this["Lateness-orders"].datapoints_to_alarm == null &&
      aws_cloudwatch_metric_alarm.this["Lateness-orders"].extended_statistic == "p99"
    )
    error_message = "expected the settings of the alarm"
  }
  assert {
    condition = alltrue(flatten([
      for alarm in aws_cloudwatch_metric_alarm.this : [for query in alarm.metric_query : !strcontains(query.expression == null ? "" : query.expression, "$${")]
    ]))
    error_message = "expected expressions without variables"
  }
}

run "an_alarm_that_needs_something_to_be_switched_on_is_made_only_with_it" {
  variables {
    ledger = true
  }
  assert {
    condition = toset([for it in local.watched : it.alarm]) == toset([
      for alarm, it in local.contract : alarm if contains(["", "ledger"], try(it.only_with, ""))
    ])
    error_message = "expected the alarms of a ledger and no others, got ${jsonencode(keys(local.watched))}"
  }
}

run "records_of_any_size_go_to_a_bucket_that_tells_each_functions_own_queue" {
  variables {
    records            = true
    max_age            = "36h"
    redrive_principals = ["arn:aws:iam::123456789012:role/redriver"]
    functions = {
      orders = {
        arn      = "arn:aws:lambda:us-east-1:123456789012:function:orders"
        role_arn = "arn:aws:iam::123456789012:role/orders"
        max_age  = "10d"
      }
      payments = {
        arn      = "arn:aws:lambda:us-east-1:123456789012:function:payments"
        role_arn = "arn:aws:iam::123456789012:role/payments"
        records  = false
      }
    }
  }
  assert {
    condition = (
      aws_lambda_function_event_invoke_config.this["orders:$LATEST"].destination_config[0].on_failure[0].destination == "arn:aws:s3:::comeback-records"
      && strcontains(aws_lambda_function_event_invoke_config.this["payments:$LATEST"].destination_config[0].on_failure[0].destination, ":sqs:")
    )
    error_message = "expected the bucket as the destination of one function"
  }
  assert {
    condition = [for it in aws_s3_bucket_notification.records[0].queue : "${it.id} ${it.filter_prefix} ${join(",", it.events)}"] == [
      "orders aws/lambda/async/orders/ s3:ObjectCreated:*", "payments aws/lambda/async/payments/ s3:ObjectCreated:*",
    ]
    error_message = "expected notices of each function's records to its own queue, got ${jsonencode(aws_s3_bucket_notification.records[0].queue)}"
  }
  assert {
    # The longest age of all policies, the retention of dead letters, and a day.
    condition     = aws_s3_bucket_lifecycle_configuration.records[0].rule[0].expiration[0].days == 10 + 14 + 1
    error_message = "expected that records outlast their events, got ${jsonencode(aws_s3_bucket_lifecycle_configuration.records[0].rule)}"
  }
  assert {
    condition     = !strcontains(aws_sqs_queue_policy.retry["redrive"].policy, "s3.amazonaws.com")
    error_message = "expected that the bucket sends to the queues of functions only, got ${aws_sqs_queue_policy.retry["redrive"].policy}"
  }
  assert {
    condition     = strcontains(aws_iam_role_policy.sender["payments"].policy, "sqs:SendMessage") && strcontains(aws_iam_role_policy.sender["payments"].policy, "s3:PutObject")
    error_message = "expected that a function may send to both, so that its destination may change, got ${aws_iam_role_policy.sender["payments"].policy}"
  }
  assert {
    condition = (
      toset(jsondecode(aws_s3_bucket_policy.records[0].policy).Statement[1].Condition.ArnNotEquals["aws:PrincipalArn"])
      == toset(["arn:aws:iam::123456789012:role/orders", "arn:aws:iam::123456789012:role/payments"])
    )
    error_message = "expected that the roles of all functions may put records, got ${aws_s3_bucket_policy.records[0].policy}"
  }
}

run "the_notifications_to_add_to_a_bucket_of_the_users_are_told" {
  variables {
    records_bucket = { name = "mine", kms_key_arn = "arn:aws:kms:us-east-1:123456789012:key/theirs" }
  }
  assert {
    condition     = output.record_notifications[0].filter_prefix == "aws/lambda/async/orders/" && output.records_bucket_name == "mine"
    error_message = "expected the notifications to add, got ${jsonencode(output.record_notifications)}"
  }
}

run "a_bucket_of_the_users_may_have_its_notifications_managed" {
  variables {
    records        = true
    records_bucket = { name = "mine", manages_notifications = true }
  }
  assert {
    condition     = aws_s3_bucket_notification.records[0].bucket == "mine" && length(aws_s3_bucket_notification.records[0].queue) == 2
    error_message = "expected the notifications of both functions"
  }
  assert {
    condition     = aws_lambda_function_event_invoke_config.this["orders:$LATEST"].destination_config[0].on_failure[0].destination == "arn:aws:s3:::mine"
    error_message = "expected the bucket as the destination"
  }
}

run "without_records_there_is_no_bucket" {
  assert {
    condition     = output.records_bucket_name == null && output.records_bucket_arn == null
    error_message = "expected no bucket"
  }
}

run "without_functions_alarms_and_dashboard_there_is_a_handler" {
  variables {
    functions = {}
    alarms    = null
    dashboard = false
  }
  assert {
    condition     = length(aws_sqs_queue.retry) + length(aws_cloudwatch_metric_alarm.this) + length(aws_cloudwatch_dashboard.this) == 0
    error_message = "expected no queue, no alarm and no dashboard"
  }
}

run "a_queue_has_a_retry_queue_that_takes_messages_of_no_other_queue" {
  variables {
    redrive_principals  = ["arn:aws:iam::123456789012:role/operator"]
    operator_principals = ["arn:aws:iam::123456789012:role/operator"]
    consumers           = { importer = "importer" }
    queues = {
      imports = {
        queue = {
          arn                        = "arn:aws:sqs:us-east-1:123456789012:imports"
          url                        = "https://sqs.us-east-1.amazonaws.com/123456789012/imports"
          kms_master_key_id          = "arn:aws:kms:us-east-1:123456789012:key/imports"
          visibility_timeout_seconds = 180
          redrive_policy             = "{\"deadLetterTargetArn\":\"arn:aws:sqs:us-east-1:123456789012:comeback-retry-imports\"}"
        }
        max_receive_count = 3
        max_age           = "7d"
      }
    }
  }
  assert {
    condition = jsondecode(aws_sqs_queue.retry["retry-imports"].redrive_allow_policy) == {
      redrivePermission = "byQueue", sourceQueueArns = ["arn:aws:sqs:us-east-1:123456789012:imports"]
    }
    error_message = "expected that SQS moves messages from this queue only"
  }
  assert {
    condition = alltrue([
      for key in ["retry-orders", "retry-payments", "redrive"] :
      jsondecode(aws_sqs_queue.retry[key].redrive_allow_policy) == { redrivePermission = "denyAll" }
    ])
    error_message = "expected that SQS moves no message to another queue"
  }
  assert {
    condition     = jsondecode(aws_sqs_queue_redrive_policy.source["imports"].redrive_policy).maxReceiveCount == 3
    error_message = "expected the redrive policy of the source queue"
  }
  assert {
    condition     = jsondecode(local.environment.POLICIES) == { "sqs:imports" = { MAX_AGE = "7d" } }
    error_message = "expected the queue's own policy, got ${local.environment.POLICIES}"
  }
  assert {
    condition = jsonencode(local.queues) == jsonencode({
      redrive = ["imports", "orders", "payments"], retry-imports = ["imports"], retry-orders = ["orders"], retry-payments = ["payments"]
    }) && local.target_names.imports == "sqs:imports"
    error_message = "expected a queue for each, and one for redrives, got ${jsonencode(local.queues)}"
  }
  assert {
    condition = (
      strcontains(aws_iam_role_policy.handler.policy, "\"arn:aws:sqs:us-east-1:123456789012:imports\"")
      && strcontains(aws_iam_role_policy.handler.policy, "key/imports")
    )
    error_message = "expected that the handler may send to the queue and use its key"
  }
  assert {
    condition     = strcontains(aws_iam_policy.operate[0].policy, "sqs:us-east-1:123456789012:imports")
    error_message = "expected that operators may send to the queue"
  }
  assert {
    condition     = aws_lambda_function_recursion_config.consumer["importer"].recursive_loop == "Allow"
    error_message = "expected that the consumer may be invoked in a loop"
  }
  assert {
    condition = toset([for key in keys(aws_cloudwatch_metric_alarm.this) : key if endswith(key, "-imports") || endswith(key, "-importer")]) == toset(concat(
      [for alarm, it in local.contract : "${alarm}-retry-imports" if it.of == "queue"],
      [for alarm, it in local.contract : "${alarm}-imports" if it.of == "target" && try(it.only_with, null) == null],
      ["RecursionStopped-importer"],
    ))
    error_message = "expected the alarms of a queue, got ${jsonencode(keys(aws_cloudwatch_metric_alarm.this))}"
  }
  assert {
    condition     = aws_cloudwatch_metric_alarm.this["Lateness-imports"].dimensions == tomap({ Target = "sqs:imports" })
    error_message = "expected the queue's name in settings and metrics"
  }
}

run "functions_that_share_a_queue_share_it_with_no_queue" {
  variables {
    shared_queue = true
    queues = {
      imports = { queue = { arn = "arn:aws:sqs:us-east-1:123456789012:imports", url = "https://sqs.us-east-1.amazonaws.com/123456789012/imports" } }
    }
  }
  assert {
    condition     = jsonencode(local.queues) == jsonencode({ retry = ["imports", "orders", "payments"], retry-imports = ["imports"] }) && local.redrive_queue == "retry"
    error_message = "expected two queues, got ${jsonencode(local.queues)}"
  }
}

run "what_rules_and_schedules_could_not_deliver_waits_in_the_retry_queue_of_the_target" {
  variables {
    receivers = {
      functions = { audit = "arn:aws:lambda:us-east-1:123456789012:function:audit:live" }
      queues    = { jobs = { arn = "arn:aws:sqs:us-east-1:123456789012:jobs", kms_key_arn = "arn:aws:kms:us-east-1:123456789012:key/2" } }
    }
    rules = {
      placed   = { rule = { arn = "arn:aws:events:us-east-1:123456789012:rule/placed" }, receiver = "orders", target = {} }
      canceled = { rule = { arn = "arn:aws:events:us-east-1:123456789012:rule/shop/canceled" }, receiver = "orders", target = {} }
      watched  = { rule = { arn = "arn:aws:events:us-east-1:123456789012:rule/placed" }, receiver = "audit", target = {} }
    }
    schedules = {
      nightly = { schedule = { target = [{ role_arn = "arn:aws:iam::123456789012:role/service/nightly" }] }, receiver = "jobs" }
    }
    kms_key_arn = "arn:aws:kms:us-east-1:123456789012:key/1"
  }
  assert {
    condition = toset(values(jsondecode(local.environment.QUEUE_TARGETS))) == toset([
      ["orders"], ["payments"], ["audit"], ["sqs:jobs"]
    ])
    error_message = "expected a queue for each target, got ${local.environment.QUEUE_TARGETS}"
  }
  assert {
    condition = {
      for key in ["orders", "payments", "audit", "jobs"] : key => [
        for it in jsondecode(aws_sqs_queue_policy.retry["retry-${key}"].policy).Statement :
        it.Condition.ArnEquals["aws:SourceArn"] if it.Effect == "Allow"
      ]
      } == {
      orders   = [["arn:aws:events:us-east-1:123456789012:rule/shop/canceled", "arn:aws:events:us-east-1:123456789012:rule/placed"]]
      payments = []
      audit    = [["arn:aws:events:us-east-1:123456789012:rule/placed"]]
      jobs     = []
    }
    error_message = "expected that each rule sends to the queues of its targets only"
  }
  assert {
    condition = jsondecode(aws_iam_role_policy.schedule["nightly"].policy).Statement[*].Action == [
      ["sqs:SendMessage"], ["kms:Decrypt", "kms:GenerateDataKey"]
    ] && aws_iam_role_policy.schedule["nightly"].role == "nightly"
    error_message = "expected that the schedule's role may send, got ${aws_iam_role_policy.schedule["nightly"].policy}"
  }
  assert {
    condition = (
      strcontains(aws_sqs_queue_policy.retry["retry-jobs"].policy, "role/service/nightly")
      && !strcontains(aws_sqs_queue_policy.retry["retry-orders"].policy, "role/service/nightly")
    )
    error_message = "expected that the schedule's role is exempt from the denial of its own queue only"
  }
  assert {
    condition = alltrue([
      for resource in ["function:audit\"", "function:audit:*", "sqs:us-east-1:123456789012:jobs", "key/2"] :
      strcontains(local.handler_policy, resource)
    ])
    error_message = "expected that the handler may deliver again, got ${local.handler_policy}"
  }
  assert {
    condition = alltrue([
      contains(keys(output.retry_queue_arns), "jobs"),
      contains(keys(local.watched), "UndeliveredFailures-audit"),
      !contains(keys(local.watched), "UndeliveredFailures-jobs"),
      contains(keys(local.watched), "Lateness-jobs"),
    ])
    error_message = "expected the alarms of a function and of a queue, got ${jsonencode(keys(local.watched))}"
  }
}

run "batches_of_streams_come_back_through_the_bucket" {
  variables {
    functions = {
      orders = {
        arn      = "arn:aws:lambda:us-east-1:123456789012:function:orders"
        role_arn = "arn:aws:iam::123456789012:role/orders"
      }
      payments = {
        arn      = "arn:aws:lambda:us-east-1:123456789012:function:payments"
        role_arn = "arn:aws:iam::123456789012:role/payments"
        records  = true
      }
    }
    streams = {
      clicks = { function = "orders", mapping = { uuid = "11111111-2222-3333-4444-555555555555", function_response_types = ["ReportBatchItemFailures"] } }
      views  = { function = "payments", mapping = { uuid = "66666666-2222-3333-4444-555555555555" } }
    }
  }
  assert {
    condition = [for queue in aws_s3_bucket_notification.records[0].queue : queue.filter_prefix] == [
      "aws/lambda/async/orders/",
      "aws/lambda/async/payments/",
      "aws/lambda/11111111-2222-3333-4444-555555555555/",
      "aws/lambda/66666666-2222-3333-4444-555555555555/",
    ]
    error_message = "expected a notification for each function and mapping"
  }
  assert {
    condition = {
      for key, it in aws_lambda_function_event_invoke_config.this : key => length(it.destination_config[0].on_success)
    } == { "orders:$LATEST" = 1, "payments:$LATEST" = 0 }
    error_message = "expected the successes of the function that says which records have failed, and of no other"
  }
  assert {
    condition = (
      aws_s3_bucket_lifecycle_configuration.records[0].rule[0].filter[0].prefix == "aws/lambda/"
      && strcontains(local.handler_policy, "comeback-records/aws/lambda/*")
    )
    error_message = "expected that batches are kept and read, too, got ${local.handler_policy}"
  }
}
