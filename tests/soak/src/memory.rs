//! The resident memory of the processes, from the beginning of a run to its end.

use end_to_end::{
    processes::{self, Pid},
    retry_loop::HANDLER,
};

/// The growth in KiB from the middle third of a run to the last that is still acceptable. Allocators and a journal
/// whose lines change in length need about this much. A leak of half a kilobyte per event exceeds it in a soak of
/// 20,000 events.
const GROWTH_MAX_KIB: u64 = 3 * 1024;

/// The samples of one kind of process, in KiB.
#[derive(Default)]
pub struct Samples(Vec<u64>);

#[derive(Default)]
pub struct Memory {
    pub cloud: Samples,
    pub handler: Samples,
}

impl Memory {
    /// Measures the local cloud with this process id and its handlers.
    pub fn sample(&mut self, cloud: u32) {
        let own = i32::try_from(cloud).ok().and_then(Pid::from_raw);
        self.cloud.0.extend(own.and_then(processes::resident_kib));
        let handlers = processes::descendants(cloud, HANDLER);
        self.handler.0.extend(handlers.into_iter().filter_map(processes::resident_kib).max());
    }
}

impl Samples {
    pub fn thirds(&self) -> [u64; 3] {
        let third = self.0.len().div_ceil(3).max(1);
        let mut medians = self.0.chunks(third).map(median);
        [(); 3].map(|()| medians.next().unwrap_or_default())
    }

    /// Whether memory has stopped growing. The first third is for warming up.
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
    fn memory_that_warms_up_and_stays_is_flat() {
        let noise = |n: u64| n * 7919 % 300;
        let warmed = samples((0..300).map(|n| 40_000.min(5_000 + n * 500) + noise(n)));
        assert!(warmed.is_flat(), "{:?}", warmed.thirds());
    }

    #[test]
    fn memory_that_keeps_growing_is_not_flat() {
        let leaking = samples((0..300).map(|n| 40_000 + n * 40));
        assert_eq!(leaking.thirds(), [42_000, 46_000, 50_000]);
        assert!(!leaking.is_flat());
    }
}
