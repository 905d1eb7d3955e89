# The retry queues, in which failed events wait, and the dead-letter queue.

locals {
  # The functions that records from each queue may name, or the source queue that its messages go back to.
  queues = merge(
    { for key in keys(var.functions) : "retry-${key}" => [key] if !var.shared_queue },
    { for key in concat(keys(var.queues), keys(local.receiver_names)) : "retry-${key}" => [key] },
    { for name in ["retry"] : name => keys(local.target_names) if var.shared_queue },
    # SQS's redrive sends all dead letters to one queue.
    {
      for name in ["redrive"] : name => keys(local.target_names)
      if !var.shared_queue && length(local.target_names) > 1 && length(var.redrive_principals) > 0
    },
  )

  queue_of = {
    for key in keys(local.target_names) :
    key => var.shared_queue && contains(keys(var.functions), key) ? "retry" : "retry-${key}"
  }

  # Accepts all dead letters.
  redrive_queue = one([
    for name in keys(local.queues) : name if contains(["redrive", "retry"], name) || length(local.queues) == 1
  ])

  retry_queue_arns = [for queue in values(aws_sqs_queue.retry) : queue.arn]

  # SQS's longest retention. Its default, 4 days, would delete messages that wait longer.
  retention_seconds = 14 * 24 * 60 * 60

  # The attributes that the provider knows. Since version 6, resources have a region. Version 6.8 takes larger messages,
  # but has no new attribute to tell it from 6.0 to 6.7.
  provider_attributes = keys(aws_cloudwatch_log_group.handler)
  max_message_size = coalesce(
    var.max_message_size,
    contains(local.provider_attributes, "region") ? 1048576 : 262144,
  )

  # A list must not be empty. The handler's role is a placeholder, because it lacks the other permissions.
  handler_role_arns = [aws_iam_role.handler.arn]
  redrivers         = length(var.redrive_principals) > 0 ? var.redrive_principals : local.handler_role_arns
  lookers = distinct(
    length(var.redrive_principals) + length(var.operator_principals) > 0
    ? concat(var.redrive_principals, var.operator_principals)
    : local.handler_role_arns
  )

  # Anyone who can send to a retry queue can have functions invoked with any payload, and anyone who can receive from a
  # queue can read or delete payloads. So the policies deny access, whatever other permissions exist in the account.
  closed_to_all_but = {
    retry = {
      for queue in keys(local.queues) : queue => [
        {
          actions = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:PurgeQueue"]
          allowed = local.handler_role_arns
        },
        {
          actions = ["sqs:ChangeMessageVisibility"]
          allowed = concat(local.handler_role_arns, var.operator_principals)
        },
        {
          actions = ["sqs:SendMessage"]
          allowed = concat(
            local.handler_role_arns,
            var.redrive_principals,
            distinct([for key, function in var.functions : function.role_arn if local.queue_of[key] == queue]),
            local.delivering_roles[queue],
          )
        },
      ]
    }
    dead_letter = [
      {
        actions = ["sqs:PurgeQueue", "sqs:StartMessageMoveTask", "sqs:CancelMessageMoveTask"]
        allowed = local.redrivers
      },
      {
        actions = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility"]
        allowed = local.lookers
      },
      {
        actions = ["sqs:SendMessage"]
        allowed = local.handler_role_arns
      },
    ]
  }
}

resource "aws_sqs_queue" "retry" {
  for_each = local.queues

  name                       = "${var.name}-${each.key}"
  message_retention_seconds  = local.retention_seconds
  visibility_timeout_seconds = 6 * var.handler_timeout
  max_message_size           = local.max_message_size
  sqs_managed_sse_enabled    = var.kms_key_arn == null ? true : null
  kms_master_key_id          = var.kms_key_arn

  # Each wait, throttle and crash is a receive, so this leaves days to fix a bad deployment of the handler.
  redrive_policy = jsonencode({
    deadLetterTargetArn = aws_sqs_queue.dead_letter.arn
    maxReceiveCount     = 1000
  })

  # Otherwise, anyone who may create queues in the account could use this queue as their dead-letter queue, and have SQS
  # itself move messages here. SQS's redrive to this queue does not need this permission.
  redrive_allow_policy = (
    contains(keys(local.source_arns), each.key)
    ? jsonencode({ redrivePermission = "byQueue", sourceQueueArns = [local.source_arns[each.key]] })
    : jsonencode({ redrivePermission = "denyAll" })
  )

  tags = merge(var.tags, { "comeback:system" = var.name, "comeback:role" = "retry-queue" })
}

resource "aws_sqs_queue_policy" "retry" {
  for_each = local.queues

  queue_url = aws_sqs_queue.retry[each.key].id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [
        {
          Effect    = "Deny"
          Principal = "*"
          Action    = "sqs:*"
          Resource  = aws_sqs_queue.retry[each.key].arn
          Condition = { Bool = { "aws:SecureTransport" = "false" } }
        },
      ],
      [
        for closed in local.closed_to_all_but.retry[each.key] : {
          Effect    = "Deny"
          Principal = "*"
          Action    = closed.actions
          Resource  = aws_sqs_queue.retry[each.key].arn
          Condition = {
            ArnNotEquals = { "aws:PrincipalArn" = closed.allowed }
            # AWS services, such as SNS, have no principal ARN. They need a permission in this policy anyway.
            BoolIfExists = { "aws:PrincipalIsAWSService" = "false" }
          }
        }
      ],
      [
        for arn in [local.bucket_arn] : {
          Effect    = "Allow"
          Principal = { Service = "s3.amazonaws.com" }
          Action    = "sqs:SendMessage"
          Resource  = aws_sqs_queue.retry[each.key].arn
          Condition = {
            ArnEquals = { "aws:SourceArn" = arn }
            # Once a bucket is deleted, anybody can take its name.
            StringEquals = { "aws:SourceAccount" = split(":", aws_sqs_queue.retry[each.key].arn)[4] }
          }
        } if local.has_bucket && contains(local.notifying_queues, each.key)
      ],
      [
        # A policy has 8 KB, so all rules have one statement.
        for rules in [local.delivering_rules[each.key]] : {
          Effect    = "Allow"
          Principal = { Service = "events.amazonaws.com" }
          Action    = "sqs:SendMessage"
          Resource  = aws_sqs_queue.retry[each.key].arn
          Condition = {
            ArnEquals    = { "aws:SourceArn" = rules }
            StringEquals = { "aws:SourceAccount" = split(":", aws_sqs_queue.retry[each.key].arn)[4] }
          }
        } if length(rules) > 0
      ],
      [
        for action in ["sqs:DeleteQueue"] : {
          Effect    = "Deny"
          Principal = "*"
          Action    = action
          Resource  = aws_sqs_queue.retry[each.key].arn
        } if var.deletion_protection
      ],
    )
  })
}

resource "aws_sqs_queue" "dead_letter" {
  name                      = "${var.name}-dead-letters"
  message_retention_seconds = local.retention_seconds
  max_message_size          = local.max_message_size
  sqs_managed_sse_enabled   = var.kms_key_arn == null ? true : null
  kms_master_key_id         = var.kms_key_arn

  tags = merge(var.tags, { "comeback:system" = var.name, "comeback:role" = "dead-letter-queue" })
}

resource "aws_sqs_queue_policy" "dead_letter" {
  queue_url = aws_sqs_queue.dead_letter.id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [
        {
          Effect    = "Deny"
          Principal = "*"
          Action    = "sqs:*"
          Resource  = aws_sqs_queue.dead_letter.arn
          Condition = { Bool = { "aws:SecureTransport" = "false" } }
        },
      ],
      [
        for closed in local.closed_to_all_but.dead_letter : {
          Effect    = "Deny"
          Principal = "*"
          Action    = closed.actions
          Resource  = aws_sqs_queue.dead_letter.arn
          Condition = {
            ArnNotEquals = { "aws:PrincipalArn" = closed.allowed }
            BoolIfExists = { "aws:PrincipalIsAWSService" = "false" }
          }
        }
      ],
      [
        for action in ["sqs:DeleteQueue"] : {
          Effect    = "Deny"
          Principal = "*"
          Action    = action
          Resource  = aws_sqs_queue.dead_letter.arn
        } if var.deletion_protection
      ],
    )
  })
}

# The configuration of each attached queue: SQS moves what its consumers could not process to its retry queue.

locals {
  # Functions and queues by their names in settings and metrics.
  target_names = merge(
    local.function_names,
    { for key, it in var.queues : key => "sqs:${split(":", it.queue.arn)[5]}" },
    local.receiver_names,
  )

  # The keys of what has no metrics of Lambda.
  queue_keys = concat(keys(var.queues), keys(var.receivers.queues))

  source_queue_arns = concat([for it in values(var.queues) : it.queue.arn], local.receiver_queues)

  # The queue from which SQS may move messages to a retry queue.
  source_arns = { for key, it in var.queues : "retry-${key}" => it.queue.arn }

  source_keys = {
    for key, it in var.queues : key =>
    it.kms_key_arn == null && can(regex(":key/", it.queue.kms_master_key_id)) ? it.queue.kms_master_key_id : it.kms_key_arn
  }
}

resource "aws_sqs_queue_redrive_policy" "source" {
  for_each = var.queues

  queue_url = each.value.queue.url
  redrive_policy = jsonencode({
    deadLetterTargetArn = aws_sqs_queue.retry["retry-${each.key}"].arn
    maxReceiveCount     = each.value.max_receive_count
  })

  lifecycle {
    precondition {
      # It names the retry queue after the first apply.
      condition = (
        each.value.replaces_redrive_policy || each.value.queue.redrive_policy == null || each.value.queue.redrive_policy == ""
        || endswith(try(jsondecode(each.value.queue.redrive_policy).deadLetterTargetArn, ""), ":${var.name}-retry-${each.key}")
      )
      error_message = "The queue ${each.key} has a dead-letter queue already: remove its redrive_policy, and set replaces_redrive_policy."
    }
    precondition {
      condition = (
        slice(split(":", each.value.queue.arn), 3, 5) == slice(split(":", aws_sqs_queue.dead_letter.arn), 3, 5)
      )
      error_message = "The queue ${each.key} must be in the account and region of its retries: SQS moves messages only there."
    }
    precondition {
      condition = (
        local.source_keys[each.key] != null
        || contains(["", "alias/aws/sqs"], each.value.queue.kms_master_key_id == null ? "" : each.value.queue.kms_master_key_id)
      )
      error_message = "The queue ${each.key} has a key of its own: set kms_key_arn to its ARN, because permissions apply to keys."
    }
  }

  depends_on = [aws_sqs_queue_policy.retry, aws_lambda_event_source_mapping.retry]
}

check "failures_are_seen_soon" {
  assert {
    condition = alltrue([
      for it in values(var.queues) :
      it.max_receive_count * (it.queue.visibility_timeout_seconds == null ? 0 : it.queue.visibility_timeout_seconds) < 3600
    ])
    error_message = "SQS moves a message only after max_receive_count visibility timeouts, which are an hour or more: failures are seen that late. Use little more than a consumer needs for a message."
  }
}

check "no_failure_is_too_large" {
  assert {
    condition = (
      var.max_message_size != null || local.max_message_size == 1048576
      || length(var.queues) == 0 && length(local.recorded) == length(var.functions)
    )
    error_message = "Version 5 of the AWS provider makes queues that take messages of 256 KiB, so Lambda drops the failures of events with more than that. Use version 6.8 or later, set records = true, or say with max_message_size = 262144 that no event is that large."
  }
}

# The loop from queue to consumer to queue is intended, and Comeback limits it.
resource "aws_lambda_function_recursion_config" "consumer" {
  for_each = var.consumers

  function_name  = each.value
  recursive_loop = "Allow"
}
