//! Many outages of one kind, each with its own seed, and the worst that they showed.

use std::{ops::Range, time::Duration};

use crate::{
    outage::{Outage, Played, play as play_one},
    target::{Kind, Settings},
};

/// The header of the table.
pub const HEAD: &str = "\
| A is | seeds | events | retries while down | probes | open after p50 | max | first retry after p50 | max | 95 % retried after p50 | max | open in vain | late while up | B late max | writes | questions | not the probe / two probes / lost / forks / dead |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |";

/// Plays one kind with these seeds and prints a row. Returns whether nothing was lost and no rule was broken.
pub fn play(outage: Outage, kind: Kind, seeds: Range<u64>) -> bool {
    let all: Vec<Played> = seeds
        .map(|seed| {
            let target = Settings { kind, seed, ..outage.target };
            play_one(Outage { target, ..outage })
        })
        .collect();
    let sum = |of: fn(&Played) -> u64| all.iter().map(of).sum::<u64>();
    let times = |of: fn(&Played) -> Option<Duration>| {
        let mut times: Vec<_> = all.iter().filter_map(of).map(|it| it.as_secs_f64()).collect();
        times.sort_by(f64::total_cmp);
        let at =
            |share: f64| times.get(((times.len().max(1) - 1) as f64 * share) as usize).copied();
        let text = |at: Option<f64>| at.map_or("never".to_owned(), |at| format!("{at:.0} s"));
        format!("{} | {}", text(at(0.5)), text(at(1.0)))
    };
    let most =
        |of: fn(&Played) -> Duration| all.iter().map(of).max().unwrap_or_default().as_secs_f64();
    let lost = sum(|it| it.lost as u64) + sum(|it| it.forks);
    let non_probe_retries = sum(|it| it.watched.non_probe_retries);
    let overlapping_probes = sum(|it| it.watched.overlapping_probes);
    println!(
        "| {kind:?} | {} | {} | {} | {} | {} | {} | {} | {} | {:.0} s | {:.1} s | {} | {} | {non_probe_retries} / {overlapping_probes} / {} / {} / {} |",
        all.len(),
        sum(|it| it.events as u64),
        sum(|it| it.retries_while_down),
        sum(|it| it.watched.probes),
        times(|it| it.opened_after),
        times(|it| it.first_after),
        times(|it| it.most_after),
        sum(|it| it.watched.false_openings),
        most(|it| it.watched.late_while_up),
        most(|it| it.lateness(1, 1.0)),
        sum(|it| it.watched.writes),
        sum(|it| it.watched.questions),
        sum(|it| it.lost as u64),
        sum(|it| it.forks),
        sum(|it| it.letters),
    );
    lost + non_probe_retries + overlapping_probes == 0
}
