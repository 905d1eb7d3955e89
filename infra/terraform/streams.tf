# Streams: a mapping puts the batches that its function could not process into the bucket of records, from where they come
# back as events of the function. The mapping is the caller's own and names the bucket, so nothing that the bucket needs
# may depend on it.

locals {
  # What the keys of all records begin with.
  record_prefix = length(var.streams) > 0 ? local.record.prefix_with_streams : local.record.prefix

  # The bucket tells the queue of each function of the batches of its mappings, whose ids the keys have.
  stream_notifications = [
    for key, it in var.streams : {
      id            = "stream-${key}"
      queue_arn     = aws_sqs_queue.retry[local.queue_of[it.function]].arn
      events        = [local.record.event]
      filter_prefix = "${local.record.prefix_with_streams}${it.mapping.uuid}/"
    } if contains(keys(var.functions), it.function)
  ]

  # The functions that say which records of a batch have failed. Only success records have that.
  partial = distinct([
    for it in values(var.streams) : it.function
    if contains(it.mapping.function_response_types == null ? [] : it.mapping.function_response_types, "ReportBatchItemFailures")
  ])
}
