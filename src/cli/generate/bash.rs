//! Completion for bash, written here as a whole: clap's own script knows nothing of the store, and bash splits
//! words at `@`, which run ids hold.

use std::fmt::Write as _;

use clap::{Arg, Command};

use super::{Source, source, spellings, visible, word_for};

const HEAD: &str = r#"# Completion of wfctl for bash; made by `wfctl completions bash`.

# Prints what the store holds of a kind; the words before the cursor tell which store and run.
_wfctl_ask() {
    command "${words[0]}" __complete "$1" --prefix="$value" -- "${words[@]:1:cword-1}" 2>/dev/null
}

_wfctl_words() {
    local IFS=$'\n'
    COMPREPLY=($(compgen -W "$1" -- "$value"))
}

_wfctl_files() {
    local IFS=$'\n'
    compopt -o filenames 2>/dev/null
    COMPREPLY=($(compgen "$1" -- "$value"))
}
"#;

const TAIL: &str = r#"
_wfctl() {
    # bash splits words at characters such as '@', '=' and ':'; here they are put together again.
    local words=() cword=0 rest=$COMP_LINE i word
    for ((i = 0; i < ${#COMP_WORDS[@]}; i++)); do
        word=${COMP_WORDS[i]}
        if ((i > 0)) && [[ $rest != [[:space:]]* ]]; then
            words[${#words[@]} - 1]+=$word
        else
            rest=${rest#"${rest%%[![:space:]]*}"}
            words+=("$word")
        fi
        rest=${rest#"$word"}
        ((i == COMP_CWORD)) && cword=$((${#words[@]} - 1))
    done
    local cur=${words[cword]} value=${words[cword]} option= command= place=0 start=

    # The command, how many positional arguments it has so far, and the option that waits for its value.
    for ((i = 1; i < cword; i++)); do
        word=${words[i]}
        if [[ $word == -* ]]; then
            if [[ $word != *=* ]] && _wfctl_takes_value "$command" "$word"; then
                i=$((i + 1))
                ((i == cword)) && option=$word
            fi
        elif [[ -z $command ]]; then
            command=$word
        else
            place=$((place + 1))
        fi
    done
    if [[ $cur == --*=* ]]; then
        option=${cur%%=*} value=${cur#*=} start=${cur%%=*}=
    fi

    COMPREPLY=()
    if [[ -n $option ]]; then
        _wfctl_value "$command" "$option"
    elif [[ $cur == -* ]]; then
        _wfctl_words "$(_wfctl_options "$command")"
    elif [[ -z $command ]]; then
        _wfctl_words "$_wfctl_commands"
    else
        _wfctl_place "$command" "$place"
    fi

    # bash replaces only the part of the word that it hands over, which its own splits decide.
    local kept=${cur%"$2"}
    for i in "${!COMPREPLY[@]}"; do
        word=$start${COMPREPLY[i]}
        COMPREPLY[i]=${word#"$kept"}
    done
}

complete -F _wfctl wfctl
"#;

pub(super) fn script(program: &Command) -> String {
    let mut script = HEAD.to_owned();
    let names: Vec<_> = visible(program).map(Command::get_name).collect();
    let _ = write!(script, "\n_wfctl_commands='{}'\n", names.join("\n"));
    let global: Vec<&Arg> = program.get_arguments().filter(|arg| !arg.is_hide_set()).collect();

    let mut options = String::new();
    let mut takes = String::new();
    let mut values = String::new();
    let mut places = String::new();
    for command in visible(program) {
        let name = command.get_name();
        let own: Vec<&Arg> = command.get_arguments().filter(|arg| !arg.is_positional()).collect();
        let _ = writeln!(options, "        {name}) printf '%s\\n' {} ;;", all_spellings(&own).join(" "));
        for arg in own.iter().filter(|arg| arg.get_action().takes_values()) {
            add_value(&mut takes, &mut values, name, arg);
        }
        for (index, arg) in command.get_positionals().enumerate() {
            let pattern = if arg.get_action().takes_values() && is_many(arg) {
                format!("'{name} '*")
            } else {
                format!("'{name} {index}'")
            };
            add_case(&mut places, &pattern, &source(name, arg));
        }
    }
    for arg in global.iter().filter(|arg| arg.get_action().takes_values()) {
        for spelling in spellings(arg) {
            let _ = writeln!(takes, "        *' {spelling}') ;;");
            add_case(&mut values, &format!("*' {spelling}'"), &source("", arg));
        }
    }
    let mut everywhere = all_spellings(&global);
    everywhere.extend(["-h", "--help"].map(str::to_owned));
    let everywhere = everywhere.join(" ");
    let _ = write!(
        script,
        "\n_wfctl_options() {{\n    printf '%s\\n' {everywhere}\n    case $1 in\n        \
         '') printf '%s\\n' -V --version ;;\n{options}    esac\n}}\n\
         \n_wfctl_takes_value() {{\n    case \"$1 $2\" in\n{takes}        *) return 1 ;;\n    esac\n}}\n\
         \n_wfctl_value() {{\n    case \"$1 $2\" in\n{values}    esac\n}}\n\
         \n_wfctl_place() {{\n    case \"$1 $2\" in\n{places}    esac\n}}\n"
    );
    script.push_str(TAIL);
    script
}

fn all_spellings(args: &[&Arg]) -> Vec<String> {
    args.iter().flat_map(|arg| spellings(arg)).collect()
}

fn is_many(arg: &Arg) -> bool {
    matches!(arg.get_action(), clap::ArgAction::Append)
}

fn add_value(takes: &mut String, values: &mut String, command: &str, arg: &Arg) {
    for spelling in spellings(arg) {
        let pattern = format!("'{command} {spelling}'");
        if !arg.is_require_equals_set() {
            let _ = writeln!(takes, "        {pattern}) ;;");
        }
        add_case(values, &pattern, &source(command, arg));
    }
}

fn add_case(cases: &mut String, pattern: &str, source: &Source) {
    let action = match source {
        Source::Nothing => return,
        Source::Words(words) => format!("_wfctl_words $'{}'", words.join("\\n")),
        Source::Files => "_wfctl_files -f".to_owned(),
        Source::Folders => "_wfctl_files -d".to_owned(),
        Source::Store(what) => format!("_wfctl_words \"$(_wfctl_ask {})\"", word_for(*what)),
    };
    let _ = writeln!(cases, "        {pattern}) {action} ;;");
}
