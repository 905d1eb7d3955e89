//! Between a function's runtime and Lambda's Runtime API: a retried event loses its envelope here, and the
//! function does not know that there was one.
//!
//! | started as | it is |
//! |---|---|
//! | `/opt/extensions/comeback` | the extension: the proxy, registered with Lambda |
//! | the same with `address`, by the wrapper `/opt/comeback-exec` | the wrapper's side of the handover: prints the proxy's address |
//! | `bootstrap` | starts `serve` and becomes the program of `COMEBACK_BOOTSTRAP` |
//! | any of them with `serve` | the proxy by itself: prints its address, and ends with the process that started it |
//!
//! Only the answers to `GET …/invocation/next` are ever looked into, and only those whose bodies are envelopes are
//! changed. Of all else every byte is passed on as it is, whether it is understood or not.
#![allow(clippy::disallowed_methods, reason = "a program's outermost file reads the environment")]

mod bootstrap;
mod client_context;
mod event;
mod exchange;
mod extensions_api;
mod handover;
mod http;
mod proxy;
mod relay;
mod settings;

use std::{env, error::Error, future::Future, path::Path, process::ExitCode};

use bootstrap::{SERVE, become_bootstrap, end_with_parent};
use extensions_api::ExtensionsApi;
use handover::{Handover, hand_over};
use proxy::{Upstream, listen, reach, serve};
use settings::Settings;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("comeback: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let settings = Settings::from_lookup(|name| env::var(name).ok())?;
    let mut arguments = env::args_os().peekable();
    let program = arguments.next().unwrap_or_default();
    let name = Path::new(&program).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let argument = arguments.peek().map(|argument| argument.to_string_lossy().into_owned());
    match (name, argument.as_deref()) {
        ("bootstrap", argument) if argument != Some(SERVE) => {
            Err(become_bootstrap(settings.bootstrap.as_deref(), arguments).into())
        }
        (_, Some("address")) => {
            println!("{}", hand_over(&settings.runtime_api, settings.agreed_port())?);
            Ok(())
        }
        (_, Some(SERVE)) => block_on(beside_a_bootstrap(&settings)),
        (_, Some(other)) => {
            Err(format!("expected no argument, `address` or `serve`, got {other:?}").into())
        }
        (name, None) => block_on(extension(name, &settings)),
    }
}

fn block_on(work: impl Future<Output = Result<(), Box<dyn Error>>>) -> Result<(), Box<dyn Error>> {
    // One connection at a time has anything to say; a thread is all that it takes.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(work)
}

/// The proxy, until Lambda ends the environment.
async fn extension(name: &str, settings: &Settings) -> Result<(), Box<dyn Error>> {
    if !settings.has_wrapper {
        // A function that is on its way to be configured goes on.
        eprintln!(
            "comeback: AWS_LAMBDA_EXEC_WRAPPER must be /opt/comeback-exec, got nothing: events stay in their envelopes"
        );
    }
    let port = settings.agreed_port();
    let upstream = Upstream::new(&settings.runtime_api);
    // It listens before Lambda is told that it is there: the runtime is started after that.
    let listening = listen(port).and_then(|proxy| Ok((proxy, Handover::listen(port)?)));
    let lambda = ExtensionsApi::register(&settings.runtime_api, name).await?;
    let (listener, handover) = match listening {
        Ok(listening) => listening,
        Err(error) => {
            lambda.report(&error).await?;
            return Err(error.into());
        }
    };
    tokio::select! {
        ended = lambda.wait_for_end() => Ok(ended?),
        ended = serve(listener, upstream.clone()) => Ok(ended?),
        never = handover.serve(upstream) => never,
    }
}

/// The proxy, until the process that started it ends.
async fn beside_a_bootstrap(settings: &Settings) -> Result<(), Box<dyn Error>> {
    end_with_parent()?;
    let listener = listen(settings.any_port())?;
    reach(&settings.runtime_api).await?;
    println!("{}", listener.local_addr()?);
    Ok(serve(listener, Upstream::new(&settings.runtime_api)).await?)
}
