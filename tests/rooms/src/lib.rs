//! Nothing to link: the test of the rooms is in `tests/rooms.rs`.
