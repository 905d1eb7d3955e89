# Permissions for people. The caller of the module attaches these policies, because the module can't know whether the
# roles may be changed.

locals {
  # The functions with their versions and aliases, all of which may fail.
  function_arns = flatten([
    for it in concat(values(var.functions)[*].arn, values(local.receiver_functions)[*].arn) : [it, "${it}:*"]
  ])

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
    [
      for it in values(local.receiver_functions) : format(
        "arn:%s:logs:%s:%s:log-group:/aws/lambda/%s:*", it.parts[1], it.parts[3], it.parts[4], it.parts[6],
      )
    ],
  )

  # What people may do, and on what, by the names of the policies.
  people_may = {
    # Reading settings, counts, waiting events, metrics and logs. It can't read messages, but logs may have payloads.
    read = [
      {
        # These actions don't support resource-level permissions.
        actions = [
          "lambda:ListEventSourceMappings",
          "lambda:ListFunctions",
          "logs:GetQueryResults",
          "cloudwatch:GetMetricData",
          "tag:GetResources",
        ]
        on = ["*"]
      },
      {
        actions = ["sqs:GetQueueAttributes", "sqs:GetQueueUrl"]
        on      = concat([aws_sqs_queue.dead_letter.arn], local.retry_queue_arns, local.source_queue_arns)
      },
      {
        # GetFunction is left out, because it also exposes the code.
        actions = [
          "lambda:GetFunctionConfiguration",
          "lambda:GetFunctionConcurrency",
          "lambda:GetFunctionEventInvokeConfig",
          "lambda:GetFunctionRecursionConfig",
          "lambda:GetPolicy",
          "lambda:ListFunctionEventInvokeConfigs",
          "lambda:ListTags",
        ]
        on = concat([aws_lambda_function.handler.arn], local.function_arns)
      },
      { actions = ["logs:FilterLogEvents", "logs:StartQuery"], on = local.log_group_arns },
      {
        actions = [
          "s3:GetBucketNotification",
          "s3:GetBucketPolicy",
          "s3:GetBucketPublicAccessBlock",
          "s3:GetEncryptionConfiguration",
          "s3:GetLifecycleConfiguration",
        ]
        on = local.bucket_arns
      },
      { actions = ["dynamodb:GetItem", "dynamodb:BatchGetItem"], on = local.ledger_arns },
      { actions = ["dynamodb:Query", "dynamodb:Scan"], on = local.register_arns },
      { actions = ["kms:Decrypt"], on = var.ledger ? local.keys : [] },
    ]

    # Retrying waiting events now, cancelling them, pausing functions, and sending dead letters back one by one.
    operate = concat(
      [
        {
          actions = ["sqs:ChangeMessageVisibility"]
          on      = concat([aws_sqs_queue.dead_letter.arn], local.retry_queue_arns)
        },
        { actions = ["sqs:ReceiveMessage", "sqs:DeleteMessage"], on = [aws_sqs_queue.dead_letter.arn] },
        { actions = ["lambda:InvokeFunction"], on = local.function_arns },
        { actions = ["sqs:SendMessage"], on = local.source_queue_arns },
        { actions = ["dynamodb:UpdateItem"], on = local.ledger_arns },
        {
          # Deleting a failure's claim could re-invoke its event twice.
          actions = ["dynamodb:DeleteItem"]
          on      = local.ledger_arns
          only_if = { "ForAllValues:StringLike" = { "dynamodb:LeadingKeys" = ["target/*"] } }
        },
        {
          # The key of the record of an order names whoever writes it.
          actions = ["dynamodb:PutItem"]
          on      = local.ledger_arns
          only_if = { "ForAllValues:StringEquals" = { "dynamodb:LeadingKeys" = ["${local.table.history}$${aws:userid}"] } }
        },
      ],
      local.record_reading,
      [{ actions = ["kms:Decrypt", "kms:GenerateDataKey"], on = local.keys }],
    )

    # Looking at dead letters, deleting them, and sending them back. SQS moves messages with the permissions of the
    # principal that starts the redrive.
    redrive = concat(
      [
        {
          actions = [
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
          on = [aws_sqs_queue.dead_letter.arn]
        },
        { actions = ["sqs:SendMessage"], on = local.retry_queue_arns },
      ],
      local.record_reading,
      [{ actions = ["kms:Decrypt", "kms:GenerateDataKey"], on = local.keys }],
    )
  }

  people_policies = {
    for name, may in local.people_may : name => jsonencode({
      Version = "2012-10-17"
      Statement = concat(
        [
          for it in may : merge(
            { Effect = "Allow", Action = it.actions, Resource = it.on },
            { for condition in [try(it.only_if, null)] : "Condition" => condition if condition != null },
          ) if length(it.on) > 0
        ],
        [for it in local.keep_history : it if name == "operate"],
      )
    })
  }
}

resource "aws_iam_policy" "read" {
  count = length(var.operator_principals) > 0 ? 1 : 0

  name        = "${var.name}-read"
  description = "Shows the state of the retry system"
  policy      = local.people_policies.read
  tags        = var.tags
}

resource "aws_iam_policy" "operate" {
  count = length(var.operator_principals) > 0 ? 1 : 0

  name        = "${var.name}-operate"
  description = "Acts on waiting events and dead letters of the retry system"
  policy      = local.people_policies.operate
  tags        = var.tags
}

resource "aws_iam_policy" "redrive" {
  count = length(var.redrive_principals) > 0 ? 1 : 0

  name        = "${var.name}-redrive"
  description = "Redrives the dead letters of the retry system"
  policy      = local.people_policies.redrive
  tags        = var.tags
}
