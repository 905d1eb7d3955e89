//! Runs only the local cloud. With [`WARDEN`] as the first argument, it guards a function's process.
//!
//! The only argument is the port to listen on. The default is a free one. The program prints the endpoint.

use std::process::ExitCode;

use comeback_local::{Config, Inherited, WARDEN};
use tokio::signal::unix::{SignalKind, signal};

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let first = args.next();
    if first.as_deref().is_some_and(|first| first == WARDEN) {
        return comeback_local::warden(args);
    }
    let port = match first.map(|port| port.to_str().and_then(|port| port.parse().ok())) {
        None => 0,
        Some(Some(port)) => port,
        Some(None) => {
            eprintln!("usage: comeback-local [PORT]");
            return ExitCode::from(2);
        }
    };
    match run(port) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("comeback-local: {error}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn run(port: u16) -> std::io::Result<()> {
    let inherited = Inherited::from_lookup(|name| std::env::var_os(name));
    let server = comeback_local::start(Config { port, inherited, ..Config::default() }).await?;
    println!("{}", server.endpoint());
    let mut terminated = signal(SignalKind::terminate())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted?,
        _ = terminated.recv() => {}
    }
    server.stop().await;
    Ok(())
}
