# shellcheck shell=bash
# Completes dblock in bash. Made by script/generate of src/settings/cli and crates/generate/texts/dblock.bash: change those.

_dblock() {
    local words=() at=() line=${COMP_LINE:0:COMP_POINT} i word last
    COMPREPLY=()
    # The words as they were typed, for bash takes = and : for words of their own; and which of its own each begins with.
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if ((i == 0)) || [[ $line == [[:blank:]]* ]]; then
            line=${line#"${line%%[![:blank:]]*}"}
            words+=('')
            at+=("$i")
        fi
        last=$((${#words[@]} - 1))
        # Of the last one, what is left of the cursor.
        if ((i == COMP_CWORD)); then word=$line; fi
        words[last]+=$word
        line=${line#"$word"}
    done

    # What is before the word that is being typed: dblock's command, how many arguments are still to come before the one that
    # it runs, where that begins, and which option wants this word for its value.
    local command='' before='' runs='' takes='' value=$2
    for ((i = 1; i < last; i++)); do
        word=${words[i]}
        takes=''
        case $command in
            '' | 'cron' | 'queue')
                if [[ $word != -* ]]; then
                    command="${command:+$command }$word"
                    _dblock_before "$command"
                fi
                continue
                ;;
        esac
        if [[ $word == -- ]]; then
            runs=$((i + 1))
            break
        elif [[ $word == -* ]]; then
            _dblock_takes "$word"
            # Its value may look like anything.
            if [[ $takes ]] && ((++i < last)); then takes=''; fi
        elif [[ $before == 0 ]]; then
            runs=$i
            break
        elif [[ $before ]]; then
            before=$((before - 1))
        fi
    done
    word=${words[last]}

    local options='-h --help -V --version'
    case $command in
        'run') options='-n --name -m --max-concurrency --slots --key -w --wait -E --conflict-exit-code -t --timeout -k --kill-after --ttl --on-lock-lost --hold-at-least --durable --once-at --time-zone --once-per --record --keep-output --token --if-unreachable --allow-unfit-server --report --on-failure --on-end --scrub-env -q --quiet -v --verbose --url --host --port --user --socket --protocol --password-file --database --schema --defaults-file --defaults-extra-file --defaults-group-suffix --no-defaults --ssl-mode --ssl-ca --ssl-cert --ssl-key --server-public-key-path --connect-timeout -h --help' ;;
        'status') options='--key --json --watch --color -q --quiet -v --verbose --url --host --port --user --socket --protocol --password-file --database --schema --defaults-file --defaults-extra-file --defaults-group-suffix --no-defaults --ssl-mode --ssl-ca --ssl-cert --ssl-key --server-public-key-path --connect-timeout -h --help' ;;
        'kill') options='-w --wait --key --force --dry-run -q --quiet -v --verbose --url --host --port --user --socket --protocol --password-file --database --schema --defaults-file --defaults-extra-file --defaults-group-suffix --no-defaults --ssl-mode --ssl-ca --ssl-cert --ssl-key --server-public-key-path --connect-timeout -h --help' ;;
        'check') options='--json -q --quiet -v --verbose --url --host --port --user --socket --protocol --password-file --database --schema --defaults-file --defaults-extra-file --defaults-group-suffix --no-defaults --ssl-mode --ssl-ca --ssl-cert --ssl-key --server-public-key-path --connect-timeout -h --help' ;;
        'config') options='--json -n --name -m --max-concurrency --slots --key -w --wait -E --conflict-exit-code -t --timeout -k --kill-after --ttl --on-lock-lost --hold-at-least --durable --once-at --time-zone --once-per --record --keep-output --token --if-unreachable --allow-unfit-server --report --on-failure --on-end --scrub-env -q --quiet -v --verbose --url --host --port --user --socket --protocol --password-file --database --schema --defaults-file --defaults-extra-file --defaults-group-suffix --no-defaults --ssl-mode --ssl-ca --ssl-cert --ssl-key --server-public-key-path --connect-timeout -h --help' ;;
        'init') options='--print --check --keep -q --quiet -v --verbose --url --host --port --user --socket --protocol --password-file --database --schema --defaults-file --defaults-extra-file --defaults-group-suffix --no-defaults --ssl-mode --ssl-ca --ssl-cert --ssl-key --server-public-key-path --connect-timeout -h --help' ;;
        'acquire') options='-n --name -m --max-concurrency --slots -w --wait --ttl --owner --json -q --quiet -v --verbose --url --host --port --user --socket --protocol --password-file --database --schema --defaults-file --defaults-extra-file --defaults-group-suffix --no-defaults --ssl-mode --ssl-ca --ssl-cert --ssl-key --server-public-key-path --connect-timeout -h --help' ;;
        'renew') options='--ttl -q --quiet -v --verbose --url --host --port --user --socket --protocol --password-file --database --schema --defaults-file --defaults-extra-file --defaults-group-suffix --no-defaults --ssl-mode --ssl-ca --ssl-cert --ssl-key --server-public-key-path --connect-timeout -h --help' ;;
        'release') options='-q --quiet -v --verbose --url --host --port --user --socket --protocol --password-file --database --schema --defaults-file --defaults-extra-file --defaults-group-suffix --no-defaults --ssl-mode --ssl-ca --ssl-cert --ssl-key --server-public-key-path --connect-timeout -h --help' ;;
        'history') options='--failed --since --until --on --result --run --after -n --limit --json --watch --color -q --quiet -v --verbose --url --host --port --user --socket --protocol --password-file --database --schema --defaults-file --defaults-extra-file --defaults-group-suffix --no-defaults --ssl-mode --ssl-ca --ssl-cert --ssl-key --server-public-key-path --connect-timeout -h --help' ;;
        'audit') options='-n --limit --json -q --quiet -v --verbose --url --host --port --user --socket --protocol --password-file --database --schema --defaults-file --defaults-extra-file --defaults-group-suffix --no-defaults --ssl-mode --ssl-ca --ssl-cert --ssl-key --server-public-key-path --connect-timeout -h --help' ;;
        'output') options='-q --quiet -v --verbose --url --host --port --user --socket --protocol --password-file --database --schema --defaults-file --defaults-extra-file --defaults-group-suffix --no-defaults --ssl-mode --ssl-ca --ssl-cert --ssl-key --server-public-key-path --connect-timeout -h --help' ;;
        'metrics') options='-o --output --limit -q --quiet -v --verbose --url --host --port --user --socket --protocol --password-file --database --schema --defaults-file --defaults-extra-file --defaults-group-suffix --no-defaults --ssl-mode --ssl-ca --ssl-cert --ssl-key --server-public-key-path --connect-timeout -h --help' ;;
        'web') options='--listen --allow-actions --show-data --password-file --tls-cert --tls-key --behind-proxy --host-name --refresh --dblock --url --host --port --user --socket --protocol --database --schema --defaults-file --defaults-extra-file --defaults-group-suffix --no-defaults --ssl-mode --ssl-ca --ssl-cert --ssl-key --server-public-key-path --connect-timeout -h --help' ;;
        'cron') if [[ $word == -* ]]; then options='-h --help'; else options='run check list pause resume trigger help'; fi ;;
        'cron run') options='-j --jobs --grace --keep-output --on-failure --on-end --scrub-env -q --quiet -v --verbose --url --host --port --user --socket --protocol --password-file --database --schema --defaults-file --defaults-extra-file --defaults-group-suffix --no-defaults --ssl-mode --ssl-ca --ssl-cert --ssl-key --server-public-key-path --connect-timeout -h --help' ;;
        'cron check') options='-n --next -h --help' ;;
        'cron list') options='--json --watch --color -q --quiet -v --verbose --url --host --port --user --socket --protocol --password-file --database --schema --defaults-file --defaults-extra-file --defaults-group-suffix --no-defaults --ssl-mode --ssl-ca --ssl-cert --ssl-key --server-public-key-path --connect-timeout -h --help' ;;
        'cron pause') options='-q --quiet -v --verbose --url --host --port --user --socket --protocol --password-file --database --schema --defaults-file --defaults-extra-file --defaults-group-suffix --no-defaults --ssl-mode --ssl-ca --ssl-cert --ssl-key --server-public-key-path --connect-timeout -h --help' ;;
        'cron resume') options='-q --quiet -v --verbose --url --host --port --user --socket --protocol --password-file --database --schema --defaults-file --defaults-extra-file --defaults-group-suffix --no-defaults --ssl-mode --ssl-ca --ssl-cert --ssl-key --server-public-key-path --connect-timeout -h --help' ;;
        'cron trigger') options='-q --quiet -v --verbose --url --host --port --user --socket --protocol --password-file --database --schema --defaults-file --defaults-extra-file --defaults-group-suffix --no-defaults --ssl-mode --ssl-ca --ssl-cert --ssl-key --server-public-key-path --connect-timeout -h --help' ;;
        'queue') if [[ $word == -* ]]; then options='-h --help'; else options='create put work status list show retry cancel pause resume delete help'; fi ;;
        'queue create') options='--claim --shards --max-attempts --retry-delay --ttl --keep -q --quiet -v --verbose --url --host --port --user --socket --protocol --password-file --database --schema --defaults-file --defaults-extra-file --defaults-group-suffix --no-defaults --ssl-mode --ssl-ca --ssl-cert --ssl-key --server-public-key-path --connect-timeout -h --help' ;;
        'queue put') options='--lines --null --file --delay --at --priority --key --every -q --quiet -v --verbose --url --host --port --user --socket --protocol --password-file --database --schema --defaults-file --defaults-extra-file --defaults-group-suffix --no-defaults --ssl-mode --ssl-ca --ssl-cert --ssl-key --server-public-key-path --connect-timeout -h --help' ;;
        'queue work') options='-j --jobs --batch --lines --null -t --timeout -k --kill-after --drain --once --grace --bury-on --keep-output --on-failure --on-end --scrub-env -q --quiet -v --verbose --url --host --port --user --socket --protocol --password-file --database --schema --defaults-file --defaults-extra-file --defaults-group-suffix --no-defaults --ssl-mode --ssl-ca --ssl-cert --ssl-key --server-public-key-path --connect-timeout -h --help' ;;
        'queue status') options='--exact --json --watch --color -q --quiet -v --verbose --url --host --port --user --socket --protocol --password-file --database --schema --defaults-file --defaults-extra-file --defaults-group-suffix --no-defaults --ssl-mode --ssl-ca --ssl-cert --ssl-key --server-public-key-path --connect-timeout -h --help' ;;
        'queue list') options='--state -n --limit --json -q --quiet -v --verbose --url --host --port --user --socket --protocol --password-file --database --schema --defaults-file --defaults-extra-file --defaults-group-suffix --no-defaults --ssl-mode --ssl-ca --ssl-cert --ssl-key --server-public-key-path --connect-timeout -h --help' ;;
        'queue show') options='--payload --json -q --quiet -v --verbose --url --host --port --user --socket --protocol --password-file --database --schema --defaults-file --defaults-extra-file --defaults-group-suffix --no-defaults --ssl-mode --ssl-ca --ssl-cert --ssl-key --server-public-key-path --connect-timeout -h --help' ;;
        'queue retry') options='--dead -q --quiet -v --verbose --url --host --port --user --socket --protocol --password-file --database --schema --defaults-file --defaults-extra-file --defaults-group-suffix --no-defaults --ssl-mode --ssl-ca --ssl-cert --ssl-key --server-public-key-path --connect-timeout -h --help' ;;
        'queue cancel') options='-q --quiet -v --verbose --url --host --port --user --socket --protocol --password-file --database --schema --defaults-file --defaults-extra-file --defaults-group-suffix --no-defaults --ssl-mode --ssl-ca --ssl-cert --ssl-key --server-public-key-path --connect-timeout -h --help' ;;
        'queue pause') options='-q --quiet -v --verbose --url --host --port --user --socket --protocol --password-file --database --schema --defaults-file --defaults-extra-file --defaults-group-suffix --no-defaults --ssl-mode --ssl-ca --ssl-cert --ssl-key --server-public-key-path --connect-timeout -h --help' ;;
        'queue resume') options='-q --quiet -v --verbose --url --host --port --user --socket --protocol --password-file --database --schema --defaults-file --defaults-extra-file --defaults-group-suffix --no-defaults --ssl-mode --ssl-ca --ssl-cert --ssl-key --server-public-key-path --connect-timeout -h --help' ;;
        'queue delete') options='-q --quiet -v --verbose --url --host --port --user --socket --protocol --password-file --database --schema --defaults-file --defaults-extra-file --defaults-group-suffix --no-defaults --ssl-mode --ssl-ca --ssl-cert --ssl-key --server-public-key-path --connect-timeout -h --help' ;;
        '') if [[ $word != -* ]]; then options='run status kill check config init acquire renew release history audit output metrics web cron queue help'; fi ;;
        help) options='run status kill check config init acquire renew release history audit output metrics web cron queue help' ;;
        *) return ;;
    esac
    if [[ $before ]]; then
        if [[ ! $runs && ! $takes && $before == 0 && $word && $word != -* ]]; then runs=$last; fi
        if [[ $runs ]]; then
            _dblock_command "${at[runs]}" "$value"
            return
        fi
    fi
    if [[ ! $takes && $word == --*=* ]]; then
        _dblock_takes "${word%%=*}"
        value=${word#*=}
    fi
    case $takes in
        '') ;;
        # Nothing is said, and readline knows files best.
        file) compopt -o default && return ;;
        host) mapfile -t COMPREPLY < <(compgen -A hostname -- "$value") && return ;;
        anything) return ;;
        *) mapfile -t COMPREPLY < <(compgen -W "$takes" -- "$value") && return ;;
    esac
    case $command in
        'cron run' | 'cron check') if [[ $word != -* ]]; then compopt -o default && return; fi ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
}

# _dblock_takes OPTION: sets `takes` to what its value is, in a word or as all the words that it may be.
_dblock_takes() {
    case "$command $1" in
        # Their values stand behind = alone.
        'run --keep-output' | 'config --keep-output') takes='' && return ;;
    esac
    case $1 in
        --dblock | --defaults-extra-file | --defaults-file | --listen | --output | --password-file | --report | --server-public-key-path | --socket | --ssl-ca | --ssl-cert | --ssl-key | --tls-cert | --tls-key | -o) takes='file' ;;
        --host | --on) takes='host' ;;
        --color) takes='auto always never' ;;
        --ssl-mode) takes='disabled preferred required verify-ca verify-identity' ;;
        --state) takes='due delayed running dead done' ;;
        --if-unreachable) takes='fail run' ;;
        --keep-output) takes='failed all none' ;;
        --result) takes='ran timed_out lost skipped interrupted failed released running unknown' ;;
        --on-lock-lost) takes='reacquire terminate ignore' ;;
        --claim) takes='rows blocks' ;;
        --protocol) takes='tcp socket' ;;
        --after | --at | --batch | --bury-on | --conflict-exit-code | --connect-timeout | --database | --defaults-group-suffix | --delay | --every | --grace | --hold-at-least | --host-name | --jobs | --keep | --key | --kill-after | --limit | --max-attempts | --max-concurrency | --name | --next | --on-end | --on-failure | --once-at | --once-per | --owner | --port | --priority | --refresh | --retry-delay | --run | --schema | --shards | --since | --slots | --time-zone | --timeout | --token | --ttl | --until | --url | --user | --wait | --watch | -E | -j | -k | -m | -n | -t | -w) takes='anything' ;;
        *) takes='' ;;
    esac
}

# _dblock_before COMMAND: sets `before` to how many arguments a command has before the one that it runs; to nothing if it runs none.
_dblock_before() {
    case $1 in
        'run') before=0 ;;
        'config') before=0 ;;
        'queue work') before=1 ;;
        *) before='' ;;
    esac
}

# _dblock_command INDEX WORD: completes the command that begins with this word of the line, as if it stood there alone.
_dblock_command() {
    if declare -F _comp_command_offset >/dev/null; then
        _comp_command_offset "$1"
    elif declare -F _command_offset >/dev/null; then
        _command_offset "$1"
    elif (($1 == COMP_CWORD)) && [[ $2 != */* ]]; then
        mapfile -t COMPREPLY < <(compgen -c -- "$2" | sort -u)
    else
        compopt -o default
    fi
}

complete -F _dblock dblock
