# Permissions for people. The caller of the module attaches these policies, because the module can't know whether the
# roles may be changed.

locals {
  # The functions with their versions and aliases, all of which may fail.
  function_arns = flatten([for function in values(var.functions) : [function.arn, "${function.arn}:*"]])

  log_group_arns = concat(
    ["${aws_cloudwatch_log_group.handler.arn}:*"],
    [
      for key, function in var.functions : format(
        "arn:%s:logs:%s:%s:log-group:%s:*",
        split(":", function.arn)[1],
        split(":", function.arn)[3],
        split(":", function.arn)[4],
        function.log_group_name == null ? "/aws/lambda/${local.function_names[key]}" : function.log_group_name,
      )
    ],
  )
}

# Allows reading settings, counts, waiting events, metrics and logs. It can't read messages, but logs may have payloads.
resource "aws_iam_policy" "read" {
  count = length(var.operator_principals) > 0 ? 1 : 0

  name        = "${var.name}-read"
  description = "Shows the state of the retry system"
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [
        {
          Effect = "Allow"
          # These actions don't support resource-level permissions.
          Action = [
            "lambda:ListEventSourceMappings",
            "lambda:ListFunctions",
            "logs:GetQueryResults",
            "cloudwatch:GetMetricData",
            "tag:GetResources",
          ]
          Resource = ["*"]
        },
        {
          Effect = "Allow"
          Action = ["sqs:GetQueueAttributes", "sqs:GetQueueUrl"]
          Resource = concat(
            [aws_sqs_queue.dead_letter.arn],
            [for queue in values(aws_sqs_queue.retry) : queue.arn],
            [for it in values(var.queues) : it.queue.arn],
          )
        },
        {
          # GetFunction is left out, because it also exposes the code.
          Effect = "Allow"
          Action = [
            "lambda:GetFunctionConfiguration",
            "lambda:GetFunctionConcurrency",
            "lambda:GetFunctionEventInvokeConfig",
            "lambda:GetFunctionRecursionConfig",
            "lambda:GetPolicy",
            "lambda:ListFunctionEventInvokeConfigs",
            "lambda:ListTags",
          ]
          Resource = concat([aws_lambda_function.handler.arn], local.function_arns)
        },
        {
          Effect   = "Allow"
          Action   = ["logs:FilterLogEvents", "logs:StartQuery"]
          Resource = local.log_group_arns
        },
      ],
      [
        for arn in [local.bucket_arn] : {
          Effect = "Allow"
          Action = [
            "s3:GetBucketNotification",
            "s3:GetBucketPolicy",
            "s3:GetBucketPublicAccessBlock",
            "s3:GetEncryptionConfiguration",
            "s3:GetLifecycleConfiguration",
          ]
          Resource = [arn]
        } if local.has_bucket
      ],
      [
        for table in aws_dynamodb_table.ledger : {
          Effect   = "Allow"
          Action   = ["dynamodb:GetItem", "dynamodb:BatchGetItem"]
          Resource = [table.arn]
        }
      ],
      [
        for table in aws_dynamodb_table.ledger : {
          Effect   = "Allow"
          Action   = ["dynamodb:Query", "dynamodb:Scan"]
          Resource = ["${table.arn}/index/${local.table.index}"]
        } if var.register
      ],
      [
        for key in [var.kms_key_arn] : {
          Effect   = "Allow"
          Action   = ["kms:Decrypt"]
          Resource = [key]
        } if key != null && var.ledger
      ],
    )
  })
  tags = var.tags
}

# Allows retrying waiting events now, cancelling them, pausing functions, and sending dead letters back one by one.
resource "aws_iam_policy" "operate" {
  count = length(var.operator_principals) > 0 ? 1 : 0

  name        = "${var.name}-operate"
  description = "Acts on waiting events and dead letters of the retry system"
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [
        {
          Effect   = "Allow"
          Action   = ["sqs:ChangeMessageVisibility"]
          Resource = concat([aws_sqs_queue.dead_letter.arn], [for queue in values(aws_sqs_queue.retry) : queue.arn])
        },
        {
          Effect   = "Allow"
          Action   = ["sqs:ReceiveMessage", "sqs:DeleteMessage"]
          Resource = [aws_sqs_queue.dead_letter.arn]
        },
      ],
      [
        for arns in [local.function_arns] : {
          Effect   = "Allow"
          Action   = ["lambda:InvokeFunction"]
          Resource = arns
        } if length(arns) > 0
      ],
      [
        for queues in [values(var.queues)] : {
          Effect   = "Allow"
          Action   = ["sqs:SendMessage"]
          Resource = [for it in queues : it.queue.arn]
        } if length(queues) > 0
      ],
      [
        for table in aws_dynamodb_table.ledger : {
          Effect   = "Allow"
          Action   = ["dynamodb:UpdateItem"]
          Resource = [table.arn]
        }
      ],
      [
        # Deleting a failure's claim could re-invoke its event twice.
        for table in aws_dynamodb_table.ledger : {
          Effect    = "Allow"
          Action    = ["dynamodb:DeleteItem"]
          Resource  = [table.arn]
          Condition = { "ForAllValues:StringLike" = { "dynamodb:LeadingKeys" = ["target/*"] } }
        }
      ],
      local.record_reading,
      [
        for key in [var.kms_key_arn] : {
          Effect   = "Allow"
          Action   = ["kms:Decrypt", "kms:GenerateDataKey"]
          Resource = [key]
        } if key != null
      ],
    )
  })
  tags = var.tags
}

# Allows looking at dead letters, deleting them, and sending them back. SQS moves messages with the permissions of the
# principal that starts the redrive.
resource "aws_iam_policy" "redrive" {
  count = length(var.redrive_principals) > 0 ? 1 : 0

  name        = "${var.name}-redrive"
  description = "Redrives the dead letters of the retry system"
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [
        {
          Effect = "Allow"
          Action = [
            "sqs:StartMessageMoveTask",
            "sqs:CancelMessageMoveTask",
            "sqs:ListMessageMoveTasks",
            "sqs:ListDeadLetterSourceQueues",
            "sqs:ReceiveMessage",
            "sqs:DeleteMessage",
            "sqs:ChangeMessageVisibility",
            "sqs:GetQueueAttributes",
            "sqs:GetQueueUrl",
          ]
          Resource = [aws_sqs_queue.dead_letter.arn]
        },
      ],
      [
        for queues in [values(aws_sqs_queue.retry)] : {
          Effect   = "Allow"
          Action   = ["sqs:SendMessage"]
          Resource = [for queue in queues : queue.arn]
        } if length(queues) > 0
      ],
      local.record_reading,
      [
        for key in [var.kms_key_arn] : {
          Effect   = "Allow"
          Action   = ["kms:Decrypt", "kms:GenerateDataKey"]
          Resource = [key]
        } if key != null
      ],
    )
  })
  tags = var.tags
}
