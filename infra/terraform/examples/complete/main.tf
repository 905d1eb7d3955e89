# The basic example with every option switched on, but for rules, schedules and streams: a queue, a ledger, records in a
# bucket, probes, keys, limits, and two kinds of alarms.

terraform {
  required_version = ">= 1.5"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.100, < 7.0"
    }
  }
}

variable "handler_zip" {
  description = "The handler's code, which scripts/package builds."
  type        = string
  default     = "../../../../dist/arm64/bootstrap.zip"
}

variable "orders_zip" {
  description = "The function's code: zip --junk-paths orders.zip ../../../example/orders/app.py"
  type        = string
  default     = "orders.zip"
}

data "aws_caller_identity" "current" {}

resource "aws_cloudwatch_log_group" "orders" {
  name              = "/aws/lambda/comeback-complete-orders"
  retention_in_days = 30
}

resource "aws_iam_role" "orders" {
  name = "comeback-complete-orders"
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
}

resource "aws_iam_role_policy_attachment" "orders" {
  role       = aws_iam_role.orders.name
  policy_arn = "arn:aws:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole"
}

resource "aws_lambda_function" "orders" {
  function_name    = "comeback-complete-orders"
  role             = aws_iam_role.orders.arn
  runtime          = "python3.13"
  architectures    = ["arm64"]
  handler          = "app.handler"
  timeout          = 10
  filename         = var.orders_zip
  source_code_hash = filebase64sha256(var.orders_zip)

  logging_config {
    log_format = "Text"
    log_group  = aws_cloudwatch_log_group.orders.name
  }
}

# Its consumer may be a function, a container, or anything else that receives messages.
resource "aws_sqs_queue" "imports" {
  name                      = "comeback-complete-imports"
  message_retention_seconds = 1209600
  kms_master_key_id         = aws_kms_key.comeback.arn
}

module "comeback" {
  source = "../.."

  name        = "comeback-complete"
  handler_zip = var.handler_zip

  # The general policy.
  base_backoff         = "2s"
  max_backoff          = "3h"
  max_age              = "7d"
  max_attempts         = 50
  jitter               = "equal"
  non_retryable_errors = ["ValidationError", "*NotFound"]

  functions = {
    orders = {
      arn            = aws_lambda_function.orders.arn
      role_arn       = aws_iam_role.orders.arn
      log_group_name = aws_cloudwatch_log_group.orders.name
      # Its own policy.
      max_age      = "14d"
      max_attempts = 2
    }
  }

  # Messages that their consumer could not process come back, too.
  queues = {
    imports = {
      queue        = aws_sqs_queue.imports
      max_attempts = 20
    }
  }

  # Each failure is acted on once, waiting events are listed, and a function that is down is probed.
  ledger   = true
  register = true
  probe    = true

  # Failures of any size come back.
  records = true

  kms_key_arn             = aws_kms_key.comeback.arn
  log_kms_key_arn         = aws_kms_key.comeback.arn
  environment_kms_key_arn = aws_kms_key.comeback.arn

  reserved_concurrency     = 25
  max_concurrency          = 20
  in_flight_max            = 1
  log_retention_days       = 7
  tracing                  = "Active"
  permissions_boundary_arn = "arn:aws:iam::aws:policy/PowerUserAccess"

  redrive_principals  = [aws_iam_role.operator.arn]
  operator_principals = [aws_iam_role.operator.arn]

  alarms = {
    actions        = [aws_sns_topic.alarms.arn]
    ticket_actions = [aws_sns_topic.tickets.arn]
    settings = {
      Lateness         = { threshold = 60000, period = 900, evaluation_periods = 3, datapoints_to_alarm = 2 }
      HandlerThrottles = { enabled = false }
    }
  }
}

data "aws_region" "current" {}

# IAM decides who uses the key. CloudWatch Logs may use it for the handler's log, and S3 to send notices of records.
resource "aws_kms_key" "comeback" {
  description         = "Comeback's queues, ledger, records, log and variables"
  enable_key_rotation = true
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Effect    = "Allow"
        Principal = { AWS = "arn:aws:iam::${data.aws_caller_identity.current.account_id}:root" }
        Action    = "kms:*"
        Resource  = "*"
      },
      {
        Effect    = "Allow"
        Principal = { Service = "logs.${data.aws_region.current.id}.amazonaws.com" }
        Action    = ["kms:Encrypt", "kms:Decrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:Describe*"]
        Resource  = "*"
        Condition = {
          ArnLike = {
            "kms:EncryptionContext:aws:logs:arn" = "arn:aws:logs:${data.aws_region.current.id}:${data.aws_caller_identity.current.account_id}:log-group:*"
          }
        }
      },
      {
        Effect    = "Allow"
        Principal = { Service = "s3.amazonaws.com" }
        Action    = ["kms:Decrypt", "kms:GenerateDataKey*"]
        Resource  = "*"
      },
    ]
  })
}

# Switch to this role to see waiting events, retry or cancel them, and redrive dead letters when their cause is fixed.
resource "aws_iam_role" "operator" {
  name = "comeback-complete-operator"
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Effect    = "Allow"
        Principal = { AWS = "arn:aws:iam::${data.aws_caller_identity.current.account_id}:root" }
        Action    = "sts:AssumeRole"
      },
    ]
  })
}

resource "aws_iam_role_policy_attachment" "operator" {
  for_each = {
    read    = module.comeback.read_policy_arn
    operate = module.comeback.operate_policy_arn
    redrive = module.comeback.redrive_policy_arn
  }

  role       = aws_iam_role.operator.name
  policy_arn = each.value
}

# Subscribe to this topic to receive alarms.
resource "aws_sns_topic" "alarms" {
  name = "comeback-complete-alarms"
}

# Subscribe to this topic to receive alarms that can wait for a working day.
resource "aws_sns_topic" "tickets" {
  name = "comeback-complete-tickets"
}

resource "aws_sns_topic_policy" "alarms" {
  for_each = { alarms = aws_sns_topic.alarms.arn, tickets = aws_sns_topic.tickets.arn }

  arn = each.value
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Effect    = "Deny"
        Principal = "*"
        Action    = "sns:Publish"
        Resource  = each.value
        Condition = { Bool = { "aws:SecureTransport" = "false" } }
      },
      {
        Effect    = "Allow"
        Principal = { Service = "cloudwatch.amazonaws.com" }
        Action    = "sns:Publish"
        Resource  = each.value
        Condition = { StringEquals = { "aws:SourceAccount" = data.aws_caller_identity.current.account_id } }
      },
    ]
  })
}

output "orders_name" {
  description = "The function to send events to."
  value       = aws_lambda_function.orders.function_name
}

output "dead_letter_queue_url" {
  description = "The queue of events that were given up."
  value       = module.comeback.dead_letter_queue_url
}

output "records_bucket_name" {
  description = "The bucket of failure records. Empty it before you destroy the example."
  value       = module.comeback.records_bucket_name
}

output "operator_arn" {
  description = "The role that may look at dead letters and redrive them."
  value       = aws_iam_role.operator.arn
}

output "alarm_topic_arn" {
  description = "The topic of the alarms. Subscribe to it."
  value       = aws_sns_topic.alarms.arn
}
