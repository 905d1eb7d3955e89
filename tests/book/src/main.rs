//! `scripts/book`: builds the books into the folder that is the only argument.

use std::path::PathBuf;

use anyhow::{Context, Result};

fn main() -> Result<()> {
    let folder = PathBuf::from(std::env::args_os().nth(1).context("expected a folder")?);
    for first in book::build(&folder)? {
        println!("{}", first.display());
    }
    Ok(())
}
