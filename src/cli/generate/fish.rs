//! Completion for fish: clap's script, and lines for what it leaves out, which fish adds to the others.

use std::fmt::Write as _;

use clap::{Command, ValueHint};
use clap_complete::{Generator as _, shells};

use super::{Source, source, visible, word_for};

const HELPERS: &str = r"
# Prints what the store holds of a kind; the words before the cursor tell which store and run.
function __fish_wfctl_ask
    command wfctl __complete $argv[1] --prefix=(commandline -ct) -- (commandline -opc)[2..] 2>/dev/null
end

";

pub(super) fn script(program: &Command) -> String {
    let mut command = without_hidden(program);
    command.set_bin_name("wfctl");
    command.build();
    let mut script = b"# Completion of wfctl for fish; made by `wfctl completions fish`.\n\n".to_vec();
    shells::Fish.generate(&command, &mut script);
    let mut script = String::from_utf8_lossy(&script).into_owned();
    script.push_str(HELPERS);
    for command in visible(program) {
        let name = command.get_name();
        let condition = format!("complete -c wfctl -n \"__fish_wfctl_using_subcommand {name}\"");
        for arg in command.get_arguments().filter(|arg| arg.get_action().takes_values()) {
            let place = match arg.get_long() {
                Some(long) => format!(" -l {long} -x"),
                None => " -f".to_owned(),
            };
            match source(name, arg) {
                Source::Store(what) => {
                    let _ = writeln!(
                        script,
                        "{condition}{place} -k -a \"(__fish_wfctl_ask {})\"",
                        word_for(what)
                    );
                }
                Source::Words(words) if arg.is_positional() => {
                    let _ = writeln!(script, "{condition} -f -a \"{}\"", words.join(" "));
                }
                Source::Folders if arg.get_value_hint() == ValueHint::DirPath && arg.is_positional() => {
                    let _ = writeln!(script, "{condition} -f -a \"(__fish_complete_directories)\"");
                }
                Source::Words(_) | Source::Files | Source::Folders | Source::Nothing => {}
            }
        }
        if command.get_positionals().next().is_none() {
            let _ = writeln!(script, "{condition} -f");
        }
    }
    script
}

/// clap's generator shows hidden commands too.
pub(super) fn without_hidden(program: &Command) -> Command {
    let mut shown = Command::new(program.get_name().to_owned())
        .args(program.get_arguments().cloned())
        .subcommands(visible(program).cloned())
        .disable_help_subcommand(true);
    if let Some(version) = program.get_version() {
        shown = shown.version(version.to_owned());
    }
    shown
}
