//! What Lambda starts. The local cloud of the program `comeback` runs the same function of the library.

fn main() -> Result<(), lambda_runtime::Error> {
    example_target::run()
}
