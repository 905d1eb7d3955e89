# The settings of the module's caller as values of the handler's variables, and what is wrong with them.

locals {
  settings = jsondecode(file("${path.module}/../cdk/contract/settings.json"))

  # The handler needs no value of a flag that is its default.
  flags = { for name, it in local.settings : name => it.default if it.type == "flag" }

  # The general policy and the other values of all functions, under the names of the handler's variables.
  general = {
    for name, value in {
      # generated: values of all functions, by infra/contract/generate.py
      BASE_BACKOFF         = var.base_backoff
      MAX_BACKOFF          = var.max_backoff
      BACKOFFS             = var.backoffs
      MAX_AGE              = var.max_age
      MAX_ATTEMPTS         = var.max_attempts
      JITTER               = var.jitter
      NON_RETRYABLE_ERRORS = var.non_retryable_errors
      TENANT_ID            = var.tenant_id
      DURABLE              = var.durable
      TRANSPARENT          = var.transparent
      IN_FLIGHT_MAX        = var.in_flight_max
      PROBE                = var.probe
      REGISTER             = var.register
      HISTORY_RETENTION    = var.history_retention
      # end: values of all functions
    } : name => try(join(",", value), tostring(value))
    if value != null && value != lookup(local.flags, name, null) && try(length(value) > 0, true)
    && !(length(var.backoffs) > 0 && contains(local.settings.BACKOFFS.instead_of, name))
  }

  # The settings of each error of all functions (`*`) and of single ones, under the names of the handler's variables.
  errors = {
    for key, errors in merge({ "*" = var.errors }, { for key, function in var.functions : key => function.errors }) : key => [
      for error in errors : {
        type = error.type
        values = {
          for name, value in {
            # generated: values of an error, by infra/contract/generate.py
            BASE_BACKOFF = error.base_backoff
            MAX_BACKOFF  = error.max_backoff
            BACKOFFS     = error.backoffs
            MAX_AGE      = error.max_age
            MAX_ATTEMPTS = error.max_attempts
            JITTER       = error.jitter
            # end: values of an error
          } : name => try(join(",", value), tostring(value)) if try(length(value) > 0, value != null)
        }
      }
    ]
  }

  # The same as text, because an object of Terraform would sort the types.
  errors_written = {
    for key, errors in local.errors : key => {
      ERRORS = format("{%s}", join(",", [
        for error in errors : "${jsonencode(error.type)}:${jsonencode(error.values)}"
      ]))
    } if length(errors) > 0
  }

  # The values of functions and queues that override the general ones.
  own_values = {
    for key, target in merge(var.functions, var.queues) : key => {
      for name, value in {
        # generated: values of a target, by infra/contract/generate.py
        BASE_BACKOFF         = target.base_backoff
        MAX_BACKOFF          = target.max_backoff
        BACKOFFS             = target.backoffs
        MAX_AGE              = target.max_age
        MAX_ATTEMPTS         = target.max_attempts
        JITTER               = target.jitter
        NON_RETRYABLE_ERRORS = target.non_retryable_errors
        TENANT_ID            = target.tenant_id
        DURABLE              = target.durable
        TRANSPARENT          = target.transparent
        # end: values of a target
      } : name => try(join(",", value), tostring(value)) if value != null && !(name == "BACKOFFS" && try(length(value) == 0, false))
    }
  }

  # All values that are set, by what they stand in.
  all_values = merge(
    { "" = local.general },
    { for key, own in local.own_values : "${contains(keys(var.queues), key) ? "queues" : "functions"}.${key}." => own },
    merge([
      for key, errors in local.errors : {
        for error in errors : "${key == "*" ? "" : "functions.${key}."}errors.${error.type}." => error.values
      }
    ]...),
  )

  # The values that are wrong in form. Their bounds are the handler's: it doesn't start with a value outside them.
  faults = flatten([
    for place, values in local.all_values : [
      for name, value in values :
      "${place}${lower(name)} must be ${local.settings[name].expected}, got ${jsonencode(value)}."
      if !can(regex(local.settings[name].pattern, value))
    ]
  ])

  # What is switched on and needs the ledger.
  needing_ledger = distinct(flatten([
    for values in values(local.all_values) : [
      for name, value in values : lower(name) if value == "true" && can(local.settings[name].needs)
    ]
  ]))

  # The seconds of each maximum age that is set, by its text: 7d is 604800. One that is wrong in form is a fault above.
  seconds = {
    for age in distinct([for values in values(local.all_values) : values.MAX_AGE if can(values.MAX_AGE)]) :
    age => can(regex(local.settings.MAX_AGE.pattern, age)) ? (
      tonumber(trim(age, "smhd")) * lookup({ m = 60, h = 3600, d = 86400 }, substr(age, -1, 1), 1)
    ) : 0
  }

  # The maximum age of each function and queue, in seconds.
  max_age_seconds = {
    for key in keys(local.target_names) : key => local.seconds[try(local.own_values[key].MAX_AGE, var.max_age)]
  }
}
