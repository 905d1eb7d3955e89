//! A proxy between a function's runtime and Lambda's Runtime API. It takes retried events out of their envelopes,
//! so that the function never sees one.
//!
//! | started as | it is |
//! |---|---|
//! | `/opt/extensions/comeback` | the extension: the proxy, registered with Lambda |
//! | the same with `address`, by the wrapper `/opt/comeback-exec` | the wrapper's side of the handover: prints the proxy's address |
//! | `bootstrap` | starts `serve` and becomes the program of `COMEBACK_BOOTSTRAP` |
//! | any of them with `serve` | only the proxy: prints its address, and ends with the process that started it |
//!
//! The proxy looks only into answers to `GET …/invocation/next`, and changes only those whose bodies are
//! envelopes. It passes on everything else byte for byte, whether it understands it or not.
#![allow(clippy::disallowed_methods, reason = "a program's outermost file reads the environment")]

mod bootstrap;
mod event;
mod exchange;
mod handover;
mod http;
mod lambda;
mod proxy;
mod relay;
mod settings;

use std::{env, error::Error, future::Future, path::Path, process::ExitCode};

use bootstrap::{SERVE, become_bootstrap, end_with_parent};
use handover::{Handover, hand_over};
use lambda::{ExtensionsApi, report_for_runtime};
use proxy::{NoProxy, Upstream, listen, reach, serve};
use settings::Settings;
use tokio::net::TcpListener;

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
            let error = become_bootstrap(settings.bootstrap.as_deref(), arguments);
            Err(reported(&settings, error.into()))
        }
        (_, Some("address")) => {
            println!("{}", address(&settings).map_err(|error| reported(&settings, error))?);
            Ok(())
        }
        (_, Some(SERVE)) => block_on(serve_for_bootstrap(&settings)),
        (_, Some(other)) => {
            Err(format!("expected no argument, `address` or `serve`, got {other:?}").into())
        }
        (name, None) => block_on(extension(name, &settings)),
    }
}

/// The wrapper's side: the address for the runtime.
fn address(settings: &Settings) -> Result<String, Box<dyn Error>> {
    Ok(hand_over(&settings.runtime_api, settings.agreed_port()?)?)
}

/// Reports an error that prevents the start of the runtime to Lambda, and returns it.
fn reported(settings: &Settings, error: Box<dyn Error>) -> Box<dyn Error> {
    let told = async {
        report_for_runtime(&settings.runtime_api, &error).await;
        Ok(())
    };
    block_on(told).err().unwrap_or(error)
}

fn block_on(work: impl Future<Output = Result<(), Box<dyn Error>>>) -> Result<(), Box<dyn Error>> {
    // Only one connection at a time is busy, so one thread is enough.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(work)
}

/// The proxy, until Lambda ends the environment.
async fn extension(name: &str, settings: &Settings) -> Result<(), Box<dyn Error>> {
    if !settings.has_wrapper {
        // The function may not be fully configured yet, so the extension keeps running.
        eprintln!(
            "comeback: AWS_LAMBDA_EXEC_WRAPPER must be /opt/comeback-exec, got nothing: events stay in their envelopes"
        );
    }
    let upstream = Upstream::new(&settings.runtime_api);
    // Both listen before the extension registers, because Lambda starts the runtime after that.
    let listening = begin_to_listen(settings);
    let lambda = ExtensionsApi::register(&settings.runtime_api, name).await?;
    let (handover, listener) = match listening {
        Ok((handover, Ok(listener))) => (handover, listener),
        Ok((handover, Err(error))) => {
            // Lambda has started the wrapper, which receives the same reason, so either of the two may report first.
            tokio::select! {
                () = lambda.report(&error) => return Err(error.into()),
                never = handover.serve(Err(error.to_string())) => never,
            }
        }
        Err(error) => {
            lambda.report(&error).await;
            return Err(error);
        }
    };
    tokio::select! {
        ended = lambda.wait_for_end() => ended?,
        ended = serve(listener, upstream.clone()) => ended?,
        never = handover.serve(Ok(upstream.clone())) => never,
    }
    if settings.has_wrapper && !upstream.is_handed_over() {
        eprintln!(
            "comeback: the runtime was not started by /opt/comeback-exec: events stayed in their envelopes. \
             AWS_LAMBDA_EXEC_WRAPPER names another wrapper, or this is a custom runtime, which supports none"
        );
    }
    Ok(())
}

/// Starts to listen for the wrapper and for the runtime.
fn begin_to_listen(
    settings: &Settings,
) -> Result<(Handover, Result<TcpListener, NoProxy>), Box<dyn Error>> {
    let port = settings.agreed_port()?;
    Ok((Handover::listen(port)?, listen(port)))
}

/// The proxy, until the process that started it ends.
async fn serve_for_bootstrap(settings: &Settings) -> Result<(), Box<dyn Error>> {
    end_with_parent()?;
    // Any free port: after a crash, the proxy on the last one may not have ended yet.
    let listener = listen(0)?;
    reach(&settings.runtime_api).await?;
    println!("{}", listener.local_addr()?);
    Ok(serve(listener, Upstream::new(&settings.runtime_api)).await?)
}
