# The configuration of each attached function: its role may send to its retry queue, its failures go there or to the
# bucket, and Lambda doesn't take its retries for an endless loop.

locals {
  function_names = { for key, function in var.functions : key => split(":", function.arn)[6] }

  # Each function with each of its qualifiers, which Lambda configures separately.
  attachments = merge([
    for key, function in var.functions : {
      for qualifier in function.qualifiers : "${key}:${qualifier}" => { function = key, qualifier = qualifier }
    }
  ]...)

  # Read as JSON, because version 5 of the provider refuses the names of attributes that it doesn't know.
  targets = { for key, target in data.aws_lambda_function.target : key => jsondecode(jsonencode(target)) }
}

data "aws_lambda_function" "target" {
  for_each = var.functions

  function_name = local.function_names[each.key]
}

resource "aws_iam_role_policy" "sender" {
  for_each = var.functions

  name = "${var.name}-${each.key}-failures"
  role = basename(each.value.role_arn)
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [
        {
          Effect   = "Allow"
          Action   = ["sqs:SendMessage"]
          Resource = [aws_sqs_queue.retry[local.queue_of[each.key]].arn]
        },
      ],
      [
        for key in distinct([for key in [var.kms_key_arn, local.bucket_key] : key if key != null]) : {
          Effect   = "Allow"
          Action   = ["kms:Decrypt", "kms:GenerateDataKey"]
          Resource = [key]
        }
      ],
      [
        # Lambda refuses a bucket if the function's role may not put objects under all keys.
        for arn in [local.bucket_arn] : {
          Effect   = "Allow"
          Action   = concat(local.record.function.objects, local.record.function.bucket)
          Resource = [arn, "${arn}/*"]
          # Once a bucket is deleted, anybody can take its name.
          Condition = { StringEquals = { "s3:ResourceAccount" = split(":", each.value.arn)[4] } }
        } if local.has_bucket
      ],
    )
  })
}

resource "aws_lambda_function_event_invoke_config" "this" {
  for_each = local.attachments

  function_name                = local.function_names[each.value.function]
  qualifier                    = each.value.qualifier
  maximum_retry_attempts       = 0
  maximum_event_age_in_seconds = var.functions[each.value.function].maximum_event_age

  destination_config {
    on_failure {
      destination = (
        contains(local.recorded, each.value.function)
        ? local.bucket_arn
        : aws_sqs_queue.retry[local.queue_of[each.value.function]].arn
      )
    }

    dynamic "on_success" {
      for_each = concat(
        [for arn in [var.functions[each.value.function].on_success] : arn if arn != null],
        [for key in local.partial : aws_sqs_queue.retry[local.queue_of[key]].arn if key == each.value.function],
      )
      content {
        destination = on_success.value
      }
    }
  }

  lifecycle {
    precondition {
      condition     = !contains(local.partial, each.value.function) || var.functions[each.value.function].on_success == null
      error_message = "The function ${local.function_names[each.value.function]} says which records of a batch have failed, so it must have no on_success: its retry queue takes its place."
    }
    precondition {
      condition = (
        try(length(local.targets[each.value.function].tenancy_config), 0) == 0
        || try(merge(local.general, local.own_values[each.value.function]).TENANT_ID, null) != null
      )
      error_message = "The function ${local.function_names[each.value.function]} has tenant isolation: set tenant_id to a JSON pointer to the tenant id in its payload, such as /tenant/id."
    }
    precondition {
      condition     = try(length(local.targets[each.value.function].durable_config), 0) == 0
      error_message = "The function ${local.function_names[each.value.function]} is durable, so Lambda sends its failures to no destination. Let its steps retry, or make a retry queue its dead-letter queue: docs/functions.md."
    }
  }

  # Lambda refuses a destination to which the function's role may not send. No failure may arrive before the queue has
  # its policy and its mapping, and the bucket its policy, its lifecycle and its notifications.
  depends_on = [
    aws_iam_role_policy.sender,
    aws_sqs_queue_policy.retry,
    aws_lambda_event_source_mapping.retry,
    aws_s3_bucket_policy.records,
    aws_s3_bucket_notification.records,
    aws_s3_bucket_lifecycle_configuration.records,
    aws_s3_bucket_server_side_encryption_configuration.records,
  ]
}

# The loop from function to queue to function is intended, and Comeback limits it.
resource "aws_lambda_function_recursion_config" "target" {
  for_each = var.functions

  function_name  = local.function_names[each.key]
  recursive_loop = "Allow"
}
