//! Completion for zsh: clap's script, with the values that come from the store asked for.
//!
//! clap writes a fixed action for each kind of value; what comes from the store gets a kind that `wfctl` has no
//! other use for, and its action is then replaced.

use clap::{Arg, Command, ValueHint};
use clap_complete::{Generator as _, shells};

use super::{Source, fish::without_hidden, source};
use crate::cli::args::CompleteWhat;

const HEAD: &str = "#compdef wfctl\n";

const HELPERS: &str = r#"#compdef wfctl
# Completion of wfctl for zsh; made by `wfctl completions zsh`.

# Adds what the store holds of a kind; the words before the cursor tell which store and run.
(( $+functions[_wfctl_ask] )) ||
_wfctl_ask() {
    local -a found
    found=(${(f)"$(_call_program wfctl-$1 ${(q)_wfctl_line[1]} __complete $1 --prefix=${(q)PREFIX} -- ${(q)_wfctl_line[2,-1]} 2>/dev/null)"})
    compadd -V $1 -a found
}

(( $+functions[_wfctl_runs] )) ||
_wfctl_runs() {
    case $_wfctl_command in
        resume) _wfctl_ask interrupted ;;
        resolve) _wfctl_ask ambiguous ;;
        retry) _wfctl_ask failed ;;
        cancel|wait|recover) _wfctl_ask unfinished ;;
        *) _wfctl_ask runs ;;
    esac
}
"#;

/// A kind of value, the action that clap writes for it, and the one that is wanted.
const KINDS: [(ValueHint, &str, &str); 4] = [
    (ValueHint::Username, ":_users", ":_wfctl_runs"),
    (ValueHint::Hostname, ":_hosts", ":{_wfctl_ask schedules}"),
    (ValueHint::Url, ":_urls", ":{_wfctl_ask steps}"),
    (ValueHint::EmailAddress, ":_email_addresses", ":{_wfctl_ask outcomes}"),
];

pub(super) fn script(program: &Command) -> String {
    let mut command = without_hidden(program);
    for name in command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect::<Vec<_>>() {
        command = command.mut_subcommand(&name, |sub| sub.clone().mut_args(|arg| marked(&name, arg)));
    }
    command.set_bin_name("wfctl");
    command.build();
    let mut script = Vec::new();
    shells::Zsh.generate(&command, &mut script);
    let mut script = String::from_utf8_lossy(&script).replacen(HEAD, HELPERS, 1);
    for (_, from, to) in KINDS {
        script = script.replace(from, to);
    }
    // The words of the whole line, because `words` is cut to those of the command below.
    script.replacen(
        "_wfctl() {\n",
        "_wfctl() {\n    local -a _wfctl_line\n    _wfctl_line=(\"${(@Q)words[1,CURRENT-1]}\")\n    local _wfctl_command\n",
        1,
    )
    .replacen("        case $line[1] in\n", "        _wfctl_command=$line[1]\n        case $line[1] in\n", 1)
}

fn marked(command: &str, arg: Arg) -> Arg {
    let hint = match source(command, &arg) {
        Source::Store(CompleteWhat::Schedules) => ValueHint::Hostname,
        Source::Store(CompleteWhat::Steps) => ValueHint::Url,
        Source::Store(CompleteWhat::Outcomes) => ValueHint::EmailAddress,
        Source::Store(_) => ValueHint::Username,
        Source::Nothing if arg.get_action().takes_values() => ValueHint::Other,
        Source::Nothing | Source::Words(_) | Source::Files | Source::Folders => return arg,
    };
    arg.value_hint(hint)
}
