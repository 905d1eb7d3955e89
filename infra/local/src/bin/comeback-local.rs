//! Runs only the local cloud. With [`WARDEN`] as the first argument, it guards a function's process.
//!
//! The port to listen on is a free one unless an argument names it. With `--freeze`, functions are stopped between
//! events. The program prints the endpoint.

use std::process::ExitCode;

use comeback_local::{Config, Inherited, WARDEN};
use tokio::signal::unix::{SignalKind, signal};

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1).peekable();
    if args.next_if(|first| first == WARDEN).is_some() {
        return comeback_local::warden(args);
    }
    let freeze = args.next_if(|first| first == "--freeze").is_some();
    let port = match args.next().map(|port| port.to_str().and_then(|port| port.parse().ok())) {
        None => 0,
        Some(Some(port)) => port,
        Some(None) => {
            eprintln!("usage: comeback-local [--freeze] [PORT]");
            return ExitCode::from(2);
        }
    };
    match run(port, freeze) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("comeback-local: {error}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn run(port: u16, freeze: bool) -> std::io::Result<()> {
    let inherited = Inherited::from_lookup(|name| std::env::var_os(name));
    let config = Config { port, freeze, inherited, ..Config::default() };
    let server = comeback_local::start(config).await?;
    println!("{}", server.endpoint());
    let mut terminated = signal(SignalKind::terminate())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted?,
        _ = terminated.recv() => {}
    }
    server.stop().await;
    Ok(())
}
