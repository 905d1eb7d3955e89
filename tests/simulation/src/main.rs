//! The program.
use simulation::{plan::Plan, world::play};

fn main() {
    let from: u64 = std::env::args().nth(1).unwrap().parse().unwrap();
    let to: u64 = std::env::args().nth(2).unwrap().parse().unwrap();
    let start = std::time::Instant::now();
    let mut tally = simulation::tally::Tally::default();
    let mut bad = 0;
    for seed in from..to {
        if std::env::args().nth(3).is_some() { eprintln!("{seed}"); }
        let ended = play(Plan::of(seed), false);
        tally.add(&ended.tally);
        if let Some(violation) = ended.violation {
            bad += 1;
            if bad <= 5 { println!("seed {seed}: {violation}");}
            if to - from == 1 {
                let again = play(Plan::of(seed), true);
                println!("{}", again.story.of(violation.event));
            }
        }
    }
    println!("{bad} bad of {} in {:?}\n{tally:#?}", to - from, start.elapsed());
}
