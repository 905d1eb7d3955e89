//! The operator's editor, for a payload.

use std::{fs, io, process::Command};

use serde_json::value::RawValue;

use crate::shell::confirm;

/// Opens the operator's editor, as the shell finds it, with a text. Returns the text that it has saved, which is JSON.
/// If it is not, and somebody can be asked, the editor is opened again. Otherwise the text stays in its file.
pub fn edit(text: &str) -> io::Result<String> {
    const EDITOR: &str = r#"eval "${VISUAL:-${EDITOR:-vi}} \"\$1\"""#;
    let file = tempfile::Builder::new().prefix("payload-").suffix(".json").tempfile()?;
    fs::write(file.path(), text)?;
    loop {
        let ended = Command::new("sh").args(["-c", EDITOR, "edit"]).arg(file.path()).status()?;
        if !ended.success() {
            return Err(io::Error::other(format!(
                "the editor ended with {ended}; nothing is redriven"
            )));
        }
        let saved = fs::read_to_string(file.path())?;
        // Editors end a file with a line break.
        let saved = match saved.strip_suffix('\n') {
            Some(line) if !text.ends_with('\n') => line.to_owned(),
            _ => saved,
        };
        let Err(error) = serde_json::from_str::<&RawValue>(&saved) else { return Ok(saved) };
        eprintln!("comeback: the edited payload is not JSON: {error}");
        if confirm("Edit it again?").is_err() {
            let (_, path) = file.keep()?;
            let place = path.display();
            return Err(io::Error::other(format!(
                "the edited payload is not JSON; nothing is redriven, and your text is in {place}"
            )));
        }
    }
}
