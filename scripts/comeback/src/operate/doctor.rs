//! `comeback doctor`: problems in the retry systems, and how to fix them.

pub mod args;
mod fixing;
mod gather;
pub mod rules;

use crate::operate::{
    doctor::rules::{Examined, Finding, Fix, Verdict, diagnose},
    rules::permissions,
};
use args::DoctorArgs;
pub use gather::gather;
use serde::Serialize;

use super::{aws::Aws, console::confirm, options::Connection};
use crate::{
    paint::{Line, Style},
    shell::{Failure, Outcome, Shell},
};

/// What `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    systems: Vec<SystemJson<'a>>,
    mended: &'a [Mended],
}

#[derive(Serialize)]
struct SystemJson<'a> {
    handler: &'a str,
    region: &'a str,
    findings: Vec<FindingJson<'a>>,
}

#[derive(Serialize)]
struct FindingJson<'a> {
    part: &'a str,
    name: &'a str,
    verdict: Verdict,
    says: &'a str,
    why: &'a str,
    command: Option<String>,
    is_automatic: bool,
}

/// A command that was carried out, with the error if it failed.
#[derive(Serialize)]
struct Mended {
    command: String,
    error: Option<String>,
}

pub async fn run(args: &DoctorArgs, shell: &Shell) -> Result<Outcome, Failure> {
    if let Some(policy) = args.policy.as_deref().and_then(permissions::policy) {
        let text = serde_json::to_string_pretty(&policy).unwrap_or_default();
        let lines = text.lines().map(|line| Line::of(Style::Plain, line));
        shell.print(&lines.collect::<Vec<_>>()).await?;
        return Ok(Outcome::Success);
    }
    let aws = Aws::connect(&args.connection, shell.now).await?;
    let all = gather(&aws, args.handler.as_deref(), &args.functions).await?;
    let all = all.iter().map(|facts| (facts.handler.name().to_owned(), diagnose(facts)));
    let all: Vec<_> = all.collect();
    if !args.json {
        for (index, (handler, examined)) in all.iter().enumerate() {
            let title = format!("{handler} ({})", aws.region);
            let gap = (index > 0).then(Line::default);
            let lines = gap.into_iter().chain([Line::of(Style::Strong, title)]);
            let lines = lines.chain(examined.iter().flat_map(|it| lines_of(it, &args.connection)));
            shell.print(&lines.collect::<Vec<_>>()).await?;
        }
    }
    let findings = || all.iter().flat_map(|(_, examined)| examined).flat_map(|it| &it.findings);
    let mut mended = Vec::new();
    if args.fix {
        mended = apply_fixes(args, &aws, findings(), shell).await?;
    }
    if args.json {
        let systems = all.iter().map(|(handler, examined)| SystemJson {
            handler,
            region: &aws.region,
            findings: examined.iter().flat_map(|it| json(it, &args.connection)).collect(),
        });
        shell.print_json(&Document { systems: systems.collect(), mended: &mended }).await?;
    } else {
        shell.print(&[summary(findings())]).await?;
    }
    let is_mended = |finding: &Finding| {
        let command = finding.fix.as_ref().map(|fix| command(fix, &args.connection));
        mended.iter().any(|it| it.error.is_none() && Some(&it.command) == command.as_ref())
    };
    let is_well = findings().all(|it| it.verdict != Verdict::Bad || is_mended(it))
        && mended.iter().all(|it| it.error.is_none());
    Ok(if is_well { Outcome::Success } else { Outcome::Unsuccessful })
}

/// Carries out the automatic commands, each only once.
async fn apply_fixes(
    args: &DoctorArgs,
    aws: &Aws,
    findings: impl Iterator<Item = &Finding>,
    shell: &Shell,
) -> Result<Vec<Mended>, Failure> {
    let mut fixes: Vec<&Fix> = Vec::new();
    for fix in findings.filter_map(|finding| finding.fix.as_ref()) {
        if fix.is_automatic() && !fixes.contains(&fix) {
            fixes.push(fix);
        }
    }
    if !args.yes && !fixes.is_empty() {
        let commands = if fixes.len() == 1 { "command" } else { "commands" };
        confirm(&format!("Carry out {} {commands}?", fixes.len()))?;
    }
    let mut all = Vec::new();
    for fix in fixes {
        let command = command(fix, &args.connection);
        let done = fixing::carry_out(aws, fix).await;
        if !args.json {
            let line = match &done {
                Ok(()) => Line::of(Style::Good, "✓ ").and(Style::Plain, &command),
                Err(fault) => Line::of(Style::Bad, "✗ ").and(Style::Plain, fault.to_string()),
            };
            shell.print(&[line]).await?;
        }
        all.push(Mended { command, error: done.err().map(|fault| fault.to_string()) });
    }
    Ok(all)
}

fn lines_of(examined: &Examined, connection: &Connection) -> Vec<Line> {
    let Examined { part, good, findings } = examined;
    let mut lines = Vec::new();
    if findings.iter().all(|finding| finding.verdict == Verdict::Unknown) && !good.is_empty() {
        let line = Line::of(Style::Good, "✓ ").and(Style::Plain, format!("{part}: "));
        lines.push(line.and(Style::Faint, good));
    }
    for finding in findings {
        let (sign, style) = match finding.verdict {
            Verdict::Good => ("✓", Style::Good),
            Verdict::Unknown => ("?", Style::Faint),
            Verdict::Warning => ("!", Style::GivenUp),
            Verdict::Bad => ("✗", Style::Bad),
        };
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

fn summary<'a>(findings: impl Iterator<Item = &'a Finding>) -> Line {
    let mut counts = [0; 3];
    for finding in findings {
        match finding.verdict {
            Verdict::Bad => counts[0] += 1,
            Verdict::Warning => counts[1] += 1,
            Verdict::Unknown => counts[2] += 1,
            Verdict::Good => {}
        }
    }
    let some = |count: usize, one: &str, many: &str| match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        count => Some(format!("{count} {many}")),
    };
    let [bad, warnings, unknown] = counts;
    let parts = [
        some(bad, "problem", "problems"),
        some(warnings, "warning", "warnings"),
        some(unknown, "check was not possible", "checks were not possible"),
    ];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    if parts.is_empty() {
        return Line::of(Style::Good, "All is well.");
    }
    let style = if bad > 0 { Style::Bad } else { Style::Plain };
    Line::of(style, parts.join(", "))
}

fn json<'a>(examined: &'a Examined, connection: &Connection) -> Vec<FindingJson<'a>> {
    let Examined { part, good, findings } = examined;
    let fine = FindingJson {
        part,
        name: "good",
        verdict: Verdict::Good,
        says: good,
        why: "",
        command: None,
        is_automatic: false,
    };
    let is_good = findings.iter().all(|finding| finding.verdict == Verdict::Unknown);
    let found = findings.iter().map(|finding| FindingJson {
        part,
        name: finding.name,
        verdict: finding.verdict,
        says: &finding.says,
        why: finding.why,
        command: finding.fix.as_ref().map(|fix| command(fix, connection)),
        is_automatic: finding.fix.as_ref().is_some_and(Fix::is_automatic),
    });
    is_good.then_some(fine).into_iter().chain(found).collect()
}

/// The command of a fix, with the connection options of this run.
pub fn command(fix: &Fix, connection: &Connection) -> String {
    let Connection { local, region, profile, verbose: _ } = connection;
    let mut command = fix.command();
    let is_ours = command.starts_with("comeback ");
    if let Some(local) = local {
        let url = local.as_deref().unwrap_or(super::aws::LOCAL);
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
