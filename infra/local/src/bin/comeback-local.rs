//! Runs the local cloud alone, and guards its functions' processes.
//!
//! Takes the port to listen on as its only argument, any that is free without it, and prints the
//! endpoint.

use std::process::ExitCode;

use comeback_local::Config;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let port = match args.next().map(|port| port.parse()) {
        None => 0,
        Some(Ok(port)) => port,
        Some(Err(_)) => {
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
    let server = comeback_local::start(Config { port, ..Config::default() }).await?;
    println!("{}", server.endpoint());
    tokio::signal::ctrl_c().await?;
    server.stop().await;
    Ok(())
}
