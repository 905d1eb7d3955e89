//! `comeback dead export`: letters as lines of JSON.

use std::{
    fs::OpenOptions,
    io::{self, BufWriter, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use crate::operate::dead_letters::rules::{Letter, Selection};
use serde_json::json;

use super::{look_at_all, open};
use crate::{
    operate::{console::uninterrupted, dead_letters::args::ExportArgs, text::count},
    shell::{Failure, Outcome, Shell},
};

/// The file name that means standard output.
const STDOUT: &str = "-";

pub async fn run(args: &ExportArgs, shell: &Shell) -> Result<Outcome, Failure> {
    let to_stdout = args.file == Path::new(STDOUT);
    if to_stdout && !args.payload {
        let text = "expected --payload, because an export to standard output prints payloads";
        return Err(Failure::Refused(text.to_owned()));
    }
    let queue = open(&args.queue, shell).await?;
    let goes_on = uninterrupted()?;
    let failed = |source: io::Error| Failure::File { path: args.file.clone(), source };
    let mut file: Box<dyn Write> = if to_stdout {
        Box::new(io::stdout())
    } else {
        // Only the owner may read the file, because it has payloads. An earlier export is not overwritten.
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&args.file);
        Box::new(BufWriter::new(file.map_err(failed)?))
    };
    let selection = Selection::from(&args.filter);
    let now = (shell.now)();
    let (mut written, mut exported) = (Ok(()), 0_u64);
    look_at_all(&queue, &goes_on, |letter| {
        if selection.matches(&letter, &letter.facts(), now) {
            written = writeln!(file, "{}", line(&letter));
            exported += u64::from(written.is_ok());
        }
        written.is_ok()
    })
    .await?;
    written.and_then(|()| file.flush()).map_err(failed)?;
    eprintln!("comeback: {} letters exported; they are still in {}", count(exported), queue.name());
    Ok(if goes_on() { Outcome::Success } else { Outcome::Interrupted })
}

/// A letter, unchanged. The body is a string and not JSON, so that every byte is kept.
fn line(letter: &Letter) -> serde_json::Value {
    json!({
        "message_id": letter.id,
        "sent_at": letter.sent_at,
        "attributes": letter.attributes,
        "body": letter.body,
    })
}
