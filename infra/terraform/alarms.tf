# The alarms and their conditions. docs/runbook.md has a section on each.

locals {
  # `above` and `periods` are 0 and 1 unless they are set; `periods_above` is as many as `periods`.
  triggers = {
    DeadLettersNotSent = {
      severity    = "page"
      description = "A retry handler in this region can't send dead letters to its dead-letter queue, so these events stay in the retry queue. The errors in the handler's log name the queue and the cause: the queue is missing, or its policy, the handler's role or the key forbids sending. Fix the cause."
    }
    EventsGivenUp = {
      severity      = "page"
      periods       = 3
      periods_above = 1
      description   = "A retry handler in this region gives up events that might have succeeded, or that it is not allowed to retry. Look at the dead letters by reason, function and error. Errors that never heal (not_retryable) and cancelled events are not counted."
    }
    DeadLetters = {
      severity    = "ticket"
      description = "Events were given up. The attribute Reason of each message in the dead-letter queue says why. A message without Reason was moved there by SQS, because the handler failed on it for days. Fix the cause, then start a redrive of the dead-letter queue, with the retry queue that accepts all dead letters as its custom destination. Each event starts over."
    }
    DeadLettersGrow = {
      severity      = "ticket"
      periods       = 12
      periods_above = 1
      description   = "The number of dead letters has grown. The alarm DeadLetters does not show this, because it stays on from the first one. Look at the dead letters of the last hour by reason, function and error."
    }
    DeadLettersExpire = {
      severity = "page"
      # Of 14 days, this leaves four.
      above       = 10 * 24 * 60 * 60
      description = "The oldest dead letter has been in its queue for so long that SQS soon deletes it. Look at the dead letters, and redrive, export or purge them."
    }
    HandlerErrors = {
      severity    = "page"
      description = "The retry handler fails. Check its log: an invalid setting stops it at startup, and the log names the variable. Nothing is lost in the meantime: SQS delivers each message up to a thousand times."
    }
    HandlerThrottles = {
      severity    = "ticket"
      description = "The retry handler is throttled, so retries are late. Raise the account's concurrency, or give the handler a reserved concurrency that is at least the maximum concurrency of its mappings."
    }
    HandlerRecursionStopped = {
      severity    = "page"
      description = "Lambda took the retry handler for an endless loop, and stopped it. Set its RecursiveLoop to Allow. SQS delivers its messages again."
    }
    HandlerSilent = {
      severity    = "page"
      periods     = 3
      description = "The retry handler runs, but its log or its metrics are missing, so most of the other alarms are blind. Check that its log group exists and is of the class Standard, that its role may write to it, and that no log level is set."
    }
    UnreadMessages = {
      severity    = "page"
      periods     = 3
      description = "For a quarter of an hour, a retry queue has constantly had messages that are due but not received. Check that the queue's mapping is enabled and that the handler is not throttled. If the handler is only busy, raise the mapping's maximum concurrency. If 120,000 messages are in flight, SQS delivers none: the errors in the handler's log say why it can't send them again with a delay."
    }
    Backlog = {
      severity    = "ticket"
      above       = 50
      description = "The number of events that wait in a retry queue is above its threshold, a percentage of IN_FLIGHT_MAX. Nothing stalls, but waits that are kept as delays cost more. Look for the function that is down."
    }
    UndeliveredFailures = {
      severity    = "page"
      description = "Lambda could not send failed events of this function to the retry queue, and dropped them. Check that the function's role may send to the queue and use its key. A payload near 1 MiB is dropped too, because its failure record does not fit into a message."
    }
    RecursionStopped = {
      severity    = "page"
      description = "Lambda took the retries of this function for an endless loop, and stopped them. Set its RecursiveLoop to Allow. Then redrive the dead-letter queue, where the reason of these events is recursion_stopped."
    }
    ConfigurationFaults = {
      severity    = "page"
      description = "This function can't be re-invoked: a permission, the key or the function itself is missing. The errors in the handler's log say which. Fix it; until then its events wait, but no longer than their maximum age."
    }
    ThrottledRetries = {
      severity    = "page"
      period      = 900
      periods     = 2
      description = "Lambda throttles the retries of this function, and accepts none. Find out what uses up the account's concurrency, and check the rate of asynchronous invocations and AWS's health page."
    }
    EventsExpire = {
      severity      = "page"
      above         = 50
      periods       = 4
      periods_above = 1
      description   = "An event of this function has been failing, or was paused, for a large part of its maximum age. When it reaches that age, it is given up. Check the function's log and fix the cause; resume the function if it is paused. If only this event fails, cancel it, or list its error in NON_RETRYABLE_ERRORS."
    }
    Lateness = {
      severity    = "ticket"
      above       = 5 * 60 * 1000
      description = "Retries of this function are late. Check whether the handler is throttled. If its retry queue has more due messages than the handler can process, raise the mapping's maximum concurrency."
    }
    LedgerFaults = {
      severity    = "page"
      description = "The ledger can't say whether failures of this function were already handled, so its events wait. The errors in the handler's log say whether the table, the permission or the key is missing."
    }
    CircuitOpen = {
      severity      = "page"
      periods       = 4
      periods_above = 1
      description   = "This function has been down since this alarm went off: nearly all re-invocations failed. It is now probed with one event at a time, and its other events wait without using up attempts, but no longer than their maximum age. Check the function's log and fix the cause. Retries resume by themselves when a probe succeeds."
    }
  }

  # The metric of each alarm: one metric, or an expression of several. A metric is namespace, name, dimensions,
  # statistic. The sum of a list ignores missing metrics, even one that never had a value.
  watched_once = {
    DeadLettersNotSent = {
      label      = "DeadLettersNotSent"
      expression = "SELECT SUM(DeadLettersNotSent) FROM SCHEMA(Comeback, Target)"
      metrics    = {}
    }
    EventsGivenUp = {
      label      = "DeadLettered"
      expression = "SELECT SUM(DeadLettered) FROM SCHEMA(Comeback, Target, Reason) WHERE Reason != 'not_retryable' AND Reason != 'cancelled'"
      metrics    = {}
    }
    DeadLetters = {
      metrics = { m = ["AWS/SQS", "ApproximateNumberOfMessagesVisible", local.of_dead_letters, "Maximum"] }
    }
    DeadLettersGrow = {
      label      = "more dead letters"
      expression = "DIFF(letters)"
      metrics    = { letters = ["AWS/SQS", "ApproximateNumberOfMessagesVisible", local.of_dead_letters, "Maximum"] }
    }
    DeadLettersExpire = {
      metrics = { m = ["AWS/SQS", "ApproximateAgeOfOldestMessage", local.of_dead_letters, "Maximum"] }
    }
    HandlerErrors = {
      metrics = { m = ["AWS/Lambda", "Errors", local.of_handler, "Sum"] }
    }
    HandlerThrottles = {
      metrics = { m = ["AWS/Lambda", "Throttles", local.of_handler, "Sum"] }
    }
    HandlerRecursionStopped = {
      metrics = { m = ["AWS/Lambda", "RecursiveInvocationsDropped", local.of_handler, "Sum"] }
    }
    HandlerSilent = {
      label      = "no log or no metrics"
      expression = "SUM([IF(SUM([invocations, logged]) == invocations, invocations, 0), IF(published == 0, invocations - errors, 0), unparsed, invalid])"
      metrics = {
        invocations = ["AWS/Lambda", "Invocations", local.of_handler, "Sum"]
        errors      = ["AWS/Lambda", "Errors", local.of_handler, "Sum"]
        logged      = ["AWS/Logs", "IncomingLogEvents", local.of_handlers_log, "Sum"]
        published   = ["Comeback", local.metric_lines, {}, "Sum"]
        unparsed    = ["AWS/Logs", "EMFParsingErrors", local.of_handlers_log, "Sum"]
        invalid     = ["AWS/Logs", "EMFValidationErrors", local.of_handlers_log, "Sum"]
      }
    }
  }

  watched_of_queues = {
    for key in keys(local.queues) : key => {
      UnreadMessages = {
        metrics = { m = ["AWS/SQS", "ApproximateNumberOfMessagesVisible", local.of_queues[key], "Minimum"] }
      }
      Backlog = {
        label      = "waiting events in percent of IN_FLIGHT_MAX"
        expression = "100 * SUM([inFlight, delayed]) / ${var.in_flight_max == null ? 100000 : var.in_flight_max}"
        metrics = {
          inFlight = ["AWS/SQS", "ApproximateNumberOfMessagesNotVisible", local.of_queues[key], "Maximum"]
          delayed  = ["AWS/SQS", "ApproximateNumberOfMessagesDelayed", local.of_queues[key], "Maximum"]
        }
      }
    }
  }

  watched_of_functions = {
    for key, name in local.function_names : key => merge(
      {
        UndeliveredFailures = {
          metrics = { m = ["AWS/Lambda", "DestinationDeliveryFailures", { FunctionName = name }, "Sum"] }
        }
        RecursionStopped = {
          metrics = { m = ["AWS/Lambda", "RecursiveInvocationsDropped", { FunctionName = name }, "Sum"] }
        }
        ConfigurationFaults = {
          metrics = { m = ["Comeback", "ConfigurationFaults", { Target = name }, "Sum"] }
        }
        ThrottledRetries = {
          label      = "throttled and never accepted"
          expression = "IF(SUM([throttled, invoked]) == throttled, throttled, 0)"
          metrics = {
            throttled = ["Comeback", "Throttled", { Target = name }, "Sum"]
            invoked   = ["Comeback", "Invoked", { Target = name }, "Sum"]
          }
        }
        EventsExpire = {
          label      = "oldest event in percent of its maximum age"
          expression = "100 * age / ${local.durations[key][2]}"
          metrics    = { age = ["Comeback", "EventAge", { Target = name }, "Maximum"] }
        }
        Lateness = {
          metrics = { m = ["Comeback", "InvokeLateness", { Target = name }, "p99"] }
        }
      },
      {
        for alarm in ["LedgerFaults"] : alarm => {
          metrics = { m = ["Comeback", "LedgerFaults", { Target = name }, "Sum"] }
        } if var.ledger
      },
      {
        for alarm in ["CircuitOpen"] : alarm => {
          metrics = { m = ["Comeback", "CircuitOpen", { Target = name }, "Maximum"] }
        } if var.probe
      },
    )
  }

  # All alarms by their names in the account, without the module's name.
  watched = merge(concat(
    [{ for alarm, watch in local.watched_once : alarm => { alarm = alarm, watch = watch } }],
    [
      for queue, alarms in local.watched_of_queues : {
        for alarm, watch in alarms : "${alarm}-${queue}" => { alarm = alarm, watch = watch }
      }
    ],
    [
      for function, alarms in local.watched_of_functions : {
        for alarm, watch in alarms : "${alarm}-${function}" => { alarm = alarm, watch = watch }
      }
    ],
  )...)

  alarm_settings = var.alarms == null ? {} : var.alarms.settings

  actions        = var.alarms == null ? [] : var.alarms.actions
  ticket_actions = var.alarms == null ? null : var.alarms.ticket_actions
  actions_by_severity = {
    page   = local.actions
    ticket = local.ticket_actions == null ? local.actions : local.ticket_actions
  }

  # Each alarm, with its settings instead of the defaults.
  alarms = {
    for key, item in local.watched : key => {
      description = local.triggers[item.alarm].description
      runbook     = "docs/runbook.md#${lower(item.alarm)}"
      metrics     = item.watch.metrics
      expression  = try(item.watch.expression, null)
      label       = try(item.watch.label, null)
      severity = coalesce(
        try(local.alarm_settings[item.alarm].severity, null), local.triggers[item.alarm].severity
      )
      threshold = coalesce(
        try(local.alarm_settings[item.alarm].threshold, null), try(local.triggers[item.alarm].above, 0)
      )
      period = coalesce(
        try(local.alarm_settings[item.alarm].period, null), try(local.triggers[item.alarm].period, 300)
      )
      periods = coalesce(
        try(local.alarm_settings[item.alarm].evaluation_periods, null), try(local.triggers[item.alarm].periods, 1)
      )
      # Null means all of the periods, as it does for periods that are set here.
      periods_above = try(local.alarm_settings[item.alarm].evaluation_periods, null) == null ? try(
        coalesce(
          try(local.alarm_settings[item.alarm].datapoints_to_alarm, null), local.triggers[item.alarm].periods_above
        ),
        null
      ) : local.alarm_settings[item.alarm].datapoints_to_alarm
    } if var.alarms != null && try(local.alarm_settings[item.alarm].enabled, true)
  }

  of_dead_letters = { QueueName = aws_sqs_queue.dead_letter.name }
  of_handler      = { FunctionName = aws_lambda_function.handler.function_name }
  of_handlers_log = { LogGroupName = aws_cloudwatch_log_group.handler.name }
  metric_lines    = "MetricLines-${aws_lambda_function.handler.function_name}"
  of_queues       = { for key in keys(local.queues) : key => { QueueName = aws_sqs_queue.retry[key].name } }
}

resource "aws_cloudwatch_metric_alarm" "this" {
  for_each = local.alarms

  alarm_name          = "${var.name}-${each.key}"
  alarm_description   = "${each.value.description} Runbook: ${each.value.runbook}"
  comparison_operator = "GreaterThanThreshold"
  threshold           = each.value.threshold
  evaluation_periods  = each.value.periods
  datapoints_to_alarm = each.value.periods_above
  # Most of these metrics count faults, and have no data while there are none.
  treat_missing_data = "notBreaching"

  namespace          = each.value.expression == null ? each.value.metrics.m[0] : null
  metric_name        = each.value.expression == null ? each.value.metrics.m[1] : null
  dimensions         = each.value.expression == null ? each.value.metrics.m[2] : null
  statistic          = each.value.expression == null ? (each.value.metrics.m[3] == "p99" ? null : each.value.metrics.m[3]) : null
  extended_statistic = each.value.expression == null ? (each.value.metrics.m[3] == "p99" ? "p99" : null) : null
  period             = each.value.expression == null ? each.value.period : null

  dynamic "metric_query" {
    for_each = [for expression in [each.value.expression] : expression if expression != null]
    content {
      id         = "result"
      expression = metric_query.value
      label      = each.value.label
      # A query has no metric of its own to set the period on.
      period      = length(each.value.metrics) == 0 ? each.value.period : null
      return_data = true
    }
  }

  dynamic "metric_query" {
    for_each = { for id, metric in each.value.metrics : id => metric if each.value.expression != null }
    content {
      id          = metric_query.key
      return_data = false
      metric {
        namespace   = metric_query.value[0]
        metric_name = metric_query.value[1]
        dimensions  = metric_query.value[2]
        stat        = metric_query.value[3]
        period      = each.value.period
      }
    }
  }

  alarm_actions = local.actions_by_severity[each.value.severity]
  ok_actions    = local.actions_by_severity[each.value.severity]

  tags = var.tags
}

# Counts the lines of the handler's log that have metrics, because the metrics don't identify their handler.
resource "aws_cloudwatch_log_metric_filter" "metric_lines" {
  for_each = { for key, alarm in local.alarms : key => alarm if key == "HandlerSilent" }

  name           = "${var.name}-metric-lines"
  log_group_name = aws_cloudwatch_log_group.handler.name
  pattern        = "{ $._aws.CloudWatchMetrics[0].Namespace = \"Comeback\" }"

  metric_transformation {
    namespace = "Comeback"
    name      = local.metric_lines
    value     = "1"
    # The value if lines arrive, but none with metrics.
    default_value = "0"
  }
}
