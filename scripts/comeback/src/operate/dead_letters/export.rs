//! `comeback dead export`: letters as lines of JSON.

use std::{
    collections::BTreeMap,
    fs::OpenOptions,
    io::{self, BufWriter, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use serde_json::json;

use crate::{
    failure::Failure,
    operate::dead_letters::{
        queue::{QueueOptions, look_at_all, open},
        rules::{Letter, Selection},
    },
    paint,
    shell::{Outcome, Shell, uninterrupted},
    text::letters,
};

const STDOUT: &str = "-";

#[derive(Debug, clap::Args)]
pub struct ExportArgs {
    /// The file, which must not exist yet; - for standard output, with --payload.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Allow payloads to be printed.
    #[arg(long)]
    pub payload: bool,
    #[command(flatten)]
    pub selection: Selection,
    #[command(flatten)]
    pub queue: QueueOptions,
}

pub async fn export(args: &ExportArgs, shell: &Shell) -> Result<Outcome, Failure> {
    let to_stdout = args.file == Path::new(STDOUT);
    if to_stdout && !args.payload {
        return Err(
            "expected --payload, because an export to standard output prints payloads".into()
        );
    }
    let queue = open(&args.queue, shell.now).await?;
    let goes_on = uninterrupted()?;
    let failed = |source: io::Error| Failure::File { path: args.file.clone(), source };
    let mut file: Box<dyn Write> = if to_stdout {
        Box::new(io::stdout())
    } else {
        // Only the owner may read the file, because it has payloads. An earlier export is not overwritten.
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&args.file);
        Box::new(BufWriter::new(file.map_err(failed)?))
    };
    let selection = &args.selection;
    let now = (shell.now)();
    let (mut written, mut exported, mut unreadable) = (Ok(()), 0_u64, 0_u64);
    look_at_all(&queue, |letter| {
        if selection.matches(&letter, &letter.facts(), now) {
            let line = paint::json(&line(&letter)).map_err(io::Error::from);
            written = line.and_then(|line| writeln!(file, "{line}"));
            exported += u64::from(written.is_ok());
            unreadable += u64::from(written.is_ok() && letter.facts().payload_fault.is_some());
        }
        written.is_ok() && goes_on()
    })
    .await?;
    written.and_then(|()| file.flush()).map_err(failed)?;
    if exported == 0 {
        queue.refuse_unknown(&selection.failures.functions).await?;
    }
    eprintln!("comeback: {} exported; still in {}", letters(exported), queue.name());
    if unreadable > 0 {
        let letters = letters(unreadable);
        eprintln!("comeback: the payloads of {letters} could not be read: see payload_fault");
    }
    Ok(match () {
        () if !goes_on() => Outcome::Interrupted,
        () if unreadable > 0 => Outcome::Unsuccessful,
        () => Outcome::Success,
    })
}

/// A letter, unchanged. The body is a string and not JSON, so that every byte is kept.
fn line(letter: &Letter) -> serde_json::Value {
    let mut line = json!({
        "message_id": letter.id,
        "sent_at": letter.sent_at,
        "attributes": letter.texts().collect::<BTreeMap<_, _>>(),
        "body": letter.body,
    });
    if letter.location().is_some() {
        // The body is the notice of the record that has it.
        let facts = letter.facts();
        line["payload"] = facts.payload.into();
        if let Some(fault) = facts.payload_fault {
            line["payload_fault"] = fault.into();
        }
    }
    line
}
