# The function that decides what to do with each failed event, with only the permissions that it needs.

locals {
  queue_targets = {
    for queue, members in local.queues :
    aws_sqs_queue.retry[queue].name => [for key in members : local.target_names[key]]
  }

  # The policies of functions and queues that have one, and the errors of all functions.
  policies = merge(
    {
      for key, own in local.own_values :
      local.target_names[key] => merge(own, lookup(local.errors_written, key, {}))
      if length(own) + length(lookup(local.errors_written, key, {})) > 0
    },
    { for key, errors in local.errors_written : key => errors if key == "*" },
  )

  environment = merge(local.general, {
    for name, value in {
      DEAD_LETTER_QUEUE_URL = local.central == null ? aws_sqs_queue.dead_letter.url : local.central.url
      LEDGER_TABLE          = one(aws_dynamodb_table.ledger[*].name)
      RECORD_BUCKETS        = local.has_bucket ? local.bucket_name : null
      QUEUE_TARGETS         = length(local.queues) == 0 ? null : jsonencode(local.queue_targets)
      POLICIES              = length(local.policies) == 0 ? null : jsonencode(local.policies)
    } : name => value if value != null
  })

  # The destination of dead letters, unless it is the module's own queue.
  central = var.central_dead_letter_queue_arn == null ? null : {
    arn = var.central_dead_letter_queue_arn
    url = format(
      "https://sqs.%s.%s/%s/%s",
      split(":", var.central_dead_letter_queue_arn)[3],
      data.aws_partition.current.dns_suffix,
      split(":", var.central_dead_letter_queue_arn)[4],
      split(":", var.central_dead_letter_queue_arn)[5],
    )
  }

  # The functions with their versions and aliases: the handler invokes the one that a failure record names.
  invoked_arns = concat(
    flatten([
      for key, function in var.functions : [
        for qualifier in(var.only_attached_qualifiers ? function.qualifiers : ["", "*"]) :
        qualifier == "" ? [function.arn]
        : qualifier == "$LATEST" ? [function.arn, "${function.arn}:$LATEST"] : ["${function.arn}:${qualifier}"]
      ]
    ]),
    flatten([
      for it in values(local.receiver_functions) :
      var.only_attached_qualifiers ? [it.qualified] : [it.arn, "${it.arn}:*"]
    ]),
  )

  # What the handler may do, and on what.
  handler_may = concat(
    [
      { actions = ["logs:CreateLogStream", "logs:PutLogEvents"], on = ["${aws_cloudwatch_log_group.handler.arn}:*"] },
      {
        actions = ["sqs:SendMessage"]
        on      = concat([local.central == null ? aws_sqs_queue.dead_letter.arn : local.central.arn], local.source_queue_arns)
      },
      {
        # The handler reads the number of messages in flight, and if there are too many, it sends waiting messages
        # again, with a delay.
        actions = [
          "sqs:ReceiveMessage",
          "sqs:DeleteMessage",
          "sqs:ChangeMessageVisibility",
          "sqs:GetQueueAttributes",
          "sqs:SendMessage",
        ]
        on = local.retry_queue_arns
      },
      { actions = ["lambda:InvokeFunction"], on = local.invoked_arns },
      {
        # Also in transactions. A function may become transparent at any time, which needs all of them.
        actions = ["dynamodb:UpdateItem", "dynamodb:DeleteItem", "dynamodb:BatchGetItem", "dynamodb:Query"]
        on      = local.ledger_arns
      },
      { actions = ["dynamodb:Query"], on = var.probe ? local.register_arns : [] },
    ],
    local.record_reading,
    [
      {
        # With it, S3 tells a record that is gone from one that the handler may not read. The condition s3:prefix is one
        # of lists only, and this is asked for a read, which names no prefix.
        actions = local.record.handler.bucket
        on      = local.bucket_arns
      },
      # CloudWatch doesn't support resource-level permissions.
      { actions = ["cloudwatch:GetMetricData"], on = var.probe ? ["*"] : [] },
      # SQS leaves a message that it moves encrypted with the key of its source.
      {
        actions = ["kms:Decrypt", "kms:GenerateDataKey"]
        on      = distinct(concat(local.keys, [for key in concat([var.central_kms_key_arn], values(local.source_keys), values(var.receivers.queues)[*].kms_key_arn) : key if key != null]))
      },
      { actions = ["kms:Decrypt"], on = [for key in [var.environment_kms_key_arn] : key if key != null] },
      # X-Ray doesn't support resource-level permissions.
      { actions = ["xray:PutTraceSegments", "xray:PutTelemetryRecords"], on = var.tracing == "Active" ? ["*"] : [] },
      {
        # EC2 doesn't support resource-level permissions for these.
        actions = [
          "ec2:CreateNetworkInterface",
          "ec2:DescribeNetworkInterfaces",
          "ec2:DescribeSubnets",
          "ec2:DeleteNetworkInterface",
          "ec2:AssignPrivateIpAddresses",
          "ec2:UnassignPrivateIpAddresses",
        ]
        on = length(var.subnet_ids) > 0 ? ["*"] : []
      },
    ],
  )

  # IAM refuses a statement about no resource.
  handler_statements = [
    for it in local.handler_may : { Effect = "Allow", Action = it.actions, Resource = it.on } if length(it.on) > 0
  ]

  # The key of the queues, the ledger and the bucket, if it is not the services' own.
  keys = [for key in [var.kms_key_arn] : key if key != null]

  handler_policy = jsonencode({
    Version   = "2012-10-17"
    Statement = concat(local.handler_statements, local.keep_history)
  })
}

data "aws_partition" "current" {}

resource "aws_cloudwatch_log_group" "handler" {
  name              = "/aws/lambda/${var.name}-handler"
  retention_in_days = var.log_retention_days
  kms_key_id        = var.log_kms_key_arn
  tags              = var.tags
}

resource "aws_iam_role" "handler" {
  name                 = "${var.name}-handler"
  description          = "The role of the retry handler"
  permissions_boundary = var.permissions_boundary_arn
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Effect    = "Allow"
        Principal = { Service = "lambda.amazonaws.com" }
        Action    = "sts:AssumeRole"
      },
    ]
  })
  tags = var.tags
}

resource "aws_iam_role_policy" "handler" {
  name   = "${var.name}-handler"
  role   = aws_iam_role.handler.name
  policy = local.handler_policy

  lifecycle {
    precondition {
      # IAM's limit for all inline policies of a role.
      condition     = length(local.handler_policy) <= 10240
      error_message = "The handler's policy is longer than the 10240 characters that IAM takes: share a queue, or make another module for some functions."
    }
  }
}

# A release of the module carries the code for both architectures; in a checkout, somebody has to build it.
locals {
  released_zip   = "${path.module}/handler/${var.architecture}.zip"
  takes_released = var.handler_zip == null && var.handler_s3 == null && fileexists(local.released_zip)
  handler_zip    = local.takes_released ? local.released_zip : var.handler_zip
}

resource "aws_lambda_function" "handler" {
  function_name                  = "${var.name}-handler"
  description                    = "Brings failed asynchronous events back to their functions"
  role                           = aws_iam_role.handler.arn
  runtime                        = "provided.al2023"
  handler                        = "bootstrap"
  architectures                  = [var.architecture]
  filename                       = local.handler_zip
  source_code_hash               = local.handler_zip == null ? null : filebase64sha256(local.handler_zip)
  s3_bucket                      = var.handler_s3 == null ? null : var.handler_s3.bucket
  s3_key                         = var.handler_s3 == null ? null : var.handler_s3.key
  s3_object_version              = var.handler_s3 == null ? null : var.handler_s3.version
  memory_size                    = var.memory_size
  timeout                        = var.handler_timeout
  reserved_concurrent_executions = var.reserved_concurrency
  code_signing_config_arn        = var.code_signing_config_arn
  kms_key_arn                    = var.environment_kms_key_arn

  environment {
    variables = local.environment
  }

  logging_config {
    log_format = "Text"
    log_group  = aws_cloudwatch_log_group.handler.name
  }

  tracing_config {
    mode = var.tracing
  }

  dynamic "vpc_config" {
    for_each = [for subnets in [var.subnet_ids] : subnets if length(subnets) > 0]
    content {
      subnet_ids         = vpc_config.value
      security_group_ids = var.security_group_ids
    }
  }

  tags = merge(var.tags, { "comeback:system" = var.name, "comeback:role" = "handler" })

  lifecycle {
    precondition {
      condition     = (local.handler_zip == null) != (var.handler_s3 == null)
      error_message = "Set either handler_zip or handler_s3. Only a release of this module has the handler's code in it."
    }
    precondition {
      condition = (length(var.backoffs) == 0 || var.base_backoff == local.settings.BASE_BACKOFF.default && var.max_backoff == local.settings.MAX_BACKOFF.default) && alltrue([
        for values in values(local.all_values) :
        length(setintersection(keys(values), local.settings.BACKOFFS.instead_of)) == 0 if contains(keys(values), "BACKOFFS")
      ])
      error_message = "backoffs takes the place of base_backoff and max_backoff: set either."
    }
    precondition {
      condition     = var.ledger || length(local.needing_ledger) == 0
      error_message = "The ledger is needed by ${join(" and ", local.needing_ledger)}: set ledger to true."
    }
    precondition {
      condition     = length(var.functions) > 0 || !local.has_bucket
      error_message = "Only functions have failure records: leave out records and records_bucket, or attach functions."
    }
    precondition {
      condition     = length(local.faults) == 0
      error_message = join(" ", local.faults)
    }
    precondition {
      condition = var.reserved_concurrency == null || var.pollers != null ? true : (
        var.reserved_concurrency >= var.max_concurrency
      )
      error_message = "The reserved_concurrency must be at least max_concurrency."
    }
    precondition {
      condition = length(distinct(concat(keys(var.functions), keys(var.queues), keys(local.receiver_names), keys(var.consumers)))) == (
        length(var.functions) + length(var.queues) + length(var.receivers.functions) + length(var.receivers.queues) + length(var.consumers)
      )
      error_message = "A key must be in only one of functions, queues, receivers and consumers."
    }
    precondition {
      condition     = length(distinct(values(local.target_names))) == length(local.target_names)
      error_message = "A function or a queue must be in functions, queues or receivers only once: name the aliases and versions of a function in its qualifiers."
    }
    precondition {
      condition     = length(var.streams) == 0 || local.has_bucket
      error_message = "Streams need a bucket: set records, of the module or of a function, or records_bucket. No other destination gets what is in a batch."
    }
    precondition {
      condition     = alltrue([for it in values(var.streams) : contains(keys(var.functions), it.function)])
      error_message = "The function of a stream must be a key of functions, because its batches come back as events of the function."
    }
    precondition {
      condition     = alltrue([for it in values(var.rules) : contains(keys(local.target_names), it.receiver)])
      error_message = "The receiver of a rule must be a key of functions, queues or receivers."
    }
    precondition {
      # Lambda's limit for all variables of a function, including their names.
      condition     = sum([for name, value in local.environment : length(name) + length(value)]) <= 4096
      error_message = "The handler's variables are longer than the 4096 characters that Lambda takes: share a queue, or make another module for some functions."
    }
  }

  # Lambda checks the permissions that a VPC and a key need when the function is created.
  depends_on = [aws_iam_role_policy.handler]
}

# The loop from function to queue to function is intended, and Comeback limits it.
resource "aws_lambda_function_recursion_config" "handler" {
  function_name  = aws_lambda_function.handler.function_name
  recursive_loop = "Allow"
}

resource "aws_lambda_event_source_mapping" "retry" {
  for_each = local.queues

  event_source_arn = aws_sqs_queue.retry[each.key].arn
  function_name    = aws_lambda_function.handler.function_name
  # The largest batch without a window. Any window, even of one second, can delay messages of a quiet queue by 20 s.
  batch_size                         = 10
  maximum_batching_window_in_seconds = 0
  function_response_types            = ["ReportBatchItemFailures"]

  dynamic "scaling_config" {
    for_each = [for maximum in [var.max_concurrency] : maximum if var.pollers == null]
    content {
      maximum_concurrency = scaling_config.value
    }
  }

  dynamic "provisioned_poller_config" {
    for_each = [for pollers in [var.pollers] : pollers if pollers != null]
    content {
      minimum_pollers = provisioned_poller_config.value.minimum
      maximum_pollers = provisioned_poller_config.value.maximum
    }
  }

  depends_on = [aws_iam_role_policy.handler, aws_lambda_function_recursion_config.handler]
}
