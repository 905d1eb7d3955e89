# The table of handled failures and of waiting events. Its items expire within days, and no event is lost with them.

locals {
  table = jsondecode(file("${path.module}/../cdk/contract/table.json"))

  ledger_arns   = aws_dynamodb_table.ledger[*].arn
  register_arns = [for arn in local.ledger_arns : "${arn}/index/${local.table.index}" if var.register]

  # Denies to change or delete the records of operators' orders, whatever else is allowed. Only DynamoDB removes them.
  keep_history = [
    for arn in local.ledger_arns : {
      Effect = "Deny"
      Action = [
        "dynamodb:UpdateItem",
        "dynamodb:DeleteItem",
        "dynamodb:BatchWriteItem",
        "dynamodb:PartiQLUpdate",
        "dynamodb:PartiQLDelete",
      ]
      Resource  = [arn]
      Condition = { "ForAnyValue:StringLike" = { "dynamodb:LeadingKeys" = ["${local.table.history}*"] } }
    }
  ]
}

resource "aws_dynamodb_table" "ledger" {
  count = var.ledger ? 1 : 0

  name         = "${var.name}-ledger"
  billing_mode = "PAY_PER_REQUEST"
  hash_key     = local.table.key
  range_key    = local.table.sort_key

  attribute {
    name = local.table.key
    type = "S"
  }

  attribute {
    name = local.table.sort_key
    type = "S"
  }

  dynamic "attribute" {
    for_each = { for name, type in { (local.table.index_key) = "S", (local.table.index_sort_key) = "N" } : name => type if var.register }
    content {
      name = attribute.key
      type = attribute.value
    }
  }

  # Lists waiting events by their function and due time. It is empty while nothing waits.
  dynamic "global_secondary_index" {
    for_each = [for name in [local.table.index] : name if var.register]
    content {
      name            = global_secondary_index.value
      hash_key        = local.table.index_key
      range_key       = local.table.index_sort_key
      projection_type = "ALL"
    }
  }

  ttl {
    attribute_name = local.table.expiry
    enabled        = true
  }

  dynamic "server_side_encryption" {
    for_each = [for key in [var.kms_key_arn] : key if key != null]
    content {
      enabled     = true
      kms_key_arn = server_side_encryption.value
    }
  }

  tags = merge(var.tags, { "comeback:system" = var.name, "comeback:role" = "ledger" })
}
