//! What the doctor shows of its findings, as lines and as JSON.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    aws::connect::{Connection, LOCAL},
    operate::doctor::rules::{
        finding::{Examined, Finding, Verdict},
        fix::Fix,
        kinds::Kind,
    },
    paint::{Line, Style},
};

pub fn lines_of(examined: &Examined, connection: &Connection) -> Vec<Line> {
    let Examined { part, good, findings } = examined;
    let mut lines = Vec::new();
    if findings.iter().all(|finding| finding.verdict == Verdict::Unknown) && !good.is_empty() {
        let line = Line::of(Style::Good, "✓ ").and(Style::Plain, format!("{part}: "));
        lines.push(line.and(Style::Faint, good));
    }
    for finding in findings {
        let (sign, style) = sign(finding.verdict);
        let line = Line::of(style, format!("{sign} ")).and(Style::Plain, format!("{part}: "));
        let line = line.and(Style::Plain, &finding.says);
        lines.push(line.and(Style::Faint, format!(" ({})", finding.name)));
        if !finding.why.is_empty() {
            lines.push(Line::of(Style::Plain, format!("  {}", finding.why)));
        }
        if let Some(fix) = &finding.fix {
            lines.push(Line::of(Style::Busy, format!("  {}", command(fix, connection))));
        }
    }
    lines
}

/// A kind of finding, with why it matters.
pub fn lines_of_kind(kind: &Kind) -> Vec<Line> {
    let (sign, style) = sign(kind.verdict);
    let line = Line::of(style, format!("{sign} ")).and(Style::Strong, kind.name);
    let line = line.and(Style::Plain, format!(": {}", kind.problem));
    let why = (!kind.why.is_empty()).then(|| Line::of(Style::Faint, format!("  {}", kind.why)));
    [line].into_iter().chain(why).collect()
}

fn sign(verdict: Verdict) -> (&'static str, Style) {
    match verdict {
        Verdict::Good => ("✓", Style::Good),
        Verdict::Unknown => ("?", Style::Faint),
        Verdict::Warning => ("!", Style::GivenUp),
        Verdict::Bad => ("✗", Style::Bad),
    }
}

pub fn summary<'a>(findings: impl Iterator<Item = &'a Finding> + Clone) -> Line {
    let kinds = [
        (Verdict::Bad, "problem", "problems"),
        (Verdict::Warning, "warning", "warnings"),
        (Verdict::Unknown, "check was not possible", "checks were not possible"),
    ];
    let is_bad = findings.clone().any(|finding| finding.verdict == Verdict::Bad);
    let counted = kinds.into_iter().filter_map(|(verdict, one, many)| {
        let count = findings.clone().filter(|finding| finding.verdict == verdict).count();
        (count > 0).then(|| format!("{count} {}", if count == 1 { one } else { many }))
    });
    let counted: Vec<_> = counted.collect();
    match &counted[..] {
        [] => Line::of(Style::Good, "All is well."),
        _ => Line::of(if is_bad { Style::Bad } else { Style::Plain }, counted.join(", ")),
    }
}

#[derive(JsonSchema, Serialize)]
pub struct FindingJson {
    part: String,
    #[serde(flatten)]
    finding: Finding,
    command: Option<String>,
    is_automatic: bool,
}

pub fn findings_of(examined: &Examined, connection: &Connection) -> Vec<FindingJson> {
    let is_good = examined.findings.iter().all(|finding| finding.verdict == Verdict::Unknown);
    let good = is_good.then(|| Finding {
        name: "good",
        verdict: Verdict::Good,
        says: examined.good.clone(),
        why: "",
        fix: None,
    });
    let all = good.into_iter().chain(examined.findings.iter().cloned());
    let json = |finding: Finding| FindingJson {
        part: examined.part.clone(),
        command: finding.fix.as_ref().map(|fix| command(fix, connection)),
        is_automatic: finding.fix.as_ref().is_some_and(Fix::is_automatic),
        finding,
    };
    all.map(json).collect()
}

/// The command of a fix, with the connection options of this run.
pub fn command(fix: &Fix, connection: &Connection) -> String {
    let Connection { local, region, profile, verbose: _ } = connection;
    let mut command = fix.command();
    let is_ours = command.starts_with("comeback ");
    if let Some(local) = local {
        let url = local.as_deref().unwrap_or(LOCAL);
        command +=
            &if is_ours { format!(" --local={url}") } else { format!(" --endpoint-url {url}") };
    }
    for (option, value) in [("--region", region), ("--profile", profile)] {
        if let Some(value) = value {
            command += &format!(" {option} {value}");
        }
    }
    command
}
