# Failure records in a bucket, which takes them at any size, and tells the retry queues about each.

locals {
  record = jsondecode(file("${path.module}/../cdk/contract/records.json"))

  # The functions whose failures go to the bucket. All functions may put records there, so that nothing is refused while
  # a function's destination changes.
  recorded = [for key, function in var.functions : key if function.records == null ? var.records : function.records]

  makes_bucket = var.records_bucket == null && (var.records || length(local.recorded) > 0)
  has_bucket   = local.makes_bucket || var.records_bucket != null
  bucket_name  = var.records_bucket == null ? one(aws_s3_bucket.records[*].id) : var.records_bucket.name
  bucket_arn   = "arn:${data.aws_partition.current.partition}:s3:::${local.bucket_name == null ? "" : local.bucket_name}"
  bucket_arns  = local.has_bucket ? [local.bucket_arn] : []
  bucket_key   = var.records_bucket == null ? null : var.records_bucket.kms_key_arn

  # The queue to which the bucket sends the notices of each function's records.
  record_notifications = concat([
    for key, name in local.function_names : {
      id            = key
      queue_arn     = aws_sqs_queue.retry[local.queue_of[key]].arn
      events        = [local.record.event]
      filter_prefix = "${local.record.prefix}${name}/"
    }
  ], local.stream_notifications)
  notifying_queues = distinct([for key in keys(var.functions) : local.queue_of[key]])

  # A record is read until its event is given up, and then as long as its dead letter is kept.
  longest_seconds = max(values(local.seconds)...) + local.retention_seconds
  records_days    = ceil(local.longest_seconds / (24 * 60 * 60)) + local.record.slack_days

  record_readers = distinct(concat(local.handler_role_arns, var.redrive_principals, var.operator_principals))
  record_writers = distinct([for it in values(var.functions) : it.role_arn])

  records_closed_to_all_but = [
    { actions = local.record.function.objects, allowed = local.record_writers },
    {
      actions = concat(local.record.handler.objects, local.record.handler.versions, ["s3:DeleteObject", "s3:DeleteObjectVersion"])
      allowed = local.record_readers
    },
  ]

  # What the handler may do with records, and people who look at dead letters: the payload of a large one is still in the
  # bucket.
  record_reading = [
    { actions = local.record.handler.objects, on = [for arn in local.bucket_arns : "${arn}/${local.record_prefix}*"] },
    { actions = local.record.handler.key, on = [for key in [local.bucket_key] : key if key != null] },
  ]
}

resource "aws_s3_bucket" "records" {
  count = local.makes_bucket ? 1 : 0

  # The provider adds 26 characters, and a name has at most 63.
  bucket_prefix = replace(replace(lower("${substr(var.name, 0, 28)}-records-"), "_", "-"), "/^-+/", "")
  # Its objects are payloads of events that wait.
  force_destroy = !var.deletion_protection

  tags = merge(var.tags, { "comeback:system" = var.name, "comeback:role" = "records" })
}

resource "aws_s3_bucket_public_access_block" "records" {
  count = local.makes_bucket ? 1 : 0

  bucket                  = aws_s3_bucket.records[0].id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_ownership_controls" "records" {
  count = local.makes_bucket ? 1 : 0

  bucket = aws_s3_bucket.records[0].id
  rule {
    object_ownership = "BucketOwnerEnforced"
  }
}

resource "aws_s3_bucket_server_side_encryption_configuration" "records" {
  count = local.makes_bucket ? 1 : 0

  bucket = aws_s3_bucket.records[0].id
  rule {
    # Otherwise, each record would be a request to KMS.
    bucket_key_enabled = var.kms_key_arn != null
    apply_server_side_encryption_by_default {
      sse_algorithm     = var.kms_key_arn == null ? "AES256" : "aws:kms"
      kms_master_key_id = var.kms_key_arn
    }
  }
}

resource "aws_s3_bucket_lifecycle_configuration" "records" {
  count = local.makes_bucket ? 1 : 0

  bucket = aws_s3_bucket.records[0].id
  rule {
    id     = "records"
    status = "Enabled"
    filter {
      prefix = local.record_prefix
    }
    expiration {
      days = local.records_days
    }
    abort_incomplete_multipart_upload {
      days_after_initiation = local.record.abort_days
    }
  }
}

# Anyone who can put a record here can have a function invoked with any payload, and anyone who can get or delete one can
# read or lose it.
resource "aws_s3_bucket_policy" "records" {
  count = local.makes_bucket ? 1 : 0

  bucket = aws_s3_bucket.records[0].id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [
        {
          Effect    = "Deny"
          Principal = "*"
          Action    = "s3:*"
          Resource  = [local.bucket_arn, "${local.bucket_arn}/*"]
          Condition = { Bool = { "aws:SecureTransport" = "false" } }
        },
      ],
      [
        for closed in local.records_closed_to_all_but : {
          Effect    = "Deny"
          Principal = "*"
          Action    = closed.actions
          Resource  = "${local.bucket_arn}/*"
          Condition = {
            ArnNotEquals = { "aws:PrincipalArn" = closed.allowed }
            BoolIfExists = { "aws:PrincipalIsAWSService" = "false" }
          }
        }
      ],
    )
  })

  # S3 refuses changes of a bucket's access at the same time.
  depends_on = [aws_s3_bucket_public_access_block.records, aws_s3_bucket_ownership_controls.records]
}

# A bucket has one configuration of notifications, of which this is the whole.
resource "aws_s3_bucket_notification" "records" {
  count = local.makes_bucket || try(var.records_bucket.manages_notifications, false) ? 1 : 0

  bucket = local.bucket_name

  dynamic "queue" {
    for_each = local.record_notifications
    content {
      id            = queue.value.id
      queue_arn     = queue.value.queue_arn
      events        = queue.value.events
      filter_prefix = queue.value.filter_prefix
    }
  }

  # S3 sends a test to each queue, and refuses one to which it may not send.
  depends_on = [aws_sqs_queue_policy.retry]
}
