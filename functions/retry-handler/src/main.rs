//! What Lambda starts. The local cloud of the program `comeback` runs the same function of the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    retry_handler::run()
}
