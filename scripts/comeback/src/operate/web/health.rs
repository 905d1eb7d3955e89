//! The health of the deployment, by the checks of `comeback doctor`: a line on the overview, and a page of its own.

use std::cmp::Reverse;

use comeback_core::Timestamp;
use maud::{Markup, html};

use super::{
    html::{Untrusted, csrf, until},
    live::{Live, Seen, Shared},
};

use crate::{
    operate::doctor::{
        rules::finding::{Examined, Finding, Verdict},
        shows::command,
    },
    text::{counted, noun},
};

/// The finding that there are dead letters. The overview has their number, which an older check would contradict.
const DEAD_LETTERS: &str = "dead_letters";

/// The findings with their parts, the worst first.
fn findings(examined: &[Examined]) -> Vec<(&str, &Finding)> {
    let mut all = Vec::new();
    for Examined { part, findings, .. } in examined {
        all.extend(findings.iter().map(|finding| (part.as_str(), finding)));
    }
    all.sort_by_key(|(_, finding)| Reverse(finding.verdict));
    all
}

/// A finding with its part.
type Found<'a> = (&'a str, &'a Finding);

/// The findings that say the same of several parts, each kind once and in the place of its first.
fn alike<'a>(found: &[Found<'a>]) -> Vec<(Vec<Found<'a>>, &'a Finding)> {
    let mut kinds: Vec<(Vec<Found>, &Finding)> = Vec::new();
    for (part, it) in found.iter().copied() {
        let is_alike = |other: &Finding| {
            (other.name, other.verdict, &other.says, other.why)
                == (it.name, it.verdict, &it.says, it.why)
        };
        match kinds.iter_mut().find(|(_, other)| is_alike(other)) {
            Some((parts, _)) => parts.push((part, it)),
            None => kinds.push((vec![(part, it)], it)),
        }
    }
    kinds
}

/// The color and the word for the worst of some findings. A part is well only if it was checked wholly.
fn word(worst: Option<Verdict>) -> (&'static str, &'static str) {
    match worst {
        Some(Verdict::Bad) => ("bad", "problem"),
        Some(Verdict::Warning) => ("waits", "warning"),
        Some(Verdict::Unknown) => ("faint", "partly checked"),
        Some(Verdict::Good) | None => ("good", "well"),
    }
}

fn pill(worst: Option<Verdict>) -> Markup {
    let (class, word) = word(worst);
    html! { span class=(format!("state {class}")) { (word) } }
}

/// What the findings amount to, the worst first.
fn sentence(found: &[(&str, &Finding)]) -> String {
    let number = |is: fn(Verdict) -> bool| {
        let all = found.iter().filter(|(_, it)| is(it.verdict));
        all.count() as u64
    };
    let wrong = number(|it| it >= Verdict::Warning);
    let unknown = number(|it| it == Verdict::Unknown);
    let mut text = match found.first() {
        Some((part, worst)) if wrong > 0 => format!("{part}: {}", worst.says),
        _ if unknown > 0 => "Nothing wrong was found".to_owned(),
        _ => "Nothing is wrong with the deployment".to_owned(),
    };
    if wrong > 1 {
        text += &format!(", and {}", counted(wrong - 1, "more finding"));
    }
    if unknown > 0 {
        let were = if unknown == 1 { "was" } else { "were" };
        let but = if wrong > 0 { "and" } else { "but" };
        text += &format!(", {but} {} {were} not possible", counted(unknown, "check"));
    }
    text + "."
}

fn says(found: &[(&str, &Finding)]) -> Markup {
    html! { (pill(found.first().map(|(_, it)| it.verdict))) " " (Untrusted(&sentence(found))) " " }
}

/// The line on the overview.
pub fn line(seen: &Seen, now: Timestamp) -> Markup {
    let Some(at) = seen.examined_at else {
        return html! { p.faint { "Health: checking…" } };
    };
    let mut found = findings(&seen.examined);
    found.retain(|(_, it)| it.name != DEAD_LETTERS);
    html! {
        p {
            (says(&found))
            a href="/health" { (counted(seen.examined.len() as u64, "part")) " checked" } " "
            span.faint { (until(at, now)) }
        }
    }
}

/// The page: what is wrong and how to mend it, what was checked, and what could not be.
pub fn list(live: &Live, seen: &Seen, now: Timestamp) -> Markup {
    let Some(at) = seen.examined_at else {
        return html! { p.faint { "Checking…" } };
    };
    let found = findings(&seen.examined);
    let connection = live.cloud().ok().map(|cloud| cloud.connection.clone()).unwrap_or_default();
    let (wrong, rest): (Vec<_>, Vec<_>) =
        found.iter().copied().partition(|(_, it)| it.verdict >= Verdict::Warning);
    let unknown = || rest.iter().filter(|(_, it)| it.verdict == Verdict::Unknown);
    html! {
        form.bar method="post" action="/health/look" {
            (csrf(&live.csrf))
            p {
                (says(&found))
                span.faint {
                    "Checked as " code { "comeback doctor" } " does, " (until(at, now))
                    @if seen.examining { ". Checking again…" }
                }
            }
            button disabled[seen.examining] { "Check again" }
        }
        @if !wrong.is_empty() {
            h2 { "Findings" }
            ol.findings { @for (nth, (parts, it)) in alike(&wrong).iter().enumerate() {
                @let id = format!("fix-{nth}");
                @let commands: Vec<_> = parts.iter().filter_map(|(_, it)| it.fix.as_ref()).map(|fix| command(fix, &connection)).collect();
                li.card {
                    p {
                        (pill(Some(it.verdict))) " "
                        @for (nth, (part, _)) in parts.iter().enumerate() {
                            @if nth > 0 { ", " } strong { (Untrusted(part)) }
                        }
                        ": " (Untrusted(&it.says))
                    }
                    @if !it.why.is_empty() { p.faint { (it.why) } }
                    @if !commands.is_empty() {
                        div.copy {
                            pre id=(id) tabindex="0" { (Untrusted(&commands.join("\n"))) }
                            button type="button" data-copy=(id) {
                                "Copy" span.hidden { " the " (noun(commands.len() as u64, "command")) }
                            }
                        }
                    }
                }
            } }
        }
        h2 { "Checked" }
        div.wide { table.checked {
            thead { tr { th { "Part" } th { "State" } th { "What is known" } } }
            tbody { @for it in &seen.examined {
                tr {
                    th scope="row" { (Untrusted(&it.part)) }
                    td { (pill(it.findings.iter().map(|it| it.verdict).max())) }
                    td {
                        @let wrong = it.findings.iter().filter(|it| it.verdict > Verdict::Unknown).count();
                        @if wrong == 0 { (Untrusted(&it.good)) }
                        @else { (counted(wrong as u64, "finding")) }
                    }
                }
            } }
        } }
        @if unknown().next().is_some() {
            h2 { "Not possible" }
            div.wide { table.checked {
                thead { tr { th { "Part" } th { "Why" } } }
                tbody {
                    @for (part, it) in unknown() {
                        tr { th scope="row" { (Untrusted(part)) } td { (Untrusted(&it.says)) } }
                    }
                }
            } }
        }
    }
}

/// Checks again at once, unless a check is running.
pub fn refresh(live: &Shared) {
    if live.seen().examining {
        return;
    }
    let live = Shared::clone(live);
    tokio::spawn(async move {
        live.note("doctor", live.examine().await);
        live.changed();
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn examined(verdicts: &[Verdict]) -> Vec<Examined> {
        let finding = |verdict: &Verdict| Finding {
            name: "found",
            verdict: *verdict,
            says: "told".to_owned(),
            why: "",
            fix: None,
        };
        let part = |nth: &Verdict| Examined {
            part: "handler".to_owned(),
            good: String::new(),
            findings: vec![finding(nth)],
        };
        verdicts.iter().map(part).collect()
    }

    #[test]
    fn findings_that_say_the_same_of_several_parts_are_one() {
        let finding = |says: &str| Finding {
            name: "target_paused",
            verdict: Verdict::Warning,
            says: says.to_owned(),
            why: "",
            fix: None,
        };
        let (paused, other) = (finding("its reserved concurrency is 0"), finding("no destination"));
        let found = [("ship", &paused), ("email", &other), ("charge", &paused)];
        let told: Vec<_> = alike(&found)
            .into_iter()
            .map(|(parts, it)| (parts.iter().map(|(part, _)| *part).collect(), &*it.says))
            .collect::<Vec<(Vec<_>, _)>>();
        let expected = [
            (vec!["ship", "charge"], "its reserved concurrency is 0"),
            (vec!["email"], "no destination"),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn a_part_is_called_well_only_if_it_was_wholly_checked() {
        use Verdict::{Bad, Unknown, Warning};
        for (verdicts, state, expected) in [
            (&[][..], "well", "Nothing is wrong with the deployment."),
            (
                &[Unknown],
                "partly checked",
                "Nothing wrong was found, but 1 check was not possible.",
            ),
            (
                &[Unknown, Bad, Warning, Unknown],
                "problem",
                "handler: told, and 1 more finding, and 2 checks were not possible.",
            ),
            (&[Warning], "warning", "handler: told."),
        ] {
            let examined = examined(verdicts);
            let found = findings(&examined);
            let worst = found.first().map(|(_, it)| it.verdict);
            assert_eq!((word(worst).1, &*sentence(&found)), (state, expected));
        }
    }
}
