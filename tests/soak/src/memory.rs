//! How much of the processes is in memory, from the beginning of a run to its end.

use end_to_end::processes::{self, Pid};
use end_to_end::retry_loop::HANDLER;

/// How much more memory the last third of a run may show than the middle one, in KiB: what allocators
/// and a journal of changing lines come to. A leak of half a kilobyte an event is above it in a soak
/// of 20,000.
const GROWTH_MAX_KIB: u64 = 3 * 1024;

/// What was seen of one kind of process, in KiB.
#[derive(Default)]
pub struct Samples(Vec<u64>);

/// What was seen of the local cloud and of its handlers.
#[derive(Default)]
pub struct Memory {
    /// The local cloud.
    pub cloud: Samples,
    /// Its largest handler.
    pub handler: Samples,
}

impl Memory {
    /// Looks at the local cloud with this process id and at its handlers.
    pub fn look(&mut self, cloud: u32) {
        let own = i32::try_from(cloud).ok().and_then(Pid::from_raw);
        self.cloud.0.extend(own.and_then(processes::resident_kib));
        let handlers = processes::below(cloud, HANDLER);
        self.handler.0.extend(handlers.into_iter().filter_map(processes::resident_kib).max());
    }
}

impl Samples {
    /// The median of each third of the run.
    pub fn thirds(&self) -> [u64; 3] {
        let third = self.0.len().div_ceil(3).max(1);
        let mut medians = self.0.chunks(third).map(median);
        [(); 3].map(|()| medians.next().unwrap_or_default())
    }

    /// Whether it has stopped growing: the first third is the time to warm up.
    pub fn is_flat(&self) -> bool {
        let [_, middle, end] = self.thirds();
        end <= middle + GROWTH_MAX_KIB
    }
}

fn median(samples: &[u64]) -> u64 {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(kib: impl Iterator<Item = u64>) -> Samples {
        Samples(kib.collect())
    }

    #[test]
    fn what_warms_up_and_stays_is_flat() {
        let noise = |n: u64| n * 7919 % 300;
        let warmed = samples((0..300).map(|n| 40_000.min(5_000 + n * 500) + noise(n)));
        assert!(warmed.is_flat(), "{:?}", warmed.thirds());
    }

    #[test]
    fn what_keeps_growing_is_not() {
        let leaking = samples((0..300).map(|n| 40_000 + n * 40));
        assert_eq!(leaking.thirds(), [42_000, 46_000, 50_000]);
        assert!(!leaking.is_flat());
    }
}
