# The alarms. infra/cdk/contract/alarms.json has their conditions, and docs/runbook.md a section on each.

locals {
  contract = jsondecode(file("${path.module}/../cdk/contract/alarms.json"))

  # What is switched on. An alarm may need one of them.
  switches = {
    # generated: switches, by infra/contract/generate.py
    ledger   = var.ledger
    probe    = var.probe
    register = var.register
    # end: switches
  }
  possible = { for alarm, it in local.contract : alarm => it if can(it.only_with) ? local.switches[it.only_with] : true }

  # All alarms by their names in the account, without the module's name, each with the values of its dimensions.
  watched = merge(
    {
      for alarm, it in local.possible : alarm => {
        alarm  = alarm
        age    = ""
        values = it.of == "handler" ? local.of_handler : { QueueName = aws_sqs_queue.dead_letter.name }
      } if contains(["region", "dead_letter_queue", "handler"], it.of)
    },
    merge([
      for key in keys(local.queues) : {
        for alarm, it in local.possible : "${alarm}-${key}" => {
          alarm  = alarm
          age    = ""
          values = { QueueName = aws_sqs_queue.retry[key].name }
        } if it.of == "queue"
      }
    ]...),
    merge([
      for key, name in local.target_names : {
        for alarm, it in local.possible : "${alarm}-${key}" => {
          alarm  = alarm
          age    = local.max_age_seconds[key]
          values = { FunctionName = name, Target = name }
          # A queue has no metrics of Lambda.
        } if contains(contains(local.queue_keys, key) ? ["target"] : ["function", "target"], it.of)
      }
    ]...),
    {
      for key, name in var.consumers : "RecursionStopped-${key}" => {
        alarm  = "RecursionStopped"
        age    = ""
        values = { FunctionName = name }
      }
    },
  )

  alarm_settings = var.alarms == null ? {} : var.alarms.settings

  actions        = var.alarms == null ? [] : var.alarms.actions
  ticket_actions = var.alarms == null ? null : var.alarms.ticket_actions
  actions_by_severity = {
    page   = local.actions
    ticket = local.ticket_actions == null ? local.actions : local.ticket_actions
  }

  # Each alarm, with its settings instead of the defaults. A metric is namespace, name, dimensions, statistic.
  alarms = {
    for key, item in local.watched : key => {
      description = local.contract[item.alarm].description
      runbook     = "docs/runbook.md#${lower(item.alarm)}"
      label       = try(local.contract[item.alarm].label, null)
      expression = try(
        replace(
          replace(local.contract[item.alarm].expression, "$${max_age_seconds}", item.age),
          "$${in_flight_max}", var.in_flight_max
        ),
        null
      )
      metrics = {
        for id, metric in local.contract[item.alarm].metrics : id => [
          metric[0],
          replace(metric[1], "$${handler}", aws_lambda_function.handler.function_name),
          metric[2] == null ? {} : { (metric[2]) = item.values[metric[2]] },
          metric[3],
        ]
      }
      severity = coalesce(
        try(local.alarm_settings[item.alarm].severity, null), local.contract[item.alarm].severity
      )
      threshold = coalesce(
        try(local.alarm_settings[item.alarm].threshold, null), local.contract[item.alarm].above
      )
      period = coalesce(
        try(local.alarm_settings[item.alarm].period, null), local.contract[item.alarm].period
      )
      periods = coalesce(
        try(local.alarm_settings[item.alarm].evaluation_periods, null), local.contract[item.alarm].periods
      )
      # Null means all of the periods that are set here.
      periods_above = try(local.alarm_settings[item.alarm].evaluation_periods, null) == null ? coalesce(
        try(local.alarm_settings[item.alarm].datapoints_to_alarm, null), local.contract[item.alarm].periods_above
      ) : local.alarm_settings[item.alarm].datapoints_to_alarm
    } if var.alarms != null && try(local.alarm_settings[item.alarm].enabled, true)
  }

  of_handler = {
    FunctionName = aws_lambda_function.handler.function_name
    LogGroupName = aws_cloudwatch_log_group.handler.name
  }
  metric_lines = "MetricLines-${aws_lambda_function.handler.function_name}"
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
