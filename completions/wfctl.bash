# Completion of wfctl for bash; made by `wfctl completions bash`.

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

_wfctl_commands='init
check
schedule
run
trigger
tick
resume
recover
cancel
resolve
retry
wait
drain
undrain
pause
unpause
remove
rewind
status
schedules
list
history
show
logs
next
config
prune
fsck
metrics
completions
man'

_wfctl_options() {
    printf '%s\n' --store --json -q --quiet -v --verbose --color --lock-timeout -h --help
    case $1 in
        '') printf '%s\n' -V --version ;;
        init) printf '%s\n' --capacity ;;
        check) printf '%s\n'  ;;
        schedule) printf '%s\n' --id --input --paused --replace --cron --every --at --tz --anchor --start --until --count --jitter --dst-gap --dst-fold --overlap --catchup --catchup-limit --deadline ;;
        run) printf '%s\n' --input --id ;;
        trigger) printf '%s\n' --input --inputs ;;
        tick) printf '%s\n' --now --max-runs --no-dispatch --no-recover --dry-run ;;
        resume) printf '%s\n' --outcome --payload --gate --note --wait --by ;;
        recover) printf '%s\n' --run --dry-run ;;
        cancel) printf '%s\n' --note --by ;;
        resolve) printf '%s\n' --as --note --by ;;
        retry) printf '%s\n' --from --note --by ;;
        wait) printf '%s\n' --timeout ;;
        drain) printf '%s\n' --wait ;;
        undrain) printf '%s\n'  ;;
        pause) printf '%s\n' --by ;;
        unpause) printf '%s\n' --by ;;
        remove) printf '%s\n' --by ;;
        rewind) printf '%s\n'  ;;
        status) printf '%s\n'  ;;
        schedules) printf '%s\n' --limit --cursor ;;
        list) printf '%s\n' --status --schedule --since --limit --cursor ;;
        history) printf '%s\n' --schedule --run --limit --cursor ;;
        show) printf '%s\n'  ;;
        logs) printf '%s\n' --step -f --follow ;;
        next) printf '%s\n' -n --limit --from --cron --every --at --tz --anchor --start --until --count --jitter --dst-gap --dst-fold ;;
        config) printf '%s\n'  ;;
        prune) printf '%s\n' --older-than --keep --dry-run ;;
        fsck) printf '%s\n'  ;;
        metrics) printf '%s\n' --output ;;
        completions) printf '%s\n'  ;;
        man) printf '%s\n'  ;;
    esac
}

_wfctl_takes_value() {
    case "$1 $2" in
        'init --capacity') ;;
        'schedule --id') ;;
        'schedule --input') ;;
        'schedule --cron') ;;
        'schedule --every') ;;
        'schedule --at') ;;
        'schedule --tz') ;;
        'schedule --anchor') ;;
        'schedule --start') ;;
        'schedule --until') ;;
        'schedule --count') ;;
        'schedule --jitter') ;;
        'schedule --dst-gap') ;;
        'schedule --dst-fold') ;;
        'schedule --overlap') ;;
        'schedule --catchup') ;;
        'schedule --catchup-limit') ;;
        'schedule --deadline') ;;
        'run --input') ;;
        'run --id') ;;
        'trigger --input') ;;
        'trigger --inputs') ;;
        'tick --now') ;;
        'tick --max-runs') ;;
        'resume --outcome') ;;
        'resume --payload') ;;
        'resume --gate') ;;
        'resume --note') ;;
        'resume --by') ;;
        'recover --run') ;;
        'cancel --note') ;;
        'cancel --by') ;;
        'resolve --as') ;;
        'resolve --note') ;;
        'resolve --by') ;;
        'retry --from') ;;
        'retry --note') ;;
        'retry --by') ;;
        'wait --timeout') ;;
        'pause --by') ;;
        'unpause --by') ;;
        'remove --by') ;;
        'schedules --limit') ;;
        'schedules --cursor') ;;
        'list --status') ;;
        'list --schedule') ;;
        'list --since') ;;
        'list --limit') ;;
        'list --cursor') ;;
        'history --schedule') ;;
        'history --run') ;;
        'history --limit') ;;
        'history --cursor') ;;
        'logs --step') ;;
        'next -n') ;;
        'next --limit') ;;
        'next --from') ;;
        'next --cron') ;;
        'next --every') ;;
        'next --at') ;;
        'next --tz') ;;
        'next --anchor') ;;
        'next --start') ;;
        'next --until') ;;
        'next --count') ;;
        'next --jitter') ;;
        'next --dst-gap') ;;
        'next --dst-fold') ;;
        'prune --older-than') ;;
        'prune --keep') ;;
        'metrics --output') ;;
        *' --store') ;;
        *' --color') ;;
        *' --lock-timeout') ;;
        *) return 1 ;;
    esac
}

_wfctl_value() {
    case "$1 $2" in
        'schedule --id') _wfctl_words "$(_wfctl_ask schedules)" ;;
        'schedule --dst-gap') _wfctl_words $'next\nskip' ;;
        'schedule --dst-fold') _wfctl_words $'first\nlast\nboth' ;;
        'schedule --overlap') _wfctl_words $'skip\nqueue\nqueue-one\nallow' ;;
        'schedule --catchup') _wfctl_words $'latest\nall\nnone' ;;
        'resume --outcome') _wfctl_words "$(_wfctl_ask outcomes)" ;;
        'recover --run') _wfctl_words "$(_wfctl_ask unfinished)" ;;
        'resolve --as') _wfctl_words $'completed\nfailed' ;;
        'retry --from') _wfctl_words "$(_wfctl_ask steps)" ;;
        'list --status') _wfctl_words $'queued\nrunning\ninterrupted\ncompleted\nfailed\ncancelled\nambiguous\nabandoned' ;;
        'list --schedule') _wfctl_words "$(_wfctl_ask schedules)" ;;
        'history --schedule') _wfctl_words "$(_wfctl_ask schedules)" ;;
        'history --run') _wfctl_words "$(_wfctl_ask runs)" ;;
        'logs --step') _wfctl_words "$(_wfctl_ask steps)" ;;
        'next --dst-gap') _wfctl_words $'next\nskip' ;;
        'next --dst-fold') _wfctl_words $'first\nlast\nboth' ;;
        'metrics --output') _wfctl_files -f ;;
        *' --store') _wfctl_files -d ;;
        *' --color') _wfctl_words $'auto\nalways\nnever' ;;
    esac
}

_wfctl_place() {
    case "$1 $2" in
        'check '*) _wfctl_files -f ;;
        'schedule 0') _wfctl_files -f ;;
        'run 0') _wfctl_files -f ;;
        'trigger 0') _wfctl_words "$(_wfctl_ask schedules)" ;;
        'resume 0') _wfctl_words "$(_wfctl_ask interrupted)" ;;
        'cancel 0') _wfctl_words "$(_wfctl_ask unfinished)" ;;
        'resolve 0') _wfctl_words "$(_wfctl_ask ambiguous)" ;;
        'retry 0') _wfctl_words "$(_wfctl_ask failed)" ;;
        'wait '*) _wfctl_words "$(_wfctl_ask unfinished)" ;;
        'pause 0') _wfctl_words "$(_wfctl_ask schedules)" ;;
        'unpause 0') _wfctl_words "$(_wfctl_ask schedules)" ;;
        'remove 0') _wfctl_words "$(_wfctl_ask schedules)" ;;
        'rewind 0') _wfctl_words "$(_wfctl_ask schedules)" ;;
        'show 0') _wfctl_words "$(_wfctl_ask runs)" ;;
        'logs 0') _wfctl_words "$(_wfctl_ask runs)" ;;
        'next 0') _wfctl_words "$(_wfctl_ask schedules)" ;;
        'config 0') _wfctl_words $'format\ncapacity\ntimezone\ngrace\nlock_timeout\nkeep\nallow_network_fs' ;;
        'completions 0') _wfctl_words $'bash\nzsh\nfish' ;;
        'man 0') _wfctl_files -d ;;
    esac
}

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
