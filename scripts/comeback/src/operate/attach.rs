//! `comeback attach` and `comeback detach`: they read the configuration of a function or a queue, and
//! change it in steps.

pub mod rules;

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_lambda::types::{
    DestinationConfig, Environment, FunctionConfiguration, FunctionEventInvokeConfig,
    FunctionResponseType, OnFailure, OnSuccess,
};
use aws_sdk_sqs::types::QueueAttributeName;
use comeback_core::arn;
use futures_util::future::{OptionFuture, join_all};
use percent_encoding::percent_decode_str;
use serde_json::json;

use crate::{
    operate::{
        attach::rules::{
            Facts, Order, Plan, Planned, QualifiedName, QueueFacts, RetryQueue, Step, attach,
            attach_queue, carry_out, detach, detach_queue, parse, parse_source, policy_name,
        },
        aws::{
            Aws, Connection, Tags, existing, fault, function, functions, invoke_config, may_loop,
            tags,
        },
        doctor::rules::{BATCH_SIZE, InvokeConfig, Mapping, Queue},
        rules::{Answer, Function, handlers, only, queue_arn, role_name},
    },
    paint::{Line, Style},
    shell::{Failure, Outcome, Shell, confirm},
};

pub async fn run_attach(args: &AttachArgs, shell: &Shell) -> Result<Outcome, Failure> {
    let AttachArgs { order, options } = args;
    let aws = Aws::connect(&options.connection, shell.now).await?;
    let (plan, name, handler, undo) = if let Some(named) = &order.function {
        let facts = facts(&aws, named, order.transparent.as_deref(), options).await?;
        (attach(&facts, order)?, full_name(named), facts.handler, full_name(named))
    } else {
        let source = order.queue.as_deref().unwrap_or_default();
        let facts = queue_facts(&aws, source, order.retry_queue.as_deref(), options).await?;
        let plan = attach_queue(&facts, order)?;
        let undo = format!("--queue {}", facts.source.name());
        (plan, facts.source.target_name().to_owned(), facts.handler, undo)
    };
    run(&aws, plan, (&name, &handler), Some(undo), options, shell).await
}

pub async fn run_detach(args: &DetachArgs, shell: &Shell) -> Result<Outcome, Failure> {
    let DetachArgs { function, queue, now, options } = args;
    let aws = Aws::connect(&options.connection, shell.now).await?;
    let (plan, name, handler) = if let Some(named) = function {
        let facts = facts(&aws, named, None, options).await?;
        (detach(&facts, named.1.as_deref(), *now)?, full_name(named), facts.handler)
    } else {
        let source = queue.as_deref().unwrap_or_default();
        let facts = queue_facts(&aws, source, None, options).await?;
        (detach_queue(&facts)?, facts.source.target_name().to_owned(), facts.handler)
    };
    run(&aws, plan, (&name, &handler), None, options, shell).await
}

fn full_name((name, qualifier): &QualifiedName) -> String {
    qualifier.as_ref().map_or_else(|| name.clone(), |qualifier| format!("{name}:{qualifier}"))
}

/// Carries out a plan to attach `name`, or to detach it. `undo` has the arguments of `comeback detach` that undo an
/// attachment.
async fn run(
    aws: &Aws,
    plan: Plan,
    (name, handler): (&str, &Function),
    undo: Option<String>,
    options: &CommonOptions,
    shell: &Shell,
) -> Result<Outcome, Failure> {
    let (verb, preposition) = if undo.is_some() { ("Attach", "to") } else { ("Detach", "from") };
    let Plan { queue, steps, warnings, waiting } = plan;
    if !options.json {
        let title = format!("{verb} {name} {preposition} {queue} of {}", handler.name());
        shell.print(&plan_lines(&title, &steps, &warnings)).await?;
    }
    if !options.yes && !options.dry_run && !steps.is_empty() {
        confirm(&format!("{verb} {name}?"))?;
    }
    let mut done = Vec::new();
    let ended = if options.dry_run {
        Ok(())
    } else {
        let note = |planned: &Planned| done.push(planned.what.clone());
        carry_out(&steps, aws, async |step: &Step| change(aws, step).await, note).await
    };
    if options.json {
        let error = ended.as_ref().err().map(ToString::to_string);
        let document = json!({
            "function": name, "queue": queue, "plan": steps, "warnings": warnings, "waiting": waiting,
            "done": done.len(), "error": error,
        });
        shell.print_json(&document).await?;
    } else {
        let done = done.iter().map(|what| Line::of(Style::Good, "✓ ").and(Style::Plain, what));
        let waits = (waiting > 0).then(|| {
            let text = format!(
                "{queue} still has {waiting} messages, so the permissions and settings that their retries need are kept: run this again when it is empty, or with --now"
            );
            Line::of(Style::GivenUp, "! ").and(Style::Plain, text)
        });
        shell.print(&done.chain(waits).collect::<Vec<_>>()).await?;
    }
    ended.map(|()| Outcome::Success).map_err(|stopped| {
        let (done, of) = (stopped.done, steps.len());
        let undo = undo.map(|undo| format!(", or comeback detach {undo} to undo them"));
        let text = format!(
            "{stopped}; {done} of {of} steps were carried out: run the same command again to continue{}",
            undo.unwrap_or_default()
        );
        text.into()
    })
}

fn plan_lines(title: &str, steps: &[Planned], warnings: &[String]) -> Vec<Line> {
    let mut lines = vec![Line::of(Style::Strong, title)];
    for Planned { what, is, becomes, .. } in steps {
        lines.push(Line::of(Style::Plain, format!("  {what}")));
        lines.push(Line::of(Style::Faint, format!("    is:      {is}")));
        lines.push(Line::of(Style::Plain, format!("    will be: {becomes}")));
    }
    if steps.is_empty() {
        lines.push(Line::of(Style::Plain, "  nothing to do"));
    }
    let warning = |text: &String| Line::of(Style::GivenUp, "! ").and(Style::Plain, text);
    lines.extend(warnings.iter().map(warning));
    lines
}

#[derive(Debug, clap::Args)]
pub struct AttachArgs {
    #[command(flatten)]
    pub order: Order,
    #[command(flatten)]
    pub options: CommonOptions,
}

#[derive(Debug, clap::Args)]
pub struct DetachArgs {
    /// The function, as it was attached.
    #[arg(value_name = "FUNCTION[:ALIAS]", value_parser = parse, required_unless_present = "queue")]
    pub function: Option<QualifiedName>,
    /// The queue whose consumer fails, as it was attached.
    #[arg(long, value_name = "QUEUE", conflicts_with = "function")]
    pub queue: Option<String>,
    /// Don't wait until the queue is empty: the function's waiting events are dead-lettered.
    #[arg(long, requires = "function")]
    pub now: bool,
    #[command(flatten)]
    pub options: CommonOptions,
}

#[derive(Debug, clap::Args)]
pub struct CommonOptions {
    /// The retry handler [default: the only one].
    #[arg(long, value_name = "NAME")]
    pub handler: Option<String>,
    /// Show the plan and change nothing.
    #[arg(long, conflicts_with = "yes")]
    pub dry_run: bool,
    /// Don't ask.
    #[arg(long)]
    pub yes: bool,
    /// Print one JSON document instead of lines.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connection: Connection,
}

/// The name of a handler, the mappings, and the retry queues of all handlers: the handler's name by the queue's ARN.
type System = (String, Vec<Mapping>, Tags);

async fn system(aws: &Aws, options: &CommonOptions) -> Result<System, Failure> {
    let (listed, mappings) = tokio::join!(functions(aws), aws.mappings());
    let (listed, mappings) = (listed?, mappings?);
    let handler = only(&listed, options.handler.as_deref())?.name().to_owned();
    let handlers: BTreeSet<_> = handlers(&listed).map(Function::name).collect();
    let of_handlers = mappings.iter().filter(|it| handlers.contains(it.consumer()));
    let retry_queues = of_handlers.map(|it| (it.queue.clone(), it.consumer().to_owned())).collect();
    Ok((handler, mappings, retry_queues))
}

/// The facts about a function and the retry system to attach it to or detach it from, and about a layer for it. What
/// isn't known of the layer is left to Lambda, which checks it when the function gets it.
async fn facts(
    aws: &Aws,
    (name, qualifier): &QualifiedName,
    layer: Option<&str>,
    options: &CommonOptions,
) -> Result<Facts, Failure> {
    let aws = &aws.adaptive();
    let (handler, _, retry_queues) = system(aws, options).await?;
    let (own, others): (Tags, Tags) = retry_queues.into_iter().partition(|(_, it)| *it == handler);
    let (handler, function) = tokio::join!(configured(aws, &handler), configured(aws, name));
    let ((handler, handler_tags), (function, tags)) = (handler?, function?);
    let qualifier = qualifier.as_deref();
    let (send, invoke) =
        (policy_name("send", name, qualifier), policy_name("invoke", name, qualifier));
    let layer =
        OptionFuture::from(layer.map(async |arn| tokio::join!(aws.layer(arn), aws.signers(name))));
    let (config, may_loop, send_policy, invoke_policy, layer) = tokio::join!(
        configured_invocations(aws, name, qualifier),
        may_loop(aws, name),
        inline_policy(aws, &function.role, &send),
        inline_policy(aws, &handler.role, &invoke),
        layer,
    );
    let (layer, signers) =
        layer.map(|(layer, signers)| (layer.ok(), signers.ok())).unwrap_or_default();
    let mut queues = Vec::new();
    for (arn, _) in own {
        let Queue { arn, url, attributes } = aws.queue(&arn).await;
        // A mapping may name a queue that no longer exists. It is skipped.
        queues.extend(attributes?.map(|attributes| RetryQueue { arn, url, attributes }));
    }
    Ok(Facts {
        handler,
        handler_tags,
        queues,
        others,
        function,
        tags,
        config: config?,
        may_loop,
        send_policy,
        invoke_policy,
        layer,
        signers: signers.flatten(),
    })
}

/// The facts about a queue and the retry system to attach it to or detach it from.
async fn queue_facts(
    aws: &Aws,
    source: &str,
    retry: Option<&str>,
    options: &CommonOptions,
) -> Result<QueueFacts, Failure> {
    let aws = &aws.adaptive();
    let (handler, mappings, retry_queues) = system(aws, options).await?;
    let (handler, handler_tags) = configured(aws, &handler).await?;
    let source = parse_source(source, &handler)?;
    let consumers = mappings.iter().filter(|it| it.queue == source.as_str());
    let consumers = join_all(consumers.map(async |it| {
        let may_loop = may_loop(aws, it.consumer()).await;
        (it.consumer().to_owned(), may_loop)
    }))
    .await;
    let Queue { url, attributes, .. } = aws.queue(source.as_str()).await;
    let attributes = attributes?;
    let tags: BTreeMap<_, _> = match &attributes {
        Some(_) => {
            let answer = aws.sqs.list_queue_tags().queue_url(&url).send().await;
            let answer = answer.map_err(fault("sqs:ListQueueTags", source.as_str()))?;
            answer.tags.unwrap_or_default().into_iter().collect()
        }
        None => BTreeMap::new(),
    };
    let retry = QueueFacts::retry_queue(&handler, &source, &tags, retry);
    let retry = queue_arn(&retry, &handler.arn);
    let policy = policy_name("queue", source.name(), None);
    let (retry, policy) =
        tokio::join!(aws.queue(&retry), inline_policy(aws, &handler.role, &policy));
    let of_retry = retry.attributes?;
    Ok(QueueFacts {
        exists: of_retry.is_some(),
        retry: RetryQueue {
            arn: retry.arn,
            url: retry.url,
            attributes: of_retry.unwrap_or_default(),
        },
        handler,
        handler_tags,
        mappings,
        retry_queues,
        source,
        url,
        attributes,
        tags,
        consumers,
        policy,
    })
}

async fn configured(aws: &Aws, name: &str) -> Answer<(Function, Tags)> {
    let call = aws.lambda.get_function_configuration().function_name(name).send();
    let it = call.await.map_err(fault("lambda:GetFunctionConfiguration", name))?;
    let configuration = FunctionConfiguration::builder()
        .set_function_arn(it.function_arn)
        .set_role(it.role)
        .set_environment(it.environment)
        .set_layers(it.layers)
        .set_runtime(it.runtime)
        .set_architectures(it.architectures)
        .set_tenancy_config(it.tenancy_config)
        .set_durable_config(it.durable_config)
        .set_timeout(it.timeout)
        .set_dead_letter_config(it.dead_letter_config)
        .set_revision_id(it.revision_id);
    let function = function(configuration.build());
    let tags = tags(aws, &function.arn).await?;
    Ok((function, tags))
}

async fn configured_invocations(
    aws: &Aws,
    name: &str,
    qualifier: Option<&str>,
) -> Answer<Option<InvokeConfig>> {
    let call = aws.lambda.get_function_event_invoke_config().function_name(name);
    let answer = call.set_qualifier(qualifier.map(str::to_owned)).send().await;
    existing(answer.map_err(fault("lambda:GetFunctionEventInvokeConfig", name)).map(|it| {
        let config = FunctionEventInvokeConfig::builder()
            .set_function_arn(it.function_arn)
            .set_maximum_retry_attempts(it.maximum_retry_attempts)
            .set_maximum_event_age_in_seconds(it.maximum_event_age_in_seconds)
            .set_destination_config(it.destination_config);
        invoke_config(&config.build())
    }))
}

async fn inline_policy(aws: &Aws, role: &str, policy: &str) -> Answer<Option<String>> {
    let call = aws.iam.get_role_policy().role_name(role_name(role)).policy_name(policy);
    let answer = call.send().await.map_err(fault("iam:GetRolePolicy", role));
    existing(
        answer.map(|answer| {
            percent_decode_str(&answer.policy_document).decode_utf8_lossy().into_owned()
        }),
    )
}

async fn change(aws: &Aws, step: &Step) -> Answer<()> {
    let Aws { lambda, iam, sqs, .. } = aws;
    match step {
        Step::Tag { resource, tags } => {
            let tags = Some(tags.clone().into_iter().collect());
            if let Some(url) = arn::queue_url(resource) {
                let call = sqs.tag_queue().queue_url(url).set_tags(tags).send();
                return call.await.map(drop).map_err(fault("sqs:TagQueue", resource));
            }
            let call = lambda.tag_resource().resource(resource).set_tags(tags);
            call.send().await.map(drop).map_err(fault("lambda:TagResource", resource))
        }
        Step::Untag { resource, keys } => {
            let keys = Some(keys.clone());
            if let Some(url) = arn::queue_url(resource) {
                let call = sqs.untag_queue().queue_url(url).set_tag_keys(keys).send();
                return call.await.map(drop).map_err(fault("sqs:UntagQueue", resource));
            }
            let call = lambda.untag_resource().resource(resource).set_tag_keys(keys);
            call.send().await.map(drop).map_err(fault("lambda:UntagResource", resource))
        }
        Step::QueueAttribute { url, attribute, value } => {
            aws.set_queue_attribute(url, attribute, value).await
        }
        Step::Create { queue, attributes } => {
            let attributes = attributes.iter();
            let attributes =
                attributes.map(|(name, it)| (QueueAttributeName::from(*name), it.clone()));
            let call = sqs.create_queue().queue_name(queue);
            let call = call.set_attributes(Some(attributes.collect()));
            call.send().await.map(drop).map_err(fault("sqs:CreateQueue", queue))
        }
        Step::Map { function, queue } => {
            let call = lambda.create_event_source_mapping().function_name(function);
            let call = call.event_source_arn(queue);
            let call = call.batch_size(i32::try_from(BATCH_SIZE).unwrap_or(i32::MAX));
            let call = call.function_response_types(FunctionResponseType::ReportBatchItemFailures);
            call.send().await.map(drop).map_err(fault("lambda:CreateEventSourceMapping", queue))
        }
        Step::Unmap { uuid, queue } => {
            let call = lambda.delete_event_source_mapping().uuid(uuid).send();
            call.await.map(drop).map_err(fault("lambda:DeleteEventSourceMapping", queue))
        }
        Step::Allow { role, policy, document } => aws.put_role_policy(role, policy, document).await,
        Step::Disallow { role, policy } => {
            let call = iam.delete_role_policy().role_name(role_name(role)).policy_name(policy);
            call.send().await.map(drop).map_err(fault("iam:DeleteRolePolicy", role))
        }
        Step::QueuePolicy { url, policy } => aws.set_queue_attribute(url, "Policy", policy).await,
        Step::Configure { function, environment, layers, revision } => {
            let variables = Some(environment.clone().into_iter().collect());
            let variables = Environment::builder().set_variables(variables).build();
            let call = lambda.update_function_configuration().function_name(function);
            let call = call.environment(variables).set_layers(layers.clone());
            let answer = call.set_revision_id(revision.clone()).send().await;
            answer.map(drop).map_err(fault("lambda:UpdateFunctionConfiguration", function))
        }
        Step::Loop { function, allow } => aws.set_loop(function, *allow).await,
        Step::Invocations { function, qualifier, config: Some(config) } => {
            let InvokeConfig { retries, age_max, on_failure, on_success, .. } = config;
            let number = |number: u64| i32::try_from(number).unwrap_or(i32::MAX);
            let on_failure =
                on_failure.as_ref().map(|arn| OnFailure::builder().destination(arn).build());
            let on_success =
                on_success.as_ref().map(|arn| OnSuccess::builder().destination(arn).build());
            let destinations =
                DestinationConfig::builder().set_on_failure(on_failure).set_on_success(on_success);
            let call = lambda.put_function_event_invoke_config().function_name(function);
            let call = call
                .set_qualifier(qualifier.clone())
                .set_maximum_retry_attempts(retries.map(|it| number(it.into())))
                .set_maximum_event_age_in_seconds(age_max.map(|it| number(it.as_secs())))
                .destination_config(destinations.build());
            let answer = call.send().await;
            answer.map(drop).map_err(fault("lambda:PutFunctionEventInvokeConfig", function))
        }
        Step::Invocations { function, qualifier, config: None } => {
            let call = lambda.delete_function_event_invoke_config().function_name(function);
            let answer = call.set_qualifier(qualifier.clone()).send().await;
            answer.map(drop).map_err(fault("lambda:DeleteFunctionEventInvokeConfig", function))
        }
    }
}
