# Rules and schedules: what could not be delivered to a target waits in the target's retry queue.

locals {
  # What is delivered to, but is not attached.
  receiver_queues = values(var.receivers.queues)[*].arn
  # The functions without and with the qualifier that a rule or a schedule names.
  receiver_functions = {
    for key, arn in var.receivers.functions : key => {
      parts     = split(":", arn)
      arn       = join(":", slice(split(":", arn), 0, 7))
      qualified = arn
    }
  }
  receiver_names = merge(
    { for key, it in local.receiver_functions : key => it.parts[6] },
    { for key, it in var.receivers.queues : key => "sqs:${split(":", it.arn)[5]}" },
  )

  # The rules that send to each retry queue, and the roles of schedules.
  delivering_rules = {
    for queue in keys(local.queues) : queue => distinct([
      for it in values(var.rules) : it.rule.arn if lookup(local.queue_of, it.receiver, null) == queue
    ])
  }
  delivering_roles = {
    for queue in keys(local.queues) : queue => distinct([
      for it in values(var.schedules) : it.schedule.target[0].role_arn if lookup(local.queue_of, it.receiver, null) == queue
    ])
  }
}

# Scheduler sends with the role of the schedule.
resource "aws_iam_role_policy" "schedule" {
  for_each = var.schedules

  name = "${var.name}-${each.key}-undelivered"
  role = basename(each.value.schedule.target[0].role_arn)
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [
        {
          Effect   = "Allow"
          Action   = ["sqs:SendMessage"]
          Resource = [aws_sqs_queue.retry[local.queue_of[each.value.receiver]].arn]
        },
      ],
      [
        for key in local.keys : {
          Effect   = "Allow"
          Action   = ["kms:Decrypt", "kms:GenerateDataKey"]
          Resource = [key]
        }
      ],
    )
  })

  lifecycle {
    precondition {
      condition     = contains(keys(local.target_names), each.value.receiver)
      error_message = "The receiver of a schedule must be a key of functions, queues or receivers."
    }
  }
}
