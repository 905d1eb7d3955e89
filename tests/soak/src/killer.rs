//! Ends handlers from outside, whatever they are at.

use std::time::Duration;

use end_to_end::processes;
use end_to_end::retry_loop::HANDLER;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng as _, SeedableRng as _};

/// The shortest and the longest time between two kills, in milliseconds.
const PAUSE_MS: [u64; 2] = [50, 450];

/// Kills a handler below the process `cloud` now and then, until it is dropped. `killed` is told of
/// each. Who is killed, and when, is drawn from the seed; what they are at then is up to the machine.
pub async fn kill_now_and_then(cloud: u32, seed: u64, mut killed: impl FnMut()) {
    let mut draw = Xoshiro256PlusPlus::seed_from_u64(seed);
    let [least, most] = PAUSE_MS;
    loop {
        let pause = least + draw.next_u64() % (most - least);
        tokio::time::sleep(Duration::from_millis(pause)).await;
        let handlers = processes::below(cloud, HANDLER);
        let Some(one) = u64::try_from(handlers.len()).ok().filter(|&many| many > 0) else {
            continue;
        };
        let chosen = usize::try_from(draw.next_u64() % one).unwrap();
        if processes::kill(handlers[chosen]) {
            killed();
        }
    }
}
