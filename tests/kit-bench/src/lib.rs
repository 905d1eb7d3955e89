//! The benchmarks are in `benches/`. This package is apart from the kit so that they build without an SDK.
