#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| atonce_fuzz::clients(data));
