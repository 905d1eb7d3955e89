# A dashboard that shows, in this order: lost events, outages, waiting events, and costs.

locals {
  region = split(":", aws_sqs_queue.dead_letter.arn)[3]

  # Dollars in us-east-1, for one unit of each price.
  price = {
    for name, it in jsondecode(file("${path.module}/../cdk/contract/prices.json")) :
    name => it.unit == "million" ? "${it.dollars} / 1000000" : tostring(it.dollars)
  }
  dashboard_function = [for key, name in local.function_names : { key = key, name = name }]
  dashboard_target   = [for key, name in local.target_names : { key = key, name = name }]
  dashboard_queue    = [for key in keys(local.queues) : { key = key, name = aws_sqs_queue.retry[key].name }]

  # The three graphs of each row, in the order of the rows.
  graphs = {
    "Is anything lost?" = [
      {
        title = "Dead letters"
        metrics = [
          ["AWS/SQS", "ApproximateNumberOfMessagesVisible", "QueueName", aws_sqs_queue.dead_letter.name, { label = "dead letters", stat = "Maximum" }],
          [{ expression = "age / 86400", label = "days since the oldest", yAxis = "right" }],
          ["AWS/SQS", "ApproximateAgeOfOldestMessage", "QueueName", aws_sqs_queue.dead_letter.name, { id = "age", visible = false, stat = "Maximum" }],
        ]
      },
      {
        title = "Given up, by reason"
        metrics = [
          for target in local.dashboard_target : [{
            expression = "SEARCH('{Comeback,Target,Reason} MetricName=\"DeadLettered\" Target=\"${target.name}\"', 'Sum', 300)"
            label      = "$${PROP('Dim.Target')} $${PROP('Dim.Reason')}"
          }]
        ]
      },
      {
        title = "Dropped, or not sent to the dead-letter queue"
        metrics = concat(
          [
            for function in local.dashboard_function :
            ["AWS/Lambda", "DestinationDeliveryFailures", "FunctionName", function.name, { label = "${function.key} dropped by Lambda", stat = "Sum" }]
          ],
          [
            for target in local.dashboard_target :
            ["Comeback", "DeadLettersNotSent", "Target", target.name, { label = "${target.key} not sent", stat = "Sum" }]
          ],
        )
      },
    ]
    "What is down?" = [
      {
        title = "Failed invocations, and whether a function is probed because it is down"
        metrics = flatten([
          for function in local.dashboard_function : [
            { line = ["AWS/Lambda", "Errors", "FunctionName", function.name, { label = "${function.key} failed", stat = "Sum" }] },
            { line = ["Comeback", "CircuitOpen", "Target", function.name, { label = "${function.key} down", stat = "Maximum", yAxis = "right" }] },
          ]
        ])[*].line
      },
      {
        title = "Faults that a person must fix"
        metrics = concat(
          flatten([
            for target in local.dashboard_target : [
              { line = ["Comeback", "ConfigurationFaults", "Target", target.name, { label = "${target.key} configuration", stat = "Sum" }] },
              { line = ["Comeback", "Throttled", "Target", target.name, { label = "${target.key} throttled", stat = "Sum" }] },
              { line = ["Comeback", "LedgerFaults", "Target", target.name, { label = "${target.key} ledger", stat = "Sum" }] },
            ]
          ])[*].line,
          [
            for key, name in merge(local.function_names, var.consumers) :
            ["AWS/Lambda", "RecursiveInvocationsDropped", "FunctionName", name, { label = "${key} taken for a loop", stat = "Sum" }]
          ],
        )
      },
      {
        title = "The retry handler"
        metrics = [
          for name, setting in {
            Invocations = { label = "invocations", stat = "Sum" }
            Errors      = { label = "errors", stat = "Sum" }
            Throttles   = { label = "throttles", stat = "Sum" }
          } : ["AWS/Lambda", name, "FunctionName", aws_lambda_function.handler.function_name, setting]
        ]
      },
    ]
    "What waits, and until when?" = [
      {
        title = "Messages in the retry queues"
        metrics = flatten([
          for queue in local.dashboard_queue : [
            { line = ["AWS/SQS", "ApproximateNumberOfMessagesNotVisible", "QueueName", queue.name, { label = "${queue.key} waiting", stat = "Maximum" }] },
            { line = ["AWS/SQS", "ApproximateNumberOfMessagesDelayed", "QueueName", queue.name, { label = "${queue.key} delayed", stat = "Maximum" }] },
            { line = ["AWS/SQS", "ApproximateNumberOfMessagesVisible", "QueueName", queue.name, { label = "${queue.key} due", stat = "Maximum" }] },
          ]
        ])[*].line
      },
      {
        title = "Oldest event in percent of its maximum age"
        metrics = flatten([
          for nth, target in local.dashboard_target : [
            { line = [{ expression = "100 * age${nth} / ${local.max_age_seconds[target.key]}", label = target.key }] },
            { line = ["Comeback", "EventAge", "Target", target.name, { id = "age${nth}", visible = false, stat = "Maximum" }] },
          ]
        ])[*].line
      },
      {
        title = "Lateness of retries in ms, p99"
        metrics = [
          for target in local.dashboard_target :
          ["Comeback", "InvokeLateness", "Target", target.name, { label = target.key, stat = "p99" }]
        ]
      },
    ]
    "What does it cost?" = [
      {
        title = "Outcomes of failed events"
        metrics = flatten([
          for target in local.dashboard_target : [
            for name, what in { Waited = "waited", Invoked = "re-invoked", Probes = "probed", BroughtForward = "brought forward" } :
            { line = ["Comeback", name, "Target", target.name, { label = "${target.key} ${what}", stat = "Sum" }] }
          ]
        ])[*].line
      },
      {
        title = "Dollars an hour, without metrics and alarms"
        metrics = concat(
          [
            [{ expression = "i * ${local.price.lambda_request} + d / 1000 * ${var.memory_size} / 1024 * ${local.price.gb_second}", label = "handler", period = 3600 }],
            ["AWS/Lambda", "Invocations", "FunctionName", aws_lambda_function.handler.function_name, { id = "i", visible = false, stat = "Sum", period = 3600 }],
            ["AWS/Lambda", "Duration", "FunctionName", aws_lambda_function.handler.function_name, { id = "d", visible = false, stat = "Sum", period = 3600 }],
            [{ expression = "b / 1000000000 * ${local.price.gb_of_log}", label = "log", period = 3600 }],
            ["AWS/Logs", "IncomingBytes", "LogGroupName", aws_cloudwatch_log_group.handler.name, { id = "b", visible = false, stat = "Sum", period = 3600 }],
          ],
          flatten([
            for table in aws_dynamodb_table.ledger : [
              { line = [{ expression = "w * ${local.price.write_of_dynamodb}", label = "ledger", period = 3600 }] },
              { line = ["AWS/DynamoDB", "ConsumedWriteCapacityUnits", "TableName", table.name, { id = "w", visible = false, stat = "Sum", period = 3600 }] },
            ]
          ])[*].line,
          # These metrics count messages, but one request can have ten, so this overestimates the cost.
          flatten([
            for nth, queue in local.dashboard_queue : concat(
              [{ line = [{ expression = "(s${nth} + r${nth} + f${nth} + e${nth}) * ${local.price.sqs_request}", label = queue.key, period = 3600 }] }],
              [
                for id, name in {
                  s = "NumberOfMessagesSent", r = "NumberOfMessagesReceived", f = "NumberOfMessagesDeleted", e = "NumberOfEmptyReceives"
                } : { line = ["AWS/SQS", name, "QueueName", queue.name, { id = "${id}${nth}", visible = false, stat = "Sum", period = 3600 }] }
              ],
            )
          ])[*].line,
        )
      },
    ]
  }

  questions = ["Is anything lost?", "What is down?", "What waits, and until when?", "What does it cost?"]
}

resource "aws_cloudwatch_dashboard" "this" {
  count = var.dashboard ? 1 : 0

  dashboard_name = var.name
  dashboard_body = jsonencode({
    widgets = flatten([
      for row, question in local.questions : concat(
        [{ type = "text", x = 0, y = 7 * row, width = 24, height = 1, properties = { markdown = "## ${question}" } }],
        [
          for column, graph in local.graphs[question] : {
            type   = "metric"
            x      = 8 * column
            y      = 7 * row + 1
            width  = 8
            height = 6
            properties = merge(
              { title = graph.title, metrics = graph.metrics, region = local.region, view = "timeSeries", period = 300 },
              { for name in ["stacked"] : name => true if startswith(graph.title, "Dollars") },
            )
          }
        ],
      )
    ])
  })
}
