use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Act {
    Event,
    Message,
    Finish(usize, bool),
    Wait,
    Reserve(Option<u32>),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => Just(Act::Event),
        3 => Just(Act::Message),
        5 => (any::<usize>(), any::<bool>()).prop_map(|(run, good)| Act::Finish(run, good)),
        3 => Just(Act::Wait),
        1 => prop::option::of(0..3_u32).prop_map(Act::Reserve),
    ]
}

impl World {
    fn advance_and_keep(&mut self) {
        let runs = self.advance();
        self.runs.extend(runs);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// After any sequence of steps, every event has succeeded or is in the failure queue, and every message is
    /// deleted. There are never more concurrent runs than allowed.
    #[test]
    fn nothing_is_lost_and_bounds_hold(acts in prop::collection::vec(act(), 0..120)) {
        let mut world = World::with_concurrency(4);
        world.on_failure(1, 3_600);
        world.queue("q", &[]);
        world.map("q", &MappingSettings::default());
        let mut events = BTreeSet::new();
        let mut succeeded = 0;
        for act in acts {
            match act {
                Act::Event => { events.insert(world.event("1")); }
                Act::Message => world.send("q", "m"),
                Act::Finish(run, good) if !world.runs.is_empty() => {
                    let run = world.runs.swap_remove(run % world.runs.len());
                    if good && events.contains(&*run.request_id) {
                        succeeded += 1;
                    }
                    world.finish(&run, if good { success() } else { failure() });
                }
                Act::Finish(..) => {}
                Act::Wait => { world.wait(); }
                Act::Reserve(reserved) => {
                    world.cloud.lambda.set_reserved_concurrency("f", reserved).unwrap();
                }
            }
            world.advance_and_keep();
            prop_assert!(world.runs.len() <= 4);
        }
        // From here on every run succeeds.
        world.cloud.lambda.set_reserved_concurrency("f", None).unwrap();
        loop {
            world.advance_and_keep();
            match world.runs.pop() {
                Some(run) => {
                    if events.contains(&*run.request_id) {
                        succeeded += 1;
                    }
                    world.finish(&run, success());
                }
                None => if world.wait().is_none() { break },
            }
        }
        let recorded = usize::try_from(world.messages("failed")).unwrap();
        prop_assert_eq!(succeeded + recorded, events.len());
        prop_assert_eq!(world.messages("q"), 0);
    }
}
