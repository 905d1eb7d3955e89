//! The tools: which command each is, what it takes and returns, and when an agent uses it.

use std::sync::Arc;

use clap::{ArgMatches, Command};
use futures_util::future::BoxFuture;
use rmcp::model::{Tool as Described, ToolAnnotations};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::operate::{
    dead_letters::{
        list::{self as dead_list, ListArgs as DeadListArgs},
        rules::Listed as Letter,
        show::{ShowArgs, found},
    },
    doctor::{self, DoctorArgs},
    history::{self, HistoryArgs},
    mcp::{
        call::Call,
        changes,
        options::McpArgs,
        refusal::Refusal,
        rules::{
            arguments::Arguments,
            texts::{schema, shown},
        },
    },
    order::{Agent, Effect, Kind, Selects},
    orders::{Face, each},
    policy::{self, PolicyArgs},
    simulate::{self, SimulateArgs},
    status::{self, StatusArgs},
    trace::{self, TraceArgs},
    waiting::list::{self as waiting_list, ListArgs as WaitingListArgs},
};

type Run = Box<
    dyn Fn(ArgMatches, Call) -> BoxFuture<'static, Result<Value, Refusal>> + Send + Sync + 'static,
>;

pub struct Tool {
    pub name: &'static str,
    /// What it does to the account, if it isn't a tool that only reads.
    pub effect: Option<Effect>,
    says: &'static str,
    command: Command,
    /// The options of the command that the tool doesn't take.
    without: Vec<&'static str>,
    output: Arc<Value>,
    run: Run,
}

impl Tool {
    /// The tool that reads the options `A` of a command, and whose `run` returns the document `D`.
    fn new<A, D, F>(
        name: &'static str,
        says: &'static str,
        run: impl Fn(A, Call) -> F + Copy + Send + Sync + 'static,
    ) -> Self
    where
        A: clap::Args + Send + 'static,
        D: JsonSchema + Serialize,
        F: Future<Output = Result<D, Refusal>> + Send + 'static,
    {
        let output = Arc::new(schema::<D>());
        let document = Arc::clone(&output);
        let run = move |matches: ArgMatches, call: Call| {
            let document = Arc::clone(&document);
            let run: BoxFuture<'static, _> = Box::pin(async move {
                let args = A::from_arg_matches(&matches);
                let args = args.map_err(|bad| Refusal::Usage(bad.to_string()))?;
                let value = serde_json::to_value(run(args, call).await?);
                let value = value.map_err(|error| Refusal::Failed(error.to_string()))?;
                Ok(shown(value, &document))
            });
            run
        };
        let command = A::augment_args(Command::new(name).no_binary_name(true));
        let (effect, without) = (None, Vec::new());
        Self { name, effect, says, command, without, output, run: Box::new(run) }
    }

    fn without(self, without: &[&'static str]) -> Self {
        Self { without: [&self.without, without].concat(), ..self }
    }

    fn with_effect(self, effect: Effect) -> Self {
        Self { effect: Some(effect), ..self }
    }

    /// The tool as clients list it.
    pub fn described(&self) -> Described {
        let input = Arguments::of(&self.command, &self.without).schema();
        let output = self.output.as_object().cloned().unwrap_or_default();
        let is_repeatable = self.effect.is_none_or(|effect| effect == Effect::Sets);
        let annotations = ToolAnnotations::new()
            .read_only(self.effect.is_none())
            .destructive(!is_repeatable)
            .idempotent(is_repeatable)
            .open_world(self.name != SIMULATE);
        Described::new(self.name, self.says, Arc::new(input))
            .with_raw_output_schema(Arc::new(output))
            .with_annotations(annotations)
    }

    /// Reads the arguments of a call as the command line that they mean.
    pub fn parse(&self, given: &Map<String, Value>) -> Result<ArgMatches, Refusal> {
        let line = Arguments::of(&self.command, &self.without).line(given)?;
        let parsed = self.command.clone().try_get_matches_from(line);
        parsed.map_err(|bad| Refusal::Usage(bad.to_string()))
    }

    pub fn run(
        &self,
        matches: ArgMatches,
        call: Call,
    ) -> BoxFuture<'static, Result<Value, Refusal>> {
        (self.run)(matches, call)
    }
}

const SIMULATE: &str = "simulate";

/// The letters that `comeback dead show --json` prints as a list.
#[derive(JsonSchema, Serialize)]
struct Letters {
    letters: Vec<Letter>,
}

/// The tools that a server with these options has.
pub fn tools(args: &McpArgs) -> Vec<Tool> {
    let mut tools = Vec::from(reading(if args.payload { &[] } else { &["payload"] }));
    let mut orders = Orders::default();
    each(&mut orders);
    tools.extend(orders.planning);
    if args.allow_changes {
        tools.extend(orders.changing);
    }
    for tool in &mut tools {
        // Otherwise the names and kinds of arguments are not known.
        tool.command.build();
    }
    tools
}

/// The tools that say what is. `payload` are the options that only some servers have.
fn reading(payload: &[&'static str]) -> [Tool; 9] {
    [
        Tool::new(
            "doctor",
            "Find what is wrong with the retry systems, and how to fix it (`comeback doctor`). Use it first when \
             somebody asks what is failing: it finds broken deployments, missing permissions and alarms. Then use \
             `status` for each function. It changes nothing: a person runs the commands that it names.",
            |mut args: DoctorArgs, call: Call| async move {
                args.connection = call.connection();
                Ok(doctor::document(&args, call.now()).await?)
            },
        )
        .without(&["fix", "policy", "list"]),
        Tool::new(
            "status",
            "Show for each function and queue whether it fails, how many events wait, and how its events ended \
             (`comeback status`). Use it after `doctor` to see which function fails. Its `over` says whether it is \
             over, and when the last event comes back. Counts of runs are a minute or two late.",
            |mut args: StatusArgs, call: Call| async move {
                args.system.connection = call.connection();
                Ok(status::document(&args, call.now()).await?)
            },
        ),
        Tool::new(
            "policy",
            "Show the policy that is in force for a function or a queue, and for one of its errors (`comeback policy`). \
             Use it when somebody asks why an event waits so long, or was given up.",
            |mut args: PolicyArgs, call: Call| async move {
                args.system.connection = call.connection();
                Ok(policy::document(&args, call.now()).await?)
            },
        ),
        Tool::new(
            "waiting",
            "List or count the events that wait for their next attempt (`comeback waiting`). Use it after `status`, \
             with group_by [\"function\", \"error\"] first. It has the ids for `trace`.",
            |mut args: WaitingListArgs, call: Call| async move {
                call.limit(args.limit as usize)?;
                args.system.connection = call.connection();
                Ok(waiting_list::document(&args, call.now(), || call.goes_on()).await?)
            },
        ),
        Tool::new(
            "trace",
            "Show the life of one event: its failures, waits and attempts, and what happens next (`comeback trace`). \
             Use it with an event_id or request_id from `waiting`, `dead_list` or a log.",
            |mut args: TraceArgs, call: Call| async move {
                args.system.connection = call.connection();
                Ok(trace::document(&args, call.now(), || call.goes_on()).await?)
            },
        ),
        Tool::new(
            "dead_list",
            "List or count the events that were given up, with the reasons (`comeback dead list`). Use it after \
             `status`, with group_by [\"reason\", \"error\"] first. Letters are hidden from other consumers while \
             they are read.",
            |mut args: DeadListArgs, call: Call| async move {
                call.limit(args.limit)?;
                args.queue.connection = call.connection();
                Ok(dead_list::document(&args, call.now(), || call.goes_on()).await?)
            },
        )
        .without(payload),
        Tool::new(
            "dead_show",
            "Show all that is known of a dead letter (`comeback dead show`). Use it with a message_id from \
             `dead_list`.",
            |mut args: ShowArgs, call: Call| async move {
                args.queue.connection = call.connection();
                let letters = found(&args, call.now(), || call.goes_on()).await?;
                Ok(Letters { letters })
            },
        )
        .without(payload),
        Tool::new(
            "history",
            "List who has given which orders, and how they ended (`comeback history`). Use it when somebody asks why \
             events came back, were cancelled or are held back.",
            |mut args: HistoryArgs, call: Call| async move {
                call.limit(args.limit as usize)?;
                args.system.connection = call.connection();
                Ok(history::document(&args, call.now(), || call.goes_on()).await?)
            },
        ),
        Tool::new(
            SIMULATE,
            "Compare policies before they are deployed (`comeback simulate`): when attempts are made, how much load \
             they put on a function after an outage, and what that costs. It reads nothing of the account.",
            |args: SimulateArgs, _| async move { Ok(simulate::document(&args)?) },
        )
        .without(&["svg", "html"]),
    ]
}

/// The tools for orders: those that plan, and those that carry a plan out.
#[derive(Default)]
struct Orders {
    planning: Vec<Tool>,
    changing: Vec<Tool>,
}

impl Face for Orders {
    fn order<O: Selects>(&mut self) {
        let Kind { name, effect, agent: Some(agent), .. } = O::KIND else { return };
        let Agent { plan, plans, carries_out, without } = agent;
        let planning = Tool::new(plan, plans, changes::plan::<O>);
        self.planning.push(planning.without(without));
        let changing = Tool::new(name, carries_out, changes::carry_out::<O>);
        self.changing.push(changing.with_effect(effect));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        aws::connect::Connection,
        operate::{order::Noun, orders::kinds},
    };

    fn named(allow_changes: bool, payload: bool) -> Vec<Tool> {
        let connection = Connection::default();
        tools(&McpArgs { allow_changes, payload, max_events: 1000, max_rate: 50, connection })
    }

    #[test]
    fn tools_that_change_something_exist_only_if_that_is_allowed() {
        let changes = |tools: &[Tool]| -> Vec<_> {
            let changes = tools.iter().filter(|tool| tool.effect.is_some());
            changes.map(|tool| tool.name).collect()
        };
        assert_eq!(changes(&named(false, false)), [""; 0]);
        let orders = [Noun::Event, Noun::Letter, Noun::Target].into_iter().flat_map(kinds);
        let all: Vec<_> = orders.filter(|it| it.agent.is_some()).map(|it| it.name).collect();
        assert!(all.contains(&"redrive") && !all.contains(&"purge"), "{all:?}");
        assert_eq!(changes(&named(true, false)), all);
        for tool in named(true, false) {
            let is_change = all.contains(&tool.name);
            let listed = json!(tool.described());
            assert_eq!(listed["annotations"]["readOnlyHint"], !is_change, "{}", tool.name);
            let required = &listed["inputSchema"]["required"];
            assert_eq!(*required == json!(["token"]), is_change, "{}", tool.name);
            assert_eq!(listed["outputSchema"]["type"], "object", "{}", tool.name);
        }
    }

    #[test]
    fn no_tool_takes_an_option_that_is_not_for_agents() {
        for tool in named(true, false) {
            let properties = json!(tool.described())["inputSchema"]["properties"].clone();
            for option in ["fix", "payload", "to", "edit", "yes", "queue", "local", "html", "svg"] {
                assert_eq!(properties[option], Value::Null, "{} {option}", tool.name);
            }
        }
        let shows = |tool: &Tool| {
            json!(tool.described())["inputSchema"]["properties"]["payload"].is_object()
        };
        let with = named(false, true);
        let with: Vec<_> = with.iter().filter(|tool| shows(tool)).map(|tool| tool.name).collect();
        assert_eq!(with, ["dead_list", "dead_show"]);
    }

    #[test]
    fn an_argument_is_judged_as_on_the_command_line() {
        let tools = named(true, false);
        let parse = |name: &str, given: Value| {
            let tool = tools.iter().find(|tool| tool.name == name).unwrap();
            tool.parse(given.as_object().unwrap()).map(drop).map_err(|bad| bad.to_string())
        };
        for (tool, given) in [
            ("status", json!({ "functions": ["orders"] })),
            ("waiting", json!({ "group_by": ["function", "error"], "due_before": "15m" })),
            ("trace", json!({ "id": "6f5e4d3c" })),
            ("dead_show", json!({ "id": "-6f5e" })),
            ("simulate", json!({ "policy": ["calm: BASE_BACKOFF=10s"], "outage": "2h" })),
            ("plan_redrive", json!({ "reason": ["max_age_exceeded"], "rate": 0.5 })),
            ("redrive", json!({ "token": "redrive-3-00" })),
        ] {
            assert_eq!(parse(tool, given.clone()), Ok(()), "{tool} {given}");
        }
        for (tool, given, part) in [
            ("trace", json!({ "id": "6f5\" || $.a" }), "expected at least 4 letters"),
            ("trace", json!({}), "required arguments were not provided"),
            ("dead_list", json!({ "reason": ["not_retriable"] }), "'not_retryable'"),
            ("waiting", json!({ "function": [""] }), "is a variable not set?"),
            ("plan_redrive", json!({ "to": "other" }), "there is no argument to"),
            ("redrive", json!({}), "--token"),
        ] {
            let refused = parse(tool, given.clone()).unwrap_err();
            assert!(refused.contains(part), "{tool} {given}: {refused}");
        }
    }
}
