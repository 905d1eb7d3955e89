# The smallest complete system: a function whose failed events come back. It equals CDK's and SAM's examples.

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
  name              = "/aws/lambda/comeback-example-orders"
  retention_in_days = 30
}

resource "aws_iam_role" "orders" {
  name = "comeback-example-orders"
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
  function_name    = "comeback-example-orders"
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

# Few attempts, so that you can see within a minute how an event is given up.
module "comeback" {
  source = "../.."

  name                 = "comeback-example"
  handler_zip          = var.handler_zip
  max_attempts         = 5
  non_retryable_errors = ["InvalidOrder"]

  functions = {
    orders = {
      arn            = aws_lambda_function.orders.arn
      role_arn       = aws_iam_role.orders.arn
      log_group_name = aws_cloudwatch_log_group.orders.name
    }
  }

  redrive_principals  = [aws_iam_role.operator.arn]
  operator_principals = [aws_iam_role.operator.arn]
  alarms              = { actions = [aws_sns_topic.alarms.arn] }
}

# Switch to this role to see waiting events, retry or cancel them, and redrive dead letters when their cause is fixed.
resource "aws_iam_role" "operator" {
  name = "comeback-example-operator"
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
  name = "comeback-example-alarms"
}

resource "aws_sns_topic_policy" "alarms" {
  arn = aws_sns_topic.alarms.arn
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Effect    = "Deny"
        Principal = "*"
        Action    = "sns:Publish"
        Resource  = aws_sns_topic.alarms.arn
        Condition = { Bool = { "aws:SecureTransport" = "false" } }
      },
      {
        Effect    = "Allow"
        Principal = { Service = "cloudwatch.amazonaws.com" }
        Action    = "sns:Publish"
        Resource  = aws_sns_topic.alarms.arn
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

output "operator_arn" {
  description = "The role that may look at dead letters and redrive them."
  value       = aws_iam_role.operator.arn
}

output "alarm_topic_arn" {
  description = "The topic of the alarms. Subscribe to it."
  value       = aws_sns_topic.alarms.arn
}
