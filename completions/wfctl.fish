# Completion of wfctl for fish; made by `wfctl completions fish`.

# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_wfctl_global_optspecs
    string join \n store= json q/quiet v/verbose color= lock-timeout= h/help V/version
end

function __fish_wfctl_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_wfctl_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_wfctl_using_subcommand
    set -l cmd (__fish_wfctl_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c wfctl -n "__fish_wfctl_needs_command" -l store -d 'Use the store in this folder [default: $WFCTL_STORE, else ~/.local/state/wfctl]' -r -f -a "(__fish_complete_directories)"
complete -c wfctl -n "__fish_wfctl_needs_command" -l color -d 'Use colours: auto means where a terminal shows them and `NO_COLOR` is not set' -r -f -a "auto\t'Where a terminal shows them'
always\t'Always'
never\t'Never'"
complete -c wfctl -n "__fish_wfctl_needs_command" -l lock-timeout -d 'Wait at most this long for the store lock, for example 30s [default: the setting `lock_timeout`, 10s]' -r
complete -c wfctl -n "__fish_wfctl_needs_command" -l json -d 'Print one JSON document on stdout, errors included'
complete -c wfctl -n "__fish_wfctl_needs_command" -s q -l quiet -d 'Print results and errors only'
complete -c wfctl -n "__fish_wfctl_needs_command" -s v -l verbose -d 'Say more on stderr; twice says still more'
complete -c wfctl -n "__fish_wfctl_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c wfctl -n "__fish_wfctl_needs_command" -s V -l version -d 'Print version'
complete -c wfctl -n "__fish_wfctl_needs_command" -f -a "init" -d 'Create a store'
complete -c wfctl -n "__fish_wfctl_needs_command" -f -a "check" -d 'Validate workflow files'
complete -c wfctl -n "__fish_wfctl_needs_command" -f -a "schedule" -d 'Schedule a workflow'
complete -c wfctl -n "__fish_wfctl_needs_command" -f -a "run" -d 'Start one run now and execute it'
complete -c wfctl -n "__fish_wfctl_needs_command" -f -a "trigger" -d 'Admit an extra run of a schedule'
complete -c wfctl -n "__fish_wfctl_needs_command" -f -a "tick" -d 'Do what is due: recover, admit, dispatch'
complete -c wfctl -n "__fish_wfctl_needs_command" -f -a "resume" -d 'Answer a gate and continue the run'
complete -c wfctl -n "__fish_wfctl_needs_command" -f -a "recover" -d 'Reconcile abandoned runs with what is known'
complete -c wfctl -n "__fish_wfctl_needs_command" -f -a "cancel" -d 'Cancel a run'
complete -c wfctl -n "__fish_wfctl_needs_command" -f -a "resolve" -d 'Record what became of an ambiguous run'
complete -c wfctl -n "__fish_wfctl_needs_command" -f -a "retry" -d 'Send a failed run back to the queue'
complete -c wfctl -n "__fish_wfctl_needs_command" -f -a "wait" -d 'Wait until runs are finished or interrupted'
complete -c wfctl -n "__fish_wfctl_needs_command" -f -a "drain" -d 'Stop admitting, dispatching and resuming'
complete -c wfctl -n "__fish_wfctl_needs_command" -f -a "undrain" -d 'End draining'
complete -c wfctl -n "__fish_wfctl_needs_command" -f -a "pause" -d 'Pause a schedule'
complete -c wfctl -n "__fish_wfctl_needs_command" -f -a "unpause" -d 'End the pause of a schedule'
complete -c wfctl -n "__fish_wfctl_needs_command" -f -a "remove" -d 'Remove a schedule and keep its runs'
complete -c wfctl -n "__fish_wfctl_needs_command" -f -a "rewind" -d 'Set a cursor that is ahead of the clock back to now'
complete -c wfctl -n "__fish_wfctl_needs_command" -f -a "status" -d 'Show what runs, what waits for you, what went wrong and what is next'
complete -c wfctl -n "__fish_wfctl_needs_command" -f -a "schedules" -d 'List schedules'
complete -c wfctl -n "__fish_wfctl_needs_command" -f -a "list" -d 'List runs, newest first'
complete -c wfctl -n "__fish_wfctl_needs_command" -f -a "history" -d 'List what happened to occurrences, newest first'
complete -c wfctl -n "__fish_wfctl_needs_command" -f -a "show" -d 'Show a run: status, attempts, steps, gate'
complete -c wfctl -n "__fish_wfctl_needs_command" -f -a "logs" -d 'Print the output of a run\'s steps'
complete -c wfctl -n "__fish_wfctl_needs_command" -f -a "next" -d 'Print upcoming occurrences'
complete -c wfctl -n "__fish_wfctl_needs_command" -f -a "config" -d 'Read or set settings'
complete -c wfctl -n "__fish_wfctl_needs_command" -f -a "prune" -d 'Delete old finished runs'
complete -c wfctl -n "__fish_wfctl_needs_command" -f -a "fsck" -d 'Check the whole store, changing nothing'
complete -c wfctl -n "__fish_wfctl_needs_command" -f -a "metrics" -d 'Print metrics in the Prometheus text format'
complete -c wfctl -n "__fish_wfctl_needs_command" -f -a "completions" -d 'Print a completion script'
complete -c wfctl -n "__fish_wfctl_needs_command" -f -a "man" -d 'Print the manual, or write all its pages into a folder'
complete -c wfctl -n "__fish_wfctl_using_subcommand init" -l capacity -d 'How many runs may execute at once, 1 to 10000 [default: the number of CPUs]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand init" -l store -d 'Use the store in this folder [default: $WFCTL_STORE, else ~/.local/state/wfctl]' -r -f -a "(__fish_complete_directories)"
complete -c wfctl -n "__fish_wfctl_using_subcommand init" -l color -d 'Use colours: auto means where a terminal shows them and `NO_COLOR` is not set' -r -f -a "auto\t'Where a terminal shows them'
always\t'Always'
never\t'Never'"
complete -c wfctl -n "__fish_wfctl_using_subcommand init" -l lock-timeout -d 'Wait at most this long for the store lock, for example 30s [default: the setting `lock_timeout`, 10s]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand init" -l json -d 'Print one JSON document on stdout, errors included'
complete -c wfctl -n "__fish_wfctl_using_subcommand init" -s q -l quiet -d 'Print results and errors only'
complete -c wfctl -n "__fish_wfctl_using_subcommand init" -s v -l verbose -d 'Say more on stderr; twice says still more'
complete -c wfctl -n "__fish_wfctl_using_subcommand init" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c wfctl -n "__fish_wfctl_using_subcommand check" -l store -d 'Use the store in this folder [default: $WFCTL_STORE, else ~/.local/state/wfctl]' -r -f -a "(__fish_complete_directories)"
complete -c wfctl -n "__fish_wfctl_using_subcommand check" -l color -d 'Use colours: auto means where a terminal shows them and `NO_COLOR` is not set' -r -f -a "auto\t'Where a terminal shows them'
always\t'Always'
never\t'Never'"
complete -c wfctl -n "__fish_wfctl_using_subcommand check" -l lock-timeout -d 'Wait at most this long for the store lock, for example 30s [default: the setting `lock_timeout`, 10s]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand check" -l json -d 'Print one JSON document on stdout, errors included'
complete -c wfctl -n "__fish_wfctl_using_subcommand check" -s q -l quiet -d 'Print results and errors only'
complete -c wfctl -n "__fish_wfctl_using_subcommand check" -s v -l verbose -d 'Say more on stderr; twice says still more'
complete -c wfctl -n "__fish_wfctl_using_subcommand check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c wfctl -n "__fish_wfctl_using_subcommand schedule" -l id -d 'The id of the schedule [default: the name of the workflow]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand schedule" -l input -d 'The input of every run: JSON, or @FILE with JSON in it [default: null]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand schedule" -l cron -d 'Due when the wall clock matches: 5 fields, or 6 with seconds first, or @daily and the like' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand schedule" -l every -d 'Due again and again after this long, for example 15m' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand schedule" -l at -d 'Due once: now, +10m, 2027-03-27T04:00 in the zone, or RFC 3339' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand schedule" -l tz -d 'The time zone of the trigger and its times, for example Europe/Berlin [default: the setting `timezone`, UTC]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand schedule" -l anchor -d 'A point in time that --every counts from, forwards and backwards [default: midnight of 1970-01-01]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand schedule" -l start -d 'The first time that counts, inclusive; an earlier one makes the times since then due [default: now]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand schedule" -l until -d 'The last time that counts, inclusive' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand schedule" -l count -d 'At most this many occurrences, counted from the start' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand schedule" -l jitter -d 'Delay each occurrence by up to this long, always the same for the same occurrence [default: 0s]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand schedule" -l dst-gap -d 'What becomes of a fixed local time that does not exist, when clocks go forward' -r -f -a "next\t'Once, at the first instant after the gap'
skip\t'Not at all'"
complete -c wfctl -n "__fish_wfctl_using_subcommand schedule" -l dst-fold -d 'What becomes of a fixed local time that exists twice, when clocks go back' -r -f -a "first\t'The first time'
last\t'The second time'
both\t'Both times'"
complete -c wfctl -n "__fish_wfctl_using_subcommand schedule" -l overlap -d 'What becomes of an occurrence while a run of the same schedule is unfinished' -r -f -a "skip\t'Skip the new occurrence'
queue\t'Let it wait its turn'
queue-one\t'Let one wait and skip newer ones'
allow\t'Let it run beside the others'"
complete -c wfctl -n "__fish_wfctl_using_subcommand schedule" -l catchup -d 'Which of the occurrences that came due since the last tick are admitted' -r -f -a "latest\t'Only the newest is admitted'
all\t'All are, up to --catchup-limit'
none\t'Only those that are younger than --deadline'"
complete -c wfctl -n "__fish_wfctl_using_subcommand schedule" -l catchup-limit -d 'With --catchup all: at most this many, the newest, up to 10000 [default: 100]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand schedule" -l deadline -d 'Miss what is older than this [default: 60s with --catchup none, otherwise no limit]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand schedule" -l store -d 'Use the store in this folder [default: $WFCTL_STORE, else ~/.local/state/wfctl]' -r -f -a "(__fish_complete_directories)"
complete -c wfctl -n "__fish_wfctl_using_subcommand schedule" -l color -d 'Use colours: auto means where a terminal shows them and `NO_COLOR` is not set' -r -f -a "auto\t'Where a terminal shows them'
always\t'Always'
never\t'Never'"
complete -c wfctl -n "__fish_wfctl_using_subcommand schedule" -l lock-timeout -d 'Wait at most this long for the store lock, for example 30s [default: the setting `lock_timeout`, 10s]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand schedule" -l paused -d 'Start paused; `wfctl unpause` begins'
complete -c wfctl -n "__fish_wfctl_using_subcommand schedule" -l replace -d 'Replace a schedule of the same id; what was due under it and not admitted is missed'
complete -c wfctl -n "__fish_wfctl_using_subcommand schedule" -l json -d 'Print one JSON document on stdout, errors included'
complete -c wfctl -n "__fish_wfctl_using_subcommand schedule" -s q -l quiet -d 'Print results and errors only'
complete -c wfctl -n "__fish_wfctl_using_subcommand schedule" -s v -l verbose -d 'Say more on stderr; twice says still more'
complete -c wfctl -n "__fish_wfctl_using_subcommand schedule" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c wfctl -n "__fish_wfctl_using_subcommand run" -l input -d 'The input of the run: JSON, or @FILE with JSON in it [default: null]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand run" -l id -d 'The id of the run; exits 73 if there is one already [default: NAME@TIME-m1]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand run" -l store -d 'Use the store in this folder [default: $WFCTL_STORE, else ~/.local/state/wfctl]' -r -f -a "(__fish_complete_directories)"
complete -c wfctl -n "__fish_wfctl_using_subcommand run" -l color -d 'Use colours: auto means where a terminal shows them and `NO_COLOR` is not set' -r -f -a "auto\t'Where a terminal shows them'
always\t'Always'
never\t'Never'"
complete -c wfctl -n "__fish_wfctl_using_subcommand run" -l lock-timeout -d 'Wait at most this long for the store lock, for example 30s [default: the setting `lock_timeout`, 10s]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand run" -l json -d 'Print one JSON document on stdout, errors included'
complete -c wfctl -n "__fish_wfctl_using_subcommand run" -s q -l quiet -d 'Print results and errors only'
complete -c wfctl -n "__fish_wfctl_using_subcommand run" -s v -l verbose -d 'Say more on stderr; twice says still more'
complete -c wfctl -n "__fish_wfctl_using_subcommand run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c wfctl -n "__fish_wfctl_using_subcommand trigger" -l input -d 'The input of the run: JSON, or @FILE with JSON in it [default: that of the schedule]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand trigger" -l inputs -d 'Admit one run per line of a file of JSON lines: all of them or none' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand trigger" -l store -d 'Use the store in this folder [default: $WFCTL_STORE, else ~/.local/state/wfctl]' -r -f -a "(__fish_complete_directories)"
complete -c wfctl -n "__fish_wfctl_using_subcommand trigger" -l color -d 'Use colours: auto means where a terminal shows them and `NO_COLOR` is not set' -r -f -a "auto\t'Where a terminal shows them'
always\t'Always'
never\t'Never'"
complete -c wfctl -n "__fish_wfctl_using_subcommand trigger" -l lock-timeout -d 'Wait at most this long for the store lock, for example 30s [default: the setting `lock_timeout`, 10s]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand trigger" -l json -d 'Print one JSON document on stdout, errors included'
complete -c wfctl -n "__fish_wfctl_using_subcommand trigger" -s q -l quiet -d 'Print results and errors only'
complete -c wfctl -n "__fish_wfctl_using_subcommand trigger" -s v -l verbose -d 'Say more on stderr; twice says still more'
complete -c wfctl -n "__fish_wfctl_using_subcommand trigger" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c wfctl -n "__fish_wfctl_using_subcommand tick" -l now -d 'Measure due times against this instant instead of the clock; a later one admits times to come' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand tick" -l max-runs -d 'Execute at most this many runs, then leave the rest queued' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand tick" -l store -d 'Use the store in this folder [default: $WFCTL_STORE, else ~/.local/state/wfctl]' -r -f -a "(__fish_complete_directories)"
complete -c wfctl -n "__fish_wfctl_using_subcommand tick" -l color -d 'Use colours: auto means where a terminal shows them and `NO_COLOR` is not set' -r -f -a "auto\t'Where a terminal shows them'
always\t'Always'
never\t'Never'"
complete -c wfctl -n "__fish_wfctl_using_subcommand tick" -l lock-timeout -d 'Wait at most this long for the store lock, for example 30s [default: the setting `lock_timeout`, 10s]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand tick" -l no-dispatch -d 'Admit what is due, execute nothing'
complete -c wfctl -n "__fish_wfctl_using_subcommand tick" -l no-recover -d 'Leave abandoned runs alone'
complete -c wfctl -n "__fish_wfctl_using_subcommand tick" -l dry-run -d 'Say what would be done, change nothing'
complete -c wfctl -n "__fish_wfctl_using_subcommand tick" -l json -d 'Print one JSON document on stdout, errors included'
complete -c wfctl -n "__fish_wfctl_using_subcommand tick" -s q -l quiet -d 'Print results and errors only'
complete -c wfctl -n "__fish_wfctl_using_subcommand tick" -s v -l verbose -d 'Say more on stderr; twice says still more'
complete -c wfctl -n "__fish_wfctl_using_subcommand tick" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c wfctl -n "__fish_wfctl_using_subcommand resume" -l outcome -d 'The answer, one of the outcomes of the gate [default: the first that the gate declares]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand resume" -l payload -d 'What comes with the answer: JSON, @FILE with JSON in it, or - for stdin [default: null]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand resume" -l gate -d 'Answer only this question, by its number as `show` gives it; exits 76 if another one is open' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand resume" -l note -d 'Record this text with the answer' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand resume" -l wait -d 'Wait for a free slot, at most this long where a duration is given, instead of exiting 75' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand resume" -l by -d 'Record this name as who did it [default: $SUDO_USER, else the login name]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand resume" -l store -d 'Use the store in this folder [default: $WFCTL_STORE, else ~/.local/state/wfctl]' -r -f -a "(__fish_complete_directories)"
complete -c wfctl -n "__fish_wfctl_using_subcommand resume" -l color -d 'Use colours: auto means where a terminal shows them and `NO_COLOR` is not set' -r -f -a "auto\t'Where a terminal shows them'
always\t'Always'
never\t'Never'"
complete -c wfctl -n "__fish_wfctl_using_subcommand resume" -l lock-timeout -d 'Wait at most this long for the store lock, for example 30s [default: the setting `lock_timeout`, 10s]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand resume" -l json -d 'Print one JSON document on stdout, errors included'
complete -c wfctl -n "__fish_wfctl_using_subcommand resume" -s q -l quiet -d 'Print results and errors only'
complete -c wfctl -n "__fish_wfctl_using_subcommand resume" -s v -l verbose -d 'Say more on stderr; twice says still more'
complete -c wfctl -n "__fish_wfctl_using_subcommand resume" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c wfctl -n "__fish_wfctl_using_subcommand recover" -l run -d 'Reconcile this run and nothing else; exits 75 if it is live' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand recover" -l store -d 'Use the store in this folder [default: $WFCTL_STORE, else ~/.local/state/wfctl]' -r -f -a "(__fish_complete_directories)"
complete -c wfctl -n "__fish_wfctl_using_subcommand recover" -l color -d 'Use colours: auto means where a terminal shows them and `NO_COLOR` is not set' -r -f -a "auto\t'Where a terminal shows them'
always\t'Always'
never\t'Never'"
complete -c wfctl -n "__fish_wfctl_using_subcommand recover" -l lock-timeout -d 'Wait at most this long for the store lock, for example 30s [default: the setting `lock_timeout`, 10s]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand recover" -l dry-run -d 'Show the decisions, change nothing'
complete -c wfctl -n "__fish_wfctl_using_subcommand recover" -l json -d 'Print one JSON document on stdout, errors included'
complete -c wfctl -n "__fish_wfctl_using_subcommand recover" -s q -l quiet -d 'Print results and errors only'
complete -c wfctl -n "__fish_wfctl_using_subcommand recover" -s v -l verbose -d 'Say more on stderr; twice says still more'
complete -c wfctl -n "__fish_wfctl_using_subcommand recover" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c wfctl -n "__fish_wfctl_using_subcommand cancel" -l note -d 'Record this text' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand cancel" -l by -d 'Record this name as who did it [default: $SUDO_USER, else the login name]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand cancel" -l store -d 'Use the store in this folder [default: $WFCTL_STORE, else ~/.local/state/wfctl]' -r -f -a "(__fish_complete_directories)"
complete -c wfctl -n "__fish_wfctl_using_subcommand cancel" -l color -d 'Use colours: auto means where a terminal shows them and `NO_COLOR` is not set' -r -f -a "auto\t'Where a terminal shows them'
always\t'Always'
never\t'Never'"
complete -c wfctl -n "__fish_wfctl_using_subcommand cancel" -l lock-timeout -d 'Wait at most this long for the store lock, for example 30s [default: the setting `lock_timeout`, 10s]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand cancel" -l json -d 'Print one JSON document on stdout, errors included'
complete -c wfctl -n "__fish_wfctl_using_subcommand cancel" -s q -l quiet -d 'Print results and errors only'
complete -c wfctl -n "__fish_wfctl_using_subcommand cancel" -s v -l verbose -d 'Say more on stderr; twice says still more'
complete -c wfctl -n "__fish_wfctl_using_subcommand cancel" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c wfctl -n "__fish_wfctl_using_subcommand resolve" -l as -d 'What a person found out' -r -f -a "completed\t'It did all it should: the run ends, also where steps are left'
failed\t'It did not: `wfctl retry` can go on, from any step'"
complete -c wfctl -n "__fish_wfctl_using_subcommand resolve" -l note -d 'Record how that was found out' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand resolve" -l by -d 'Record this name as who did it [default: $SUDO_USER, else the login name]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand resolve" -l store -d 'Use the store in this folder [default: $WFCTL_STORE, else ~/.local/state/wfctl]' -r -f -a "(__fish_complete_directories)"
complete -c wfctl -n "__fish_wfctl_using_subcommand resolve" -l color -d 'Use colours: auto means where a terminal shows them and `NO_COLOR` is not set' -r -f -a "auto\t'Where a terminal shows them'
always\t'Always'
never\t'Never'"
complete -c wfctl -n "__fish_wfctl_using_subcommand resolve" -l lock-timeout -d 'Wait at most this long for the store lock, for example 30s [default: the setting `lock_timeout`, 10s]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand resolve" -l json -d 'Print one JSON document on stdout, errors included'
complete -c wfctl -n "__fish_wfctl_using_subcommand resolve" -s q -l quiet -d 'Print results and errors only'
complete -c wfctl -n "__fish_wfctl_using_subcommand resolve" -s v -l verbose -d 'Say more on stderr; twice says still more'
complete -c wfctl -n "__fish_wfctl_using_subcommand resolve" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c wfctl -n "__fish_wfctl_using_subcommand retry" -l from -d 'Go on from this step [default: the one that failed]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand retry" -l note -d 'Record this text' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand retry" -l by -d 'Record this name as who did it [default: $SUDO_USER, else the login name]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand retry" -l store -d 'Use the store in this folder [default: $WFCTL_STORE, else ~/.local/state/wfctl]' -r -f -a "(__fish_complete_directories)"
complete -c wfctl -n "__fish_wfctl_using_subcommand retry" -l color -d 'Use colours: auto means where a terminal shows them and `NO_COLOR` is not set' -r -f -a "auto\t'Where a terminal shows them'
always\t'Always'
never\t'Never'"
complete -c wfctl -n "__fish_wfctl_using_subcommand retry" -l lock-timeout -d 'Wait at most this long for the store lock, for example 30s [default: the setting `lock_timeout`, 10s]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand retry" -l json -d 'Print one JSON document on stdout, errors included'
complete -c wfctl -n "__fish_wfctl_using_subcommand retry" -s q -l quiet -d 'Print results and errors only'
complete -c wfctl -n "__fish_wfctl_using_subcommand retry" -s v -l verbose -d 'Say more on stderr; twice says still more'
complete -c wfctl -n "__fish_wfctl_using_subcommand retry" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c wfctl -n "__fish_wfctl_using_subcommand wait" -l timeout -d 'Give up after this long, with exit status 75 [default: never]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand wait" -l store -d 'Use the store in this folder [default: $WFCTL_STORE, else ~/.local/state/wfctl]' -r -f -a "(__fish_complete_directories)"
complete -c wfctl -n "__fish_wfctl_using_subcommand wait" -l color -d 'Use colours: auto means where a terminal shows them and `NO_COLOR` is not set' -r -f -a "auto\t'Where a terminal shows them'
always\t'Always'
never\t'Never'"
complete -c wfctl -n "__fish_wfctl_using_subcommand wait" -l lock-timeout -d 'Wait at most this long for the store lock, for example 30s [default: the setting `lock_timeout`, 10s]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand wait" -l json -d 'Print one JSON document on stdout, errors included'
complete -c wfctl -n "__fish_wfctl_using_subcommand wait" -s q -l quiet -d 'Print results and errors only'
complete -c wfctl -n "__fish_wfctl_using_subcommand wait" -s v -l verbose -d 'Say more on stderr; twice says still more'
complete -c wfctl -n "__fish_wfctl_using_subcommand wait" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c wfctl -n "__fish_wfctl_using_subcommand drain" -l wait -d 'Wait until nothing executes any more, at most this long where a duration is given; exits 75 then' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand drain" -l store -d 'Use the store in this folder [default: $WFCTL_STORE, else ~/.local/state/wfctl]' -r -f -a "(__fish_complete_directories)"
complete -c wfctl -n "__fish_wfctl_using_subcommand drain" -l color -d 'Use colours: auto means where a terminal shows them and `NO_COLOR` is not set' -r -f -a "auto\t'Where a terminal shows them'
always\t'Always'
never\t'Never'"
complete -c wfctl -n "__fish_wfctl_using_subcommand drain" -l lock-timeout -d 'Wait at most this long for the store lock, for example 30s [default: the setting `lock_timeout`, 10s]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand drain" -l json -d 'Print one JSON document on stdout, errors included'
complete -c wfctl -n "__fish_wfctl_using_subcommand drain" -s q -l quiet -d 'Print results and errors only'
complete -c wfctl -n "__fish_wfctl_using_subcommand drain" -s v -l verbose -d 'Say more on stderr; twice says still more'
complete -c wfctl -n "__fish_wfctl_using_subcommand drain" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c wfctl -n "__fish_wfctl_using_subcommand undrain" -l store -d 'Use the store in this folder [default: $WFCTL_STORE, else ~/.local/state/wfctl]' -r -f -a "(__fish_complete_directories)"
complete -c wfctl -n "__fish_wfctl_using_subcommand undrain" -l color -d 'Use colours: auto means where a terminal shows them and `NO_COLOR` is not set' -r -f -a "auto\t'Where a terminal shows them'
always\t'Always'
never\t'Never'"
complete -c wfctl -n "__fish_wfctl_using_subcommand undrain" -l lock-timeout -d 'Wait at most this long for the store lock, for example 30s [default: the setting `lock_timeout`, 10s]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand undrain" -l json -d 'Print one JSON document on stdout, errors included'
complete -c wfctl -n "__fish_wfctl_using_subcommand undrain" -s q -l quiet -d 'Print results and errors only'
complete -c wfctl -n "__fish_wfctl_using_subcommand undrain" -s v -l verbose -d 'Say more on stderr; twice says still more'
complete -c wfctl -n "__fish_wfctl_using_subcommand undrain" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c wfctl -n "__fish_wfctl_using_subcommand pause" -l by -d 'Record this name as who did it [default: $SUDO_USER, else the login name]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand pause" -l store -d 'Use the store in this folder [default: $WFCTL_STORE, else ~/.local/state/wfctl]' -r -f -a "(__fish_complete_directories)"
complete -c wfctl -n "__fish_wfctl_using_subcommand pause" -l color -d 'Use colours: auto means where a terminal shows them and `NO_COLOR` is not set' -r -f -a "auto\t'Where a terminal shows them'
always\t'Always'
never\t'Never'"
complete -c wfctl -n "__fish_wfctl_using_subcommand pause" -l lock-timeout -d 'Wait at most this long for the store lock, for example 30s [default: the setting `lock_timeout`, 10s]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand pause" -l json -d 'Print one JSON document on stdout, errors included'
complete -c wfctl -n "__fish_wfctl_using_subcommand pause" -s q -l quiet -d 'Print results and errors only'
complete -c wfctl -n "__fish_wfctl_using_subcommand pause" -s v -l verbose -d 'Say more on stderr; twice says still more'
complete -c wfctl -n "__fish_wfctl_using_subcommand pause" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c wfctl -n "__fish_wfctl_using_subcommand unpause" -l by -d 'Record this name as who did it [default: $SUDO_USER, else the login name]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand unpause" -l store -d 'Use the store in this folder [default: $WFCTL_STORE, else ~/.local/state/wfctl]' -r -f -a "(__fish_complete_directories)"
complete -c wfctl -n "__fish_wfctl_using_subcommand unpause" -l color -d 'Use colours: auto means where a terminal shows them and `NO_COLOR` is not set' -r -f -a "auto\t'Where a terminal shows them'
always\t'Always'
never\t'Never'"
complete -c wfctl -n "__fish_wfctl_using_subcommand unpause" -l lock-timeout -d 'Wait at most this long for the store lock, for example 30s [default: the setting `lock_timeout`, 10s]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand unpause" -l json -d 'Print one JSON document on stdout, errors included'
complete -c wfctl -n "__fish_wfctl_using_subcommand unpause" -s q -l quiet -d 'Print results and errors only'
complete -c wfctl -n "__fish_wfctl_using_subcommand unpause" -s v -l verbose -d 'Say more on stderr; twice says still more'
complete -c wfctl -n "__fish_wfctl_using_subcommand unpause" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c wfctl -n "__fish_wfctl_using_subcommand remove" -l by -d 'Record this name as who did it [default: $SUDO_USER, else the login name]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand remove" -l store -d 'Use the store in this folder [default: $WFCTL_STORE, else ~/.local/state/wfctl]' -r -f -a "(__fish_complete_directories)"
complete -c wfctl -n "__fish_wfctl_using_subcommand remove" -l color -d 'Use colours: auto means where a terminal shows them and `NO_COLOR` is not set' -r -f -a "auto\t'Where a terminal shows them'
always\t'Always'
never\t'Never'"
complete -c wfctl -n "__fish_wfctl_using_subcommand remove" -l lock-timeout -d 'Wait at most this long for the store lock, for example 30s [default: the setting `lock_timeout`, 10s]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand remove" -l json -d 'Print one JSON document on stdout, errors included'
complete -c wfctl -n "__fish_wfctl_using_subcommand remove" -s q -l quiet -d 'Print results and errors only'
complete -c wfctl -n "__fish_wfctl_using_subcommand remove" -s v -l verbose -d 'Say more on stderr; twice says still more'
complete -c wfctl -n "__fish_wfctl_using_subcommand remove" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c wfctl -n "__fish_wfctl_using_subcommand rewind" -l store -d 'Use the store in this folder [default: $WFCTL_STORE, else ~/.local/state/wfctl]' -r -f -a "(__fish_complete_directories)"
complete -c wfctl -n "__fish_wfctl_using_subcommand rewind" -l color -d 'Use colours: auto means where a terminal shows them and `NO_COLOR` is not set' -r -f -a "auto\t'Where a terminal shows them'
always\t'Always'
never\t'Never'"
complete -c wfctl -n "__fish_wfctl_using_subcommand rewind" -l lock-timeout -d 'Wait at most this long for the store lock, for example 30s [default: the setting `lock_timeout`, 10s]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand rewind" -l json -d 'Print one JSON document on stdout, errors included'
complete -c wfctl -n "__fish_wfctl_using_subcommand rewind" -s q -l quiet -d 'Print results and errors only'
complete -c wfctl -n "__fish_wfctl_using_subcommand rewind" -s v -l verbose -d 'Say more on stderr; twice says still more'
complete -c wfctl -n "__fish_wfctl_using_subcommand rewind" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c wfctl -n "__fish_wfctl_using_subcommand status" -l store -d 'Use the store in this folder [default: $WFCTL_STORE, else ~/.local/state/wfctl]' -r -f -a "(__fish_complete_directories)"
complete -c wfctl -n "__fish_wfctl_using_subcommand status" -l color -d 'Use colours: auto means where a terminal shows them and `NO_COLOR` is not set' -r -f -a "auto\t'Where a terminal shows them'
always\t'Always'
never\t'Never'"
complete -c wfctl -n "__fish_wfctl_using_subcommand status" -l lock-timeout -d 'Wait at most this long for the store lock, for example 30s [default: the setting `lock_timeout`, 10s]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand status" -l json -d 'Print one JSON document on stdout, errors included'
complete -c wfctl -n "__fish_wfctl_using_subcommand status" -s q -l quiet -d 'Print results and errors only'
complete -c wfctl -n "__fish_wfctl_using_subcommand status" -s v -l verbose -d 'Say more on stderr; twice says still more'
complete -c wfctl -n "__fish_wfctl_using_subcommand status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c wfctl -n "__fish_wfctl_using_subcommand schedules" -l limit -d 'Print at most this many' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand schedules" -l cursor -d 'Go on where the page before ended: its `next_cursor`' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand schedules" -l store -d 'Use the store in this folder [default: $WFCTL_STORE, else ~/.local/state/wfctl]' -r -f -a "(__fish_complete_directories)"
complete -c wfctl -n "__fish_wfctl_using_subcommand schedules" -l color -d 'Use colours: auto means where a terminal shows them and `NO_COLOR` is not set' -r -f -a "auto\t'Where a terminal shows them'
always\t'Always'
never\t'Never'"
complete -c wfctl -n "__fish_wfctl_using_subcommand schedules" -l lock-timeout -d 'Wait at most this long for the store lock, for example 30s [default: the setting `lock_timeout`, 10s]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand schedules" -l json -d 'Print one JSON document on stdout, errors included'
complete -c wfctl -n "__fish_wfctl_using_subcommand schedules" -s q -l quiet -d 'Print results and errors only'
complete -c wfctl -n "__fish_wfctl_using_subcommand schedules" -s v -l verbose -d 'Say more on stderr; twice says still more'
complete -c wfctl -n "__fish_wfctl_using_subcommand schedules" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c wfctl -n "__fish_wfctl_using_subcommand list" -l status -d 'Only runs in this state' -r -f -a "queued\t'Waiting for a slot or its turn'
running\t'Executing, and live'
interrupted\t'Waiting at a gate'
completed\t'Ended well'
failed\t'Ended badly, or nobody knows how'
cancelled\t'Given up before it ended'
ambiguous\t'Failed with an unknown outcome, and unresolved'
abandoned\t'Executing, but nobody does: needs recovery'"
complete -c wfctl -n "__fish_wfctl_using_subcommand list" -l schedule -d 'Only runs of this schedule' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand list" -l since -d 'Only runs of this time or later: 2026-12-01, 2026-12-01T04:00, or RFC 3339' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand list" -l limit -d 'Print at most this many' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand list" -l cursor -d 'Go on where the page before ended: its `next_cursor`' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand list" -l store -d 'Use the store in this folder [default: $WFCTL_STORE, else ~/.local/state/wfctl]' -r -f -a "(__fish_complete_directories)"
complete -c wfctl -n "__fish_wfctl_using_subcommand list" -l color -d 'Use colours: auto means where a terminal shows them and `NO_COLOR` is not set' -r -f -a "auto\t'Where a terminal shows them'
always\t'Always'
never\t'Never'"
complete -c wfctl -n "__fish_wfctl_using_subcommand list" -l lock-timeout -d 'Wait at most this long for the store lock, for example 30s [default: the setting `lock_timeout`, 10s]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand list" -l json -d 'Print one JSON document on stdout, errors included'
complete -c wfctl -n "__fish_wfctl_using_subcommand list" -s q -l quiet -d 'Print results and errors only'
complete -c wfctl -n "__fish_wfctl_using_subcommand list" -s v -l verbose -d 'Say more on stderr; twice says still more'
complete -c wfctl -n "__fish_wfctl_using_subcommand list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c wfctl -n "__fish_wfctl_using_subcommand history" -l schedule -d 'Only of this schedule' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand history" -l run -d 'Only of this run' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand history" -l limit -d 'Print at most this many' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand history" -l cursor -d 'Go on where the page before ended: its `next_cursor`' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand history" -l store -d 'Use the store in this folder [default: $WFCTL_STORE, else ~/.local/state/wfctl]' -r -f -a "(__fish_complete_directories)"
complete -c wfctl -n "__fish_wfctl_using_subcommand history" -l color -d 'Use colours: auto means where a terminal shows them and `NO_COLOR` is not set' -r -f -a "auto\t'Where a terminal shows them'
always\t'Always'
never\t'Never'"
complete -c wfctl -n "__fish_wfctl_using_subcommand history" -l lock-timeout -d 'Wait at most this long for the store lock, for example 30s [default: the setting `lock_timeout`, 10s]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand history" -l json -d 'Print one JSON document on stdout, errors included'
complete -c wfctl -n "__fish_wfctl_using_subcommand history" -s q -l quiet -d 'Print results and errors only'
complete -c wfctl -n "__fish_wfctl_using_subcommand history" -s v -l verbose -d 'Say more on stderr; twice says still more'
complete -c wfctl -n "__fish_wfctl_using_subcommand history" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c wfctl -n "__fish_wfctl_using_subcommand show" -l store -d 'Use the store in this folder [default: $WFCTL_STORE, else ~/.local/state/wfctl]' -r -f -a "(__fish_complete_directories)"
complete -c wfctl -n "__fish_wfctl_using_subcommand show" -l color -d 'Use colours: auto means where a terminal shows them and `NO_COLOR` is not set' -r -f -a "auto\t'Where a terminal shows them'
always\t'Always'
never\t'Never'"
complete -c wfctl -n "__fish_wfctl_using_subcommand show" -l lock-timeout -d 'Wait at most this long for the store lock, for example 30s [default: the setting `lock_timeout`, 10s]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand show" -l json -d 'Print one JSON document on stdout, errors included'
complete -c wfctl -n "__fish_wfctl_using_subcommand show" -s q -l quiet -d 'Print results and errors only'
complete -c wfctl -n "__fish_wfctl_using_subcommand show" -s v -l verbose -d 'Say more on stderr; twice says still more'
complete -c wfctl -n "__fish_wfctl_using_subcommand show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c wfctl -n "__fish_wfctl_using_subcommand logs" -l step -d 'Only the output of this step' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand logs" -l store -d 'Use the store in this folder [default: $WFCTL_STORE, else ~/.local/state/wfctl]' -r -f -a "(__fish_complete_directories)"
complete -c wfctl -n "__fish_wfctl_using_subcommand logs" -l color -d 'Use colours: auto means where a terminal shows them and `NO_COLOR` is not set' -r -f -a "auto\t'Where a terminal shows them'
always\t'Always'
never\t'Never'"
complete -c wfctl -n "__fish_wfctl_using_subcommand logs" -l lock-timeout -d 'Wait at most this long for the store lock, for example 30s [default: the setting `lock_timeout`, 10s]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand logs" -s f -l follow -d 'Go on printing until the run stops'
complete -c wfctl -n "__fish_wfctl_using_subcommand logs" -l json -d 'Print one JSON document on stdout, errors included'
complete -c wfctl -n "__fish_wfctl_using_subcommand logs" -s q -l quiet -d 'Print results and errors only'
complete -c wfctl -n "__fish_wfctl_using_subcommand logs" -s v -l verbose -d 'Say more on stderr; twice says still more'
complete -c wfctl -n "__fish_wfctl_using_subcommand logs" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c wfctl -n "__fish_wfctl_using_subcommand next" -s n -l limit -d 'Print at most this many' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand next" -l from -d 'Print what is strictly after this time [default: now]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand next" -l cron -d 'Due when the wall clock matches: 5 fields, or 6 with seconds first, or @daily and the like' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand next" -l every -d 'Due again and again after this long, for example 15m' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand next" -l at -d 'Due once: now, +10m, 2027-03-27T04:00 in the zone, or RFC 3339' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand next" -l tz -d 'The time zone of the trigger and its times, for example Europe/Berlin [default: the setting `timezone`, UTC]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand next" -l anchor -d 'A point in time that --every counts from, forwards and backwards [default: midnight of 1970-01-01]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand next" -l start -d 'The first time that counts, inclusive; an earlier one makes the times since then due [default: now]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand next" -l until -d 'The last time that counts, inclusive' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand next" -l count -d 'At most this many occurrences, counted from the start' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand next" -l jitter -d 'Delay each occurrence by up to this long, always the same for the same occurrence [default: 0s]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand next" -l dst-gap -d 'What becomes of a fixed local time that does not exist, when clocks go forward' -r -f -a "next\t'Once, at the first instant after the gap'
skip\t'Not at all'"
complete -c wfctl -n "__fish_wfctl_using_subcommand next" -l dst-fold -d 'What becomes of a fixed local time that exists twice, when clocks go back' -r -f -a "first\t'The first time'
last\t'The second time'
both\t'Both times'"
complete -c wfctl -n "__fish_wfctl_using_subcommand next" -l store -d 'Use the store in this folder [default: $WFCTL_STORE, else ~/.local/state/wfctl]' -r -f -a "(__fish_complete_directories)"
complete -c wfctl -n "__fish_wfctl_using_subcommand next" -l color -d 'Use colours: auto means where a terminal shows them and `NO_COLOR` is not set' -r -f -a "auto\t'Where a terminal shows them'
always\t'Always'
never\t'Never'"
complete -c wfctl -n "__fish_wfctl_using_subcommand next" -l lock-timeout -d 'Wait at most this long for the store lock, for example 30s [default: the setting `lock_timeout`, 10s]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand next" -l json -d 'Print one JSON document on stdout, errors included'
complete -c wfctl -n "__fish_wfctl_using_subcommand next" -s q -l quiet -d 'Print results and errors only'
complete -c wfctl -n "__fish_wfctl_using_subcommand next" -s v -l verbose -d 'Say more on stderr; twice says still more'
complete -c wfctl -n "__fish_wfctl_using_subcommand next" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c wfctl -n "__fish_wfctl_using_subcommand config" -l store -d 'Use the store in this folder [default: $WFCTL_STORE, else ~/.local/state/wfctl]' -r -f -a "(__fish_complete_directories)"
complete -c wfctl -n "__fish_wfctl_using_subcommand config" -l color -d 'Use colours: auto means where a terminal shows them and `NO_COLOR` is not set' -r -f -a "auto\t'Where a terminal shows them'
always\t'Always'
never\t'Never'"
complete -c wfctl -n "__fish_wfctl_using_subcommand config" -l lock-timeout -d 'Wait at most this long for the store lock, for example 30s [default: the setting `lock_timeout`, 10s]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand config" -l json -d 'Print one JSON document on stdout, errors included'
complete -c wfctl -n "__fish_wfctl_using_subcommand config" -s q -l quiet -d 'Print results and errors only'
complete -c wfctl -n "__fish_wfctl_using_subcommand config" -s v -l verbose -d 'Say more on stderr; twice says still more'
complete -c wfctl -n "__fish_wfctl_using_subcommand config" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c wfctl -n "__fish_wfctl_using_subcommand prune" -l older-than -d 'Delete what ended longer ago than this, for example 30d [default: the setting `keep`, 90d; with --keep, any age]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand prune" -l keep -d 'Keep this many of the newest runs of each schedule, and of each workflow that was run without one' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand prune" -l store -d 'Use the store in this folder [default: $WFCTL_STORE, else ~/.local/state/wfctl]' -r -f -a "(__fish_complete_directories)"
complete -c wfctl -n "__fish_wfctl_using_subcommand prune" -l color -d 'Use colours: auto means where a terminal shows them and `NO_COLOR` is not set' -r -f -a "auto\t'Where a terminal shows them'
always\t'Always'
never\t'Never'"
complete -c wfctl -n "__fish_wfctl_using_subcommand prune" -l lock-timeout -d 'Wait at most this long for the store lock, for example 30s [default: the setting `lock_timeout`, 10s]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand prune" -l dry-run -d 'Say how many would be deleted, delete nothing; --json names them'
complete -c wfctl -n "__fish_wfctl_using_subcommand prune" -l json -d 'Print one JSON document on stdout, errors included'
complete -c wfctl -n "__fish_wfctl_using_subcommand prune" -s q -l quiet -d 'Print results and errors only'
complete -c wfctl -n "__fish_wfctl_using_subcommand prune" -s v -l verbose -d 'Say more on stderr; twice says still more'
complete -c wfctl -n "__fish_wfctl_using_subcommand prune" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c wfctl -n "__fish_wfctl_using_subcommand fsck" -l store -d 'Use the store in this folder [default: $WFCTL_STORE, else ~/.local/state/wfctl]' -r -f -a "(__fish_complete_directories)"
complete -c wfctl -n "__fish_wfctl_using_subcommand fsck" -l color -d 'Use colours: auto means where a terminal shows them and `NO_COLOR` is not set' -r -f -a "auto\t'Where a terminal shows them'
always\t'Always'
never\t'Never'"
complete -c wfctl -n "__fish_wfctl_using_subcommand fsck" -l lock-timeout -d 'Wait at most this long for the store lock, for example 30s [default: the setting `lock_timeout`, 10s]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand fsck" -l json -d 'Print one JSON document on stdout, errors included'
complete -c wfctl -n "__fish_wfctl_using_subcommand fsck" -s q -l quiet -d 'Print results and errors only'
complete -c wfctl -n "__fish_wfctl_using_subcommand fsck" -s v -l verbose -d 'Say more on stderr; twice says still more'
complete -c wfctl -n "__fish_wfctl_using_subcommand fsck" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c wfctl -n "__fish_wfctl_using_subcommand metrics" -l output -d 'Write to this file, atomically, instead of stdout' -r -F
complete -c wfctl -n "__fish_wfctl_using_subcommand metrics" -l store -d 'Use the store in this folder [default: $WFCTL_STORE, else ~/.local/state/wfctl]' -r -f -a "(__fish_complete_directories)"
complete -c wfctl -n "__fish_wfctl_using_subcommand metrics" -l color -d 'Use colours: auto means where a terminal shows them and `NO_COLOR` is not set' -r -f -a "auto\t'Where a terminal shows them'
always\t'Always'
never\t'Never'"
complete -c wfctl -n "__fish_wfctl_using_subcommand metrics" -l lock-timeout -d 'Wait at most this long for the store lock, for example 30s [default: the setting `lock_timeout`, 10s]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand metrics" -l json -d 'Print one JSON document on stdout, errors included'
complete -c wfctl -n "__fish_wfctl_using_subcommand metrics" -s q -l quiet -d 'Print results and errors only'
complete -c wfctl -n "__fish_wfctl_using_subcommand metrics" -s v -l verbose -d 'Say more on stderr; twice says still more'
complete -c wfctl -n "__fish_wfctl_using_subcommand metrics" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c wfctl -n "__fish_wfctl_using_subcommand completions" -l store -d 'Use the store in this folder [default: $WFCTL_STORE, else ~/.local/state/wfctl]' -r -f -a "(__fish_complete_directories)"
complete -c wfctl -n "__fish_wfctl_using_subcommand completions" -l color -d 'Use colours: auto means where a terminal shows them and `NO_COLOR` is not set' -r -f -a "auto\t'Where a terminal shows them'
always\t'Always'
never\t'Never'"
complete -c wfctl -n "__fish_wfctl_using_subcommand completions" -l lock-timeout -d 'Wait at most this long for the store lock, for example 30s [default: the setting `lock_timeout`, 10s]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand completions" -l json -d 'Print one JSON document on stdout, errors included'
complete -c wfctl -n "__fish_wfctl_using_subcommand completions" -s q -l quiet -d 'Print results and errors only'
complete -c wfctl -n "__fish_wfctl_using_subcommand completions" -s v -l verbose -d 'Say more on stderr; twice says still more'
complete -c wfctl -n "__fish_wfctl_using_subcommand completions" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c wfctl -n "__fish_wfctl_using_subcommand man" -l store -d 'Use the store in this folder [default: $WFCTL_STORE, else ~/.local/state/wfctl]' -r -f -a "(__fish_complete_directories)"
complete -c wfctl -n "__fish_wfctl_using_subcommand man" -l color -d 'Use colours: auto means where a terminal shows them and `NO_COLOR` is not set' -r -f -a "auto\t'Where a terminal shows them'
always\t'Always'
never\t'Never'"
complete -c wfctl -n "__fish_wfctl_using_subcommand man" -l lock-timeout -d 'Wait at most this long for the store lock, for example 30s [default: the setting `lock_timeout`, 10s]' -r
complete -c wfctl -n "__fish_wfctl_using_subcommand man" -l json -d 'Print one JSON document on stdout, errors included'
complete -c wfctl -n "__fish_wfctl_using_subcommand man" -s q -l quiet -d 'Print results and errors only'
complete -c wfctl -n "__fish_wfctl_using_subcommand man" -s v -l verbose -d 'Say more on stderr; twice says still more'
complete -c wfctl -n "__fish_wfctl_using_subcommand man" -s h -l help -d 'Print help (see more with \'--help\')'

# Prints what the store holds of a kind; the words before the cursor tell which store and run.
function __fish_wfctl_ask
    command wfctl __complete $argv[1] --prefix=(commandline -ct) -- (commandline -opc)[2..] 2>/dev/null
end

complete -c wfctl -n "__fish_wfctl_using_subcommand init" -f
complete -c wfctl -n "__fish_wfctl_using_subcommand schedule" -l id -x -k -a "(__fish_wfctl_ask schedules)"
complete -c wfctl -n "__fish_wfctl_using_subcommand trigger" -f -k -a "(__fish_wfctl_ask schedules)"
complete -c wfctl -n "__fish_wfctl_using_subcommand tick" -f
complete -c wfctl -n "__fish_wfctl_using_subcommand resume" -f -k -a "(__fish_wfctl_ask interrupted)"
complete -c wfctl -n "__fish_wfctl_using_subcommand resume" -l outcome -x -k -a "(__fish_wfctl_ask outcomes)"
complete -c wfctl -n "__fish_wfctl_using_subcommand recover" -l run -x -k -a "(__fish_wfctl_ask unfinished)"
complete -c wfctl -n "__fish_wfctl_using_subcommand recover" -f
complete -c wfctl -n "__fish_wfctl_using_subcommand cancel" -f -k -a "(__fish_wfctl_ask unfinished)"
complete -c wfctl -n "__fish_wfctl_using_subcommand resolve" -f -k -a "(__fish_wfctl_ask ambiguous)"
complete -c wfctl -n "__fish_wfctl_using_subcommand retry" -f -k -a "(__fish_wfctl_ask failed)"
complete -c wfctl -n "__fish_wfctl_using_subcommand retry" -l from -x -k -a "(__fish_wfctl_ask steps)"
complete -c wfctl -n "__fish_wfctl_using_subcommand wait" -f -k -a "(__fish_wfctl_ask unfinished)"
complete -c wfctl -n "__fish_wfctl_using_subcommand drain" -f
complete -c wfctl -n "__fish_wfctl_using_subcommand undrain" -f
complete -c wfctl -n "__fish_wfctl_using_subcommand pause" -f -k -a "(__fish_wfctl_ask schedules)"
complete -c wfctl -n "__fish_wfctl_using_subcommand unpause" -f -k -a "(__fish_wfctl_ask schedules)"
complete -c wfctl -n "__fish_wfctl_using_subcommand remove" -f -k -a "(__fish_wfctl_ask schedules)"
complete -c wfctl -n "__fish_wfctl_using_subcommand rewind" -f -k -a "(__fish_wfctl_ask schedules)"
complete -c wfctl -n "__fish_wfctl_using_subcommand status" -f
complete -c wfctl -n "__fish_wfctl_using_subcommand schedules" -f
complete -c wfctl -n "__fish_wfctl_using_subcommand list" -l schedule -x -k -a "(__fish_wfctl_ask schedules)"
complete -c wfctl -n "__fish_wfctl_using_subcommand list" -f
complete -c wfctl -n "__fish_wfctl_using_subcommand history" -l schedule -x -k -a "(__fish_wfctl_ask schedules)"
complete -c wfctl -n "__fish_wfctl_using_subcommand history" -l run -x -k -a "(__fish_wfctl_ask runs)"
complete -c wfctl -n "__fish_wfctl_using_subcommand history" -f
complete -c wfctl -n "__fish_wfctl_using_subcommand show" -f -k -a "(__fish_wfctl_ask runs)"
complete -c wfctl -n "__fish_wfctl_using_subcommand logs" -f -k -a "(__fish_wfctl_ask runs)"
complete -c wfctl -n "__fish_wfctl_using_subcommand logs" -l step -x -k -a "(__fish_wfctl_ask steps)"
complete -c wfctl -n "__fish_wfctl_using_subcommand next" -f -k -a "(__fish_wfctl_ask schedules)"
complete -c wfctl -n "__fish_wfctl_using_subcommand config" -f -a "format capacity timezone grace lock_timeout keep allow_network_fs"
complete -c wfctl -n "__fish_wfctl_using_subcommand prune" -f
complete -c wfctl -n "__fish_wfctl_using_subcommand fsck" -f
complete -c wfctl -n "__fish_wfctl_using_subcommand metrics" -f
complete -c wfctl -n "__fish_wfctl_using_subcommand completions" -f -a "bash zsh fish"
complete -c wfctl -n "__fish_wfctl_using_subcommand man" -f -a "(__fish_complete_directories)"
