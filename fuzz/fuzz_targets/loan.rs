//! `exchange` for `cargo fuzz`; what it looks for stands in `src/targets/exchange.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::targets::exchange::run(input));
