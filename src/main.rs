//! The program `wfctl`: real clock, real signals, real environment, and the one exit.

use std::{collections::BTreeMap, env, process};

use chrono::Utc;
use wfctl::cli;

fn main() {
    // A bug must be told from a failed run, also where a panic aborts.
    std::panic::set_hook(Box::new(|info| {
        cli::output::report_bug(&info.to_string());
        process::exit(70);
    }));
    wfctl::process::outlive_file_size_limit();
    let sanitized = wfctl::process::sanitize_inherited_fds();
    let world = cli::World {
        args: env::args_os().collect(),
        env: env::vars_os().collect::<BTreeMap<_, _>>(),
        clock: &Utc::now,
        sanitized,
    };
    process::exit(i32::from(cli::run(&world)));
}
