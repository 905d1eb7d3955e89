//! The benchmarks are in `benches/`. They have a package of their own so that they build without an SDK.
