# Completes dblock in fish. Made by script/generate of src/settings/cli and crates/generate/texts/dblock.fish: change those.

# How many arguments a command has before the one that it runs; nothing if it runs none.
function __fish_dblock_before
    switch "$argv[1]"
@BEFORE@
    end
end

# The command of dblock's that is being typed, in one word, and then the arguments in front of what it runs, and the words of that, as
# far as there are any.
function __fish_dblock_words
    set -l words (commandline -opc)
    set -e words[1]
    set -l dblock_command
    set -l before
    while set -q words[1]
        # Their values stand behind = alone.
        if contains -- "$dblock_command $words[1]" @BEHIND_EQUALS@
            set -e words[1]
            continue
        end
        switch $words[1]
            case --
                set -q words[2]; and set -a dblock_command $words[2..]
                break
            case @VALUES@
                # Its value is the next word, whatever that looks like.
                set -e words[1]
            case '-*'
            case '*'
                if not set -q dblock_command[1]; or contains -- "$dblock_command" @GROUPS@
                    set dblock_command (string join -- ' ' $dblock_command $words[1])
                    set before (__fish_dblock_before $dblock_command)
                else if test "$before" = 0
                    set -a dblock_command $words
                    break
                else
                    set -a dblock_command $words[1]
                    test -n "$before"; and set before (math $before - 1)
                end
        end
        set -e words[1]
    end
    string join -- \n $dblock_command
end

function __fish_dblock_needs_command
    not count (__fish_dblock_words) >/dev/null
end

# Whether the command is one of these, and what it runs has not begun.
function __fish_dblock_using_subcommand
    set -l words (__fish_dblock_words)
    contains -- "$words[1]" $argv
    and begin
        set -l before (__fish_dblock_before $words[1])
        test -z "$before"; or test (count $words) -le (math $before + 1)
    end
end

# Whether what is typed now is run, or is an argument of that.
function __fish_dblock_runs
    set -l words (__fish_dblock_words)
    set -l before (__fish_dblock_before $words[1])
    test -n "$before"; and test (count $words) -gt $before
end

# Completes what is run as if it stood there alone.
function __fish_dblock_run
    set -l words (__fish_dblock_words)
    set -l first (math (__fish_dblock_before $words[1]) + 2)
    # An option of dblock's own.
    string match -q -- '-*' (commandline -ct); and not set -q words[$first]; and return
    complete -C (string join -- ' ' (string escape -- $words[$first..]) (commandline -ct))
end

# No files, but where a line says so.
complete -c dblock -f
complete -c dblock -n __fish_dblock_runs -a '(__fish_dblock_run)'
complete -c dblock -n '__fish_dblock_using_subcommand help' -a '@COMMANDS@'
@TABLE@
@OF_FILES@
