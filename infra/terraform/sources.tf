# The configuration of each attached queue: SQS moves what its consumers could not process to its retry queue.

locals {
  # Functions and queues by their names in settings and metrics.
  target_names = merge(
    local.function_names,
    { for key, it in var.queues : key => "sqs:${split(":", it.queue.arn)[5]}" },
  )

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

# The loop from queue to consumer to queue is intended, and Comeback limits it.
resource "aws_lambda_function_recursion_config" "consumer" {
  for_each = var.consumers

  function_name  = each.value
  recursive_loop = "Allow"
}
