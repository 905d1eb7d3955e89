# The functions

variable "functions" {
  description = <<-EOT
    The functions whose failed asynchronous events come back, by keys of your choice. `arn` is without a qualifier.
    `qualifiers` are the aliases and versions that are invoked asynchronously. The other values override the
    general policy. `records` overrides the variable of that name. `on_success` and `maximum_event_age` go to the
    function's event invoke config, which this module owns. `log_group_name` is for operators, if the function doesn't
    log to /aws/lambda/NAME.
  EOT
  type = map(object({
    arn        = string
    role_arn   = string
    qualifiers = optional(list(string), ["$LATEST"])
    # generated: attributes of a function, by infra/contract/generate.py
    base_backoff         = optional(string)
    max_backoff          = optional(string)
    backoffs             = optional(list(string))
    max_age              = optional(string)
    max_attempts         = optional(number)
    jitter               = optional(string)
    non_retryable_errors = optional(list(string))
    tenant_id            = optional(string)
    durable              = optional(bool)
    transparent          = optional(bool)
    errors = optional(list(object({
      type         = string
      base_backoff = optional(string)
      max_backoff  = optional(string)
      backoffs     = optional(list(string))
      max_age      = optional(string)
      max_attempts = optional(number)
      jitter       = optional(string)
    })), [])
    # end: attributes of a function
    records           = optional(bool)
    on_success        = optional(string)
    maximum_event_age = optional(number)
    log_group_name    = optional(string)
  }))

  validation {
    condition     = alltrue([for key in keys(var.functions) : can(regex("^[a-zA-Z0-9_-]{1,40}$", key))])
    error_message = "The keys of functions must have 1 to 40 letters, digits, hyphens or underscores."
  }
  validation {
    condition = alltrue([
      for function in values(var.functions) :
      can(regex("^arn:[a-z-]+:lambda:[a-z0-9-]+:[0-9]{12}:function:[^:]+$", function.arn))
    ])
    error_message = "Each arn must be that of a function, without a version or an alias: name those in qualifiers."
  }
  validation {
    condition = alltrue([
      for function in values(var.functions) : can(regex("^arn:[a-z-]+:iam::[0-9]{12}:role/.+$", function.role_arn))
    ])
    error_message = "Each role_arn must be the ARN of the function's role."
  }
  validation {
    condition = alltrue([
      for function in values(var.functions) :
      length(distinct(function.errors[*].type)) == length(function.errors) && alltrue([for it in function.errors : it.type != "" && trimspace(it.type) == it.type])
    ])
    error_message = "The types of a function's errors must differ, and have no spaces around."
  }
  validation {
    condition     = alltrue([for function in values(var.functions) : length(function.qualifiers) > 0])
    error_message = "Each function must have at least one qualifier: $LATEST, an alias or a version."
  }
  validation {
    condition = alltrue([
      for function in values(var.functions) :
      function.maximum_event_age == null ? true : function.maximum_event_age >= 60 && function.maximum_event_age <= 21600
    ])
    error_message = "The maximum_event_age of a function must be 60 to 21600 seconds."
  }
}

variable "queues" {
  description = <<-EOT
    The standard SQS queues whose messages come back if their consumers could not process them, by keys of your choice
    that no function has. `queue` is the resource: `aws_sqs_queue.imports`, without a `redrive_policy` of its own;
    `replaces_redrive_policy` replaces one that it had. SQS moves a message after `max_receive_count` receives, from 1
    to 10. `kms_key_arn` is the queue's key, if the resource names it by an alias or an id. The other values override
    the general policy.
  EOT
  type = map(object({
    queue = object({
      arn                        = string
      url                        = string
      kms_master_key_id          = optional(string)
      redrive_policy             = optional(string)
      visibility_timeout_seconds = optional(number)
    })
    max_receive_count       = optional(number, 1)
    kms_key_arn             = optional(string)
    replaces_redrive_policy = optional(bool, false)
    # generated: attributes of a queue, by infra/contract/generate.py
    base_backoff         = optional(string)
    max_backoff          = optional(string)
    backoffs             = optional(list(string))
    max_age              = optional(string)
    max_attempts         = optional(number)
    jitter               = optional(string)
    non_retryable_errors = optional(list(string))
    tenant_id            = optional(string)
    durable              = optional(bool)
    transparent          = optional(bool)
    # end: attributes of a queue
  }))
  default  = {}
  nullable = false

  validation {
    condition     = alltrue([for key in keys(var.queues) : can(regex("^[a-zA-Z0-9_-]{1,40}$", key))])
    error_message = "The keys of queues must have 1 to 40 letters, digits, hyphens or underscores."
  }
  validation {
    condition = alltrue([
      for it in values(var.queues) :
      can(regex("^arn:[a-z-]+:sqs:[a-z0-9-]+:[0-9]{12}:[a-zA-Z0-9_-]{1,80}$", it.queue.arn))
    ])
    error_message = "Each queue must be a standard queue: a backoff would break the order of a FIFO queue, and SQS moves its messages only to a FIFO queue."
  }
  validation {
    condition = alltrue([
      for it in values(var.queues) :
      it.max_receive_count >= 1 && it.max_receive_count <= 10 && floor(it.max_receive_count) == it.max_receive_count
    ])
    error_message = "The max_receive_count of a queue must be a whole number from 1 to 10."
  }
  # generated: settings of functions only, by infra/contract/generate.py
  validation {
    condition     = alltrue([for it in values(var.queues) : it.non_retryable_errors == null && it.tenant_id == null && it.durable == null && it.transparent == null])
    error_message = "A queue must have no non_retryable_errors, tenant_id, durable or transparent: SQS doesn't say why a consumer failed, and invokes nothing."
  }
  # end: settings of functions only
}

variable "consumers" {
  description = "The names of the functions that consume `queues` and are not in `functions`, by keys of your choice. Lambda lets them be invoked in a loop: otherwise, it would stop them at a message that came back about 16 times."
  type        = map(string)
  default     = {}
  nullable    = false
}

variable "receivers" {
  description = <<-EOT
    The functions and standard queues that are in neither `functions` nor `queues`, and to which `rules` and `schedules`
    deliver, by keys of your choice. A function's ARN is the one by which a rule or a schedule names it as its target.
    `kms_key_arn` is a queue's key, if it has one of its own.
  EOT
  type = object({
    functions = optional(map(string), {})
    queues = optional(map(object({
      arn         = string
      kms_key_arn = optional(string)
    })), {})
  })
  default  = {}
  nullable = false

  validation {
    condition = alltrue([
      for key in concat(keys(var.receivers.functions), keys(var.receivers.queues)) : can(regex("^[a-zA-Z0-9_-]{1,40}$", key))
    ])
    error_message = "The keys of receivers must have 1 to 40 letters, digits, hyphens or underscores."
  }
  validation {
    condition = alltrue([
      for arn in values(var.receivers.functions) : can(regex("^arn:[a-z-]+:lambda:[a-z0-9-]+:[0-9]{12}:function:[^:]+(:[^:]+)?$", arn))
    ])
    error_message = "Each function of receivers must be the ARN of a function, a version or an alias."
  }
  validation {
    condition = alltrue([
      for it in values(var.receivers.queues) : can(regex("^arn:[a-z-]+:sqs:[a-z0-9-]+:[0-9]{12}:[a-zA-Z0-9_-]{1,80}$", it.arn))
    ])
    error_message = "Each queue of receivers must be a standard queue: a backoff would break the order of a FIFO queue."
  }
}

variable "rules" {
  description = <<-EOT
    The rules of EventBridge whose targets are in `functions`, `queues` or `receivers`, by keys of your choice. What could
    not be delivered to a target goes to it again, if `retry_queue_arns` of its key is the target's dead-letter queue.
    `rule` and `target` are the resources: `aws_cloudwatch_event_rule.placed` and `aws_cloudwatch_event_target.orders`.
    `receiver` is the key.
  EOT
  type = map(object({
    rule     = object({ arn = string })
    receiver = string
    target = object({
      input             = optional(string)
      input_path        = optional(string)
      input_transformer = optional(list(object({ input_template = string })))
    })
  }))
  default  = {}
  nullable = false

  validation {
    condition     = alltrue([for it in values(var.rules) : can(regex("^arn:[a-z-]+:events:[a-z0-9-]+:[0-9]{12}:rule/", it.rule.arn))])
    error_message = "Each rule must be a rule of EventBridge."
  }
  validation {
    condition = alltrue([
      for it in values(var.rules) :
      it.target.input == null && it.target.input_path == null && length(coalesce(it.target.input_transformer, [])) == 0
    ])
    error_message = "The target of a rule must have no input, input_path or input_transformer: its dead letters have the event from before that, so a retry would give the target something else."
  }
}

variable "schedules" {
  description = <<-EOT
    The schedules of EventBridge Scheduler whose targets are in `functions`, `queues` or `receivers`, by keys of your
    choice. Their role may then send to the retry queue. What could not be delivered goes to the target again, if
    `retry_queue_arns` of its key is the schedule's dead-letter queue. `schedule` is the resource:
    `aws_scheduler_schedule.nightly`. `receiver` is the key.
  EOT
  type = map(object({
    schedule = object({ target = list(object({ role_arn = string })) })
    receiver = string
  }))
  default  = {}
  nullable = false

  validation {
    condition     = alltrue([for key in keys(var.schedules) : can(regex("^[a-zA-Z0-9_-]{1,40}$", key))])
    error_message = "The keys of schedules must have 1 to 40 letters, digits, hyphens or underscores."
  }
}

variable "streams" {
  description = <<-EOT
    The mappings of Kinesis streams, DynamoDB streams and Kafka topics to functions whose batches come back if the function
    could not process them, by keys of your choice. `mapping` is the resource, `aws_lambda_event_source_mapping.clicks`,
    whose on-failure destination is `records_bucket_arn`. `function` is a key of `functions`. There must be a bucket:
    `records` or `records_bucket`.
  EOT
  type = map(object({
    function = string
    mapping = object({
      uuid                    = string
      function_response_types = optional(set(string))
    })
  }))
  default  = {}
  nullable = false

  validation {
    condition     = alltrue([for key in keys(var.streams) : can(regex("^[a-zA-Z0-9_-]{1,40}$", key))])
    error_message = "The keys of streams must have 1 to 40 letters, digits, hyphens or underscores."
  }
}

variable "only_attached_qualifiers" {
  description = "Whether the handler may re-invoke only the qualifiers in `functions`, not all versions and aliases of the functions."
  type        = bool
  default     = false
  nullable    = false
}

# The retry policy

# generated: variables of policies, by infra/contract/generate.py
variable "base_backoff" {
  description = "The first backoff; its ceiling doubles with each attempt; from 1s to 12h."
  type        = string
  default     = "1s"
  nullable    = false
}

variable "max_backoff" {
  description = "The ceiling of one backoff; from `base_backoff` to 13d."
  type        = string
  default     = "12h"
  nullable    = false
}

variable "backoffs" {
  description = "The ceilings of the first, the second and the further backoffs, instead of `base_backoff` and `max_backoff`; the last one repeats; each from 1s to 13d."
  type        = list(string)
  default     = []
  nullable    = false
}

variable "max_age" {
  description = "How long after its first failure an event may still be retried; longer than `base_backoff`; from 2s to 365d."
  type        = string
  default     = "1d"
  nullable    = false
}

variable "max_attempts" {
  description = "How many times an event may be re-invoked; without it, as often as `max_age` allows."
  type        = number
  default     = null
}

variable "jitter" {
  description = "How a backoff is drawn: `full` between `base_backoff`, or the shortest of `backoffs`, and the ceiling, `equal` between half the ceiling and the ceiling; `none` is the ceiling."
  type        = string
  default     = "full"
  nullable    = false
}

variable "non_retryable_errors" {
  description = "Error types that are never retried, in addition to `PermanentFailure`; `*` matches any run of characters; matched against the whole type and its last segment, after `.` or `::`."
  type        = list(string)
  default     = []
  nullable    = false
}

variable "tenant_id" {
  description = "A JSON pointer to the tenant id in the payload, such as /tenant/id, which functions with tenant isolation need."
  type        = string
  default     = null
}

variable "durable" {
  description = "Whether the function is durable: each attempt then has an execution name, with which Lambda starts it once."
  type        = bool
  default     = false
  nullable    = false
}

variable "transparent" {
  description = "Whether the function is re-invoked with its original payload, without an envelope; the ledger then has what the envelope would say. Needs `ledger`."
  type        = bool
  default     = false
  nullable    = false
}
# end: variables of policies

variable "errors" {
  description = "The errors of all functions that are retried in their own ways, in the order in which their types are tried: `type` matches as in `non_retryable_errors`, the rest overrides the function's policy. Those of a function itself come first."
  type = list(object({
    type = string
    # generated: attributes of an error, by infra/contract/generate.py
    base_backoff = optional(string)
    max_backoff  = optional(string)
    backoffs     = optional(list(string))
    max_age      = optional(string)
    max_attempts = optional(number)
    jitter       = optional(string)
    # end: attributes of an error
  }))
  default  = []
  nullable = false

  validation {
    condition     = length(distinct(var.errors[*].type)) == length(var.errors) && alltrue([for it in var.errors : it.type != "" && trimspace(it.type) == it.type])
    error_message = "The types of errors must differ, and have no spaces around."
  }
}

# The handler

variable "handler_zip" {
  description = "The path of the handler's code, `dist/ARCHITECTURE/bootstrap.zip` of `scripts/package`, or set `handler_s3`. Not needed in a release of the module, which carries the code."
  type        = string
  default     = null
}

variable "handler_s3" {
  description = "The handler's code in S3, instead of `handler_zip`. Set `version` so that a new upload is deployed."
  type = object({
    bucket  = string
    key     = string
    version = optional(string)
  })
  default = null
}

variable "name" {
  description = "The prefix of all names, and the value of the tag comeback:system. Unique in the account, because roles and dashboards are global."
  type        = string
  default     = "comeback"
  nullable    = false

  validation {
    condition     = can(regex("^[a-zA-Z0-9_-]{1,30}$", var.name))
    error_message = "The name must have 1 to 30 letters, digits, hyphens or underscores."
  }
}

variable "tags" {
  description = "Tags of all resources, in addition to comeback:system and comeback:role."
  type        = map(string)
  default     = {}
  nullable    = false
}

variable "architecture" {
  description = "The architecture of the handler's code, `arm64` or `x86_64`."
  type        = string
  default     = "arm64"
  nullable    = false

  validation {
    condition     = contains(["arm64", "x86_64"], var.architecture)
    error_message = "The architecture must be arm64 or x86_64."
  }
}

variable "memory_size" {
  description = "The memory of the handler in MB, from 128 to 10240."
  type        = number
  default     = 128
  nullable    = false

  validation {
    condition     = var.memory_size >= 128 && var.memory_size <= 10240 && floor(var.memory_size) == var.memory_size
    error_message = "The memory_size must be a whole number from 128 to 10240."
  }
}

variable "handler_timeout" {
  description = "How many seconds the handler may take for a batch of ten messages, from 10 to 900. The visibility timeout of the retry queues is six times as long."
  type        = number
  default     = 30
  nullable    = false

  validation {
    condition     = var.handler_timeout >= 10 && var.handler_timeout <= 900 && floor(var.handler_timeout) == var.handler_timeout
    error_message = "The handler_timeout must be a whole number of seconds from 10 to 900."
  }
}

variable "max_concurrency" {
  description = "How many batches of each retry queue are handled at once, from 2 to 1000. Not used with `pollers`."
  type        = number
  default     = 10
  nullable    = false

  validation {
    condition     = var.max_concurrency >= 2 && var.max_concurrency <= 1000 && floor(var.max_concurrency) == var.max_concurrency
    error_message = "The max_concurrency must be a whole number from 2 to 1000."
  }
}

variable "pollers" {
  description = "Provisioned pollers of each retry queue, instead of `max_concurrency`. They cost money by the hour."
  type = object({
    minimum = optional(number, 2)
    maximum = number
  })
  default = null

  validation {
    condition = var.pollers == null ? true : (
      var.pollers.minimum >= 2 && var.pollers.minimum <= 200 &&
      var.pollers.maximum >= var.pollers.minimum && var.pollers.maximum <= 2000
    )
    error_message = "The pollers must be 2 to 200 at least, and from these to 2000 at most."
  }
}

variable "reserved_concurrency" {
  description = "How many invocations of the handler may run at once, for all queues together. Null for no reservation."
  type        = number
  default     = null

  validation {
    condition     = var.reserved_concurrency == null ? true : var.reserved_concurrency >= 2
    error_message = "The reserved_concurrency must be at least 2."
  }
}

variable "log_retention_days" {
  description = "How long the handler's log is kept."
  type        = number
  default     = 30
  nullable    = false

  validation {
    condition = contains(
      [1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653],
      var.log_retention_days
    )
    error_message = "The log_retention_days must be a number of days that CloudWatch Logs supports."
  }
}

variable "tracing" {
  description = "`Active` records each run of the handler in X-Ray; or `PassThrough`."
  type        = string
  default     = "PassThrough"
  nullable    = false

  validation {
    condition     = contains(["Active", "PassThrough"], var.tracing)
    error_message = "The tracing must be Active or PassThrough."
  }
}

variable "subnet_ids" {
  description = "The subnets of the handler, from which it must reach SQS, Lambda, with a ledger DynamoDB, with probes CloudWatch, and with records S3. Empty for no VPC."
  type        = list(string)
  default     = []
  nullable    = false
}

variable "security_group_ids" {
  description = "The security groups of the handler, with `subnet_ids`. It only sends requests, to port 443."
  type        = list(string)
  default     = []
  nullable    = false
}

variable "code_signing_config_arn" {
  description = "The ARN of the code signing configuration of the handler. Null for none."
  type        = string
  default     = null
}

variable "permissions_boundary_arn" {
  description = "The ARN of the permissions boundary of the handler's role. Null for none."
  type        = string
  default     = null
}

# The queues and the ledger

variable "shared_queue" {
  description = "Whether all functions share one retry queue. Then an outage of one can delay the others, and each can have the others invoked with any payload."
  type        = bool
  default     = false
  nullable    = false
}

variable "max_message_size" {
  description = "The size in bytes of the largest message that the queues take. By default it is the most that the AWS provider makes: 1048576, or 262144 with version 5, with which Lambda drops failures of events with more than 256 KiB. The provider's versions 6.0 to 6.7 need 262144 here."
  type        = number
  default     = null

  validation {
    condition     = var.max_message_size == null ? true : var.max_message_size >= 262144 && var.max_message_size <= 1048576
    error_message = "The max_message_size must be from 262144 to 1048576 bytes."
  }
}

variable "deletion_protection" {
  description = "Whether the queues' policies forbid everyone to delete the queues, and a bucket with records is not deleted. Terraform can still delete the queues: it deletes the policy first."
  type        = bool
  default     = true
  nullable    = false
}

variable "central_dead_letter_queue_arn" {
  description = "The ARN of a queue of another account in this region to which the handler sends dead letters. Messages that SQS itself moves go to the module's own queue. Null to send all dead letters there."
  type        = string
  default     = null

  validation {
    condition = var.central_dead_letter_queue_arn == null ? true : can(
      regex("^arn:[a-z-]+:sqs:[a-z0-9-]+:[0-9]{12}:[a-zA-Z0-9_-]{1,80}$", var.central_dead_letter_queue_arn)
    )
    error_message = "The central_dead_letter_queue_arn must be the ARN of a queue that is not FIFO."
  }
}

variable "central_kms_key_arn" {
  description = "The ARN of the key of the central dead-letter queue. Null for SQS's own key."
  type        = string
  default     = null
}

variable "ledger" {
  description = "Whether a DynamoDB table makes each failure re-invoke its function once."
  type        = bool
  default     = false
  nullable    = false
}

variable "records" {
  description = "Whether the failures of all functions go to a bucket first, which takes records of any size, and not to their retry queues. The module makes the bucket, unless there is `records_bucket`."
  type        = bool
  default     = false
  nullable    = false
}

variable "records_bucket" {
  description = <<-EOT
    A bucket of yours for `records`, in this account and region, and the ARN of its key. The module lets it send to the
    retry queues and the handler read it. Its notifications, lifecycle and policy stay yours, unless
    `manages_notifications` is true: then the module replaces all notifications of the bucket. Null for a bucket of the
    module's own.
  EOT
  type = object({
    name                  = string
    kms_key_arn           = optional(string)
    manages_notifications = optional(bool, false)
  })
  default = null

  validation {
    condition     = var.records_bucket == null ? true : can(regex("^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$", var.records_bucket.name))
    error_message = "The records_bucket must have the name of a bucket, and no ARN or URL."
  }
  validation {
    condition = var.records_bucket == null ? true : var.records_bucket.kms_key_arn == null ? true : (
      can(regex("^arn:[a-z-]+:kms:[a-z0-9-]+:[0-9]{12}:key/.+$", var.records_bucket.kms_key_arn))
    )
    error_message = "The kms_key_arn of records_bucket must be the ARN of a key, and no alias."
  }
}

# generated: variables of the handler, by infra/contract/generate.py
variable "in_flight_max" {
  description = "How many messages of a queue may wait in flight; further waits are kept as delays, which have no limit but are less precise; more than 120,000 need a raised quota of SQS."
  type        = number
  default     = 100000
  nullable    = false
}

variable "probe" {
  description = "Whether a function that is down is probed with one event at a time, instead of being re-invoked for every event; with `register`, waiting events are brought forward when it has recovered. Needs `ledger`."
  type        = bool
  default     = false
  nullable    = false
}

variable "register" {
  description = "Whether the ledger lists waiting events, so that operators can see them, retry them now, cancel them, and pause a function. Needs `ledger`."
  type        = bool
  default     = false
  nullable    = false
}

variable "history_retention" {
  description = "How long the ledger keeps the record of an operator's order; from 1d to 3650d."
  type        = string
  default     = "400d"
  nullable    = false
}
# end: variables of the handler

# Keys. They must be ARNs of keys, not of aliases, because permissions apply to keys.

variable "kms_key_arn" {
  description = "The ARN of a customer-managed key for the queues, the ledger and the bucket of records, whose policy lets IAM decide who uses it. With records it must also let s3.amazonaws.com use it. Null for the services' own keys."
  type        = string
  default     = null

  validation {
    condition     = var.kms_key_arn == null ? true : can(regex("^arn:[a-z-]+:kms:[a-z0-9-]+:[0-9]{12}:key/.+$", var.kms_key_arn))
    error_message = "The kms_key_arn must be the ARN of a key, and no alias."
  }
}

variable "log_kms_key_arn" {
  description = "The ARN of a customer-managed key for the handler's log, whose policy must let CloudWatch Logs use it. Null for CloudWatch's own key."
  type        = string
  default     = null
}

variable "environment_kms_key_arn" {
  description = "The ARN of a customer-managed key for the handler's variables. Null for Lambda's own key."
  type        = string
  default     = null
}

# People

variable "redrive_principals" {
  description = "The ARNs of the roles and users that may look at dead letters, delete them and send them back. Give them the policy `redrive_policy_arn`."
  type        = list(string)
  default     = []
  nullable    = false
}

variable "operator_principals" {
  description = "The ARNs of the roles and users that may retry waiting events now, cancel them, pause functions, and send dead letters back one by one. Give them the policies `read_policy_arn` and `operate_policy_arn`."
  type        = list(string)
  default     = []
  nullable    = false
}

# Alarms and the dashboard

variable "alarms" {
  description = <<-EOT
    The actions when an alarm goes off and when it is over: ARNs such as that of an SNS topic. `ticket_actions` are
    for alarms that can wait for a working day; null for the same. `settings` change single alarms by their names.
    Null for no alarms.
  EOT
  type = object({
    actions        = optional(list(string), [])
    ticket_actions = optional(list(string))
    settings = optional(map(object({
      enabled             = optional(bool, true)
      severity            = optional(string)
      threshold           = optional(number)
      period              = optional(number)
      evaluation_periods  = optional(number)
      datapoints_to_alarm = optional(number)
    })), {})
  })
  default = {}

  validation {
    condition = var.alarms == null ? true : alltrue([
      for name in keys(var.alarms.settings) : contains(
        [
          # generated: names of alarms, by infra/contract/generate.py
          "DeadLettersNotSent",
          "EventsGivenUp",
          "DeadLetters",
          "DeadLettersGrow",
          "DeadLettersExpire",
          "HandlerErrors",
          "HandlerThrottles",
          "HandlerRecursionStopped",
          "HandlerSilent",
          "UnreadMessages",
          "Backlog",
          "UndeliveredFailures",
          "RecursionStopped",
          "ConfigurationFaults",
          "ThrottledRetries",
          "EventsExpire",
          "Lateness",
          "LedgerFaults",
          "CircuitOpen",
          # end: names of alarms
        ],
        name
      )
    ])
    error_message = "The settings of alarms must name alarms that docs/deploy/cdk-operations.md lists."
  }
  validation {
    condition = var.alarms == null ? true : alltrue([
      for setting in values(var.alarms.settings) : setting.severity == null ? true : contains(["page", "ticket"], setting.severity)
    ])
    error_message = "The severity of an alarm must be page or ticket."
  }
  validation {
    condition = var.alarms == null ? true : alltrue([
      for setting in values(var.alarms.settings) :
      setting.period == null ? true : contains([10, 30], setting.period) || (setting.period >= 60 && setting.period <= 86400 && setting.period % 60 == 0)
    ])
    error_message = "The period of an alarm must be 10, 30, or a multiple of 60 up to 86400 seconds."
  }
}

variable "dashboard" {
  description = "Whether there is a dashboard of all functions."
  type        = bool
  default     = true
  nullable    = false
}
