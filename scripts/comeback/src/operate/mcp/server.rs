//! Speaks the protocol: lists tools and prompts, and answers calls.

use std::{
    future::pending,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use comeback_core::Timestamp;
use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt as _,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock,
        GetPromptRequestParams, GetPromptResponse, Implementation, ListPromptsResult,
        ListToolsResult, PaginatedRequestParams, ProgressNotificationParam, ProgressToken,
        ServerCapabilities, ServerConfig,
    },
    service::{Peer, RequestContext, ServerInitializeError},
};
use serde_json::{Value, json};
use tokio::{sync::RwLock, task::JoinError};

use crate::{
    failure::Failure,
    operate::mcp::{
        call::{ANSWER_MAX, Call, READ_MAX, SLOW_MAX, Session},
        lines::Lines,
        options::McpArgs,
        prompts::{self, instructions},
        refusal::Refusal,
        rules::{plans::Plans, texts::untrusted},
        tools::{Tool, tools},
    },
    shell::{Outcome, Signals},
};

/// How long the end waits for calls that read. They make letters visible again, which would be so by itself soon.
/// Clients give a server two seconds.
const READS_END: Duration = Duration::from_millis(1_500);

/// How often a client that has asked for it is told how far a change is.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// The most characters of what a failure says.
const FAILURE_MAX: usize = 2_000;

struct Server {
    session: Arc<Session>,
    tools: Arc<[Tool]>,
    running: Running,
}

/// Each call holds one of these for reading until all that it has begun has ended.
#[derive(Clone, Default)]
struct Running {
    changes: Arc<RwLock<()>>,
    reads: Arc<RwLock<()>>,
}

/// Serves until the input ends, or until a signal. Calls that run then end first.
pub async fn serve(args: McpArgs, now: fn() -> Timestamp) -> Result<Outcome, Failure> {
    let mut signals = Signals::listen()?;
    let has_ended: Arc<AtomicBool> = Arc::default();
    let running = Running::default();
    let server = Server {
        tools: tools(&args).into(),
        session: Arc::new(Session {
            args,
            now,
            plans: Mutex::new(Plans::new()),
            has_ended: Arc::clone(&has_ended),
        }),
        running: running.clone(),
    };
    let transport = Lines::new(Arc::clone(&has_ended));
    let served = async {
        match server.serve(transport).await {
            Ok(service) => service.waiting().await.map(drop).map_err(|error| error.to_string()),
            // The input has ended before a client said anything.
            Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    };
    let served = tokio::select! {
        served = served => served,
        () = signals.any() => Ok(()),
    };
    has_ended.store(true, Ordering::Relaxed);
    drop(running.changes.write().await);
    let _ = tokio::time::timeout(READS_END, running.reads.write()).await;
    served.map(|()| Outcome::Success).map_err(Failure::Refused)
}

impl Server {
    async fn answer(
        &self,
        tool: &Tool,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<Value, Refusal> {
        let matches = tool.parse(&request.arguments.unwrap_or_default())?;
        let call = Call::of(Arc::clone(&self.session));
        let is_reading = tool.effect.is_none();
        let Running { changes, reads } = &self.running;
        let runs = Arc::clone(if is_reading { reads } else { changes }).read_owned().await;
        let progress = context.meta.get_progress_token();
        let work = tool.run(matches, call.clone());
        // In a task of its own: a call that is given up still has to make the letters visible that it has hidden.
        let mut work = tokio::spawn(async move {
            let answer = work.await;
            drop(runs);
            answer
        });
        tokio::select! {
            done = &mut work => return ended(done),
            () = context.ct.cancelled() => {}
            () = tokio::time::sleep(READ_MAX), if is_reading => {}
            () = tell(&call, progress, &context.peer) => {}
        }
        call.stop();
        if !is_reading {
            return ended(work.await);
        }
        let is_there = tokio::time::timeout(ANSWER_MAX - READ_MAX, call.is_there());
        tokio::select! {
            done = &mut work => return ended(done),
            is_there = is_there => if is_there != Ok(true) {
                return Err(Refusal::NoAnswer(ANSWER_MAX.as_secs()));
            }
        }
        match tokio::time::timeout(SLOW_MAX - ANSWER_MAX, work).await {
            Ok(done) => ended(done),
            Err(_) => Err(Refusal::NoAnswer(SLOW_MAX.as_secs())),
        }
    }
}

/// Tells the client how far a change is, again and again, if it has asked for that.
async fn tell(call: &Call, token: Option<ProgressToken>, peer: &Peer<RoleServer>) {
    let Some(token) = token else { return pending().await };
    let mut told = 0;
    loop {
        tokio::time::sleep(PROGRESS_EVERY).await;
        let (done, all) = call.progress();
        if done > told {
            told = done;
            let progress = ProgressNotificationParam::new(token.clone(), done as f64);
            // A client that is gone ends the call in another way.
            let _ = peer.notify_progress(progress.with_total(all as f64)).await;
        }
    }
}

fn ended(done: Result<Result<Value, Refusal>, JoinError>) -> Result<Value, Refusal> {
    done.unwrap_or_else(|error| Err(Refusal::Failed(error.to_string())))
}

/// A failure as an agent sees it: its name is ours, and what it says may quote others. It is text alone, because
/// clients check structured content against the schema of what the tool returns if it doesn't fail.
fn failed(refusal: &Refusal) -> CallToolResult {
    let says = untrusted(&refusal.to_string(), FAILURE_MAX);
    let failure = json!({ "failure": refusal.name(), "says": says });
    CallToolResult::error(vec![ContentBlock::text(failure.to_string())])
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_prompts().build();
        let comeback = Implementation::new("comeback", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(capabilities)
            .with_server_info(comeback)
            .with_instructions(instructions(self.session.args.allow_changes))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.tools.iter().map(Tool::described).collect();
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let tools = Arc::clone(&self.tools);
        let Some(tool) = tools.iter().find(|tool| tool.name == request.name) else {
            let text = format!("there is no tool {}", request.name);
            return Err(ErrorData::invalid_params(text, None));
        };
        let answer = self.answer(tool, request, &context).await;
        Ok(answer.map_or_else(|refusal| failed(&refusal), CallToolResult::structured).into())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(prompts::all()))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let allows_changes = self.session.args.allow_changes;
        let prompt = prompts::get(&request.name, allows_changes).map(Into::into);
        let text = format!("there is no prompt {}", request.name);
        prompt.ok_or_else(|| ErrorData::invalid_params(text, None))
    }
}
