//! `comeback pause` and `comeback resume`.

use crate::operate::{rules::systems::function_name, waiting::rules::pause_done};
use comeback_core::time::rfc3339;
use serde::Serialize;

use super::{args::PauseArgs, register::open};
use crate::{
    operate::console::confirm,
    paint::{Line, Style},
    shell::{Failure, Outcome, Shell},
};

/// What `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    handler: &'a str,
    /// The functions' ARNs, with qualifiers.
    functions: &'a [String],
    paused_at: Option<String>,
}

pub async fn pause(args: &PauseArgs, is_pause: bool, shell: &Shell) -> Result<Outcome, Failure> {
    let register = open(&args.system, shell.now).await?;
    let targets = register.targets(&args.function).await?;
    let mut lines = vec![Line::of(Style::Strong, register.place())];
    for target in &targets {
        let paused_at = register.paused_at(target).await?;
        let state =
            paused_at.map_or("not paused".to_owned(), |at| format!("paused since {}", rfc3339(at)));
        let text = format!("  {}: {state}", function_name(target));
        lines.push(Line::of(Style::Plain, text));
    }
    if !args.json {
        shell.print(&lines).await?;
    }
    if !args.yes {
        let what = if is_pause { "Hold back the retries of" } else { "Resume the retries of" };
        confirm(&format!("{what} {}?", args.function))?;
    }
    let since = is_pause.then(|| (shell.now)());
    for target in &targets {
        register.pause(target, since).await?;
    }
    if args.json {
        let document = Document {
            handler: register.handler(),
            functions: &targets,
            paused_at: since.map(rfc3339),
        };
        shell.print_json(&document).await?;
    } else {
        let text = pause_done(&args.function, is_pause);
        shell.print(&[Line::of(Style::Good, "✓ ").and(Style::Plain, text)]).await?;
    }
    Ok(Outcome::Success)
}
