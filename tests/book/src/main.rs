//! `scripts/book`: builds the book into the folder that is the only argument.

use std::path::PathBuf;

use anyhow::{Context, Result};

fn main() -> Result<()> {
    let folder = PathBuf::from(std::env::args_os().nth(1).context("expected a folder")?);
    book::build(&folder)?;
    println!("{}", folder.join("index.html").display());
    Ok(())
}
