//! `loan` for `cargo fuzz`; what it looks for stands in `src/targets/loan.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::targets::loan::run(input));
