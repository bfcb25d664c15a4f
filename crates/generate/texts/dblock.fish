# Completes dblock in fish. Made by script/generate of src/settings/cli and crates/generate/texts/dblock.fish: change those.

# The command of dblock's that is being typed, and then the words of what it runs, as far as there are any.
function __fish_dblock_words
    set -l words (commandline -opc)
    set -e words[1]
    set -l dblock_command
    while set -q words[1]
        switch $words[1]
            case --
                set -q words[2]; and set -a dblock_command $words[2..]
                break
            case @VALUES@
                # Its value is the next word, whatever that looks like.
                set -e words[1]
            case '-*'
            case '*'
                if set -q dblock_command[1]
                    set -a dblock_command $words
                    break
                end
                set dblock_command $words[1]
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
        not contains -- "$words[1]" @RUNNERS@
        or not set -q words[2]
    end
end

# Completes what is run as if it stood there alone.
function __fish_dblock_run
    set -l words (__fish_dblock_words)
    # An option of dblock's own.
    string match -q -- '-*' (commandline -ct); and not set -q words[2]; and return
    complete -C (string join -- ' ' (string escape -- $words[2..]) (commandline -ct))
end

# No files, but where a line says so.
complete -c dblock -f
complete -c dblock -n 'contains -- (__fish_dblock_words)[1] @RUNNERS@' -a '(__fish_dblock_run)'
complete -c dblock -n '__fish_dblock_using_subcommand help' -a '@COMMANDS@'
@TABLE@
