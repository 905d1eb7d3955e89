//! Each program passes libFuzzer's bytes to the target of its name.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::check(env!("CARGO_BIN_NAME"), data));
