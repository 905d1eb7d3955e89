output "retry_queue_urls" {
  description = "The retry queues, where failed events wait, by the keys of their functions, queues and receivers."
  value       = { for key, queue in local.queue_of : key => aws_sqs_queue.retry[queue].url }
}

output "retry_queue_arns" {
  description = "The on-failure destinations of the functions, and the dead-letter queues of the queues and of targets of rules and schedules, by the keys of these."
  value       = { for key, queue in local.queue_of : key => aws_sqs_queue.retry[queue].arn }
}

output "redrive_queue_arn" {
  description = "The retry queue to which a redrive sends all dead letters. Null if there is none: set `redrive_principals`."
  value       = local.redrive_queue == null ? null : aws_sqs_queue.retry[local.redrive_queue].arn
}

output "dead_letter_queue_url" {
  description = "The dead-letter queue, where events go when they are given up."
  value       = aws_sqs_queue.dead_letter.url
}

output "dead_letter_queue_arn" {
  description = "The dead-letter queue's ARN."
  value       = aws_sqs_queue.dead_letter.arn
}

output "handler_name" {
  description = "The retry handler."
  value       = aws_lambda_function.handler.function_name
}

output "handler_arn" {
  description = "The retry handler's ARN."
  value       = aws_lambda_function.handler.arn
}

output "handler_role_arn" {
  description = "The role of the retry handler, for the policies of a central dead-letter queue and of keys."
  value       = aws_iam_role.handler.arn
}

output "handler_log_group_name" {
  description = "The log group of the retry handler."
  value       = aws_cloudwatch_log_group.handler.name
}

output "ledger_table_name" {
  description = "The ledger. Null without one."
  value       = one(aws_dynamodb_table.ledger[*].name)
}

output "records_bucket_name" {
  description = "The bucket of failure records. Null without one."
  value       = local.has_bucket ? local.bucket_name : null
}

output "records_bucket_arn" {
  description = "The bucket's ARN, which is the on-failure destination of functions with `records`, and of the mappings of `streams`. Null without one."
  value       = local.has_bucket ? local.bucket_arn : null

  # Lambda refuses a destination if the function's role may not put objects there.
  depends_on = [aws_iam_role_policy.sender, aws_s3_bucket_policy.records]
}

output "record_notifications" {
  description = "The notifications that a bucket of yours needs, each with the arguments of a `queue` of `aws_s3_bucket_notification`."
  value       = local.has_bucket ? local.record_notifications : []

  # S3 refuses a notification to a queue to which it may not send.
  depends_on = [aws_sqs_queue_policy.retry]
}

output "read_policy_arn" {
  description = "The policy that allows reading the state of the system, for `operator_principals` and readers. Null without operators."
  value       = one(aws_iam_policy.read[*].arn)
}

output "operate_policy_arn" {
  description = "The policy that allows acting on waiting events and dead letters, for `operator_principals`. Null without operators."
  value       = one(aws_iam_policy.operate[*].arn)
}

output "redrive_policy_arn" {
  description = "The policy that allows redriving dead letters, for `redrive_principals`. Null without them."
  value       = one(aws_iam_policy.redrive[*].arn)
}

output "alarm_arns" {
  description = "The alarms by their names."
  value       = { for key, alarm in aws_cloudwatch_metric_alarm.this : key => alarm.arn }
}
