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
            case --conflict-exit-code --connect-timeout --database --defaults-extra-file --defaults-file --defaults-group-suffix --hold-at-least --host --if-unreachable --keep --kill-after --limit --max-concurrency --name --on-lock-lost --once-at --once-per --owner --password-file --port --protocol --report --server-public-key-path --since --slots --socket --ssl-ca --ssl-cert --ssl-key --ssl-mode --time-zone --timeout --token --ttl --url --user --wait -E -k -m -n -t -w
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
        not contains -- "$words[1]" run config
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
complete -c dblock -n 'contains -- (__fish_dblock_words)[1] run config' -a '(__fish_dblock_run)'
complete -c dblock -n '__fish_dblock_using_subcommand help' -a 'run status kill check config init acquire renew release history help'
complete -c dblock -n "__fish_dblock_needs_command" -s h -l help -d 'Print help'
complete -c dblock -n "__fish_dblock_needs_command" -s V -l version -d 'Print version'
complete -c dblock -n "__fish_dblock_needs_command" -f -a "run" -d 'Run a command while holding a lock, and exit as it exited'
complete -c dblock -n "__fish_dblock_needs_command" -f -a "status" -d 'Show who holds a lock, who waits for it, and for how long'
complete -c dblock -n "__fish_dblock_needs_command" -f -a "kill" -d 'End the holder of a lock, and its command'
complete -c dblock -n "__fish_dblock_needs_command" -f -a "check" -d 'Check whether a server is fit to lock on, and how fast it is'
complete -c dblock -n "__fish_dblock_needs_command" -f -a "config" -d 'Print every setting in force and where it comes from'
complete -c dblock -n "__fish_dblock_needs_command" -f -a "init" -d 'Create dblock\'s tables, or upgrade them'
complete -c dblock -n "__fish_dblock_needs_command" -f -a "acquire" -d 'Acquire a lock that spans several commands of a script, and print its token'
complete -c dblock -n "__fish_dblock_needs_command" -f -a "renew" -d 'Hold a lock of dblock acquire for longer'
complete -c dblock -n "__fish_dblock_needs_command" -f -a "release" -d 'Release a lock of dblock acquire'
complete -c dblock -n "__fish_dblock_needs_command" -f -a "history" -d 'Show what ran where, when, and how it ended'
complete -c dblock -n "__fish_dblock_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c dblock -n "__fish_dblock_using_subcommand run" -s n -l name -d 'The lock. The same name excludes across every host that talks to the same server' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand run" -s m -l max-concurrency -d 'N holders at once, 1 to 1000, instead of one [default: 1]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand run" -l slots -d 'A pool: as many holders as names, each finds its own in DBLOCK_SLOT_NAME' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand run" -s w -l wait -d 'How long to wait for the lock: 0 does not wait, forever has no limit [default: 0]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand run" -s E -l conflict-exit-code -d 'Exit code when the lock was not acquired in time, 0 to 255; 0 makes a skip a success [default: 75]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand run" -s t -l timeout -d 'End the command when it has run longer: SIGTERM, then SIGKILL; exit 124, or 137 if SIGKILL was needed; 0 is no limit' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand run" -s k -l kill-after -d 'From SIGTERM to SIGKILL when dblock ends the command; 0 is both at once; a third of the TTL at most [default: 10s, or a quarter of the TTL where that is less]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand run" -l ttl -d 'How long the server keeps the lock of a host that has vanished at most, and how long dblock tries to reacquire a lost one: whole seconds, 4s to 1d. Longer than a fail-over takes [default: 5m]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand run" -l on-lock-lost -d 'When the session is lost while the command runs: reacquire the lock, and end the command if that fails; end it at once; or let it run [default: reacquire]' -r -f -a "reacquire\t''
terminate\t''
ignore\t''"
complete -c dblock -n "__fish_dblock_using_subcommand run" -l hold-at-least -d 'Hold the lock for at least this long after it was acquired, also when the command ends sooner: a host whose clock is late then finds it taken. dblock stays as long, so what follows it after && is delayed. TERM, INT, QUIT and HUP end it' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand run" -l once-at -d 'Do not run again for a tick that a run of this name has succeeded for: the last time that CRON names, five fields as in a crontab, by the server\'s clock' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand run" -l time-zone -d 'The time zone of --once-at, as Europe/Berlin or UTC [default: the host\'s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand run" -l once-per -d 'Do not run again until so long after the last success of this name began' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand run" -l token -d 'Run under a lock that dblock acquire has acquired, and renew it meanwhile; - reads the token from stdin, and DBLOCK_TOKEN names it where no lock is named. The lock is not released. One command at a time is under a token' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand run" -l if-unreachable -d 'No server in time: fail with 69, or run the command without the lock, with a warning [default: fail]' -r -f -a "fail\t''
run\t''"
complete -c dblock -n "__fish_dblock_using_subcommand run" -l report -d 'Append one line of JSON to this file at the end of each run, skips and failures included; - is stdout' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand run" -l url -d 'All in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock [env: DBLOCK_URL]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand run" -l host -d 'The server\'s name or address; localhost means its local socket [env: DBLOCK_HOST]' -r -f -a "(__fish_print_hostnames)"
complete -c dblock -n "__fish_dblock_using_subcommand run" -l port -d 'The server\'s TCP port [env: DBLOCK_PORT] [default: 3306]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand run" -l user -d 'The account [env: DBLOCK_USER] [default: the name of the OS user]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand run" -l socket -d 'The server\'s local socket [env: DBLOCK_SOCKET]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand run" -l protocol -d 'How localhost is reached; by its socket if not given [env: DBLOCK_PROTOCOL]' -r -f -a "tcp\t''
socket\t''"
complete -c dblock -n "__fish_dblock_using_subcommand run" -l password-file -d 'A file whose first line is the password [env, the password itself: DBLOCK_PASSWORD, MYSQL_PWD]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand run" -l database -d 'The database with dblock\'s tables, for what needs them; also the path of the URL [env: DBLOCK_DATABASE] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand run" -l defaults-file -d 'Read only this MySQL option file' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand run" -l defaults-extra-file -d 'Also read this option file, before ~/.my.cnf' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand run" -l defaults-group-suffix -d 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand run" -l ssl-mode -d 'Whether the connection is encrypted, as in the mysql client: if the server can; always; and only to a server whose certificate is signed by a trusted CA; and only if it is also for the host\'s name or address. Without it --ssl-ca means verify-ca [env: DBLOCK_SSL_MODE] [default: preferred]' -r -f -a "disabled\t''
preferred\t''
required\t''
verify-ca\t''
verify-identity\t''"
complete -c dblock -n "__fish_dblock_using_subcommand run" -l ssl-ca -d 'A file with the certificates of the CAs to trust, in PEM, in place of the system\'s [env: DBLOCK_SSL_CA]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand run" -l ssl-cert -d 'A file with dblock\'s own certificate, and those between it and its CA, in PEM [env: DBLOCK_SSL_CERT]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand run" -l ssl-key -d 'A file with the private key of that certificate, in PEM [env: DBLOCK_SSL_KEY]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand run" -l server-public-key-path -d 'A file with the server\'s public key, in PEM, for a password that travels without TLS; without it the key that the server sends is trusted [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand run" -l connect-timeout -d 'How long to try to reach a server: resolve names, try hosts, log in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand run" -l durable -d 'Keep the lock as a row besides, in dblock\'s tables: it outlives its session, the server\'s restart and a fail-over, and excludes on clusters'
complete -c dblock -n "__fish_dblock_using_subcommand run" -l record -d 'Write the run into the history, for dblock history. What needs dblock\'s tables is always written there'
complete -c dblock -n "__fish_dblock_using_subcommand run" -l allow-unfit-server -d 'Lock also on a server where the lock may not exclude (Galera, a replica), with a warning instead of 78'
complete -c dblock -n "__fish_dblock_using_subcommand run" -l scrub-env -d 'Remove DBLOCK_URL and the other variables for the connection, and MYSQL_PWD, from the command\'s environment'
complete -c dblock -n "__fish_dblock_using_subcommand run" -s q -l quiet -d 'Log errors only'
complete -c dblock -n "__fish_dblock_using_subcommand run" -s v -l verbose -d 'Log what is done and how long it took; twice: every statement, never a password'
complete -c dblock -n "__fish_dblock_using_subcommand run" -l no-defaults -d 'Read no option file'
complete -c dblock -n "__fish_dblock_using_subcommand run" -s h -l help -d 'Print help'
complete -c dblock -n "__fish_dblock_using_subcommand status" -l url -d 'All in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock [env: DBLOCK_URL]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand status" -l host -d 'The server\'s name or address; localhost means its local socket [env: DBLOCK_HOST]' -r -f -a "(__fish_print_hostnames)"
complete -c dblock -n "__fish_dblock_using_subcommand status" -l port -d 'The server\'s TCP port [env: DBLOCK_PORT] [default: 3306]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand status" -l user -d 'The account [env: DBLOCK_USER] [default: the name of the OS user]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand status" -l socket -d 'The server\'s local socket [env: DBLOCK_SOCKET]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand status" -l protocol -d 'How localhost is reached; by its socket if not given [env: DBLOCK_PROTOCOL]' -r -f -a "tcp\t''
socket\t''"
complete -c dblock -n "__fish_dblock_using_subcommand status" -l password-file -d 'A file whose first line is the password [env, the password itself: DBLOCK_PASSWORD, MYSQL_PWD]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand status" -l database -d 'The database with dblock\'s tables, for what needs them; also the path of the URL [env: DBLOCK_DATABASE] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand status" -l defaults-file -d 'Read only this MySQL option file' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand status" -l defaults-extra-file -d 'Also read this option file, before ~/.my.cnf' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand status" -l defaults-group-suffix -d 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand status" -l ssl-mode -d 'Whether the connection is encrypted, as in the mysql client: if the server can; always; and only to a server whose certificate is signed by a trusted CA; and only if it is also for the host\'s name or address. Without it --ssl-ca means verify-ca [env: DBLOCK_SSL_MODE] [default: preferred]' -r -f -a "disabled\t''
preferred\t''
required\t''
verify-ca\t''
verify-identity\t''"
complete -c dblock -n "__fish_dblock_using_subcommand status" -l ssl-ca -d 'A file with the certificates of the CAs to trust, in PEM, in place of the system\'s [env: DBLOCK_SSL_CA]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand status" -l ssl-cert -d 'A file with dblock\'s own certificate, and those between it and its CA, in PEM [env: DBLOCK_SSL_CERT]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand status" -l ssl-key -d 'A file with the private key of that certificate, in PEM [env: DBLOCK_SSL_KEY]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand status" -l server-public-key-path -d 'A file with the server\'s public key, in PEM, for a password that travels without TLS; without it the key that the server sends is trusted [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand status" -l connect-timeout -d 'How long to try to reach a server: resolve names, try hosts, log in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand status" -l json -d 'Print JSON in place of the table'
complete -c dblock -n "__fish_dblock_using_subcommand status" -s q -l quiet -d 'Log errors only'
complete -c dblock -n "__fish_dblock_using_subcommand status" -s v -l verbose -d 'Log what is done and how long it took; twice: every statement, never a password'
complete -c dblock -n "__fish_dblock_using_subcommand status" -l no-defaults -d 'Read no option file'
complete -c dblock -n "__fish_dblock_using_subcommand status" -s h -l help -d 'Print help'
complete -c dblock -n "__fish_dblock_using_subcommand kill" -s w -l wait -d 'How long to wait until the command of the holder has ended: 0 does not wait, forever has no limit. A holder that does not answer has the connect timeout to do so [default: 30s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand kill" -l url -d 'All in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock [env: DBLOCK_URL]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand kill" -l host -d 'The server\'s name or address; localhost means its local socket [env: DBLOCK_HOST]' -r -f -a "(__fish_print_hostnames)"
complete -c dblock -n "__fish_dblock_using_subcommand kill" -l port -d 'The server\'s TCP port [env: DBLOCK_PORT] [default: 3306]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand kill" -l user -d 'The account [env: DBLOCK_USER] [default: the name of the OS user]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand kill" -l socket -d 'The server\'s local socket [env: DBLOCK_SOCKET]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand kill" -l protocol -d 'How localhost is reached; by its socket if not given [env: DBLOCK_PROTOCOL]' -r -f -a "tcp\t''
socket\t''"
complete -c dblock -n "__fish_dblock_using_subcommand kill" -l password-file -d 'A file whose first line is the password [env, the password itself: DBLOCK_PASSWORD, MYSQL_PWD]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand kill" -l database -d 'The database with dblock\'s tables, for what needs them; also the path of the URL [env: DBLOCK_DATABASE] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand kill" -l defaults-file -d 'Read only this MySQL option file' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand kill" -l defaults-extra-file -d 'Also read this option file, before ~/.my.cnf' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand kill" -l defaults-group-suffix -d 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand kill" -l ssl-mode -d 'Whether the connection is encrypted, as in the mysql client: if the server can; always; and only to a server whose certificate is signed by a trusted CA; and only if it is also for the host\'s name or address. Without it --ssl-ca means verify-ca [env: DBLOCK_SSL_MODE] [default: preferred]' -r -f -a "disabled\t''
preferred\t''
required\t''
verify-ca\t''
verify-identity\t''"
complete -c dblock -n "__fish_dblock_using_subcommand kill" -l ssl-ca -d 'A file with the certificates of the CAs to trust, in PEM, in place of the system\'s [env: DBLOCK_SSL_CA]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand kill" -l ssl-cert -d 'A file with dblock\'s own certificate, and those between it and its CA, in PEM [env: DBLOCK_SSL_CERT]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand kill" -l ssl-key -d 'A file with the private key of that certificate, in PEM [env: DBLOCK_SSL_KEY]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand kill" -l server-public-key-path -d 'A file with the server\'s public key, in PEM, for a password that travels without TLS; without it the key that the server sends is trusted [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand kill" -l connect-timeout -d 'How long to try to reach a server: resolve names, try hosts, log in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand kill" -l force -d 'Take a durable lock from its holder at once, without asking it: its host is known to be dead'
complete -c dblock -n "__fish_dblock_using_subcommand kill" -l dry-run -d 'Show who would be ended, and end nobody'
complete -c dblock -n "__fish_dblock_using_subcommand kill" -s q -l quiet -d 'Log errors only'
complete -c dblock -n "__fish_dblock_using_subcommand kill" -s v -l verbose -d 'Log what is done and how long it took; twice: every statement, never a password'
complete -c dblock -n "__fish_dblock_using_subcommand kill" -l no-defaults -d 'Read no option file'
complete -c dblock -n "__fish_dblock_using_subcommand kill" -s h -l help -d 'Print help'
complete -c dblock -n "__fish_dblock_using_subcommand check" -l url -d 'All in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock [env: DBLOCK_URL]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand check" -l host -d 'The server\'s name or address; localhost means its local socket [env: DBLOCK_HOST]' -r -f -a "(__fish_print_hostnames)"
complete -c dblock -n "__fish_dblock_using_subcommand check" -l port -d 'The server\'s TCP port [env: DBLOCK_PORT] [default: 3306]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand check" -l user -d 'The account [env: DBLOCK_USER] [default: the name of the OS user]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand check" -l socket -d 'The server\'s local socket [env: DBLOCK_SOCKET]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand check" -l protocol -d 'How localhost is reached; by its socket if not given [env: DBLOCK_PROTOCOL]' -r -f -a "tcp\t''
socket\t''"
complete -c dblock -n "__fish_dblock_using_subcommand check" -l password-file -d 'A file whose first line is the password [env, the password itself: DBLOCK_PASSWORD, MYSQL_PWD]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand check" -l database -d 'The database with dblock\'s tables, for what needs them; also the path of the URL [env: DBLOCK_DATABASE] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand check" -l defaults-file -d 'Read only this MySQL option file' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand check" -l defaults-extra-file -d 'Also read this option file, before ~/.my.cnf' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand check" -l defaults-group-suffix -d 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand check" -l ssl-mode -d 'Whether the connection is encrypted, as in the mysql client: if the server can; always; and only to a server whose certificate is signed by a trusted CA; and only if it is also for the host\'s name or address. Without it --ssl-ca means verify-ca [env: DBLOCK_SSL_MODE] [default: preferred]' -r -f -a "disabled\t''
preferred\t''
required\t''
verify-ca\t''
verify-identity\t''"
complete -c dblock -n "__fish_dblock_using_subcommand check" -l ssl-ca -d 'A file with the certificates of the CAs to trust, in PEM, in place of the system\'s [env: DBLOCK_SSL_CA]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand check" -l ssl-cert -d 'A file with dblock\'s own certificate, and those between it and its CA, in PEM [env: DBLOCK_SSL_CERT]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand check" -l ssl-key -d 'A file with the private key of that certificate, in PEM [env: DBLOCK_SSL_KEY]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand check" -l server-public-key-path -d 'A file with the server\'s public key, in PEM, for a password that travels without TLS; without it the key that the server sends is trusted [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand check" -l connect-timeout -d 'How long to try to reach a server: resolve names, try hosts, log in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand check" -l json -d 'Print JSON in place of the table'
complete -c dblock -n "__fish_dblock_using_subcommand check" -s q -l quiet -d 'Log errors only'
complete -c dblock -n "__fish_dblock_using_subcommand check" -s v -l verbose -d 'Log what is done and how long it took; twice: every statement, never a password'
complete -c dblock -n "__fish_dblock_using_subcommand check" -l no-defaults -d 'Read no option file'
complete -c dblock -n "__fish_dblock_using_subcommand check" -s h -l help -d 'Print help'
complete -c dblock -n "__fish_dblock_using_subcommand config" -s n -l name -d 'The lock. The same name excludes across every host that talks to the same server' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand config" -s m -l max-concurrency -d 'N holders at once, 1 to 1000, instead of one [default: 1]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand config" -l slots -d 'A pool: as many holders as names, each finds its own in DBLOCK_SLOT_NAME' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand config" -s w -l wait -d 'How long to wait for the lock: 0 does not wait, forever has no limit [default: 0]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand config" -s E -l conflict-exit-code -d 'Exit code when the lock was not acquired in time, 0 to 255; 0 makes a skip a success [default: 75]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand config" -s t -l timeout -d 'End the command when it has run longer: SIGTERM, then SIGKILL; exit 124, or 137 if SIGKILL was needed; 0 is no limit' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand config" -s k -l kill-after -d 'From SIGTERM to SIGKILL when dblock ends the command; 0 is both at once; a third of the TTL at most [default: 10s, or a quarter of the TTL where that is less]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand config" -l ttl -d 'How long the server keeps the lock of a host that has vanished at most, and how long dblock tries to reacquire a lost one: whole seconds, 4s to 1d. Longer than a fail-over takes [default: 5m]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand config" -l on-lock-lost -d 'When the session is lost while the command runs: reacquire the lock, and end the command if that fails; end it at once; or let it run [default: reacquire]' -r -f -a "reacquire\t''
terminate\t''
ignore\t''"
complete -c dblock -n "__fish_dblock_using_subcommand config" -l hold-at-least -d 'Hold the lock for at least this long after it was acquired, also when the command ends sooner: a host whose clock is late then finds it taken. dblock stays as long, so what follows it after && is delayed. TERM, INT, QUIT and HUP end it' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand config" -l once-at -d 'Do not run again for a tick that a run of this name has succeeded for: the last time that CRON names, five fields as in a crontab, by the server\'s clock' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand config" -l time-zone -d 'The time zone of --once-at, as Europe/Berlin or UTC [default: the host\'s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand config" -l once-per -d 'Do not run again until so long after the last success of this name began' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand config" -l token -d 'Run under a lock that dblock acquire has acquired, and renew it meanwhile; - reads the token from stdin, and DBLOCK_TOKEN names it where no lock is named. The lock is not released. One command at a time is under a token' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand config" -l if-unreachable -d 'No server in time: fail with 69, or run the command without the lock, with a warning [default: fail]' -r -f -a "fail\t''
run\t''"
complete -c dblock -n "__fish_dblock_using_subcommand config" -l report -d 'Append one line of JSON to this file at the end of each run, skips and failures included; - is stdout' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand config" -l url -d 'All in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock [env: DBLOCK_URL]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand config" -l host -d 'The server\'s name or address; localhost means its local socket [env: DBLOCK_HOST]' -r -f -a "(__fish_print_hostnames)"
complete -c dblock -n "__fish_dblock_using_subcommand config" -l port -d 'The server\'s TCP port [env: DBLOCK_PORT] [default: 3306]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand config" -l user -d 'The account [env: DBLOCK_USER] [default: the name of the OS user]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand config" -l socket -d 'The server\'s local socket [env: DBLOCK_SOCKET]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand config" -l protocol -d 'How localhost is reached; by its socket if not given [env: DBLOCK_PROTOCOL]' -r -f -a "tcp\t''
socket\t''"
complete -c dblock -n "__fish_dblock_using_subcommand config" -l password-file -d 'A file whose first line is the password [env, the password itself: DBLOCK_PASSWORD, MYSQL_PWD]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand config" -l database -d 'The database with dblock\'s tables, for what needs them; also the path of the URL [env: DBLOCK_DATABASE] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand config" -l defaults-file -d 'Read only this MySQL option file' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand config" -l defaults-extra-file -d 'Also read this option file, before ~/.my.cnf' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand config" -l defaults-group-suffix -d 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand config" -l ssl-mode -d 'Whether the connection is encrypted, as in the mysql client: if the server can; always; and only to a server whose certificate is signed by a trusted CA; and only if it is also for the host\'s name or address. Without it --ssl-ca means verify-ca [env: DBLOCK_SSL_MODE] [default: preferred]' -r -f -a "disabled\t''
preferred\t''
required\t''
verify-ca\t''
verify-identity\t''"
complete -c dblock -n "__fish_dblock_using_subcommand config" -l ssl-ca -d 'A file with the certificates of the CAs to trust, in PEM, in place of the system\'s [env: DBLOCK_SSL_CA]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand config" -l ssl-cert -d 'A file with dblock\'s own certificate, and those between it and its CA, in PEM [env: DBLOCK_SSL_CERT]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand config" -l ssl-key -d 'A file with the private key of that certificate, in PEM [env: DBLOCK_SSL_KEY]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand config" -l server-public-key-path -d 'A file with the server\'s public key, in PEM, for a password that travels without TLS; without it the key that the server sends is trusted [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand config" -l connect-timeout -d 'How long to try to reach a server: resolve names, try hosts, log in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand config" -l json -d 'Print JSON in place of the table'
complete -c dblock -n "__fish_dblock_using_subcommand config" -l durable -d 'Keep the lock as a row besides, in dblock\'s tables: it outlives its session, the server\'s restart and a fail-over, and excludes on clusters'
complete -c dblock -n "__fish_dblock_using_subcommand config" -l record -d 'Write the run into the history, for dblock history. What needs dblock\'s tables is always written there'
complete -c dblock -n "__fish_dblock_using_subcommand config" -l allow-unfit-server -d 'Lock also on a server where the lock may not exclude (Galera, a replica), with a warning instead of 78'
complete -c dblock -n "__fish_dblock_using_subcommand config" -l scrub-env -d 'Remove DBLOCK_URL and the other variables for the connection, and MYSQL_PWD, from the command\'s environment'
complete -c dblock -n "__fish_dblock_using_subcommand config" -s q -l quiet -d 'Log errors only'
complete -c dblock -n "__fish_dblock_using_subcommand config" -s v -l verbose -d 'Log what is done and how long it took; twice: every statement, never a password'
complete -c dblock -n "__fish_dblock_using_subcommand config" -l no-defaults -d 'Read no option file'
complete -c dblock -n "__fish_dblock_using_subcommand config" -s h -l help -d 'Print help'
complete -c dblock -n "__fish_dblock_using_subcommand init" -l keep -d 'How long the history is kept, and the last N runs of each name at least, 100 if not given; 30d,100 in new tables' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand init" -l url -d 'All in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock [env: DBLOCK_URL]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand init" -l host -d 'The server\'s name or address; localhost means its local socket [env: DBLOCK_HOST]' -r -f -a "(__fish_print_hostnames)"
complete -c dblock -n "__fish_dblock_using_subcommand init" -l port -d 'The server\'s TCP port [env: DBLOCK_PORT] [default: 3306]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand init" -l user -d 'The account [env: DBLOCK_USER] [default: the name of the OS user]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand init" -l socket -d 'The server\'s local socket [env: DBLOCK_SOCKET]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand init" -l protocol -d 'How localhost is reached; by its socket if not given [env: DBLOCK_PROTOCOL]' -r -f -a "tcp\t''
socket\t''"
complete -c dblock -n "__fish_dblock_using_subcommand init" -l password-file -d 'A file whose first line is the password [env, the password itself: DBLOCK_PASSWORD, MYSQL_PWD]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand init" -l database -d 'The database with dblock\'s tables, for what needs them; also the path of the URL [env: DBLOCK_DATABASE] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand init" -l defaults-file -d 'Read only this MySQL option file' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand init" -l defaults-extra-file -d 'Also read this option file, before ~/.my.cnf' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand init" -l defaults-group-suffix -d 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand init" -l ssl-mode -d 'Whether the connection is encrypted, as in the mysql client: if the server can; always; and only to a server whose certificate is signed by a trusted CA; and only if it is also for the host\'s name or address. Without it --ssl-ca means verify-ca [env: DBLOCK_SSL_MODE] [default: preferred]' -r -f -a "disabled\t''
preferred\t''
required\t''
verify-ca\t''
verify-identity\t''"
complete -c dblock -n "__fish_dblock_using_subcommand init" -l ssl-ca -d 'A file with the certificates of the CAs to trust, in PEM, in place of the system\'s [env: DBLOCK_SSL_CA]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand init" -l ssl-cert -d 'A file with dblock\'s own certificate, and those between it and its CA, in PEM [env: DBLOCK_SSL_CERT]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand init" -l ssl-key -d 'A file with the private key of that certificate, in PEM [env: DBLOCK_SSL_KEY]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand init" -l server-public-key-path -d 'A file with the server\'s public key, in PEM, for a password that travels without TLS; without it the key that the server sends is trusted [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand init" -l connect-timeout -d 'How long to try to reach a server: resolve names, try hosts, log in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand init" -l print -d 'Print the SQL and the grants that an account needs, and change nothing; no server is asked'
complete -c dblock -n "__fish_dblock_using_subcommand init" -l check -d 'Change nothing: exit with 0 when the tables are current, else with 78 and a line that says what is missing'
complete -c dblock -n "__fish_dblock_using_subcommand init" -s q -l quiet -d 'Log errors only'
complete -c dblock -n "__fish_dblock_using_subcommand init" -s v -l verbose -d 'Log what is done and how long it took; twice: every statement, never a password'
complete -c dblock -n "__fish_dblock_using_subcommand init" -l no-defaults -d 'Read no option file'
complete -c dblock -n "__fish_dblock_using_subcommand init" -s h -l help -d 'Print help'
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -s n -l name -d 'The lock. The same name excludes across every host that talks to the same server' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -s m -l max-concurrency -d 'N holders at once, 1 to 1000, instead of one [default: 1]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -l slots -d 'A pool: as many holders as names, each finds its own in DBLOCK_SLOT_NAME' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -s w -l wait -d 'How long to wait for the lock: 0 does not wait, forever has no limit [default: 0]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -l ttl -d 'How long the lock is held unless it is renewed: whole seconds, 4s to 30d [default: 10m]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -l owner -d 'Whoever names the same ID takes the lock over at once, with a new token; the older token is void. For a script that may be started again, as by a CI server' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -l url -d 'All in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock [env: DBLOCK_URL]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -l host -d 'The server\'s name or address; localhost means its local socket [env: DBLOCK_HOST]' -r -f -a "(__fish_print_hostnames)"
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -l port -d 'The server\'s TCP port [env: DBLOCK_PORT] [default: 3306]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -l user -d 'The account [env: DBLOCK_USER] [default: the name of the OS user]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -l socket -d 'The server\'s local socket [env: DBLOCK_SOCKET]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -l protocol -d 'How localhost is reached; by its socket if not given [env: DBLOCK_PROTOCOL]' -r -f -a "tcp\t''
socket\t''"
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -l password-file -d 'A file whose first line is the password [env, the password itself: DBLOCK_PASSWORD, MYSQL_PWD]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -l database -d 'The database with dblock\'s tables, for what needs them; also the path of the URL [env: DBLOCK_DATABASE] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -l defaults-file -d 'Read only this MySQL option file' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -l defaults-extra-file -d 'Also read this option file, before ~/.my.cnf' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -l defaults-group-suffix -d 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -l ssl-mode -d 'Whether the connection is encrypted, as in the mysql client: if the server can; always; and only to a server whose certificate is signed by a trusted CA; and only if it is also for the host\'s name or address. Without it --ssl-ca means verify-ca [env: DBLOCK_SSL_MODE] [default: preferred]' -r -f -a "disabled\t''
preferred\t''
required\t''
verify-ca\t''
verify-identity\t''"
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -l ssl-ca -d 'A file with the certificates of the CAs to trust, in PEM, in place of the system\'s [env: DBLOCK_SSL_CA]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -l ssl-cert -d 'A file with dblock\'s own certificate, and those between it and its CA, in PEM [env: DBLOCK_SSL_CERT]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -l ssl-key -d 'A file with the private key of that certificate, in PEM [env: DBLOCK_SSL_KEY]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -l server-public-key-path -d 'A file with the server\'s public key, in PEM, for a password that travels without TLS; without it the key that the server sends is trusted [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -l connect-timeout -d 'How long to try to reach a server: resolve names, try hosts, log in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -l json -d 'Print JSON in place of the table'
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -s q -l quiet -d 'Log errors only'
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -s v -l verbose -d 'Log what is done and how long it took; twice: every statement, never a password'
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -l no-defaults -d 'Read no option file'
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -s h -l help -d 'Print help'
complete -c dblock -n "__fish_dblock_using_subcommand renew" -l ttl -d 'For how long from now on: whole seconds, 4s to 30d; as at dblock acquire if not given' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand renew" -l url -d 'All in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock [env: DBLOCK_URL]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand renew" -l host -d 'The server\'s name or address; localhost means its local socket [env: DBLOCK_HOST]' -r -f -a "(__fish_print_hostnames)"
complete -c dblock -n "__fish_dblock_using_subcommand renew" -l port -d 'The server\'s TCP port [env: DBLOCK_PORT] [default: 3306]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand renew" -l user -d 'The account [env: DBLOCK_USER] [default: the name of the OS user]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand renew" -l socket -d 'The server\'s local socket [env: DBLOCK_SOCKET]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand renew" -l protocol -d 'How localhost is reached; by its socket if not given [env: DBLOCK_PROTOCOL]' -r -f -a "tcp\t''
socket\t''"
complete -c dblock -n "__fish_dblock_using_subcommand renew" -l password-file -d 'A file whose first line is the password [env, the password itself: DBLOCK_PASSWORD, MYSQL_PWD]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand renew" -l database -d 'The database with dblock\'s tables, for what needs them; also the path of the URL [env: DBLOCK_DATABASE] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand renew" -l defaults-file -d 'Read only this MySQL option file' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand renew" -l defaults-extra-file -d 'Also read this option file, before ~/.my.cnf' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand renew" -l defaults-group-suffix -d 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand renew" -l ssl-mode -d 'Whether the connection is encrypted, as in the mysql client: if the server can; always; and only to a server whose certificate is signed by a trusted CA; and only if it is also for the host\'s name or address. Without it --ssl-ca means verify-ca [env: DBLOCK_SSL_MODE] [default: preferred]' -r -f -a "disabled\t''
preferred\t''
required\t''
verify-ca\t''
verify-identity\t''"
complete -c dblock -n "__fish_dblock_using_subcommand renew" -l ssl-ca -d 'A file with the certificates of the CAs to trust, in PEM, in place of the system\'s [env: DBLOCK_SSL_CA]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand renew" -l ssl-cert -d 'A file with dblock\'s own certificate, and those between it and its CA, in PEM [env: DBLOCK_SSL_CERT]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand renew" -l ssl-key -d 'A file with the private key of that certificate, in PEM [env: DBLOCK_SSL_KEY]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand renew" -l server-public-key-path -d 'A file with the server\'s public key, in PEM, for a password that travels without TLS; without it the key that the server sends is trusted [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand renew" -l connect-timeout -d 'How long to try to reach a server: resolve names, try hosts, log in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand renew" -s q -l quiet -d 'Log errors only'
complete -c dblock -n "__fish_dblock_using_subcommand renew" -s v -l verbose -d 'Log what is done and how long it took; twice: every statement, never a password'
complete -c dblock -n "__fish_dblock_using_subcommand renew" -l no-defaults -d 'Read no option file'
complete -c dblock -n "__fish_dblock_using_subcommand renew" -s h -l help -d 'Print help'
complete -c dblock -n "__fish_dblock_using_subcommand release" -l url -d 'All in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock [env: DBLOCK_URL]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand release" -l host -d 'The server\'s name or address; localhost means its local socket [env: DBLOCK_HOST]' -r -f -a "(__fish_print_hostnames)"
complete -c dblock -n "__fish_dblock_using_subcommand release" -l port -d 'The server\'s TCP port [env: DBLOCK_PORT] [default: 3306]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand release" -l user -d 'The account [env: DBLOCK_USER] [default: the name of the OS user]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand release" -l socket -d 'The server\'s local socket [env: DBLOCK_SOCKET]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand release" -l protocol -d 'How localhost is reached; by its socket if not given [env: DBLOCK_PROTOCOL]' -r -f -a "tcp\t''
socket\t''"
complete -c dblock -n "__fish_dblock_using_subcommand release" -l password-file -d 'A file whose first line is the password [env, the password itself: DBLOCK_PASSWORD, MYSQL_PWD]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand release" -l database -d 'The database with dblock\'s tables, for what needs them; also the path of the URL [env: DBLOCK_DATABASE] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand release" -l defaults-file -d 'Read only this MySQL option file' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand release" -l defaults-extra-file -d 'Also read this option file, before ~/.my.cnf' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand release" -l defaults-group-suffix -d 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand release" -l ssl-mode -d 'Whether the connection is encrypted, as in the mysql client: if the server can; always; and only to a server whose certificate is signed by a trusted CA; and only if it is also for the host\'s name or address. Without it --ssl-ca means verify-ca [env: DBLOCK_SSL_MODE] [default: preferred]' -r -f -a "disabled\t''
preferred\t''
required\t''
verify-ca\t''
verify-identity\t''"
complete -c dblock -n "__fish_dblock_using_subcommand release" -l ssl-ca -d 'A file with the certificates of the CAs to trust, in PEM, in place of the system\'s [env: DBLOCK_SSL_CA]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand release" -l ssl-cert -d 'A file with dblock\'s own certificate, and those between it and its CA, in PEM [env: DBLOCK_SSL_CERT]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand release" -l ssl-key -d 'A file with the private key of that certificate, in PEM [env: DBLOCK_SSL_KEY]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand release" -l server-public-key-path -d 'A file with the server\'s public key, in PEM, for a password that travels without TLS; without it the key that the server sends is trusted [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand release" -l connect-timeout -d 'How long to try to reach a server: resolve names, try hosts, log in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand release" -s q -l quiet -d 'Log errors only'
complete -c dblock -n "__fish_dblock_using_subcommand release" -s v -l verbose -d 'Log what is done and how long it took; twice: every statement, never a password'
complete -c dblock -n "__fish_dblock_using_subcommand release" -l no-defaults -d 'Read no option file'
complete -c dblock -n "__fish_dblock_using_subcommand release" -s h -l help -d 'Print help'
complete -c dblock -n "__fish_dblock_using_subcommand history" -l since -d 'Only runs that were requested since then: so long ago, as 2h; or a time, as 2026-11-22, \'2026-11-22 08:30\', both UTC, or 2026-11-22T08:30:00+01:00' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand history" -s n -l limit -d 'The newest N runs; 0 is all [default: 20]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand history" -l url -d 'All in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock [env: DBLOCK_URL]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand history" -l host -d 'The server\'s name or address; localhost means its local socket [env: DBLOCK_HOST]' -r -f -a "(__fish_print_hostnames)"
complete -c dblock -n "__fish_dblock_using_subcommand history" -l port -d 'The server\'s TCP port [env: DBLOCK_PORT] [default: 3306]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand history" -l user -d 'The account [env: DBLOCK_USER] [default: the name of the OS user]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand history" -l socket -d 'The server\'s local socket [env: DBLOCK_SOCKET]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand history" -l protocol -d 'How localhost is reached; by its socket if not given [env: DBLOCK_PROTOCOL]' -r -f -a "tcp\t''
socket\t''"
complete -c dblock -n "__fish_dblock_using_subcommand history" -l password-file -d 'A file whose first line is the password [env, the password itself: DBLOCK_PASSWORD, MYSQL_PWD]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand history" -l database -d 'The database with dblock\'s tables, for what needs them; also the path of the URL [env: DBLOCK_DATABASE] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand history" -l defaults-file -d 'Read only this MySQL option file' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand history" -l defaults-extra-file -d 'Also read this option file, before ~/.my.cnf' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand history" -l defaults-group-suffix -d 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand history" -l ssl-mode -d 'Whether the connection is encrypted, as in the mysql client: if the server can; always; and only to a server whose certificate is signed by a trusted CA; and only if it is also for the host\'s name or address. Without it --ssl-ca means verify-ca [env: DBLOCK_SSL_MODE] [default: preferred]' -r -f -a "disabled\t''
preferred\t''
required\t''
verify-ca\t''
verify-identity\t''"
complete -c dblock -n "__fish_dblock_using_subcommand history" -l ssl-ca -d 'A file with the certificates of the CAs to trust, in PEM, in place of the system\'s [env: DBLOCK_SSL_CA]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand history" -l ssl-cert -d 'A file with dblock\'s own certificate, and those between it and its CA, in PEM [env: DBLOCK_SSL_CERT]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand history" -l ssl-key -d 'A file with the private key of that certificate, in PEM [env: DBLOCK_SSL_KEY]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand history" -l server-public-key-path -d 'A file with the server\'s public key, in PEM, for a password that travels without TLS; without it the key that the server sends is trusted [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand history" -l connect-timeout -d 'How long to try to reach a server: resolve names, try hosts, log in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand history" -l failed -d 'Only runs that failed: the command\'s exit code was not 0, it died of a signal, its time was over, the lock was lost, or nobody knows how it ended'
complete -c dblock -n "__fish_dblock_using_subcommand history" -l json -d 'Print JSON in place of the table'
complete -c dblock -n "__fish_dblock_using_subcommand history" -s q -l quiet -d 'Log errors only'
complete -c dblock -n "__fish_dblock_using_subcommand history" -s v -l verbose -d 'Log what is done and how long it took; twice: every statement, never a password'
complete -c dblock -n "__fish_dblock_using_subcommand history" -l no-defaults -d 'Read no option file'
complete -c dblock -n "__fish_dblock_using_subcommand history" -s h -l help -d 'Print help'
complete -c dblock -n "__fish_dblock_using_subcommand help; and not __fish_seen_subcommand_from run status kill check config init acquire renew release history help" -f -a "run" -d 'Run a command while holding a lock, and exit as it exited'
complete -c dblock -n "__fish_dblock_using_subcommand help; and not __fish_seen_subcommand_from run status kill check config init acquire renew release history help" -f -a "status" -d 'Show who holds a lock, who waits for it, and for how long'
complete -c dblock -n "__fish_dblock_using_subcommand help; and not __fish_seen_subcommand_from run status kill check config init acquire renew release history help" -f -a "kill" -d 'End the holder of a lock, and its command'
complete -c dblock -n "__fish_dblock_using_subcommand help; and not __fish_seen_subcommand_from run status kill check config init acquire renew release history help" -f -a "check" -d 'Check whether a server is fit to lock on, and how fast it is'
complete -c dblock -n "__fish_dblock_using_subcommand help; and not __fish_seen_subcommand_from run status kill check config init acquire renew release history help" -f -a "config" -d 'Print every setting in force and where it comes from'
complete -c dblock -n "__fish_dblock_using_subcommand help; and not __fish_seen_subcommand_from run status kill check config init acquire renew release history help" -f -a "init" -d 'Create dblock\'s tables, or upgrade them'
complete -c dblock -n "__fish_dblock_using_subcommand help; and not __fish_seen_subcommand_from run status kill check config init acquire renew release history help" -f -a "acquire" -d 'Acquire a lock that spans several commands of a script, and print its token'
complete -c dblock -n "__fish_dblock_using_subcommand help; and not __fish_seen_subcommand_from run status kill check config init acquire renew release history help" -f -a "renew" -d 'Hold a lock of dblock acquire for longer'
complete -c dblock -n "__fish_dblock_using_subcommand help; and not __fish_seen_subcommand_from run status kill check config init acquire renew release history help" -f -a "release" -d 'Release a lock of dblock acquire'
complete -c dblock -n "__fish_dblock_using_subcommand help; and not __fish_seen_subcommand_from run status kill check config init acquire renew release history help" -f -a "history" -d 'Show what ran where, when, and how it ended'
complete -c dblock -n "__fish_dblock_using_subcommand help; and not __fish_seen_subcommand_from run status kill check config init acquire renew release history help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
