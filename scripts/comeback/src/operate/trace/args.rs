//! The command line of `comeback trace`.

use std::time::Duration;

use crate::operate::options::{SystemOptions, duration};

/// Options of `comeback trace`.
#[derive(Debug, clap::Args)]
pub struct TraceArgs {
    /// The request id that the sender of the event got, or that of any of its attempts; the beginning is enough.
    #[arg(value_name = "ID", value_parser = id)]
    pub id: String,
    /// How far back the log is read.
    #[arg(long, value_name = "DURATION", default_value = "2d", value_parser = duration)]
    pub since: Duration,
    /// Print one JSON document instead of a timeline.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub system: SystemOptions,
}

/// The minimum length of a prefix. A shorter one would match many ids.
const ID_MIN: usize = 4;

fn id(text: &str) -> Result<String, String> {
    let is_good = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    if text.len() >= ID_MIN && text.chars().all(is_good) {
        Ok(text.to_owned())
    } else {
        Err(format!("expected at least {ID_MIN} letters, digits and hyphens"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_cannot_inject_into_the_filter_pattern() {
        for (text, is_good) in [
            ("6f5e4d3c-2b1a-4999-8888-777766665555", true),
            ("6f5e", true),
            ("6f5", false),
            ("6f5e\" || $.a = \"*", false),
            ("6f5e*", false),
            ("", false),
        ] {
            assert_eq!(id(text).is_ok(), is_good, "{text}");
        }
    }
}
