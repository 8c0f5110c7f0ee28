//! The program `wfctl`.
fn main() {}
