//! Nothing to link: the benches are in `benches/`, apart from the kit so that they build without an SDK.
