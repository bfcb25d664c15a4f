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
            '' | @GROUPS@)
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

    local options='@OPTIONS@'
    case $command in
@OPTIONS_OF_COMMANDS@
        '') if [[ $word != -* ]]; then options='@COMMANDS@'; fi ;;
        help) options='@COMMANDS@' ;;
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
        @OF_FILES@) if [[ $word != -* ]]; then compopt -o default && return; fi ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
}

# _dblock_takes OPTION: sets `takes` to what its value is, in a word or as all the words that it may be.
_dblock_takes() {
    case "$command $1" in
        # Their values stand behind = alone.
        @BEHIND_EQUALS@) takes='' && return ;;
    esac
    case $1 in
@VALUES@
        *) takes='' ;;
    esac
}

# _dblock_before COMMAND: sets `before` to how many arguments a command has before the one that it runs; to nothing if it runs none.
_dblock_before() {
    case $1 in
@BEFORE@
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
