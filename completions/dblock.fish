# Completes dblock in fish. Made by script/generate of src/settings/cli and crates/generate/texts/dblock.fish: change those.

# How many arguments a command has before the one that it runs; nothing if it runs none.
function __fish_dblock_before
    switch "$argv[1]"
        case 'run'
            echo 0
        case 'config'
            echo 0
        case 'queue work'
            echo 1
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
        if contains -- "$dblock_command $words[1]" 'run --keep-output' 'config --keep-output'
            set -e words[1]
            continue
        end
        switch $words[1]
            case --
                set -q words[2]; and set -a dblock_command $words[2..]
                break
            case --after --at --batch --bury-on --claim --color --conflict-exit-code --connect-timeout --database --dblock --defaults-extra-file --defaults-file --defaults-group-suffix --delay --every --grace --hold-at-least --host --host-name --if-unreachable --jobs --keep --keep-output --key --kill-after --limit --listen --max-attempts --max-concurrency --name --next --on --on-end --on-failure --on-lock-lost --once-at --once-per --output --owner --password-file --port --priority --protocol --refresh --report --result --retry-delay --run --schema --server-public-key-path --shards --since --slots --socket --ssl-ca --ssl-cert --ssl-key --ssl-mode --state --time-zone --timeout --tls-cert --tls-key --token --ttl --until --url --user --wait --watch -E -j -k -m -n -o -t -w
                # Its value is the next word, whatever that looks like.
                set -e words[1]
            case '-*'
            case '*'
                if not set -q dblock_command[1]; or contains -- "$dblock_command" 'cron' 'queue'
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
complete -c dblock -n '__fish_dblock_using_subcommand help' -a 'run status kill check config init acquire renew release history audit output metrics web cron queue help'
complete -c dblock -n "__fish_dblock_needs_command" -s h -l help -d 'Print help'
complete -c dblock -n "__fish_dblock_needs_command" -s V -l version -d 'Print version'
complete -c dblock -n "__fish_dblock_needs_command" -f -a "run" -d 'Run a command while holding a lock, and exit with its exit code'
complete -c dblock -n "__fish_dblock_needs_command" -f -a "status" -d 'Show who holds a lock, who waits for it, and for how long'
complete -c dblock -n "__fish_dblock_needs_command" -f -a "kill" -d 'End the holder of a lock, and its command'
complete -c dblock -n "__fish_dblock_needs_command" -f -a "check" -d 'Check whether a server is fit to lock on, and how fast it is'
complete -c dblock -n "__fish_dblock_needs_command" -f -a "config" -d 'Print every setting in force and where it comes from'
complete -c dblock -n "__fish_dblock_needs_command" -f -a "init" -d 'Create dblock\'s tables, or upgrade them'
complete -c dblock -n "__fish_dblock_needs_command" -f -a "acquire" -d 'Acquire a lock that spans several commands of a script, and print its token'
complete -c dblock -n "__fish_dblock_needs_command" -f -a "renew" -d 'Renew a lock that dblock acquire acquired'
complete -c dblock -n "__fish_dblock_needs_command" -f -a "release" -d 'Release a lock that dblock acquire acquired'
complete -c dblock -n "__fish_dblock_needs_command" -f -a "history" -d 'Show what ran where, when, and how it ended'
complete -c dblock -n "__fish_dblock_needs_command" -f -a "audit" -d 'Show who paused, resumed, triggered, retried, canceled or killed what'
complete -c dblock -n "__fish_dblock_needs_command" -f -a "output" -d 'Print what a command wrote, as far as it is kept'
complete -c dblock -n "__fish_dblock_needs_command" -f -a "metrics" -d 'Print what Prometheus collects: locks, jobs of the crontab, queues, and the server'
complete -c dblock -n "__fish_dblock_needs_command" -f -a "web" -d 'Show locks, the crontab, queues and the history in a browser'
complete -c dblock -n "__fish_dblock_needs_command" -f -a "cron" -d 'One crontab for all hosts'
complete -c dblock -n "__fish_dblock_needs_command" -f -a "queue" -d 'A queue of jobs: workers on all hosts run a command for each'
complete -c dblock -n "__fish_dblock_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c dblock -n "__fish_dblock_using_subcommand run" -s n -l name -d 'The lock. Runs with the same name exclude each other on all hosts that use the same server' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand run" -s m -l max-concurrency -d 'Allow N holders at once, 1 to 1000 [default: 1]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand run" -l slots -d 'A pool: one holder for each name. The command finds its name in DBLOCK_SLOT_NAME' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand run" -l key -d 'PostgreSQL: the key of the advisory lock, as another program takes it by pg_advisory_lock(N) or pg_advisory_lock(A, B), instead of one made of the name' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand run" -s w -l wait -d 'How long to wait for the lock: 0 does not wait, forever has no limit [default: 0]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand run" -s E -l conflict-exit-code -d 'Exit code if the lock was not acquired in time, 0 to 255; 0 makes a skip a success [default: 75]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand run" -s t -l timeout -d 'End the command if it runs longer: SIGTERM, then SIGKILL. Exit with 124, or 137 if SIGKILL was needed. 0 is no limit' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand run" -s k -l kill-after -d 'Time from SIGTERM to SIGKILL when dblock ends the command, at most a third of the TTL; 0 sends both at once [default: 10s, or a quarter of the TTL if that is less]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand run" -l ttl -d 'How long at most the server keeps the lock of a host that has vanished, and how long dblock tries to reacquire a lost lock: whole seconds, 4s to 1d. Choose it longer than a fail-over takes [default: 5m]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand run" -l on-lock-lost -d 'What to do if the lock is lost while the command runs. reacquire: try to reacquire it, and end the command if that fails. terminate: end the command at once. ignore: let it run [default: reacquire]' -r -f -a "reacquire\t''
terminate\t''
ignore\t''"
complete -c dblock -n "__fish_dblock_using_subcommand run" -l hold-at-least -d 'Hold the lock for at least this long after it was acquired, even if the command ends sooner. A host whose clock is late then finds it taken. dblock keeps running meanwhile, so what follows it after && is delayed. TERM, INT, QUIT and HUP end the wait' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand run" -l once-at -d 'Skip the run if a run of this name has already succeeded for this tick. The tick is the last time that CRON names, by the server\'s clock; CRON has five fields as in a crontab' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand run" -l time-zone -d 'The time zone of --once-at, for example Europe/Berlin or UTC [default: the host\'s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand run" -l once-per -d 'Skip the run if the last successful run of this name started less than this long ago' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand run" -l keep-output -d 'Keep the first 4 kB and the last 60 kB of what the command writes to stdout and stderr, for dblock output, and record the run. SIZE is how much in all, 8k to 480k. Not with a terminal' -f
complete -c dblock -n "__fish_dblock_using_subcommand run" -l token -d 'Run under a lock that dblock acquire acquired. dblock renews it while the command runs, and does not release it. A token runs one command at a time. - reads the token from stdin; without --name, DBLOCK_TOKEN gives it' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand run" -l if-unreachable -d 'If no server is reached in time: fail with 69, or run the command without the lock and warn [default: fail]' -r -f -a "fail\t''
run\t''"
complete -c dblock -n "__fish_dblock_using_subcommand run" -l report -d 'Append one line of JSON to this file at the end of each run, skips and failures included; - is stdout' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand run" -l on-failure -d 'Run this by /bin/sh -c after each run that failed, was lost or timed out, with the line of --report on its stdin. It has DBLOCK_NAME, DBLOCK_RESULT and DBLOCK_EXIT_CODE, and 30 s, and changes no exit code' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand run" -l on-end -d 'As --on-failure, after each run that was not skipped' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand run" -l url -d 'Everything in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock; for PostgreSQL postgres://user@host1,host2:5433/database?sslmode=verify-full, with the parameters of libpq [env: DBLOCK_URL]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand run" -l host -d 'The server\'s name or address; localhost means its local socket. PostgreSQL: also several, or the folder of a local socket; localhost means TCP [env: DBLOCK_HOST]' -r -f -a "(__fish_print_hostnames)"
complete -c dblock -n "__fish_dblock_using_subcommand run" -l port -d 'The server\'s TCP port; PostgreSQL\'s default is 5432 [env: DBLOCK_PORT] [default: 3306]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand run" -l user -d 'The account on the server [env: DBLOCK_USER] [default: the name of the OS user]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand run" -l socket -d 'The server\'s local socket; PostgreSQL: or its folder [env: DBLOCK_SOCKET]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand run" -l protocol -d 'How to reach localhost; by its socket if not given [env: DBLOCK_PROTOCOL]' -r -f -a "tcp\t''
socket\t''"
complete -c dblock -n "__fish_dblock_using_subcommand run" -l password-file -d 'A file whose first line is the password [env, with the password itself: DBLOCK_PASSWORD, MYSQL_PWD; PostgreSQL: PGPASSWORD, and then the file ~/.pgpass]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand run" -l database -d 'The database with dblock\'s tables; the path of the URL names it, too. PostgreSQL: the database whose locks dblock uses, without a default [env: DBLOCK_DATABASE] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand run" -l schema -d 'On PostgreSQL: the schema with dblock\'s tables, in the database that is connected to [env: DBLOCK_SCHEMA] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand run" -l defaults-file -d 'Read only this MySQL option file' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand run" -l defaults-extra-file -d 'Also read this option file, before ~/.my.cnf' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand run" -l defaults-group-suffix -d 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand run" -l ssl-mode -d 'As in the mysql client. preferred: TLS if the server offers it. required: always TLS. verify-ca: also check that a trusted CA signed the server\'s certificate. verify-identity: also check that the certificate is for the host\'s name or address. With --ssl-ca the default is verify-ca. PostgreSQL: also libpq\'s words, with libpq\'s meaning [env: DBLOCK_SSL_MODE] [default: preferred]' -r -f -a "disabled\t''
preferred\t''
required\t''
verify-ca\t''
verify-identity\t''"
complete -c dblock -n "__fish_dblock_using_subcommand run" -l ssl-ca -d 'A PEM file with the certificates of the CAs to trust instead of the system\'s [env: DBLOCK_SSL_CA]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand run" -l ssl-cert -d 'A PEM file with dblock\'s own certificate, followed by the intermediate ones [env: DBLOCK_SSL_CERT]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand run" -l ssl-key -d 'A PEM file with the private key of that certificate [env: DBLOCK_SSL_KEY]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand run" -l server-public-key-path -d 'A PEM file with the server\'s public key, which encrypts the password when there is no TLS. Without it dblock trusts the key that the server sends [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand run" -l connect-timeout -d 'How long to try to reach a server. It covers resolving names, trying hosts and logging in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand run" -l durable -d 'Also keep the lock as a row in dblock\'s tables. It outlives its session, a restart of the server and a fail-over, and excludes on clusters'
complete -c dblock -n "__fish_dblock_using_subcommand run" -l record -d 'Record the run for dblock history. A run that uses dblock\'s tables is always recorded'
complete -c dblock -n "__fish_dblock_using_subcommand run" -l allow-unfit-server -d 'Also lock on a server where the lock may not exclude (Galera, a replica): warn instead of exiting with 78'
complete -c dblock -n "__fish_dblock_using_subcommand run" -l scrub-env -d 'Remove DBLOCK_URL, the other connection variables, MYSQL_PWD and, with PostgreSQL, PGPASSWORD from the command\'s environment'
complete -c dblock -n "__fish_dblock_using_subcommand run" -s q -l quiet -d 'Log errors only'
complete -c dblock -n "__fish_dblock_using_subcommand run" -s v -l verbose -d 'Log each step and how long it took; given twice, log every statement, but never a password'
complete -c dblock -n "__fish_dblock_using_subcommand run" -l no-defaults -d 'Read no option file'
complete -c dblock -n "__fish_dblock_using_subcommand run" -s h -l help -d 'Print help'
complete -c dblock -n "__fish_dblock_using_subcommand status" -l key -d 'PostgreSQL: the key of the advisory lock, as another program takes it by pg_advisory_lock(N) or pg_advisory_lock(A, B), instead of one made of the name' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand status" -l watch -d 'Show the table again and again on the terminal, every DURATION: 100ms to 1d, 2s if none is given. q or Ctrl-C ends it' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand status" -l color -d 'Show results in colors: auto does on a terminal, unless NO_COLOR is set. The words say the same [default: auto]' -r -f -a "auto\t''
always\t''
never\t''"
complete -c dblock -n "__fish_dblock_using_subcommand status" -l url -d 'Everything in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock; for PostgreSQL postgres://user@host1,host2:5433/database?sslmode=verify-full, with the parameters of libpq [env: DBLOCK_URL]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand status" -l host -d 'The server\'s name or address; localhost means its local socket. PostgreSQL: also several, or the folder of a local socket; localhost means TCP [env: DBLOCK_HOST]' -r -f -a "(__fish_print_hostnames)"
complete -c dblock -n "__fish_dblock_using_subcommand status" -l port -d 'The server\'s TCP port; PostgreSQL\'s default is 5432 [env: DBLOCK_PORT] [default: 3306]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand status" -l user -d 'The account on the server [env: DBLOCK_USER] [default: the name of the OS user]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand status" -l socket -d 'The server\'s local socket; PostgreSQL: or its folder [env: DBLOCK_SOCKET]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand status" -l protocol -d 'How to reach localhost; by its socket if not given [env: DBLOCK_PROTOCOL]' -r -f -a "tcp\t''
socket\t''"
complete -c dblock -n "__fish_dblock_using_subcommand status" -l password-file -d 'A file whose first line is the password [env, with the password itself: DBLOCK_PASSWORD, MYSQL_PWD; PostgreSQL: PGPASSWORD, and then the file ~/.pgpass]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand status" -l database -d 'The database with dblock\'s tables; the path of the URL names it, too. PostgreSQL: the database whose locks dblock uses, without a default [env: DBLOCK_DATABASE] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand status" -l schema -d 'On PostgreSQL: the schema with dblock\'s tables, in the database that is connected to [env: DBLOCK_SCHEMA] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand status" -l defaults-file -d 'Read only this MySQL option file' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand status" -l defaults-extra-file -d 'Also read this option file, before ~/.my.cnf' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand status" -l defaults-group-suffix -d 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand status" -l ssl-mode -d 'As in the mysql client. preferred: TLS if the server offers it. required: always TLS. verify-ca: also check that a trusted CA signed the server\'s certificate. verify-identity: also check that the certificate is for the host\'s name or address. With --ssl-ca the default is verify-ca. PostgreSQL: also libpq\'s words, with libpq\'s meaning [env: DBLOCK_SSL_MODE] [default: preferred]' -r -f -a "disabled\t''
preferred\t''
required\t''
verify-ca\t''
verify-identity\t''"
complete -c dblock -n "__fish_dblock_using_subcommand status" -l ssl-ca -d 'A PEM file with the certificates of the CAs to trust instead of the system\'s [env: DBLOCK_SSL_CA]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand status" -l ssl-cert -d 'A PEM file with dblock\'s own certificate, followed by the intermediate ones [env: DBLOCK_SSL_CERT]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand status" -l ssl-key -d 'A PEM file with the private key of that certificate [env: DBLOCK_SSL_KEY]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand status" -l server-public-key-path -d 'A PEM file with the server\'s public key, which encrypts the password when there is no TLS. Without it dblock trusts the key that the server sends [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand status" -l connect-timeout -d 'How long to try to reach a server. It covers resolving names, trying hosts and logging in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand status" -l json -d 'Print JSON instead of the table'
complete -c dblock -n "__fish_dblock_using_subcommand status" -s q -l quiet -d 'Log errors only'
complete -c dblock -n "__fish_dblock_using_subcommand status" -s v -l verbose -d 'Log each step and how long it took; given twice, log every statement, but never a password'
complete -c dblock -n "__fish_dblock_using_subcommand status" -l no-defaults -d 'Read no option file'
complete -c dblock -n "__fish_dblock_using_subcommand status" -s h -l help -d 'Print help'
complete -c dblock -n "__fish_dblock_using_subcommand kill" -s w -l wait -d 'How long to wait for the holder\'s command to end: 0 does not wait; forever has no limit, except for a holder without a durable lock that does not answer: its TTL. The holder must answer within the connect timeout [default: 30s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand kill" -l key -d 'PostgreSQL: the key of the advisory lock, as another program takes it by pg_advisory_lock(N) or pg_advisory_lock(A, B), instead of one made of the name' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand kill" -l url -d 'Everything in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock; for PostgreSQL postgres://user@host1,host2:5433/database?sslmode=verify-full, with the parameters of libpq [env: DBLOCK_URL]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand kill" -l host -d 'The server\'s name or address; localhost means its local socket. PostgreSQL: also several, or the folder of a local socket; localhost means TCP [env: DBLOCK_HOST]' -r -f -a "(__fish_print_hostnames)"
complete -c dblock -n "__fish_dblock_using_subcommand kill" -l port -d 'The server\'s TCP port; PostgreSQL\'s default is 5432 [env: DBLOCK_PORT] [default: 3306]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand kill" -l user -d 'The account on the server [env: DBLOCK_USER] [default: the name of the OS user]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand kill" -l socket -d 'The server\'s local socket; PostgreSQL: or its folder [env: DBLOCK_SOCKET]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand kill" -l protocol -d 'How to reach localhost; by its socket if not given [env: DBLOCK_PROTOCOL]' -r -f -a "tcp\t''
socket\t''"
complete -c dblock -n "__fish_dblock_using_subcommand kill" -l password-file -d 'A file whose first line is the password [env, with the password itself: DBLOCK_PASSWORD, MYSQL_PWD; PostgreSQL: PGPASSWORD, and then the file ~/.pgpass]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand kill" -l database -d 'The database with dblock\'s tables; the path of the URL names it, too. PostgreSQL: the database whose locks dblock uses, without a default [env: DBLOCK_DATABASE] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand kill" -l schema -d 'On PostgreSQL: the schema with dblock\'s tables, in the database that is connected to [env: DBLOCK_SCHEMA] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand kill" -l defaults-file -d 'Read only this MySQL option file' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand kill" -l defaults-extra-file -d 'Also read this option file, before ~/.my.cnf' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand kill" -l defaults-group-suffix -d 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand kill" -l ssl-mode -d 'As in the mysql client. preferred: TLS if the server offers it. required: always TLS. verify-ca: also check that a trusted CA signed the server\'s certificate. verify-identity: also check that the certificate is for the host\'s name or address. With --ssl-ca the default is verify-ca. PostgreSQL: also libpq\'s words, with libpq\'s meaning [env: DBLOCK_SSL_MODE] [default: preferred]' -r -f -a "disabled\t''
preferred\t''
required\t''
verify-ca\t''
verify-identity\t''"
complete -c dblock -n "__fish_dblock_using_subcommand kill" -l ssl-ca -d 'A PEM file with the certificates of the CAs to trust instead of the system\'s [env: DBLOCK_SSL_CA]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand kill" -l ssl-cert -d 'A PEM file with dblock\'s own certificate, followed by the intermediate ones [env: DBLOCK_SSL_CERT]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand kill" -l ssl-key -d 'A PEM file with the private key of that certificate [env: DBLOCK_SSL_KEY]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand kill" -l server-public-key-path -d 'A PEM file with the server\'s public key, which encrypts the password when there is no TLS. Without it dblock trusts the key that the server sends [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand kill" -l connect-timeout -d 'How long to try to reach a server. It covers resolving names, trying hosts and logging in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand kill" -l force -d 'Take a durable lock from its holder at once, without asking it. Use it only if you know that the host is dead'
complete -c dblock -n "__fish_dblock_using_subcommand kill" -l dry-run -d 'Show which holder would be ended, and end none'
complete -c dblock -n "__fish_dblock_using_subcommand kill" -s q -l quiet -d 'Log errors only'
complete -c dblock -n "__fish_dblock_using_subcommand kill" -s v -l verbose -d 'Log each step and how long it took; given twice, log every statement, but never a password'
complete -c dblock -n "__fish_dblock_using_subcommand kill" -l no-defaults -d 'Read no option file'
complete -c dblock -n "__fish_dblock_using_subcommand kill" -s h -l help -d 'Print help'
complete -c dblock -n "__fish_dblock_using_subcommand check" -l url -d 'Everything in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock; for PostgreSQL postgres://user@host1,host2:5433/database?sslmode=verify-full, with the parameters of libpq [env: DBLOCK_URL]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand check" -l host -d 'The server\'s name or address; localhost means its local socket. PostgreSQL: also several, or the folder of a local socket; localhost means TCP [env: DBLOCK_HOST]' -r -f -a "(__fish_print_hostnames)"
complete -c dblock -n "__fish_dblock_using_subcommand check" -l port -d 'The server\'s TCP port; PostgreSQL\'s default is 5432 [env: DBLOCK_PORT] [default: 3306]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand check" -l user -d 'The account on the server [env: DBLOCK_USER] [default: the name of the OS user]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand check" -l socket -d 'The server\'s local socket; PostgreSQL: or its folder [env: DBLOCK_SOCKET]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand check" -l protocol -d 'How to reach localhost; by its socket if not given [env: DBLOCK_PROTOCOL]' -r -f -a "tcp\t''
socket\t''"
complete -c dblock -n "__fish_dblock_using_subcommand check" -l password-file -d 'A file whose first line is the password [env, with the password itself: DBLOCK_PASSWORD, MYSQL_PWD; PostgreSQL: PGPASSWORD, and then the file ~/.pgpass]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand check" -l database -d 'The database with dblock\'s tables; the path of the URL names it, too. PostgreSQL: the database whose locks dblock uses, without a default [env: DBLOCK_DATABASE] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand check" -l schema -d 'On PostgreSQL: the schema with dblock\'s tables, in the database that is connected to [env: DBLOCK_SCHEMA] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand check" -l defaults-file -d 'Read only this MySQL option file' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand check" -l defaults-extra-file -d 'Also read this option file, before ~/.my.cnf' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand check" -l defaults-group-suffix -d 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand check" -l ssl-mode -d 'As in the mysql client. preferred: TLS if the server offers it. required: always TLS. verify-ca: also check that a trusted CA signed the server\'s certificate. verify-identity: also check that the certificate is for the host\'s name or address. With --ssl-ca the default is verify-ca. PostgreSQL: also libpq\'s words, with libpq\'s meaning [env: DBLOCK_SSL_MODE] [default: preferred]' -r -f -a "disabled\t''
preferred\t''
required\t''
verify-ca\t''
verify-identity\t''"
complete -c dblock -n "__fish_dblock_using_subcommand check" -l ssl-ca -d 'A PEM file with the certificates of the CAs to trust instead of the system\'s [env: DBLOCK_SSL_CA]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand check" -l ssl-cert -d 'A PEM file with dblock\'s own certificate, followed by the intermediate ones [env: DBLOCK_SSL_CERT]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand check" -l ssl-key -d 'A PEM file with the private key of that certificate [env: DBLOCK_SSL_KEY]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand check" -l server-public-key-path -d 'A PEM file with the server\'s public key, which encrypts the password when there is no TLS. Without it dblock trusts the key that the server sends [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand check" -l connect-timeout -d 'How long to try to reach a server. It covers resolving names, trying hosts and logging in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand check" -l json -d 'Print JSON instead of the table'
complete -c dblock -n "__fish_dblock_using_subcommand check" -s q -l quiet -d 'Log errors only'
complete -c dblock -n "__fish_dblock_using_subcommand check" -s v -l verbose -d 'Log each step and how long it took; given twice, log every statement, but never a password'
complete -c dblock -n "__fish_dblock_using_subcommand check" -l no-defaults -d 'Read no option file'
complete -c dblock -n "__fish_dblock_using_subcommand check" -s h -l help -d 'Print help'
complete -c dblock -n "__fish_dblock_using_subcommand config" -s n -l name -d 'The lock. Runs with the same name exclude each other on all hosts that use the same server' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand config" -s m -l max-concurrency -d 'Allow N holders at once, 1 to 1000 [default: 1]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand config" -l slots -d 'A pool: one holder for each name. The command finds its name in DBLOCK_SLOT_NAME' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand config" -l key -d 'PostgreSQL: the key of the advisory lock, as another program takes it by pg_advisory_lock(N) or pg_advisory_lock(A, B), instead of one made of the name' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand config" -s w -l wait -d 'How long to wait for the lock: 0 does not wait, forever has no limit [default: 0]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand config" -s E -l conflict-exit-code -d 'Exit code if the lock was not acquired in time, 0 to 255; 0 makes a skip a success [default: 75]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand config" -s t -l timeout -d 'End the command if it runs longer: SIGTERM, then SIGKILL. Exit with 124, or 137 if SIGKILL was needed. 0 is no limit' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand config" -s k -l kill-after -d 'Time from SIGTERM to SIGKILL when dblock ends the command, at most a third of the TTL; 0 sends both at once [default: 10s, or a quarter of the TTL if that is less]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand config" -l ttl -d 'How long at most the server keeps the lock of a host that has vanished, and how long dblock tries to reacquire a lost lock: whole seconds, 4s to 1d. Choose it longer than a fail-over takes [default: 5m]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand config" -l on-lock-lost -d 'What to do if the lock is lost while the command runs. reacquire: try to reacquire it, and end the command if that fails. terminate: end the command at once. ignore: let it run [default: reacquire]' -r -f -a "reacquire\t''
terminate\t''
ignore\t''"
complete -c dblock -n "__fish_dblock_using_subcommand config" -l hold-at-least -d 'Hold the lock for at least this long after it was acquired, even if the command ends sooner. A host whose clock is late then finds it taken. dblock keeps running meanwhile, so what follows it after && is delayed. TERM, INT, QUIT and HUP end the wait' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand config" -l once-at -d 'Skip the run if a run of this name has already succeeded for this tick. The tick is the last time that CRON names, by the server\'s clock; CRON has five fields as in a crontab' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand config" -l time-zone -d 'The time zone of --once-at, for example Europe/Berlin or UTC [default: the host\'s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand config" -l once-per -d 'Skip the run if the last successful run of this name started less than this long ago' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand config" -l keep-output -d 'Keep the first 4 kB and the last 60 kB of what the command writes to stdout and stderr, for dblock output, and record the run. SIZE is how much in all, 8k to 480k. Not with a terminal' -f
complete -c dblock -n "__fish_dblock_using_subcommand config" -l token -d 'Run under a lock that dblock acquire acquired. dblock renews it while the command runs, and does not release it. A token runs one command at a time. - reads the token from stdin; without --name, DBLOCK_TOKEN gives it' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand config" -l if-unreachable -d 'If no server is reached in time: fail with 69, or run the command without the lock and warn [default: fail]' -r -f -a "fail\t''
run\t''"
complete -c dblock -n "__fish_dblock_using_subcommand config" -l report -d 'Append one line of JSON to this file at the end of each run, skips and failures included; - is stdout' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand config" -l on-failure -d 'Run this by /bin/sh -c after each run that failed, was lost or timed out, with the line of --report on its stdin. It has DBLOCK_NAME, DBLOCK_RESULT and DBLOCK_EXIT_CODE, and 30 s, and changes no exit code' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand config" -l on-end -d 'As --on-failure, after each run that was not skipped' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand config" -l url -d 'Everything in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock; for PostgreSQL postgres://user@host1,host2:5433/database?sslmode=verify-full, with the parameters of libpq [env: DBLOCK_URL]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand config" -l host -d 'The server\'s name or address; localhost means its local socket. PostgreSQL: also several, or the folder of a local socket; localhost means TCP [env: DBLOCK_HOST]' -r -f -a "(__fish_print_hostnames)"
complete -c dblock -n "__fish_dblock_using_subcommand config" -l port -d 'The server\'s TCP port; PostgreSQL\'s default is 5432 [env: DBLOCK_PORT] [default: 3306]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand config" -l user -d 'The account on the server [env: DBLOCK_USER] [default: the name of the OS user]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand config" -l socket -d 'The server\'s local socket; PostgreSQL: or its folder [env: DBLOCK_SOCKET]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand config" -l protocol -d 'How to reach localhost; by its socket if not given [env: DBLOCK_PROTOCOL]' -r -f -a "tcp\t''
socket\t''"
complete -c dblock -n "__fish_dblock_using_subcommand config" -l password-file -d 'A file whose first line is the password [env, with the password itself: DBLOCK_PASSWORD, MYSQL_PWD; PostgreSQL: PGPASSWORD, and then the file ~/.pgpass]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand config" -l database -d 'The database with dblock\'s tables; the path of the URL names it, too. PostgreSQL: the database whose locks dblock uses, without a default [env: DBLOCK_DATABASE] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand config" -l schema -d 'On PostgreSQL: the schema with dblock\'s tables, in the database that is connected to [env: DBLOCK_SCHEMA] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand config" -l defaults-file -d 'Read only this MySQL option file' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand config" -l defaults-extra-file -d 'Also read this option file, before ~/.my.cnf' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand config" -l defaults-group-suffix -d 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand config" -l ssl-mode -d 'As in the mysql client. preferred: TLS if the server offers it. required: always TLS. verify-ca: also check that a trusted CA signed the server\'s certificate. verify-identity: also check that the certificate is for the host\'s name or address. With --ssl-ca the default is verify-ca. PostgreSQL: also libpq\'s words, with libpq\'s meaning [env: DBLOCK_SSL_MODE] [default: preferred]' -r -f -a "disabled\t''
preferred\t''
required\t''
verify-ca\t''
verify-identity\t''"
complete -c dblock -n "__fish_dblock_using_subcommand config" -l ssl-ca -d 'A PEM file with the certificates of the CAs to trust instead of the system\'s [env: DBLOCK_SSL_CA]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand config" -l ssl-cert -d 'A PEM file with dblock\'s own certificate, followed by the intermediate ones [env: DBLOCK_SSL_CERT]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand config" -l ssl-key -d 'A PEM file with the private key of that certificate [env: DBLOCK_SSL_KEY]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand config" -l server-public-key-path -d 'A PEM file with the server\'s public key, which encrypts the password when there is no TLS. Without it dblock trusts the key that the server sends [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand config" -l connect-timeout -d 'How long to try to reach a server. It covers resolving names, trying hosts and logging in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand config" -l json -d 'Print JSON instead of the table'
complete -c dblock -n "__fish_dblock_using_subcommand config" -l durable -d 'Also keep the lock as a row in dblock\'s tables. It outlives its session, a restart of the server and a fail-over, and excludes on clusters'
complete -c dblock -n "__fish_dblock_using_subcommand config" -l record -d 'Record the run for dblock history. A run that uses dblock\'s tables is always recorded'
complete -c dblock -n "__fish_dblock_using_subcommand config" -l allow-unfit-server -d 'Also lock on a server where the lock may not exclude (Galera, a replica): warn instead of exiting with 78'
complete -c dblock -n "__fish_dblock_using_subcommand config" -l scrub-env -d 'Remove DBLOCK_URL, the other connection variables, MYSQL_PWD and, with PostgreSQL, PGPASSWORD from the command\'s environment'
complete -c dblock -n "__fish_dblock_using_subcommand config" -s q -l quiet -d 'Log errors only'
complete -c dblock -n "__fish_dblock_using_subcommand config" -s v -l verbose -d 'Log each step and how long it took; given twice, log every statement, but never a password'
complete -c dblock -n "__fish_dblock_using_subcommand config" -l no-defaults -d 'Read no option file'
complete -c dblock -n "__fish_dblock_using_subcommand config" -s h -l help -d 'Print help'
complete -c dblock -n "__fish_dblock_using_subcommand init" -l keep -d 'How long to keep the history. The last N runs of each name in use are kept even if they are older; N is 100 if not given. New tables have 30d,100' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand init" -l url -d 'Everything in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock; for PostgreSQL postgres://user@host1,host2:5433/database?sslmode=verify-full, with the parameters of libpq [env: DBLOCK_URL]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand init" -l host -d 'The server\'s name or address; localhost means its local socket. PostgreSQL: also several, or the folder of a local socket; localhost means TCP [env: DBLOCK_HOST]' -r -f -a "(__fish_print_hostnames)"
complete -c dblock -n "__fish_dblock_using_subcommand init" -l port -d 'The server\'s TCP port; PostgreSQL\'s default is 5432 [env: DBLOCK_PORT] [default: 3306]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand init" -l user -d 'The account on the server [env: DBLOCK_USER] [default: the name of the OS user]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand init" -l socket -d 'The server\'s local socket; PostgreSQL: or its folder [env: DBLOCK_SOCKET]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand init" -l protocol -d 'How to reach localhost; by its socket if not given [env: DBLOCK_PROTOCOL]' -r -f -a "tcp\t''
socket\t''"
complete -c dblock -n "__fish_dblock_using_subcommand init" -l password-file -d 'A file whose first line is the password [env, with the password itself: DBLOCK_PASSWORD, MYSQL_PWD; PostgreSQL: PGPASSWORD, and then the file ~/.pgpass]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand init" -l database -d 'The database with dblock\'s tables; the path of the URL names it, too. PostgreSQL: the database whose locks dblock uses, without a default [env: DBLOCK_DATABASE] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand init" -l schema -d 'On PostgreSQL: the schema with dblock\'s tables, in the database that is connected to [env: DBLOCK_SCHEMA] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand init" -l defaults-file -d 'Read only this MySQL option file' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand init" -l defaults-extra-file -d 'Also read this option file, before ~/.my.cnf' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand init" -l defaults-group-suffix -d 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand init" -l ssl-mode -d 'As in the mysql client. preferred: TLS if the server offers it. required: always TLS. verify-ca: also check that a trusted CA signed the server\'s certificate. verify-identity: also check that the certificate is for the host\'s name or address. With --ssl-ca the default is verify-ca. PostgreSQL: also libpq\'s words, with libpq\'s meaning [env: DBLOCK_SSL_MODE] [default: preferred]' -r -f -a "disabled\t''
preferred\t''
required\t''
verify-ca\t''
verify-identity\t''"
complete -c dblock -n "__fish_dblock_using_subcommand init" -l ssl-ca -d 'A PEM file with the certificates of the CAs to trust instead of the system\'s [env: DBLOCK_SSL_CA]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand init" -l ssl-cert -d 'A PEM file with dblock\'s own certificate, followed by the intermediate ones [env: DBLOCK_SSL_CERT]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand init" -l ssl-key -d 'A PEM file with the private key of that certificate [env: DBLOCK_SSL_KEY]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand init" -l server-public-key-path -d 'A PEM file with the server\'s public key, which encrypts the password when there is no TLS. Without it dblock trusts the key that the server sends [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand init" -l connect-timeout -d 'How long to try to reach a server. It covers resolving names, trying hosts and logging in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand init" -l print -d 'Print the SQL, with the grant for the account of --user. It changes nothing and connects to no server'
complete -c dblock -n "__fish_dblock_using_subcommand init" -l check -d 'Change nothing. Exit with 0 if the tables are current, with 77 if the account may not read them, otherwise with 78 and a line that says what is missing'
complete -c dblock -n "__fish_dblock_using_subcommand init" -s q -l quiet -d 'Log errors only'
complete -c dblock -n "__fish_dblock_using_subcommand init" -s v -l verbose -d 'Log each step and how long it took; given twice, log every statement, but never a password'
complete -c dblock -n "__fish_dblock_using_subcommand init" -l no-defaults -d 'Read no option file'
complete -c dblock -n "__fish_dblock_using_subcommand init" -s h -l help -d 'Print help'
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -s n -l name -d 'The lock. Runs with the same name exclude each other on all hosts that use the same server' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -s m -l max-concurrency -d 'Allow N holders at once, 1 to 1000 [default: 1]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -l slots -d 'A pool: one holder for each name. The command finds its name in DBLOCK_SLOT_NAME' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -s w -l wait -d 'How long to wait for the lock: 0 does not wait, forever has no limit [default: 0]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -l ttl -d 'How long the lock is held unless it is renewed: whole seconds, 4s to 30d [default: 10m]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -l owner -d 'Take over at once a lock that was acquired with the same ID. It gets a new token, and the old one becomes invalid. For a script that may be restarted, for example by a CI server' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -l url -d 'Everything in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock; for PostgreSQL postgres://user@host1,host2:5433/database?sslmode=verify-full, with the parameters of libpq [env: DBLOCK_URL]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -l host -d 'The server\'s name or address; localhost means its local socket. PostgreSQL: also several, or the folder of a local socket; localhost means TCP [env: DBLOCK_HOST]' -r -f -a "(__fish_print_hostnames)"
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -l port -d 'The server\'s TCP port; PostgreSQL\'s default is 5432 [env: DBLOCK_PORT] [default: 3306]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -l user -d 'The account on the server [env: DBLOCK_USER] [default: the name of the OS user]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -l socket -d 'The server\'s local socket; PostgreSQL: or its folder [env: DBLOCK_SOCKET]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -l protocol -d 'How to reach localhost; by its socket if not given [env: DBLOCK_PROTOCOL]' -r -f -a "tcp\t''
socket\t''"
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -l password-file -d 'A file whose first line is the password [env, with the password itself: DBLOCK_PASSWORD, MYSQL_PWD; PostgreSQL: PGPASSWORD, and then the file ~/.pgpass]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -l database -d 'The database with dblock\'s tables; the path of the URL names it, too. PostgreSQL: the database whose locks dblock uses, without a default [env: DBLOCK_DATABASE] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -l schema -d 'On PostgreSQL: the schema with dblock\'s tables, in the database that is connected to [env: DBLOCK_SCHEMA] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -l defaults-file -d 'Read only this MySQL option file' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -l defaults-extra-file -d 'Also read this option file, before ~/.my.cnf' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -l defaults-group-suffix -d 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -l ssl-mode -d 'As in the mysql client. preferred: TLS if the server offers it. required: always TLS. verify-ca: also check that a trusted CA signed the server\'s certificate. verify-identity: also check that the certificate is for the host\'s name or address. With --ssl-ca the default is verify-ca. PostgreSQL: also libpq\'s words, with libpq\'s meaning [env: DBLOCK_SSL_MODE] [default: preferred]' -r -f -a "disabled\t''
preferred\t''
required\t''
verify-ca\t''
verify-identity\t''"
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -l ssl-ca -d 'A PEM file with the certificates of the CAs to trust instead of the system\'s [env: DBLOCK_SSL_CA]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -l ssl-cert -d 'A PEM file with dblock\'s own certificate, followed by the intermediate ones [env: DBLOCK_SSL_CERT]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -l ssl-key -d 'A PEM file with the private key of that certificate [env: DBLOCK_SSL_KEY]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -l server-public-key-path -d 'A PEM file with the server\'s public key, which encrypts the password when there is no TLS. Without it dblock trusts the key that the server sends [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -l connect-timeout -d 'How long to try to reach a server. It covers resolving names, trying hosts and logging in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -l json -d 'Print JSON instead of the table'
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -s q -l quiet -d 'Log errors only'
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -s v -l verbose -d 'Log each step and how long it took; given twice, log every statement, but never a password'
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -l no-defaults -d 'Read no option file'
complete -c dblock -n "__fish_dblock_using_subcommand acquire" -s h -l help -d 'Print help'
complete -c dblock -n "__fish_dblock_using_subcommand renew" -l ttl -d 'How long to hold the lock from now on: whole seconds, 4s to 30d; the TTL of dblock acquire if not given' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand renew" -l url -d 'Everything in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock; for PostgreSQL postgres://user@host1,host2:5433/database?sslmode=verify-full, with the parameters of libpq [env: DBLOCK_URL]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand renew" -l host -d 'The server\'s name or address; localhost means its local socket. PostgreSQL: also several, or the folder of a local socket; localhost means TCP [env: DBLOCK_HOST]' -r -f -a "(__fish_print_hostnames)"
complete -c dblock -n "__fish_dblock_using_subcommand renew" -l port -d 'The server\'s TCP port; PostgreSQL\'s default is 5432 [env: DBLOCK_PORT] [default: 3306]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand renew" -l user -d 'The account on the server [env: DBLOCK_USER] [default: the name of the OS user]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand renew" -l socket -d 'The server\'s local socket; PostgreSQL: or its folder [env: DBLOCK_SOCKET]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand renew" -l protocol -d 'How to reach localhost; by its socket if not given [env: DBLOCK_PROTOCOL]' -r -f -a "tcp\t''
socket\t''"
complete -c dblock -n "__fish_dblock_using_subcommand renew" -l password-file -d 'A file whose first line is the password [env, with the password itself: DBLOCK_PASSWORD, MYSQL_PWD; PostgreSQL: PGPASSWORD, and then the file ~/.pgpass]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand renew" -l database -d 'The database with dblock\'s tables; the path of the URL names it, too. PostgreSQL: the database whose locks dblock uses, without a default [env: DBLOCK_DATABASE] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand renew" -l schema -d 'On PostgreSQL: the schema with dblock\'s tables, in the database that is connected to [env: DBLOCK_SCHEMA] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand renew" -l defaults-file -d 'Read only this MySQL option file' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand renew" -l defaults-extra-file -d 'Also read this option file, before ~/.my.cnf' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand renew" -l defaults-group-suffix -d 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand renew" -l ssl-mode -d 'As in the mysql client. preferred: TLS if the server offers it. required: always TLS. verify-ca: also check that a trusted CA signed the server\'s certificate. verify-identity: also check that the certificate is for the host\'s name or address. With --ssl-ca the default is verify-ca. PostgreSQL: also libpq\'s words, with libpq\'s meaning [env: DBLOCK_SSL_MODE] [default: preferred]' -r -f -a "disabled\t''
preferred\t''
required\t''
verify-ca\t''
verify-identity\t''"
complete -c dblock -n "__fish_dblock_using_subcommand renew" -l ssl-ca -d 'A PEM file with the certificates of the CAs to trust instead of the system\'s [env: DBLOCK_SSL_CA]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand renew" -l ssl-cert -d 'A PEM file with dblock\'s own certificate, followed by the intermediate ones [env: DBLOCK_SSL_CERT]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand renew" -l ssl-key -d 'A PEM file with the private key of that certificate [env: DBLOCK_SSL_KEY]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand renew" -l server-public-key-path -d 'A PEM file with the server\'s public key, which encrypts the password when there is no TLS. Without it dblock trusts the key that the server sends [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand renew" -l connect-timeout -d 'How long to try to reach a server. It covers resolving names, trying hosts and logging in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand renew" -s q -l quiet -d 'Log errors only'
complete -c dblock -n "__fish_dblock_using_subcommand renew" -s v -l verbose -d 'Log each step and how long it took; given twice, log every statement, but never a password'
complete -c dblock -n "__fish_dblock_using_subcommand renew" -l no-defaults -d 'Read no option file'
complete -c dblock -n "__fish_dblock_using_subcommand renew" -s h -l help -d 'Print help'
complete -c dblock -n "__fish_dblock_using_subcommand release" -l url -d 'Everything in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock; for PostgreSQL postgres://user@host1,host2:5433/database?sslmode=verify-full, with the parameters of libpq [env: DBLOCK_URL]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand release" -l host -d 'The server\'s name or address; localhost means its local socket. PostgreSQL: also several, or the folder of a local socket; localhost means TCP [env: DBLOCK_HOST]' -r -f -a "(__fish_print_hostnames)"
complete -c dblock -n "__fish_dblock_using_subcommand release" -l port -d 'The server\'s TCP port; PostgreSQL\'s default is 5432 [env: DBLOCK_PORT] [default: 3306]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand release" -l user -d 'The account on the server [env: DBLOCK_USER] [default: the name of the OS user]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand release" -l socket -d 'The server\'s local socket; PostgreSQL: or its folder [env: DBLOCK_SOCKET]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand release" -l protocol -d 'How to reach localhost; by its socket if not given [env: DBLOCK_PROTOCOL]' -r -f -a "tcp\t''
socket\t''"
complete -c dblock -n "__fish_dblock_using_subcommand release" -l password-file -d 'A file whose first line is the password [env, with the password itself: DBLOCK_PASSWORD, MYSQL_PWD; PostgreSQL: PGPASSWORD, and then the file ~/.pgpass]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand release" -l database -d 'The database with dblock\'s tables; the path of the URL names it, too. PostgreSQL: the database whose locks dblock uses, without a default [env: DBLOCK_DATABASE] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand release" -l schema -d 'On PostgreSQL: the schema with dblock\'s tables, in the database that is connected to [env: DBLOCK_SCHEMA] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand release" -l defaults-file -d 'Read only this MySQL option file' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand release" -l defaults-extra-file -d 'Also read this option file, before ~/.my.cnf' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand release" -l defaults-group-suffix -d 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand release" -l ssl-mode -d 'As in the mysql client. preferred: TLS if the server offers it. required: always TLS. verify-ca: also check that a trusted CA signed the server\'s certificate. verify-identity: also check that the certificate is for the host\'s name or address. With --ssl-ca the default is verify-ca. PostgreSQL: also libpq\'s words, with libpq\'s meaning [env: DBLOCK_SSL_MODE] [default: preferred]' -r -f -a "disabled\t''
preferred\t''
required\t''
verify-ca\t''
verify-identity\t''"
complete -c dblock -n "__fish_dblock_using_subcommand release" -l ssl-ca -d 'A PEM file with the certificates of the CAs to trust instead of the system\'s [env: DBLOCK_SSL_CA]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand release" -l ssl-cert -d 'A PEM file with dblock\'s own certificate, followed by the intermediate ones [env: DBLOCK_SSL_CERT]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand release" -l ssl-key -d 'A PEM file with the private key of that certificate [env: DBLOCK_SSL_KEY]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand release" -l server-public-key-path -d 'A PEM file with the server\'s public key, which encrypts the password when there is no TLS. Without it dblock trusts the key that the server sends [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand release" -l connect-timeout -d 'How long to try to reach a server. It covers resolving names, trying hosts and logging in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand release" -s q -l quiet -d 'Log errors only'
complete -c dblock -n "__fish_dblock_using_subcommand release" -s v -l verbose -d 'Log each step and how long it took; given twice, log every statement, but never a password'
complete -c dblock -n "__fish_dblock_using_subcommand release" -l no-defaults -d 'Read no option file'
complete -c dblock -n "__fish_dblock_using_subcommand release" -s h -l help -d 'Print help'
complete -c dblock -n "__fish_dblock_using_subcommand history" -l since -d 'Only runs that were requested since then: a duration before now (2h), a time in UTC (2026-11-22 or \'2026-11-22 08:30\'), or a time with its offset (2026-11-22T08:30:00+01:00)' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand history" -l until -d 'Only runs that were requested before then, given as for --since' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand history" -l on -d 'Only runs on this host, named as the column HOST shows it' -r -f -a "(__fish_print_hostnames)"
complete -c dblock -n "__fish_dblock_using_subcommand history" -l result -d 'Only runs that ended so. ran is any command that ended by itself, whatever it returned' -r -f -a "ran\t''
timed_out\t''
lost\t''
skipped\t''
interrupted\t''
failed\t''
released\t''
running\t''
unknown\t''"
complete -c dblock -n "__fish_dblock_using_subcommand history" -l run -d 'Only the run of this number, as --json has it' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand history" -l after -d 'The next page: the runs that are older than those of the page that printed CURSOR' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand history" -s n -l limit -d 'Only the newest N runs; 0 shows all [default: 20]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand history" -l watch -d 'Show the table again and again on the terminal, every DURATION: 100ms to 1d, 2s if none is given. q or Ctrl-C ends it' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand history" -l color -d 'Show results in colors: auto does on a terminal, unless NO_COLOR is set. The words say the same [default: auto]' -r -f -a "auto\t''
always\t''
never\t''"
complete -c dblock -n "__fish_dblock_using_subcommand history" -l url -d 'Everything in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock; for PostgreSQL postgres://user@host1,host2:5433/database?sslmode=verify-full, with the parameters of libpq [env: DBLOCK_URL]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand history" -l host -d 'The server\'s name or address; localhost means its local socket. PostgreSQL: also several, or the folder of a local socket; localhost means TCP [env: DBLOCK_HOST]' -r -f -a "(__fish_print_hostnames)"
complete -c dblock -n "__fish_dblock_using_subcommand history" -l port -d 'The server\'s TCP port; PostgreSQL\'s default is 5432 [env: DBLOCK_PORT] [default: 3306]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand history" -l user -d 'The account on the server [env: DBLOCK_USER] [default: the name of the OS user]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand history" -l socket -d 'The server\'s local socket; PostgreSQL: or its folder [env: DBLOCK_SOCKET]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand history" -l protocol -d 'How to reach localhost; by its socket if not given [env: DBLOCK_PROTOCOL]' -r -f -a "tcp\t''
socket\t''"
complete -c dblock -n "__fish_dblock_using_subcommand history" -l password-file -d 'A file whose first line is the password [env, with the password itself: DBLOCK_PASSWORD, MYSQL_PWD; PostgreSQL: PGPASSWORD, and then the file ~/.pgpass]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand history" -l database -d 'The database with dblock\'s tables; the path of the URL names it, too. PostgreSQL: the database whose locks dblock uses, without a default [env: DBLOCK_DATABASE] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand history" -l schema -d 'On PostgreSQL: the schema with dblock\'s tables, in the database that is connected to [env: DBLOCK_SCHEMA] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand history" -l defaults-file -d 'Read only this MySQL option file' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand history" -l defaults-extra-file -d 'Also read this option file, before ~/.my.cnf' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand history" -l defaults-group-suffix -d 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand history" -l ssl-mode -d 'As in the mysql client. preferred: TLS if the server offers it. required: always TLS. verify-ca: also check that a trusted CA signed the server\'s certificate. verify-identity: also check that the certificate is for the host\'s name or address. With --ssl-ca the default is verify-ca. PostgreSQL: also libpq\'s words, with libpq\'s meaning [env: DBLOCK_SSL_MODE] [default: preferred]' -r -f -a "disabled\t''
preferred\t''
required\t''
verify-ca\t''
verify-identity\t''"
complete -c dblock -n "__fish_dblock_using_subcommand history" -l ssl-ca -d 'A PEM file with the certificates of the CAs to trust instead of the system\'s [env: DBLOCK_SSL_CA]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand history" -l ssl-cert -d 'A PEM file with dblock\'s own certificate, followed by the intermediate ones [env: DBLOCK_SSL_CERT]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand history" -l ssl-key -d 'A PEM file with the private key of that certificate [env: DBLOCK_SSL_KEY]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand history" -l server-public-key-path -d 'A PEM file with the server\'s public key, which encrypts the password when there is no TLS. Without it dblock trusts the key that the server sends [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand history" -l connect-timeout -d 'How long to try to reach a server. It covers resolving names, trying hosts and logging in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand history" -l failed -d 'Only runs that failed: the command exited with another code than 0, died of a signal or timed out, the lock was lost, or nobody knows how the run ended'
complete -c dblock -n "__fish_dblock_using_subcommand history" -l json -d 'Print JSON instead of the table'
complete -c dblock -n "__fish_dblock_using_subcommand history" -s q -l quiet -d 'Log errors only'
complete -c dblock -n "__fish_dblock_using_subcommand history" -s v -l verbose -d 'Log each step and how long it took; given twice, log every statement, but never a password'
complete -c dblock -n "__fish_dblock_using_subcommand history" -l no-defaults -d 'Read no option file'
complete -c dblock -n "__fish_dblock_using_subcommand history" -s h -l help -d 'Print help'
complete -c dblock -n "__fish_dblock_using_subcommand audit" -s n -l limit -d 'Only the latest N; 0 shows all [default: 20]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand audit" -l url -d 'Everything in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock; for PostgreSQL postgres://user@host1,host2:5433/database?sslmode=verify-full, with the parameters of libpq [env: DBLOCK_URL]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand audit" -l host -d 'The server\'s name or address; localhost means its local socket. PostgreSQL: also several, or the folder of a local socket; localhost means TCP [env: DBLOCK_HOST]' -r -f -a "(__fish_print_hostnames)"
complete -c dblock -n "__fish_dblock_using_subcommand audit" -l port -d 'The server\'s TCP port; PostgreSQL\'s default is 5432 [env: DBLOCK_PORT] [default: 3306]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand audit" -l user -d 'The account on the server [env: DBLOCK_USER] [default: the name of the OS user]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand audit" -l socket -d 'The server\'s local socket; PostgreSQL: or its folder [env: DBLOCK_SOCKET]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand audit" -l protocol -d 'How to reach localhost; by its socket if not given [env: DBLOCK_PROTOCOL]' -r -f -a "tcp\t''
socket\t''"
complete -c dblock -n "__fish_dblock_using_subcommand audit" -l password-file -d 'A file whose first line is the password [env, with the password itself: DBLOCK_PASSWORD, MYSQL_PWD; PostgreSQL: PGPASSWORD, and then the file ~/.pgpass]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand audit" -l database -d 'The database with dblock\'s tables; the path of the URL names it, too. PostgreSQL: the database whose locks dblock uses, without a default [env: DBLOCK_DATABASE] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand audit" -l schema -d 'On PostgreSQL: the schema with dblock\'s tables, in the database that is connected to [env: DBLOCK_SCHEMA] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand audit" -l defaults-file -d 'Read only this MySQL option file' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand audit" -l defaults-extra-file -d 'Also read this option file, before ~/.my.cnf' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand audit" -l defaults-group-suffix -d 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand audit" -l ssl-mode -d 'As in the mysql client. preferred: TLS if the server offers it. required: always TLS. verify-ca: also check that a trusted CA signed the server\'s certificate. verify-identity: also check that the certificate is for the host\'s name or address. With --ssl-ca the default is verify-ca. PostgreSQL: also libpq\'s words, with libpq\'s meaning [env: DBLOCK_SSL_MODE] [default: preferred]' -r -f -a "disabled\t''
preferred\t''
required\t''
verify-ca\t''
verify-identity\t''"
complete -c dblock -n "__fish_dblock_using_subcommand audit" -l ssl-ca -d 'A PEM file with the certificates of the CAs to trust instead of the system\'s [env: DBLOCK_SSL_CA]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand audit" -l ssl-cert -d 'A PEM file with dblock\'s own certificate, followed by the intermediate ones [env: DBLOCK_SSL_CERT]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand audit" -l ssl-key -d 'A PEM file with the private key of that certificate [env: DBLOCK_SSL_KEY]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand audit" -l server-public-key-path -d 'A PEM file with the server\'s public key, which encrypts the password when there is no TLS. Without it dblock trusts the key that the server sends [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand audit" -l connect-timeout -d 'How long to try to reach a server. It covers resolving names, trying hosts and logging in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand audit" -l json -d 'Print JSON instead of the table'
complete -c dblock -n "__fish_dblock_using_subcommand audit" -s q -l quiet -d 'Log errors only'
complete -c dblock -n "__fish_dblock_using_subcommand audit" -s v -l verbose -d 'Log each step and how long it took; given twice, log every statement, but never a password'
complete -c dblock -n "__fish_dblock_using_subcommand audit" -l no-defaults -d 'Read no option file'
complete -c dblock -n "__fish_dblock_using_subcommand audit" -s h -l help -d 'Print help'
complete -c dblock -n "__fish_dblock_using_subcommand output" -l url -d 'Everything in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock; for PostgreSQL postgres://user@host1,host2:5433/database?sslmode=verify-full, with the parameters of libpq [env: DBLOCK_URL]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand output" -l host -d 'The server\'s name or address; localhost means its local socket. PostgreSQL: also several, or the folder of a local socket; localhost means TCP [env: DBLOCK_HOST]' -r -f -a "(__fish_print_hostnames)"
complete -c dblock -n "__fish_dblock_using_subcommand output" -l port -d 'The server\'s TCP port; PostgreSQL\'s default is 5432 [env: DBLOCK_PORT] [default: 3306]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand output" -l user -d 'The account on the server [env: DBLOCK_USER] [default: the name of the OS user]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand output" -l socket -d 'The server\'s local socket; PostgreSQL: or its folder [env: DBLOCK_SOCKET]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand output" -l protocol -d 'How to reach localhost; by its socket if not given [env: DBLOCK_PROTOCOL]' -r -f -a "tcp\t''
socket\t''"
complete -c dblock -n "__fish_dblock_using_subcommand output" -l password-file -d 'A file whose first line is the password [env, with the password itself: DBLOCK_PASSWORD, MYSQL_PWD; PostgreSQL: PGPASSWORD, and then the file ~/.pgpass]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand output" -l database -d 'The database with dblock\'s tables; the path of the URL names it, too. PostgreSQL: the database whose locks dblock uses, without a default [env: DBLOCK_DATABASE] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand output" -l schema -d 'On PostgreSQL: the schema with dblock\'s tables, in the database that is connected to [env: DBLOCK_SCHEMA] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand output" -l defaults-file -d 'Read only this MySQL option file' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand output" -l defaults-extra-file -d 'Also read this option file, before ~/.my.cnf' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand output" -l defaults-group-suffix -d 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand output" -l ssl-mode -d 'As in the mysql client. preferred: TLS if the server offers it. required: always TLS. verify-ca: also check that a trusted CA signed the server\'s certificate. verify-identity: also check that the certificate is for the host\'s name or address. With --ssl-ca the default is verify-ca. PostgreSQL: also libpq\'s words, with libpq\'s meaning [env: DBLOCK_SSL_MODE] [default: preferred]' -r -f -a "disabled\t''
preferred\t''
required\t''
verify-ca\t''
verify-identity\t''"
complete -c dblock -n "__fish_dblock_using_subcommand output" -l ssl-ca -d 'A PEM file with the certificates of the CAs to trust instead of the system\'s [env: DBLOCK_SSL_CA]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand output" -l ssl-cert -d 'A PEM file with dblock\'s own certificate, followed by the intermediate ones [env: DBLOCK_SSL_CERT]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand output" -l ssl-key -d 'A PEM file with the private key of that certificate [env: DBLOCK_SSL_KEY]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand output" -l server-public-key-path -d 'A PEM file with the server\'s public key, which encrypts the password when there is no TLS. Without it dblock trusts the key that the server sends [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand output" -l connect-timeout -d 'How long to try to reach a server. It covers resolving names, trying hosts and logging in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand output" -s q -l quiet -d 'Log errors only'
complete -c dblock -n "__fish_dblock_using_subcommand output" -s v -l verbose -d 'Log each step and how long it took; given twice, log every statement, but never a password'
complete -c dblock -n "__fish_dblock_using_subcommand output" -l no-defaults -d 'Read no option file'
complete -c dblock -n "__fish_dblock_using_subcommand output" -s h -l help -d 'Print help'
complete -c dblock -n "__fish_dblock_using_subcommand metrics" -s o -l output -d 'Write to FILE, which is replaced in one step, as the textfile collector of Prometheus\' node_exporter needs it; - is stdout' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand metrics" -l limit -d 'At most N locks, N jobs of the crontab and N queues, by name; 0 is no limit. dblock_omitted counts the others [default: 1000]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand metrics" -l url -d 'Everything in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock; for PostgreSQL postgres://user@host1,host2:5433/database?sslmode=verify-full, with the parameters of libpq [env: DBLOCK_URL]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand metrics" -l host -d 'The server\'s name or address; localhost means its local socket. PostgreSQL: also several, or the folder of a local socket; localhost means TCP [env: DBLOCK_HOST]' -r -f -a "(__fish_print_hostnames)"
complete -c dblock -n "__fish_dblock_using_subcommand metrics" -l port -d 'The server\'s TCP port; PostgreSQL\'s default is 5432 [env: DBLOCK_PORT] [default: 3306]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand metrics" -l user -d 'The account on the server [env: DBLOCK_USER] [default: the name of the OS user]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand metrics" -l socket -d 'The server\'s local socket; PostgreSQL: or its folder [env: DBLOCK_SOCKET]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand metrics" -l protocol -d 'How to reach localhost; by its socket if not given [env: DBLOCK_PROTOCOL]' -r -f -a "tcp\t''
socket\t''"
complete -c dblock -n "__fish_dblock_using_subcommand metrics" -l password-file -d 'A file whose first line is the password [env, with the password itself: DBLOCK_PASSWORD, MYSQL_PWD; PostgreSQL: PGPASSWORD, and then the file ~/.pgpass]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand metrics" -l database -d 'The database with dblock\'s tables; the path of the URL names it, too. PostgreSQL: the database whose locks dblock uses, without a default [env: DBLOCK_DATABASE] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand metrics" -l schema -d 'On PostgreSQL: the schema with dblock\'s tables, in the database that is connected to [env: DBLOCK_SCHEMA] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand metrics" -l defaults-file -d 'Read only this MySQL option file' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand metrics" -l defaults-extra-file -d 'Also read this option file, before ~/.my.cnf' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand metrics" -l defaults-group-suffix -d 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand metrics" -l ssl-mode -d 'As in the mysql client. preferred: TLS if the server offers it. required: always TLS. verify-ca: also check that a trusted CA signed the server\'s certificate. verify-identity: also check that the certificate is for the host\'s name or address. With --ssl-ca the default is verify-ca. PostgreSQL: also libpq\'s words, with libpq\'s meaning [env: DBLOCK_SSL_MODE] [default: preferred]' -r -f -a "disabled\t''
preferred\t''
required\t''
verify-ca\t''
verify-identity\t''"
complete -c dblock -n "__fish_dblock_using_subcommand metrics" -l ssl-ca -d 'A PEM file with the certificates of the CAs to trust instead of the system\'s [env: DBLOCK_SSL_CA]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand metrics" -l ssl-cert -d 'A PEM file with dblock\'s own certificate, followed by the intermediate ones [env: DBLOCK_SSL_CERT]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand metrics" -l ssl-key -d 'A PEM file with the private key of that certificate [env: DBLOCK_SSL_KEY]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand metrics" -l server-public-key-path -d 'A PEM file with the server\'s public key, which encrypts the password when there is no TLS. Without it dblock trusts the key that the server sends [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand metrics" -l connect-timeout -d 'How long to try to reach a server. It covers resolving names, trying hosts and logging in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand metrics" -s q -l quiet -d 'Log errors only'
complete -c dblock -n "__fish_dblock_using_subcommand metrics" -s v -l verbose -d 'Log each step and how long it took; given twice, log every statement, but never a password'
complete -c dblock -n "__fish_dblock_using_subcommand metrics" -l no-defaults -d 'Read no option file'
complete -c dblock -n "__fish_dblock_using_subcommand metrics" -s h -l help -d 'Print help'
complete -c dblock -n "__fish_dblock_using_subcommand web" -l listen -d 'Where to listen. Port 0 is any that is free. unix: a socket that only this user can connect to. Any address but this host\'s own 127.0.0.1 and ::1 needs --password-file, and TLS or --behind-proxy [default: 127.0.0.1:8080]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand web" -l password-file -d 'A file whose first line is the password of the page. Only its user and its group may be able to read it' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand web" -l tls-cert -d 'A PEM file with the certificate of the page, followed by the intermediate ones' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand web" -l tls-key -d 'A PEM file with the private key of that certificate' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand web" -l host-name -d 'A name under which the page is opened, besides localhost, this host\'s name and addresses; several separated by commas. A proxy hands on the name that was typed' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand web" -l refresh -d 'How often the server is asked while somebody looks: 1s to 1h [default: 5s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand web" -l dblock -d 'The dblock to run, instead of the one beside dblock-web or else in PATH' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand web" -l url -d 'Everything in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock; for PostgreSQL postgres://user@host1,host2:5433/database?sslmode=verify-full, with the parameters of libpq [env: DBLOCK_URL]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand web" -l host -d 'The server\'s name or address; localhost means its local socket. PostgreSQL: also several, or the folder of a local socket; localhost means TCP [env: DBLOCK_HOST]' -r -f -a "(__fish_print_hostnames)"
complete -c dblock -n "__fish_dblock_using_subcommand web" -l port -d 'The server\'s TCP port; PostgreSQL\'s default is 5432 [env: DBLOCK_PORT] [default: 3306]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand web" -l user -d 'The account on the server [env: DBLOCK_USER] [default: the name of the OS user]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand web" -l socket -d 'The server\'s local socket; PostgreSQL: or its folder [env: DBLOCK_SOCKET]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand web" -l protocol -d 'How to reach localhost; by its socket if not given [env: DBLOCK_PROTOCOL]' -r -f -a "tcp\t''
socket\t''"
complete -c dblock -n "__fish_dblock_using_subcommand web" -l database -d 'The database with dblock\'s tables; the path of the URL names it, too. PostgreSQL: the database whose locks dblock uses, without a default [env: DBLOCK_DATABASE] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand web" -l schema -d 'On PostgreSQL: the schema with dblock\'s tables, in the database that is connected to [env: DBLOCK_SCHEMA] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand web" -l defaults-file -d 'Read only this MySQL option file' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand web" -l defaults-extra-file -d 'Also read this option file, before ~/.my.cnf' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand web" -l defaults-group-suffix -d 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand web" -l ssl-mode -d 'As in the mysql client. preferred: TLS if the server offers it. required: always TLS. verify-ca: also check that a trusted CA signed the server\'s certificate. verify-identity: also check that the certificate is for the host\'s name or address. With --ssl-ca the default is verify-ca. PostgreSQL: also libpq\'s words, with libpq\'s meaning [env: DBLOCK_SSL_MODE] [default: preferred]' -r -f -a "disabled\t''
preferred\t''
required\t''
verify-ca\t''
verify-identity\t''"
complete -c dblock -n "__fish_dblock_using_subcommand web" -l ssl-ca -d 'A PEM file with the certificates of the CAs to trust instead of the system\'s [env: DBLOCK_SSL_CA]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand web" -l ssl-cert -d 'A PEM file with dblock\'s own certificate, followed by the intermediate ones [env: DBLOCK_SSL_CERT]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand web" -l ssl-key -d 'A PEM file with the private key of that certificate [env: DBLOCK_SSL_KEY]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand web" -l server-public-key-path -d 'A PEM file with the server\'s public key, which encrypts the password when there is no TLS. Without it dblock trusts the key that the server sends [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand web" -l connect-timeout -d 'How long to try to reach a server. It covers resolving names, trying hosts and logging in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand web" -l allow-actions -d 'Let those who look also pause, resume, trigger, retry, cancel and kill. Without it nothing can be changed'
complete -c dblock -n "__fish_dblock_using_subcommand web" -l show-data -d 'Also show the keys and errors of a queue\'s jobs, and the errors and output of runs'
complete -c dblock -n "__fish_dblock_using_subcommand web" -l behind-proxy -d 'A proxy in front of it does the TLS. Needs --password-file'
complete -c dblock -n "__fish_dblock_using_subcommand web" -l no-defaults -d 'Read no option file'
complete -c dblock -n "__fish_dblock_using_subcommand web" -s h -l help -d 'Print help'
complete -c dblock -n "__fish_dblock_using_subcommand cron" -s h -l help -d 'Print help'
complete -c dblock -n "__fish_dblock_using_subcommand cron" -f -a "run" -d 'Run the jobs of a crontab, each tick on one host'
complete -c dblock -n "__fish_dblock_using_subcommand cron" -f -a "check" -d 'Check a crontab, and show when its jobs are due'
complete -c dblock -n "__fish_dblock_using_subcommand cron" -f -a "list" -d 'Show each job: its next tick, and when and where it ran last and how that ended'
complete -c dblock -n "__fish_dblock_using_subcommand cron" -f -a "pause" -d 'Pause a job: its ticks are skipped until it is resumed'
complete -c dblock -n "__fish_dblock_using_subcommand cron" -f -a "resume" -d 'Resume a paused job: it runs at its ticks again'
complete -c dblock -n "__fish_dblock_using_subcommand cron" -f -a "trigger" -d 'Run a job once now, in addition to its ticks'
complete -c dblock -n "__fish_dblock_using_subcommand cron" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c dblock -n "__fish_dblock_using_subcommand 'cron run'" -s j -l jobs -d 'How many commands run at once on this host, 1 to 1000. Another host may take a tick that cannot start here within a second [default: 32]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'cron run'" -l grace -d 'How long commands may still run after SIGTERM. Then dblock ends them, and another host retries them [default: 30s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'cron run'" -l keep-output -d 'Of which runs to keep the first 4 kB and the last 60 kB of what the command writes to stdout and stderr, for dblock output: of those that failed, of all, or of none [default: failed]' -r -f -a "failed\t''
all\t''
none\t''"
complete -c dblock -n "__fish_dblock_using_subcommand 'cron run'" -l on-failure -d 'Run this by /bin/sh -c after each run that failed, was lost or timed out, with the line of --report on its stdin. It has DBLOCK_NAME, DBLOCK_RESULT and DBLOCK_EXIT_CODE, and 30 s, and changes no exit code' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'cron run'" -l on-end -d 'As --on-failure, after each run that was not skipped' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'cron run'" -l url -d 'Everything in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock; for PostgreSQL postgres://user@host1,host2:5433/database?sslmode=verify-full, with the parameters of libpq [env: DBLOCK_URL]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'cron run'" -l host -d 'The server\'s name or address; localhost means its local socket. PostgreSQL: also several, or the folder of a local socket; localhost means TCP [env: DBLOCK_HOST]' -r -f -a "(__fish_print_hostnames)"
complete -c dblock -n "__fish_dblock_using_subcommand 'cron run'" -l port -d 'The server\'s TCP port; PostgreSQL\'s default is 5432 [env: DBLOCK_PORT] [default: 3306]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'cron run'" -l user -d 'The account on the server [env: DBLOCK_USER] [default: the name of the OS user]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'cron run'" -l socket -d 'The server\'s local socket; PostgreSQL: or its folder [env: DBLOCK_SOCKET]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'cron run'" -l protocol -d 'How to reach localhost; by its socket if not given [env: DBLOCK_PROTOCOL]' -r -f -a "tcp\t''
socket\t''"
complete -c dblock -n "__fish_dblock_using_subcommand 'cron run'" -l password-file -d 'A file whose first line is the password [env, with the password itself: DBLOCK_PASSWORD, MYSQL_PWD; PostgreSQL: PGPASSWORD, and then the file ~/.pgpass]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'cron run'" -l database -d 'The database with dblock\'s tables; the path of the URL names it, too. PostgreSQL: the database whose locks dblock uses, without a default [env: DBLOCK_DATABASE] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'cron run'" -l schema -d 'On PostgreSQL: the schema with dblock\'s tables, in the database that is connected to [env: DBLOCK_SCHEMA] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'cron run'" -l defaults-file -d 'Read only this MySQL option file' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'cron run'" -l defaults-extra-file -d 'Also read this option file, before ~/.my.cnf' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'cron run'" -l defaults-group-suffix -d 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'cron run'" -l ssl-mode -d 'As in the mysql client. preferred: TLS if the server offers it. required: always TLS. verify-ca: also check that a trusted CA signed the server\'s certificate. verify-identity: also check that the certificate is for the host\'s name or address. With --ssl-ca the default is verify-ca. PostgreSQL: also libpq\'s words, with libpq\'s meaning [env: DBLOCK_SSL_MODE] [default: preferred]' -r -f -a "disabled\t''
preferred\t''
required\t''
verify-ca\t''
verify-identity\t''"
complete -c dblock -n "__fish_dblock_using_subcommand 'cron run'" -l ssl-ca -d 'A PEM file with the certificates of the CAs to trust instead of the system\'s [env: DBLOCK_SSL_CA]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'cron run'" -l ssl-cert -d 'A PEM file with dblock\'s own certificate, followed by the intermediate ones [env: DBLOCK_SSL_CERT]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'cron run'" -l ssl-key -d 'A PEM file with the private key of that certificate [env: DBLOCK_SSL_KEY]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'cron run'" -l server-public-key-path -d 'A PEM file with the server\'s public key, which encrypts the password when there is no TLS. Without it dblock trusts the key that the server sends [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'cron run'" -l connect-timeout -d 'How long to try to reach a server. It covers resolving names, trying hosts and logging in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'cron run'" -l scrub-env -d 'Remove DBLOCK_URL, the other connection variables, MYSQL_PWD and, with PostgreSQL, PGPASSWORD from the environment of the commands'
complete -c dblock -n "__fish_dblock_using_subcommand 'cron run'" -s q -l quiet -d 'Log errors only'
complete -c dblock -n "__fish_dblock_using_subcommand 'cron run'" -s v -l verbose -d 'Log each step and how long it took; given twice, log every statement, but never a password'
complete -c dblock -n "__fish_dblock_using_subcommand 'cron run'" -l no-defaults -d 'Read no option file'
complete -c dblock -n "__fish_dblock_using_subcommand 'cron run'" -s h -l help -d 'Print help'
complete -c dblock -n "__fish_dblock_using_subcommand 'cron check'" -s n -l next -d 'Show the next N times of each job, 0 to 1000 [default: 3]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'cron check'" -s h -l help -d 'Print help'
complete -c dblock -n "__fish_dblock_using_subcommand 'cron list'" -l watch -d 'Show the table again and again on the terminal, every DURATION: 100ms to 1d, 2s if none is given. q or Ctrl-C ends it' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'cron list'" -l color -d 'Show results in colors: auto does on a terminal, unless NO_COLOR is set. The words say the same [default: auto]' -r -f -a "auto\t''
always\t''
never\t''"
complete -c dblock -n "__fish_dblock_using_subcommand 'cron list'" -l url -d 'Everything in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock; for PostgreSQL postgres://user@host1,host2:5433/database?sslmode=verify-full, with the parameters of libpq [env: DBLOCK_URL]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'cron list'" -l host -d 'The server\'s name or address; localhost means its local socket. PostgreSQL: also several, or the folder of a local socket; localhost means TCP [env: DBLOCK_HOST]' -r -f -a "(__fish_print_hostnames)"
complete -c dblock -n "__fish_dblock_using_subcommand 'cron list'" -l port -d 'The server\'s TCP port; PostgreSQL\'s default is 5432 [env: DBLOCK_PORT] [default: 3306]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'cron list'" -l user -d 'The account on the server [env: DBLOCK_USER] [default: the name of the OS user]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'cron list'" -l socket -d 'The server\'s local socket; PostgreSQL: or its folder [env: DBLOCK_SOCKET]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'cron list'" -l protocol -d 'How to reach localhost; by its socket if not given [env: DBLOCK_PROTOCOL]' -r -f -a "tcp\t''
socket\t''"
complete -c dblock -n "__fish_dblock_using_subcommand 'cron list'" -l password-file -d 'A file whose first line is the password [env, with the password itself: DBLOCK_PASSWORD, MYSQL_PWD; PostgreSQL: PGPASSWORD, and then the file ~/.pgpass]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'cron list'" -l database -d 'The database with dblock\'s tables; the path of the URL names it, too. PostgreSQL: the database whose locks dblock uses, without a default [env: DBLOCK_DATABASE] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'cron list'" -l schema -d 'On PostgreSQL: the schema with dblock\'s tables, in the database that is connected to [env: DBLOCK_SCHEMA] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'cron list'" -l defaults-file -d 'Read only this MySQL option file' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'cron list'" -l defaults-extra-file -d 'Also read this option file, before ~/.my.cnf' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'cron list'" -l defaults-group-suffix -d 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'cron list'" -l ssl-mode -d 'As in the mysql client. preferred: TLS if the server offers it. required: always TLS. verify-ca: also check that a trusted CA signed the server\'s certificate. verify-identity: also check that the certificate is for the host\'s name or address. With --ssl-ca the default is verify-ca. PostgreSQL: also libpq\'s words, with libpq\'s meaning [env: DBLOCK_SSL_MODE] [default: preferred]' -r -f -a "disabled\t''
preferred\t''
required\t''
verify-ca\t''
verify-identity\t''"
complete -c dblock -n "__fish_dblock_using_subcommand 'cron list'" -l ssl-ca -d 'A PEM file with the certificates of the CAs to trust instead of the system\'s [env: DBLOCK_SSL_CA]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'cron list'" -l ssl-cert -d 'A PEM file with dblock\'s own certificate, followed by the intermediate ones [env: DBLOCK_SSL_CERT]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'cron list'" -l ssl-key -d 'A PEM file with the private key of that certificate [env: DBLOCK_SSL_KEY]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'cron list'" -l server-public-key-path -d 'A PEM file with the server\'s public key, which encrypts the password when there is no TLS. Without it dblock trusts the key that the server sends [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'cron list'" -l connect-timeout -d 'How long to try to reach a server. It covers resolving names, trying hosts and logging in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'cron list'" -l json -d 'Print JSON instead of the table'
complete -c dblock -n "__fish_dblock_using_subcommand 'cron list'" -s q -l quiet -d 'Log errors only'
complete -c dblock -n "__fish_dblock_using_subcommand 'cron list'" -s v -l verbose -d 'Log each step and how long it took; given twice, log every statement, but never a password'
complete -c dblock -n "__fish_dblock_using_subcommand 'cron list'" -l no-defaults -d 'Read no option file'
complete -c dblock -n "__fish_dblock_using_subcommand 'cron list'" -s h -l help -d 'Print help'
complete -c dblock -n "__fish_dblock_using_subcommand 'cron pause'" -l url -d 'Everything in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock; for PostgreSQL postgres://user@host1,host2:5433/database?sslmode=verify-full, with the parameters of libpq [env: DBLOCK_URL]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'cron pause'" -l host -d 'The server\'s name or address; localhost means its local socket. PostgreSQL: also several, or the folder of a local socket; localhost means TCP [env: DBLOCK_HOST]' -r -f -a "(__fish_print_hostnames)"
complete -c dblock -n "__fish_dblock_using_subcommand 'cron pause'" -l port -d 'The server\'s TCP port; PostgreSQL\'s default is 5432 [env: DBLOCK_PORT] [default: 3306]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'cron pause'" -l user -d 'The account on the server [env: DBLOCK_USER] [default: the name of the OS user]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'cron pause'" -l socket -d 'The server\'s local socket; PostgreSQL: or its folder [env: DBLOCK_SOCKET]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'cron pause'" -l protocol -d 'How to reach localhost; by its socket if not given [env: DBLOCK_PROTOCOL]' -r -f -a "tcp\t''
socket\t''"
complete -c dblock -n "__fish_dblock_using_subcommand 'cron pause'" -l password-file -d 'A file whose first line is the password [env, with the password itself: DBLOCK_PASSWORD, MYSQL_PWD; PostgreSQL: PGPASSWORD, and then the file ~/.pgpass]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'cron pause'" -l database -d 'The database with dblock\'s tables; the path of the URL names it, too. PostgreSQL: the database whose locks dblock uses, without a default [env: DBLOCK_DATABASE] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'cron pause'" -l schema -d 'On PostgreSQL: the schema with dblock\'s tables, in the database that is connected to [env: DBLOCK_SCHEMA] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'cron pause'" -l defaults-file -d 'Read only this MySQL option file' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'cron pause'" -l defaults-extra-file -d 'Also read this option file, before ~/.my.cnf' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'cron pause'" -l defaults-group-suffix -d 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'cron pause'" -l ssl-mode -d 'As in the mysql client. preferred: TLS if the server offers it. required: always TLS. verify-ca: also check that a trusted CA signed the server\'s certificate. verify-identity: also check that the certificate is for the host\'s name or address. With --ssl-ca the default is verify-ca. PostgreSQL: also libpq\'s words, with libpq\'s meaning [env: DBLOCK_SSL_MODE] [default: preferred]' -r -f -a "disabled\t''
preferred\t''
required\t''
verify-ca\t''
verify-identity\t''"
complete -c dblock -n "__fish_dblock_using_subcommand 'cron pause'" -l ssl-ca -d 'A PEM file with the certificates of the CAs to trust instead of the system\'s [env: DBLOCK_SSL_CA]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'cron pause'" -l ssl-cert -d 'A PEM file with dblock\'s own certificate, followed by the intermediate ones [env: DBLOCK_SSL_CERT]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'cron pause'" -l ssl-key -d 'A PEM file with the private key of that certificate [env: DBLOCK_SSL_KEY]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'cron pause'" -l server-public-key-path -d 'A PEM file with the server\'s public key, which encrypts the password when there is no TLS. Without it dblock trusts the key that the server sends [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'cron pause'" -l connect-timeout -d 'How long to try to reach a server. It covers resolving names, trying hosts and logging in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'cron pause'" -s q -l quiet -d 'Log errors only'
complete -c dblock -n "__fish_dblock_using_subcommand 'cron pause'" -s v -l verbose -d 'Log each step and how long it took; given twice, log every statement, but never a password'
complete -c dblock -n "__fish_dblock_using_subcommand 'cron pause'" -l no-defaults -d 'Read no option file'
complete -c dblock -n "__fish_dblock_using_subcommand 'cron pause'" -s h -l help -d 'Print help'
complete -c dblock -n "__fish_dblock_using_subcommand 'cron resume'" -l url -d 'Everything in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock; for PostgreSQL postgres://user@host1,host2:5433/database?sslmode=verify-full, with the parameters of libpq [env: DBLOCK_URL]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'cron resume'" -l host -d 'The server\'s name or address; localhost means its local socket. PostgreSQL: also several, or the folder of a local socket; localhost means TCP [env: DBLOCK_HOST]' -r -f -a "(__fish_print_hostnames)"
complete -c dblock -n "__fish_dblock_using_subcommand 'cron resume'" -l port -d 'The server\'s TCP port; PostgreSQL\'s default is 5432 [env: DBLOCK_PORT] [default: 3306]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'cron resume'" -l user -d 'The account on the server [env: DBLOCK_USER] [default: the name of the OS user]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'cron resume'" -l socket -d 'The server\'s local socket; PostgreSQL: or its folder [env: DBLOCK_SOCKET]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'cron resume'" -l protocol -d 'How to reach localhost; by its socket if not given [env: DBLOCK_PROTOCOL]' -r -f -a "tcp\t''
socket\t''"
complete -c dblock -n "__fish_dblock_using_subcommand 'cron resume'" -l password-file -d 'A file whose first line is the password [env, with the password itself: DBLOCK_PASSWORD, MYSQL_PWD; PostgreSQL: PGPASSWORD, and then the file ~/.pgpass]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'cron resume'" -l database -d 'The database with dblock\'s tables; the path of the URL names it, too. PostgreSQL: the database whose locks dblock uses, without a default [env: DBLOCK_DATABASE] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'cron resume'" -l schema -d 'On PostgreSQL: the schema with dblock\'s tables, in the database that is connected to [env: DBLOCK_SCHEMA] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'cron resume'" -l defaults-file -d 'Read only this MySQL option file' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'cron resume'" -l defaults-extra-file -d 'Also read this option file, before ~/.my.cnf' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'cron resume'" -l defaults-group-suffix -d 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'cron resume'" -l ssl-mode -d 'As in the mysql client. preferred: TLS if the server offers it. required: always TLS. verify-ca: also check that a trusted CA signed the server\'s certificate. verify-identity: also check that the certificate is for the host\'s name or address. With --ssl-ca the default is verify-ca. PostgreSQL: also libpq\'s words, with libpq\'s meaning [env: DBLOCK_SSL_MODE] [default: preferred]' -r -f -a "disabled\t''
preferred\t''
required\t''
verify-ca\t''
verify-identity\t''"
complete -c dblock -n "__fish_dblock_using_subcommand 'cron resume'" -l ssl-ca -d 'A PEM file with the certificates of the CAs to trust instead of the system\'s [env: DBLOCK_SSL_CA]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'cron resume'" -l ssl-cert -d 'A PEM file with dblock\'s own certificate, followed by the intermediate ones [env: DBLOCK_SSL_CERT]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'cron resume'" -l ssl-key -d 'A PEM file with the private key of that certificate [env: DBLOCK_SSL_KEY]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'cron resume'" -l server-public-key-path -d 'A PEM file with the server\'s public key, which encrypts the password when there is no TLS. Without it dblock trusts the key that the server sends [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'cron resume'" -l connect-timeout -d 'How long to try to reach a server. It covers resolving names, trying hosts and logging in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'cron resume'" -s q -l quiet -d 'Log errors only'
complete -c dblock -n "__fish_dblock_using_subcommand 'cron resume'" -s v -l verbose -d 'Log each step and how long it took; given twice, log every statement, but never a password'
complete -c dblock -n "__fish_dblock_using_subcommand 'cron resume'" -l no-defaults -d 'Read no option file'
complete -c dblock -n "__fish_dblock_using_subcommand 'cron resume'" -s h -l help -d 'Print help'
complete -c dblock -n "__fish_dblock_using_subcommand 'cron trigger'" -l url -d 'Everything in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock; for PostgreSQL postgres://user@host1,host2:5433/database?sslmode=verify-full, with the parameters of libpq [env: DBLOCK_URL]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'cron trigger'" -l host -d 'The server\'s name or address; localhost means its local socket. PostgreSQL: also several, or the folder of a local socket; localhost means TCP [env: DBLOCK_HOST]' -r -f -a "(__fish_print_hostnames)"
complete -c dblock -n "__fish_dblock_using_subcommand 'cron trigger'" -l port -d 'The server\'s TCP port; PostgreSQL\'s default is 5432 [env: DBLOCK_PORT] [default: 3306]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'cron trigger'" -l user -d 'The account on the server [env: DBLOCK_USER] [default: the name of the OS user]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'cron trigger'" -l socket -d 'The server\'s local socket; PostgreSQL: or its folder [env: DBLOCK_SOCKET]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'cron trigger'" -l protocol -d 'How to reach localhost; by its socket if not given [env: DBLOCK_PROTOCOL]' -r -f -a "tcp\t''
socket\t''"
complete -c dblock -n "__fish_dblock_using_subcommand 'cron trigger'" -l password-file -d 'A file whose first line is the password [env, with the password itself: DBLOCK_PASSWORD, MYSQL_PWD; PostgreSQL: PGPASSWORD, and then the file ~/.pgpass]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'cron trigger'" -l database -d 'The database with dblock\'s tables; the path of the URL names it, too. PostgreSQL: the database whose locks dblock uses, without a default [env: DBLOCK_DATABASE] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'cron trigger'" -l schema -d 'On PostgreSQL: the schema with dblock\'s tables, in the database that is connected to [env: DBLOCK_SCHEMA] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'cron trigger'" -l defaults-file -d 'Read only this MySQL option file' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'cron trigger'" -l defaults-extra-file -d 'Also read this option file, before ~/.my.cnf' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'cron trigger'" -l defaults-group-suffix -d 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'cron trigger'" -l ssl-mode -d 'As in the mysql client. preferred: TLS if the server offers it. required: always TLS. verify-ca: also check that a trusted CA signed the server\'s certificate. verify-identity: also check that the certificate is for the host\'s name or address. With --ssl-ca the default is verify-ca. PostgreSQL: also libpq\'s words, with libpq\'s meaning [env: DBLOCK_SSL_MODE] [default: preferred]' -r -f -a "disabled\t''
preferred\t''
required\t''
verify-ca\t''
verify-identity\t''"
complete -c dblock -n "__fish_dblock_using_subcommand 'cron trigger'" -l ssl-ca -d 'A PEM file with the certificates of the CAs to trust instead of the system\'s [env: DBLOCK_SSL_CA]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'cron trigger'" -l ssl-cert -d 'A PEM file with dblock\'s own certificate, followed by the intermediate ones [env: DBLOCK_SSL_CERT]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'cron trigger'" -l ssl-key -d 'A PEM file with the private key of that certificate [env: DBLOCK_SSL_KEY]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'cron trigger'" -l server-public-key-path -d 'A PEM file with the server\'s public key, which encrypts the password when there is no TLS. Without it dblock trusts the key that the server sends [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'cron trigger'" -l connect-timeout -d 'How long to try to reach a server. It covers resolving names, trying hosts and logging in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'cron trigger'" -s q -l quiet -d 'Log errors only'
complete -c dblock -n "__fish_dblock_using_subcommand 'cron trigger'" -s v -l verbose -d 'Log each step and how long it took; given twice, log every statement, but never a password'
complete -c dblock -n "__fish_dblock_using_subcommand 'cron trigger'" -l no-defaults -d 'Read no option file'
complete -c dblock -n "__fish_dblock_using_subcommand 'cron trigger'" -s h -l help -d 'Print help'
complete -c dblock -n "__fish_dblock_using_subcommand 'cron help'" -f -a "run" -d 'Run the jobs of a crontab, each tick on one host'
complete -c dblock -n "__fish_dblock_using_subcommand 'cron help'" -f -a "check" -d 'Check a crontab, and show when its jobs are due'
complete -c dblock -n "__fish_dblock_using_subcommand 'cron help'" -f -a "list" -d 'Show each job: its next tick, and when and where it ran last and how that ended'
complete -c dblock -n "__fish_dblock_using_subcommand 'cron help'" -f -a "pause" -d 'Pause a job: its ticks are skipped until it is resumed'
complete -c dblock -n "__fish_dblock_using_subcommand 'cron help'" -f -a "resume" -d 'Resume a paused job: it runs at its ticks again'
complete -c dblock -n "__fish_dblock_using_subcommand 'cron help'" -f -a "trigger" -d 'Run a job once now, in addition to its ticks'
complete -c dblock -n "__fish_dblock_using_subcommand 'cron help'" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c dblock -n "__fish_dblock_using_subcommand queue" -s h -l help -d 'Print help'
complete -c dblock -n "__fish_dblock_using_subcommand queue" -f -a "create" -d 'Create a queue'
complete -c dblock -n "__fish_dblock_using_subcommand queue" -f -a "put" -d 'Put jobs into a queue, and print their ids'
complete -c dblock -n "__fish_dblock_using_subcommand queue" -f -a "work" -d 'Run a command for each job of a queue'
complete -c dblock -n "__fish_dblock_using_subcommand queue" -f -a "status" -d 'Show how many jobs are due, and who works on them'
complete -c dblock -n "__fish_dblock_using_subcommand queue" -f -a "list" -d 'Show the jobs of a queue'
complete -c dblock -n "__fish_dblock_using_subcommand queue" -f -a "show" -d 'Show everything about a job, or its payload'
complete -c dblock -n "__fish_dblock_using_subcommand queue" -f -a "retry" -d 'Try dead and delayed jobs now'
complete -c dblock -n "__fish_dblock_using_subcommand queue" -f -a "cancel" -d 'Delete jobs, and never retry those that are running'
complete -c dblock -n "__fish_dblock_using_subcommand queue" -f -a "pause" -d 'Pause a queue: workers claim no more jobs'
complete -c dblock -n "__fish_dblock_using_subcommand queue" -f -a "resume" -d 'Resume a queue: workers claim its jobs again'
complete -c dblock -n "__fish_dblock_using_subcommand queue" -f -a "delete" -d 'Delete a queue with all of its jobs'
complete -c dblock -n "__fish_dblock_using_subcommand queue" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue create'" -l claim -d 'What a worker claims at once. rows: single jobs. blocks: all jobs that were put together. Blocks are faster for many small jobs, but one slow job delays its whole block [default: rows]' -r -f -a "rows\t''
blocks\t''"
complete -c dblock -n "__fish_dblock_using_subcommand 'queue create'" -l shards -d 'Into how many parts the queue is divided, 1 to 1024. More shards are faster with many workers, but then jobs run only roughly in order [default: 1]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue create'" -l max-attempts -d 'How often a job is tried before it is dead, 1 to 1000000 [default: 20]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue create'" -l retry-delay -d 'Pause before the first retry of a job; it doubles with each retry, up to an hour [default: 10s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue create'" -l ttl -d 'How long before the jobs of a silent worker go to others: whole seconds, 4s to 1d. Choose it longer than a fail-over takes [default: 60s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue create'" -l keep -d 'How long to keep jobs that are done: whole seconds; 0 deletes them at once [default: 0]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue create'" -l url -d 'Everything in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock; for PostgreSQL postgres://user@host1,host2:5433/database?sslmode=verify-full, with the parameters of libpq [env: DBLOCK_URL]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue create'" -l host -d 'The server\'s name or address; localhost means its local socket. PostgreSQL: also several, or the folder of a local socket; localhost means TCP [env: DBLOCK_HOST]' -r -f -a "(__fish_print_hostnames)"
complete -c dblock -n "__fish_dblock_using_subcommand 'queue create'" -l port -d 'The server\'s TCP port; PostgreSQL\'s default is 5432 [env: DBLOCK_PORT] [default: 3306]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue create'" -l user -d 'The account on the server [env: DBLOCK_USER] [default: the name of the OS user]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue create'" -l socket -d 'The server\'s local socket; PostgreSQL: or its folder [env: DBLOCK_SOCKET]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue create'" -l protocol -d 'How to reach localhost; by its socket if not given [env: DBLOCK_PROTOCOL]' -r -f -a "tcp\t''
socket\t''"
complete -c dblock -n "__fish_dblock_using_subcommand 'queue create'" -l password-file -d 'A file whose first line is the password [env, with the password itself: DBLOCK_PASSWORD, MYSQL_PWD; PostgreSQL: PGPASSWORD, and then the file ~/.pgpass]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue create'" -l database -d 'The database with dblock\'s tables; the path of the URL names it, too. PostgreSQL: the database whose locks dblock uses, without a default [env: DBLOCK_DATABASE] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue create'" -l schema -d 'On PostgreSQL: the schema with dblock\'s tables, in the database that is connected to [env: DBLOCK_SCHEMA] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue create'" -l defaults-file -d 'Read only this MySQL option file' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue create'" -l defaults-extra-file -d 'Also read this option file, before ~/.my.cnf' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue create'" -l defaults-group-suffix -d 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue create'" -l ssl-mode -d 'As in the mysql client. preferred: TLS if the server offers it. required: always TLS. verify-ca: also check that a trusted CA signed the server\'s certificate. verify-identity: also check that the certificate is for the host\'s name or address. With --ssl-ca the default is verify-ca. PostgreSQL: also libpq\'s words, with libpq\'s meaning [env: DBLOCK_SSL_MODE] [default: preferred]' -r -f -a "disabled\t''
preferred\t''
required\t''
verify-ca\t''
verify-identity\t''"
complete -c dblock -n "__fish_dblock_using_subcommand 'queue create'" -l ssl-ca -d 'A PEM file with the certificates of the CAs to trust instead of the system\'s [env: DBLOCK_SSL_CA]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue create'" -l ssl-cert -d 'A PEM file with dblock\'s own certificate, followed by the intermediate ones [env: DBLOCK_SSL_CERT]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue create'" -l ssl-key -d 'A PEM file with the private key of that certificate [env: DBLOCK_SSL_KEY]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue create'" -l server-public-key-path -d 'A PEM file with the server\'s public key, which encrypts the password when there is no TLS. Without it dblock trusts the key that the server sends [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue create'" -l connect-timeout -d 'How long to try to reach a server. It covers resolving names, trying hosts and logging in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue create'" -s q -l quiet -d 'Log errors only'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue create'" -s v -l verbose -d 'Log each step and how long it took; given twice, log every statement, but never a password'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue create'" -l no-defaults -d 'Read no option file'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue create'" -s h -l help -d 'Print help'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue put'" -l delay -d 'Due after this time from now, by the server\'s clock' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue put'" -l at -d 'Due at this time, by the server\'s clock: a time in UTC (2026-11-22 or \'2026-11-22 08:30\'), or one with its offset (2026-11-22T08:30:00+01:00)' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue put'" -l priority -d 'Jobs with a lower number run first, -2147483648 to 2147483647 [default: 0]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue put'" -l key -d 'Allow one job with this key at a time: if one exists that is not done, nothing is put, and its id is printed. 1 to 200 bytes' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue put'" -l every -d 'Repeat: the job is due again this long after it was due, until it is canceled' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue put'" -l url -d 'Everything in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock; for PostgreSQL postgres://user@host1,host2:5433/database?sslmode=verify-full, with the parameters of libpq [env: DBLOCK_URL]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue put'" -l host -d 'The server\'s name or address; localhost means its local socket. PostgreSQL: also several, or the folder of a local socket; localhost means TCP [env: DBLOCK_HOST]' -r -f -a "(__fish_print_hostnames)"
complete -c dblock -n "__fish_dblock_using_subcommand 'queue put'" -l port -d 'The server\'s TCP port; PostgreSQL\'s default is 5432 [env: DBLOCK_PORT] [default: 3306]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue put'" -l user -d 'The account on the server [env: DBLOCK_USER] [default: the name of the OS user]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue put'" -l socket -d 'The server\'s local socket; PostgreSQL: or its folder [env: DBLOCK_SOCKET]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue put'" -l protocol -d 'How to reach localhost; by its socket if not given [env: DBLOCK_PROTOCOL]' -r -f -a "tcp\t''
socket\t''"
complete -c dblock -n "__fish_dblock_using_subcommand 'queue put'" -l password-file -d 'A file whose first line is the password [env, with the password itself: DBLOCK_PASSWORD, MYSQL_PWD; PostgreSQL: PGPASSWORD, and then the file ~/.pgpass]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue put'" -l database -d 'The database with dblock\'s tables; the path of the URL names it, too. PostgreSQL: the database whose locks dblock uses, without a default [env: DBLOCK_DATABASE] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue put'" -l schema -d 'On PostgreSQL: the schema with dblock\'s tables, in the database that is connected to [env: DBLOCK_SCHEMA] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue put'" -l defaults-file -d 'Read only this MySQL option file' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue put'" -l defaults-extra-file -d 'Also read this option file, before ~/.my.cnf' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue put'" -l defaults-group-suffix -d 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue put'" -l ssl-mode -d 'As in the mysql client. preferred: TLS if the server offers it. required: always TLS. verify-ca: also check that a trusted CA signed the server\'s certificate. verify-identity: also check that the certificate is for the host\'s name or address. With --ssl-ca the default is verify-ca. PostgreSQL: also libpq\'s words, with libpq\'s meaning [env: DBLOCK_SSL_MODE] [default: preferred]' -r -f -a "disabled\t''
preferred\t''
required\t''
verify-ca\t''
verify-identity\t''"
complete -c dblock -n "__fish_dblock_using_subcommand 'queue put'" -l ssl-ca -d 'A PEM file with the certificates of the CAs to trust instead of the system\'s [env: DBLOCK_SSL_CA]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue put'" -l ssl-cert -d 'A PEM file with dblock\'s own certificate, followed by the intermediate ones [env: DBLOCK_SSL_CERT]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue put'" -l ssl-key -d 'A PEM file with the private key of that certificate [env: DBLOCK_SSL_KEY]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue put'" -l server-public-key-path -d 'A PEM file with the server\'s public key, which encrypts the password when there is no TLS. Without it dblock trusts the key that the server sends [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue put'" -l connect-timeout -d 'How long to try to reach a server. It covers resolving names, trying hosts and logging in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue put'" -l lines -d 'Each line of stdin is a job'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue put'" -l null -d 'Each record of stdin that ends in NUL is a job'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue put'" -l file -d 'Each PAYLOAD is the name of a file whose content is the payload; - is stdin'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue put'" -s q -l quiet -d 'Log errors only'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue put'" -s v -l verbose -d 'Log each step and how long it took; given twice, log every statement, but never a password'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue put'" -l no-defaults -d 'Read no option file'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue put'" -s h -l help -d 'Print help'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue work'" -s j -l jobs -d 'How many commands run at once, 1 to 1000 [default: 1]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue work'" -l batch -d 'Give one command up to N jobs on its stdin, 1 to 10000; all of them are done, or none' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue work'" -s t -l timeout -d 'End a command if it runs longer: SIGTERM, then SIGKILL. The job has failed. 0 is no limit' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue work'" -s k -l kill-after -d 'Time from SIGTERM to SIGKILL when dblock ends a command; 0 sends both at once [default: 10s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue work'" -l grace -d 'How long commands may still run after the first SIGTERM. Then dblock ends them and returns their jobs [default: 30s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue work'" -l bury-on -d 'Exit code of the command that makes its job dead at once, 1 to 255 except 75; several with commas between them' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue work'" -l keep-output -d 'Of which jobs to keep the first 4 kB and the last 60 kB of what the last command wrote to stdout and stderr, for dblock output, as long as the job is there: of those that failed, of all (of a block only those that failed), or of none. To a terminal stdout goes as it is, and is not kept [default: failed]' -r -f -a "failed\t''
all\t''
none\t''"
complete -c dblock -n "__fish_dblock_using_subcommand 'queue work'" -l on-failure -d 'Run this by /bin/sh -c after each run that failed, was lost or timed out, with the line of --report on its stdin. It has DBLOCK_NAME, DBLOCK_RESULT and DBLOCK_EXIT_CODE, and 30 s, and changes no exit code' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue work'" -l on-end -d 'As --on-failure, after each run that was not skipped' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue work'" -l url -d 'Everything in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock; for PostgreSQL postgres://user@host1,host2:5433/database?sslmode=verify-full, with the parameters of libpq [env: DBLOCK_URL]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue work'" -l host -d 'The server\'s name or address; localhost means its local socket. PostgreSQL: also several, or the folder of a local socket; localhost means TCP [env: DBLOCK_HOST]' -r -f -a "(__fish_print_hostnames)"
complete -c dblock -n "__fish_dblock_using_subcommand 'queue work'" -l port -d 'The server\'s TCP port; PostgreSQL\'s default is 5432 [env: DBLOCK_PORT] [default: 3306]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue work'" -l user -d 'The account on the server [env: DBLOCK_USER] [default: the name of the OS user]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue work'" -l socket -d 'The server\'s local socket; PostgreSQL: or its folder [env: DBLOCK_SOCKET]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue work'" -l protocol -d 'How to reach localhost; by its socket if not given [env: DBLOCK_PROTOCOL]' -r -f -a "tcp\t''
socket\t''"
complete -c dblock -n "__fish_dblock_using_subcommand 'queue work'" -l password-file -d 'A file whose first line is the password [env, with the password itself: DBLOCK_PASSWORD, MYSQL_PWD; PostgreSQL: PGPASSWORD, and then the file ~/.pgpass]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue work'" -l database -d 'The database with dblock\'s tables; the path of the URL names it, too. PostgreSQL: the database whose locks dblock uses, without a default [env: DBLOCK_DATABASE] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue work'" -l schema -d 'On PostgreSQL: the schema with dblock\'s tables, in the database that is connected to [env: DBLOCK_SCHEMA] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue work'" -l defaults-file -d 'Read only this MySQL option file' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue work'" -l defaults-extra-file -d 'Also read this option file, before ~/.my.cnf' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue work'" -l defaults-group-suffix -d 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue work'" -l ssl-mode -d 'As in the mysql client. preferred: TLS if the server offers it. required: always TLS. verify-ca: also check that a trusted CA signed the server\'s certificate. verify-identity: also check that the certificate is for the host\'s name or address. With --ssl-ca the default is verify-ca. PostgreSQL: also libpq\'s words, with libpq\'s meaning [env: DBLOCK_SSL_MODE] [default: preferred]' -r -f -a "disabled\t''
preferred\t''
required\t''
verify-ca\t''
verify-identity\t''"
complete -c dblock -n "__fish_dblock_using_subcommand 'queue work'" -l ssl-ca -d 'A PEM file with the certificates of the CAs to trust instead of the system\'s [env: DBLOCK_SSL_CA]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue work'" -l ssl-cert -d 'A PEM file with dblock\'s own certificate, followed by the intermediate ones [env: DBLOCK_SSL_CERT]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue work'" -l ssl-key -d 'A PEM file with the private key of that certificate [env: DBLOCK_SSL_KEY]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue work'" -l server-public-key-path -d 'A PEM file with the server\'s public key, which encrypts the password when there is no TLS. Without it dblock trusts the key that the server sends [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue work'" -l connect-timeout -d 'How long to try to reach a server. It covers resolving names, trying hosts and logging in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue work'" -l lines -d 'With --batch: each payload is a line (the default)'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue work'" -l null -d 'With --batch: each payload ends in NUL'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue work'" -l drain -d 'Exit with 0 when no job is due and all commands have ended. Delayed jobs stay'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue work'" -l once -d 'Run one command and exit with its exit code, or with 75 if no job is due'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue work'" -l scrub-env -d 'Remove DBLOCK_URL, the other connection variables, MYSQL_PWD and, with PostgreSQL, PGPASSWORD from the environment of the commands'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue work'" -s q -l quiet -d 'Log errors only'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue work'" -s v -l verbose -d 'Log each step and how long it took; given twice, log every statement, but never a password'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue work'" -l no-defaults -d 'Read no option file'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue work'" -s h -l help -d 'Print help'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue status'" -l watch -d 'Show the table again and again on the terminal, every DURATION: 100ms to 1d, 2s if none is given. q or Ctrl-C ends it' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue status'" -l color -d 'Show results in colors: auto does on a terminal, unless NO_COLOR is set. The words say the same [default: auto]' -r -f -a "auto\t''
always\t''
never\t''"
complete -c dblock -n "__fish_dblock_using_subcommand 'queue status'" -l url -d 'Everything in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock; for PostgreSQL postgres://user@host1,host2:5433/database?sslmode=verify-full, with the parameters of libpq [env: DBLOCK_URL]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue status'" -l host -d 'The server\'s name or address; localhost means its local socket. PostgreSQL: also several, or the folder of a local socket; localhost means TCP [env: DBLOCK_HOST]' -r -f -a "(__fish_print_hostnames)"
complete -c dblock -n "__fish_dblock_using_subcommand 'queue status'" -l port -d 'The server\'s TCP port; PostgreSQL\'s default is 5432 [env: DBLOCK_PORT] [default: 3306]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue status'" -l user -d 'The account on the server [env: DBLOCK_USER] [default: the name of the OS user]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue status'" -l socket -d 'The server\'s local socket; PostgreSQL: or its folder [env: DBLOCK_SOCKET]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue status'" -l protocol -d 'How to reach localhost; by its socket if not given [env: DBLOCK_PROTOCOL]' -r -f -a "tcp\t''
socket\t''"
complete -c dblock -n "__fish_dblock_using_subcommand 'queue status'" -l password-file -d 'A file whose first line is the password [env, with the password itself: DBLOCK_PASSWORD, MYSQL_PWD; PostgreSQL: PGPASSWORD, and then the file ~/.pgpass]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue status'" -l database -d 'The database with dblock\'s tables; the path of the URL names it, too. PostgreSQL: the database whose locks dblock uses, without a default [env: DBLOCK_DATABASE] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue status'" -l schema -d 'On PostgreSQL: the schema with dblock\'s tables, in the database that is connected to [env: DBLOCK_SCHEMA] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue status'" -l defaults-file -d 'Read only this MySQL option file' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue status'" -l defaults-extra-file -d 'Also read this option file, before ~/.my.cnf' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue status'" -l defaults-group-suffix -d 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue status'" -l ssl-mode -d 'As in the mysql client. preferred: TLS if the server offers it. required: always TLS. verify-ca: also check that a trusted CA signed the server\'s certificate. verify-identity: also check that the certificate is for the host\'s name or address. With --ssl-ca the default is verify-ca. PostgreSQL: also libpq\'s words, with libpq\'s meaning [env: DBLOCK_SSL_MODE] [default: preferred]' -r -f -a "disabled\t''
preferred\t''
required\t''
verify-ca\t''
verify-identity\t''"
complete -c dblock -n "__fish_dblock_using_subcommand 'queue status'" -l ssl-ca -d 'A PEM file with the certificates of the CAs to trust instead of the system\'s [env: DBLOCK_SSL_CA]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue status'" -l ssl-cert -d 'A PEM file with dblock\'s own certificate, followed by the intermediate ones [env: DBLOCK_SSL_CERT]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue status'" -l ssl-key -d 'A PEM file with the private key of that certificate [env: DBLOCK_SSL_KEY]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue status'" -l server-public-key-path -d 'A PEM file with the server\'s public key, which encrypts the password when there is no TLS. Without it dblock trusts the key that the server sends [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue status'" -l connect-timeout -d 'How long to try to reach a server. It covers resolving names, trying hosts and logging in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue status'" -l exact -d 'Count all jobs of each state, and not just the first 10000; with millions of jobs that takes seconds'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue status'" -l json -d 'Print JSON instead of the table'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue status'" -s q -l quiet -d 'Log errors only'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue status'" -s v -l verbose -d 'Log each step and how long it took; given twice, log every statement, but never a password'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue status'" -l no-defaults -d 'Read no option file'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue status'" -s h -l help -d 'Print help'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue list'" -l state -d 'Only jobs in this state; if not given, all except those that are done' -r -f -a "due\t''
delayed\t''
running\t''
dead\t''
done\t''"
complete -c dblock -n "__fish_dblock_using_subcommand 'queue list'" -s n -l limit -d 'At most N jobs; 0 shows all [default: 20]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue list'" -l url -d 'Everything in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock; for PostgreSQL postgres://user@host1,host2:5433/database?sslmode=verify-full, with the parameters of libpq [env: DBLOCK_URL]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue list'" -l host -d 'The server\'s name or address; localhost means its local socket. PostgreSQL: also several, or the folder of a local socket; localhost means TCP [env: DBLOCK_HOST]' -r -f -a "(__fish_print_hostnames)"
complete -c dblock -n "__fish_dblock_using_subcommand 'queue list'" -l port -d 'The server\'s TCP port; PostgreSQL\'s default is 5432 [env: DBLOCK_PORT] [default: 3306]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue list'" -l user -d 'The account on the server [env: DBLOCK_USER] [default: the name of the OS user]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue list'" -l socket -d 'The server\'s local socket; PostgreSQL: or its folder [env: DBLOCK_SOCKET]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue list'" -l protocol -d 'How to reach localhost; by its socket if not given [env: DBLOCK_PROTOCOL]' -r -f -a "tcp\t''
socket\t''"
complete -c dblock -n "__fish_dblock_using_subcommand 'queue list'" -l password-file -d 'A file whose first line is the password [env, with the password itself: DBLOCK_PASSWORD, MYSQL_PWD; PostgreSQL: PGPASSWORD, and then the file ~/.pgpass]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue list'" -l database -d 'The database with dblock\'s tables; the path of the URL names it, too. PostgreSQL: the database whose locks dblock uses, without a default [env: DBLOCK_DATABASE] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue list'" -l schema -d 'On PostgreSQL: the schema with dblock\'s tables, in the database that is connected to [env: DBLOCK_SCHEMA] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue list'" -l defaults-file -d 'Read only this MySQL option file' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue list'" -l defaults-extra-file -d 'Also read this option file, before ~/.my.cnf' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue list'" -l defaults-group-suffix -d 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue list'" -l ssl-mode -d 'As in the mysql client. preferred: TLS if the server offers it. required: always TLS. verify-ca: also check that a trusted CA signed the server\'s certificate. verify-identity: also check that the certificate is for the host\'s name or address. With --ssl-ca the default is verify-ca. PostgreSQL: also libpq\'s words, with libpq\'s meaning [env: DBLOCK_SSL_MODE] [default: preferred]' -r -f -a "disabled\t''
preferred\t''
required\t''
verify-ca\t''
verify-identity\t''"
complete -c dblock -n "__fish_dblock_using_subcommand 'queue list'" -l ssl-ca -d 'A PEM file with the certificates of the CAs to trust instead of the system\'s [env: DBLOCK_SSL_CA]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue list'" -l ssl-cert -d 'A PEM file with dblock\'s own certificate, followed by the intermediate ones [env: DBLOCK_SSL_CERT]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue list'" -l ssl-key -d 'A PEM file with the private key of that certificate [env: DBLOCK_SSL_KEY]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue list'" -l server-public-key-path -d 'A PEM file with the server\'s public key, which encrypts the password when there is no TLS. Without it dblock trusts the key that the server sends [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue list'" -l connect-timeout -d 'How long to try to reach a server. It covers resolving names, trying hosts and logging in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue list'" -l json -d 'Print JSON instead of the table'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue list'" -s q -l quiet -d 'Log errors only'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue list'" -s v -l verbose -d 'Log each step and how long it took; given twice, log every statement, but never a password'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue list'" -l no-defaults -d 'Read no option file'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue list'" -s h -l help -d 'Print help'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue show'" -l url -d 'Everything in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock; for PostgreSQL postgres://user@host1,host2:5433/database?sslmode=verify-full, with the parameters of libpq [env: DBLOCK_URL]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue show'" -l host -d 'The server\'s name or address; localhost means its local socket. PostgreSQL: also several, or the folder of a local socket; localhost means TCP [env: DBLOCK_HOST]' -r -f -a "(__fish_print_hostnames)"
complete -c dblock -n "__fish_dblock_using_subcommand 'queue show'" -l port -d 'The server\'s TCP port; PostgreSQL\'s default is 5432 [env: DBLOCK_PORT] [default: 3306]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue show'" -l user -d 'The account on the server [env: DBLOCK_USER] [default: the name of the OS user]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue show'" -l socket -d 'The server\'s local socket; PostgreSQL: or its folder [env: DBLOCK_SOCKET]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue show'" -l protocol -d 'How to reach localhost; by its socket if not given [env: DBLOCK_PROTOCOL]' -r -f -a "tcp\t''
socket\t''"
complete -c dblock -n "__fish_dblock_using_subcommand 'queue show'" -l password-file -d 'A file whose first line is the password [env, with the password itself: DBLOCK_PASSWORD, MYSQL_PWD; PostgreSQL: PGPASSWORD, and then the file ~/.pgpass]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue show'" -l database -d 'The database with dblock\'s tables; the path of the URL names it, too. PostgreSQL: the database whose locks dblock uses, without a default [env: DBLOCK_DATABASE] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue show'" -l schema -d 'On PostgreSQL: the schema with dblock\'s tables, in the database that is connected to [env: DBLOCK_SCHEMA] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue show'" -l defaults-file -d 'Read only this MySQL option file' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue show'" -l defaults-extra-file -d 'Also read this option file, before ~/.my.cnf' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue show'" -l defaults-group-suffix -d 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue show'" -l ssl-mode -d 'As in the mysql client. preferred: TLS if the server offers it. required: always TLS. verify-ca: also check that a trusted CA signed the server\'s certificate. verify-identity: also check that the certificate is for the host\'s name or address. With --ssl-ca the default is verify-ca. PostgreSQL: also libpq\'s words, with libpq\'s meaning [env: DBLOCK_SSL_MODE] [default: preferred]' -r -f -a "disabled\t''
preferred\t''
required\t''
verify-ca\t''
verify-identity\t''"
complete -c dblock -n "__fish_dblock_using_subcommand 'queue show'" -l ssl-ca -d 'A PEM file with the certificates of the CAs to trust instead of the system\'s [env: DBLOCK_SSL_CA]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue show'" -l ssl-cert -d 'A PEM file with dblock\'s own certificate, followed by the intermediate ones [env: DBLOCK_SSL_CERT]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue show'" -l ssl-key -d 'A PEM file with the private key of that certificate [env: DBLOCK_SSL_KEY]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue show'" -l server-public-key-path -d 'A PEM file with the server\'s public key, which encrypts the password when there is no TLS. Without it dblock trusts the key that the server sends [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue show'" -l connect-timeout -d 'How long to try to reach a server. It covers resolving names, trying hosts and logging in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue show'" -l payload -d 'Write only the payload to stdout, unchanged'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue show'" -l json -d 'Print JSON instead of the table'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue show'" -s q -l quiet -d 'Log errors only'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue show'" -s v -l verbose -d 'Log each step and how long it took; given twice, log every statement, but never a password'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue show'" -l no-defaults -d 'Read no option file'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue show'" -s h -l help -d 'Print help'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue retry'" -l url -d 'Everything in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock; for PostgreSQL postgres://user@host1,host2:5433/database?sslmode=verify-full, with the parameters of libpq [env: DBLOCK_URL]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue retry'" -l host -d 'The server\'s name or address; localhost means its local socket. PostgreSQL: also several, or the folder of a local socket; localhost means TCP [env: DBLOCK_HOST]' -r -f -a "(__fish_print_hostnames)"
complete -c dblock -n "__fish_dblock_using_subcommand 'queue retry'" -l port -d 'The server\'s TCP port; PostgreSQL\'s default is 5432 [env: DBLOCK_PORT] [default: 3306]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue retry'" -l user -d 'The account on the server [env: DBLOCK_USER] [default: the name of the OS user]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue retry'" -l socket -d 'The server\'s local socket; PostgreSQL: or its folder [env: DBLOCK_SOCKET]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue retry'" -l protocol -d 'How to reach localhost; by its socket if not given [env: DBLOCK_PROTOCOL]' -r -f -a "tcp\t''
socket\t''"
complete -c dblock -n "__fish_dblock_using_subcommand 'queue retry'" -l password-file -d 'A file whose first line is the password [env, with the password itself: DBLOCK_PASSWORD, MYSQL_PWD; PostgreSQL: PGPASSWORD, and then the file ~/.pgpass]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue retry'" -l database -d 'The database with dblock\'s tables; the path of the URL names it, too. PostgreSQL: the database whose locks dblock uses, without a default [env: DBLOCK_DATABASE] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue retry'" -l schema -d 'On PostgreSQL: the schema with dblock\'s tables, in the database that is connected to [env: DBLOCK_SCHEMA] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue retry'" -l defaults-file -d 'Read only this MySQL option file' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue retry'" -l defaults-extra-file -d 'Also read this option file, before ~/.my.cnf' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue retry'" -l defaults-group-suffix -d 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue retry'" -l ssl-mode -d 'As in the mysql client. preferred: TLS if the server offers it. required: always TLS. verify-ca: also check that a trusted CA signed the server\'s certificate. verify-identity: also check that the certificate is for the host\'s name or address. With --ssl-ca the default is verify-ca. PostgreSQL: also libpq\'s words, with libpq\'s meaning [env: DBLOCK_SSL_MODE] [default: preferred]' -r -f -a "disabled\t''
preferred\t''
required\t''
verify-ca\t''
verify-identity\t''"
complete -c dblock -n "__fish_dblock_using_subcommand 'queue retry'" -l ssl-ca -d 'A PEM file with the certificates of the CAs to trust instead of the system\'s [env: DBLOCK_SSL_CA]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue retry'" -l ssl-cert -d 'A PEM file with dblock\'s own certificate, followed by the intermediate ones [env: DBLOCK_SSL_CERT]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue retry'" -l ssl-key -d 'A PEM file with the private key of that certificate [env: DBLOCK_SSL_KEY]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue retry'" -l server-public-key-path -d 'A PEM file with the server\'s public key, which encrypts the password when there is no TLS. Without it dblock trusts the key that the server sends [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue retry'" -l connect-timeout -d 'How long to try to reach a server. It covers resolving names, trying hosts and logging in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue retry'" -l dead -d 'All dead jobs of the queue'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue retry'" -s q -l quiet -d 'Log errors only'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue retry'" -s v -l verbose -d 'Log each step and how long it took; given twice, log every statement, but never a password'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue retry'" -l no-defaults -d 'Read no option file'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue retry'" -s h -l help -d 'Print help'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue cancel'" -l url -d 'Everything in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock; for PostgreSQL postgres://user@host1,host2:5433/database?sslmode=verify-full, with the parameters of libpq [env: DBLOCK_URL]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue cancel'" -l host -d 'The server\'s name or address; localhost means its local socket. PostgreSQL: also several, or the folder of a local socket; localhost means TCP [env: DBLOCK_HOST]' -r -f -a "(__fish_print_hostnames)"
complete -c dblock -n "__fish_dblock_using_subcommand 'queue cancel'" -l port -d 'The server\'s TCP port; PostgreSQL\'s default is 5432 [env: DBLOCK_PORT] [default: 3306]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue cancel'" -l user -d 'The account on the server [env: DBLOCK_USER] [default: the name of the OS user]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue cancel'" -l socket -d 'The server\'s local socket; PostgreSQL: or its folder [env: DBLOCK_SOCKET]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue cancel'" -l protocol -d 'How to reach localhost; by its socket if not given [env: DBLOCK_PROTOCOL]' -r -f -a "tcp\t''
socket\t''"
complete -c dblock -n "__fish_dblock_using_subcommand 'queue cancel'" -l password-file -d 'A file whose first line is the password [env, with the password itself: DBLOCK_PASSWORD, MYSQL_PWD; PostgreSQL: PGPASSWORD, and then the file ~/.pgpass]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue cancel'" -l database -d 'The database with dblock\'s tables; the path of the URL names it, too. PostgreSQL: the database whose locks dblock uses, without a default [env: DBLOCK_DATABASE] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue cancel'" -l schema -d 'On PostgreSQL: the schema with dblock\'s tables, in the database that is connected to [env: DBLOCK_SCHEMA] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue cancel'" -l defaults-file -d 'Read only this MySQL option file' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue cancel'" -l defaults-extra-file -d 'Also read this option file, before ~/.my.cnf' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue cancel'" -l defaults-group-suffix -d 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue cancel'" -l ssl-mode -d 'As in the mysql client. preferred: TLS if the server offers it. required: always TLS. verify-ca: also check that a trusted CA signed the server\'s certificate. verify-identity: also check that the certificate is for the host\'s name or address. With --ssl-ca the default is verify-ca. PostgreSQL: also libpq\'s words, with libpq\'s meaning [env: DBLOCK_SSL_MODE] [default: preferred]' -r -f -a "disabled\t''
preferred\t''
required\t''
verify-ca\t''
verify-identity\t''"
complete -c dblock -n "__fish_dblock_using_subcommand 'queue cancel'" -l ssl-ca -d 'A PEM file with the certificates of the CAs to trust instead of the system\'s [env: DBLOCK_SSL_CA]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue cancel'" -l ssl-cert -d 'A PEM file with dblock\'s own certificate, followed by the intermediate ones [env: DBLOCK_SSL_CERT]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue cancel'" -l ssl-key -d 'A PEM file with the private key of that certificate [env: DBLOCK_SSL_KEY]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue cancel'" -l server-public-key-path -d 'A PEM file with the server\'s public key, which encrypts the password when there is no TLS. Without it dblock trusts the key that the server sends [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue cancel'" -l connect-timeout -d 'How long to try to reach a server. It covers resolving names, trying hosts and logging in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue cancel'" -s q -l quiet -d 'Log errors only'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue cancel'" -s v -l verbose -d 'Log each step and how long it took; given twice, log every statement, but never a password'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue cancel'" -l no-defaults -d 'Read no option file'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue cancel'" -s h -l help -d 'Print help'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue pause'" -l url -d 'Everything in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock; for PostgreSQL postgres://user@host1,host2:5433/database?sslmode=verify-full, with the parameters of libpq [env: DBLOCK_URL]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue pause'" -l host -d 'The server\'s name or address; localhost means its local socket. PostgreSQL: also several, or the folder of a local socket; localhost means TCP [env: DBLOCK_HOST]' -r -f -a "(__fish_print_hostnames)"
complete -c dblock -n "__fish_dblock_using_subcommand 'queue pause'" -l port -d 'The server\'s TCP port; PostgreSQL\'s default is 5432 [env: DBLOCK_PORT] [default: 3306]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue pause'" -l user -d 'The account on the server [env: DBLOCK_USER] [default: the name of the OS user]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue pause'" -l socket -d 'The server\'s local socket; PostgreSQL: or its folder [env: DBLOCK_SOCKET]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue pause'" -l protocol -d 'How to reach localhost; by its socket if not given [env: DBLOCK_PROTOCOL]' -r -f -a "tcp\t''
socket\t''"
complete -c dblock -n "__fish_dblock_using_subcommand 'queue pause'" -l password-file -d 'A file whose first line is the password [env, with the password itself: DBLOCK_PASSWORD, MYSQL_PWD; PostgreSQL: PGPASSWORD, and then the file ~/.pgpass]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue pause'" -l database -d 'The database with dblock\'s tables; the path of the URL names it, too. PostgreSQL: the database whose locks dblock uses, without a default [env: DBLOCK_DATABASE] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue pause'" -l schema -d 'On PostgreSQL: the schema with dblock\'s tables, in the database that is connected to [env: DBLOCK_SCHEMA] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue pause'" -l defaults-file -d 'Read only this MySQL option file' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue pause'" -l defaults-extra-file -d 'Also read this option file, before ~/.my.cnf' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue pause'" -l defaults-group-suffix -d 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue pause'" -l ssl-mode -d 'As in the mysql client. preferred: TLS if the server offers it. required: always TLS. verify-ca: also check that a trusted CA signed the server\'s certificate. verify-identity: also check that the certificate is for the host\'s name or address. With --ssl-ca the default is verify-ca. PostgreSQL: also libpq\'s words, with libpq\'s meaning [env: DBLOCK_SSL_MODE] [default: preferred]' -r -f -a "disabled\t''
preferred\t''
required\t''
verify-ca\t''
verify-identity\t''"
complete -c dblock -n "__fish_dblock_using_subcommand 'queue pause'" -l ssl-ca -d 'A PEM file with the certificates of the CAs to trust instead of the system\'s [env: DBLOCK_SSL_CA]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue pause'" -l ssl-cert -d 'A PEM file with dblock\'s own certificate, followed by the intermediate ones [env: DBLOCK_SSL_CERT]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue pause'" -l ssl-key -d 'A PEM file with the private key of that certificate [env: DBLOCK_SSL_KEY]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue pause'" -l server-public-key-path -d 'A PEM file with the server\'s public key, which encrypts the password when there is no TLS. Without it dblock trusts the key that the server sends [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue pause'" -l connect-timeout -d 'How long to try to reach a server. It covers resolving names, trying hosts and logging in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue pause'" -s q -l quiet -d 'Log errors only'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue pause'" -s v -l verbose -d 'Log each step and how long it took; given twice, log every statement, but never a password'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue pause'" -l no-defaults -d 'Read no option file'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue pause'" -s h -l help -d 'Print help'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue resume'" -l url -d 'Everything in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock; for PostgreSQL postgres://user@host1,host2:5433/database?sslmode=verify-full, with the parameters of libpq [env: DBLOCK_URL]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue resume'" -l host -d 'The server\'s name or address; localhost means its local socket. PostgreSQL: also several, or the folder of a local socket; localhost means TCP [env: DBLOCK_HOST]' -r -f -a "(__fish_print_hostnames)"
complete -c dblock -n "__fish_dblock_using_subcommand 'queue resume'" -l port -d 'The server\'s TCP port; PostgreSQL\'s default is 5432 [env: DBLOCK_PORT] [default: 3306]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue resume'" -l user -d 'The account on the server [env: DBLOCK_USER] [default: the name of the OS user]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue resume'" -l socket -d 'The server\'s local socket; PostgreSQL: or its folder [env: DBLOCK_SOCKET]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue resume'" -l protocol -d 'How to reach localhost; by its socket if not given [env: DBLOCK_PROTOCOL]' -r -f -a "tcp\t''
socket\t''"
complete -c dblock -n "__fish_dblock_using_subcommand 'queue resume'" -l password-file -d 'A file whose first line is the password [env, with the password itself: DBLOCK_PASSWORD, MYSQL_PWD; PostgreSQL: PGPASSWORD, and then the file ~/.pgpass]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue resume'" -l database -d 'The database with dblock\'s tables; the path of the URL names it, too. PostgreSQL: the database whose locks dblock uses, without a default [env: DBLOCK_DATABASE] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue resume'" -l schema -d 'On PostgreSQL: the schema with dblock\'s tables, in the database that is connected to [env: DBLOCK_SCHEMA] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue resume'" -l defaults-file -d 'Read only this MySQL option file' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue resume'" -l defaults-extra-file -d 'Also read this option file, before ~/.my.cnf' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue resume'" -l defaults-group-suffix -d 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue resume'" -l ssl-mode -d 'As in the mysql client. preferred: TLS if the server offers it. required: always TLS. verify-ca: also check that a trusted CA signed the server\'s certificate. verify-identity: also check that the certificate is for the host\'s name or address. With --ssl-ca the default is verify-ca. PostgreSQL: also libpq\'s words, with libpq\'s meaning [env: DBLOCK_SSL_MODE] [default: preferred]' -r -f -a "disabled\t''
preferred\t''
required\t''
verify-ca\t''
verify-identity\t''"
complete -c dblock -n "__fish_dblock_using_subcommand 'queue resume'" -l ssl-ca -d 'A PEM file with the certificates of the CAs to trust instead of the system\'s [env: DBLOCK_SSL_CA]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue resume'" -l ssl-cert -d 'A PEM file with dblock\'s own certificate, followed by the intermediate ones [env: DBLOCK_SSL_CERT]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue resume'" -l ssl-key -d 'A PEM file with the private key of that certificate [env: DBLOCK_SSL_KEY]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue resume'" -l server-public-key-path -d 'A PEM file with the server\'s public key, which encrypts the password when there is no TLS. Without it dblock trusts the key that the server sends [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue resume'" -l connect-timeout -d 'How long to try to reach a server. It covers resolving names, trying hosts and logging in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue resume'" -s q -l quiet -d 'Log errors only'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue resume'" -s v -l verbose -d 'Log each step and how long it took; given twice, log every statement, but never a password'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue resume'" -l no-defaults -d 'Read no option file'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue resume'" -s h -l help -d 'Print help'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue delete'" -l url -d 'Everything in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock; for PostgreSQL postgres://user@host1,host2:5433/database?sslmode=verify-full, with the parameters of libpq [env: DBLOCK_URL]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue delete'" -l host -d 'The server\'s name or address; localhost means its local socket. PostgreSQL: also several, or the folder of a local socket; localhost means TCP [env: DBLOCK_HOST]' -r -f -a "(__fish_print_hostnames)"
complete -c dblock -n "__fish_dblock_using_subcommand 'queue delete'" -l port -d 'The server\'s TCP port; PostgreSQL\'s default is 5432 [env: DBLOCK_PORT] [default: 3306]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue delete'" -l user -d 'The account on the server [env: DBLOCK_USER] [default: the name of the OS user]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue delete'" -l socket -d 'The server\'s local socket; PostgreSQL: or its folder [env: DBLOCK_SOCKET]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue delete'" -l protocol -d 'How to reach localhost; by its socket if not given [env: DBLOCK_PROTOCOL]' -r -f -a "tcp\t''
socket\t''"
complete -c dblock -n "__fish_dblock_using_subcommand 'queue delete'" -l password-file -d 'A file whose first line is the password [env, with the password itself: DBLOCK_PASSWORD, MYSQL_PWD; PostgreSQL: PGPASSWORD, and then the file ~/.pgpass]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue delete'" -l database -d 'The database with dblock\'s tables; the path of the URL names it, too. PostgreSQL: the database whose locks dblock uses, without a default [env: DBLOCK_DATABASE] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue delete'" -l schema -d 'On PostgreSQL: the schema with dblock\'s tables, in the database that is connected to [env: DBLOCK_SCHEMA] [default: dblock]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue delete'" -l defaults-file -d 'Read only this MySQL option file' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue delete'" -l defaults-extra-file -d 'Also read this option file, before ~/.my.cnf' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue delete'" -l defaults-group-suffix -d 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue delete'" -l ssl-mode -d 'As in the mysql client. preferred: TLS if the server offers it. required: always TLS. verify-ca: also check that a trusted CA signed the server\'s certificate. verify-identity: also check that the certificate is for the host\'s name or address. With --ssl-ca the default is verify-ca. PostgreSQL: also libpq\'s words, with libpq\'s meaning [env: DBLOCK_SSL_MODE] [default: preferred]' -r -f -a "disabled\t''
preferred\t''
required\t''
verify-ca\t''
verify-identity\t''"
complete -c dblock -n "__fish_dblock_using_subcommand 'queue delete'" -l ssl-ca -d 'A PEM file with the certificates of the CAs to trust instead of the system\'s [env: DBLOCK_SSL_CA]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue delete'" -l ssl-cert -d 'A PEM file with dblock\'s own certificate, followed by the intermediate ones [env: DBLOCK_SSL_CERT]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue delete'" -l ssl-key -d 'A PEM file with the private key of that certificate [env: DBLOCK_SSL_KEY]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue delete'" -l server-public-key-path -d 'A PEM file with the server\'s public key, which encrypts the password when there is no TLS. Without it dblock trusts the key that the server sends [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]' -r -F
complete -c dblock -n "__fish_dblock_using_subcommand 'queue delete'" -l connect-timeout -d 'How long to try to reach a server. It covers resolving names, trying hosts and logging in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]' -r -f
complete -c dblock -n "__fish_dblock_using_subcommand 'queue delete'" -s q -l quiet -d 'Log errors only'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue delete'" -s v -l verbose -d 'Log each step and how long it took; given twice, log every statement, but never a password'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue delete'" -l no-defaults -d 'Read no option file'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue delete'" -s h -l help -d 'Print help'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue help'" -f -a "create" -d 'Create a queue'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue help'" -f -a "put" -d 'Put jobs into a queue, and print their ids'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue help'" -f -a "work" -d 'Run a command for each job of a queue'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue help'" -f -a "status" -d 'Show how many jobs are due, and who works on them'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue help'" -f -a "list" -d 'Show the jobs of a queue'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue help'" -f -a "show" -d 'Show everything about a job, or its payload'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue help'" -f -a "retry" -d 'Try dead and delayed jobs now'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue help'" -f -a "cancel" -d 'Delete jobs, and never retry those that are running'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue help'" -f -a "pause" -d 'Pause a queue: workers claim no more jobs'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue help'" -f -a "resume" -d 'Resume a queue: workers claim its jobs again'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue help'" -f -a "delete" -d 'Delete a queue with all of its jobs'
complete -c dblock -n "__fish_dblock_using_subcommand 'queue help'" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c dblock -n "__fish_dblock_using_subcommand help; and not __fish_seen_subcommand_from run status kill check config init acquire renew release history audit output metrics web cron queue help" -f -a "run" -d 'Run a command while holding a lock, and exit with its exit code'
complete -c dblock -n "__fish_dblock_using_subcommand help; and not __fish_seen_subcommand_from run status kill check config init acquire renew release history audit output metrics web cron queue help" -f -a "status" -d 'Show who holds a lock, who waits for it, and for how long'
complete -c dblock -n "__fish_dblock_using_subcommand help; and not __fish_seen_subcommand_from run status kill check config init acquire renew release history audit output metrics web cron queue help" -f -a "kill" -d 'End the holder of a lock, and its command'
complete -c dblock -n "__fish_dblock_using_subcommand help; and not __fish_seen_subcommand_from run status kill check config init acquire renew release history audit output metrics web cron queue help" -f -a "check" -d 'Check whether a server is fit to lock on, and how fast it is'
complete -c dblock -n "__fish_dblock_using_subcommand help; and not __fish_seen_subcommand_from run status kill check config init acquire renew release history audit output metrics web cron queue help" -f -a "config" -d 'Print every setting in force and where it comes from'
complete -c dblock -n "__fish_dblock_using_subcommand help; and not __fish_seen_subcommand_from run status kill check config init acquire renew release history audit output metrics web cron queue help" -f -a "init" -d 'Create dblock\'s tables, or upgrade them'
complete -c dblock -n "__fish_dblock_using_subcommand help; and not __fish_seen_subcommand_from run status kill check config init acquire renew release history audit output metrics web cron queue help" -f -a "acquire" -d 'Acquire a lock that spans several commands of a script, and print its token'
complete -c dblock -n "__fish_dblock_using_subcommand help; and not __fish_seen_subcommand_from run status kill check config init acquire renew release history audit output metrics web cron queue help" -f -a "renew" -d 'Renew a lock that dblock acquire acquired'
complete -c dblock -n "__fish_dblock_using_subcommand help; and not __fish_seen_subcommand_from run status kill check config init acquire renew release history audit output metrics web cron queue help" -f -a "release" -d 'Release a lock that dblock acquire acquired'
complete -c dblock -n "__fish_dblock_using_subcommand help; and not __fish_seen_subcommand_from run status kill check config init acquire renew release history audit output metrics web cron queue help" -f -a "history" -d 'Show what ran where, when, and how it ended'
complete -c dblock -n "__fish_dblock_using_subcommand help; and not __fish_seen_subcommand_from run status kill check config init acquire renew release history audit output metrics web cron queue help" -f -a "audit" -d 'Show who paused, resumed, triggered, retried, canceled or killed what'
complete -c dblock -n "__fish_dblock_using_subcommand help; and not __fish_seen_subcommand_from run status kill check config init acquire renew release history audit output metrics web cron queue help" -f -a "output" -d 'Print what a command wrote, as far as it is kept'
complete -c dblock -n "__fish_dblock_using_subcommand help; and not __fish_seen_subcommand_from run status kill check config init acquire renew release history audit output metrics web cron queue help" -f -a "metrics" -d 'Print what Prometheus collects: locks, jobs of the crontab, queues, and the server'
complete -c dblock -n "__fish_dblock_using_subcommand help; and not __fish_seen_subcommand_from run status kill check config init acquire renew release history audit output metrics web cron queue help" -f -a "web" -d 'Show locks, the crontab, queues and the history in a browser'
complete -c dblock -n "__fish_dblock_using_subcommand help; and not __fish_seen_subcommand_from run status kill check config init acquire renew release history audit output metrics web cron queue help" -f -a "cron" -d 'One crontab for all hosts'
complete -c dblock -n "__fish_dblock_using_subcommand help; and not __fish_seen_subcommand_from run status kill check config init acquire renew release history audit output metrics web cron queue help" -f -a "queue" -d 'A queue of jobs: workers on all hosts run a command for each'
complete -c dblock -n "__fish_dblock_using_subcommand help; and not __fish_seen_subcommand_from run status kill check config init acquire renew release history audit output metrics web cron queue help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c dblock -n "__fish_dblock_using_subcommand help; and __fish_seen_subcommand_from cron" -f -a "run" -d 'Run the jobs of a crontab, each tick on one host'
complete -c dblock -n "__fish_dblock_using_subcommand help; and __fish_seen_subcommand_from cron" -f -a "check" -d 'Check a crontab, and show when its jobs are due'
complete -c dblock -n "__fish_dblock_using_subcommand help; and __fish_seen_subcommand_from cron" -f -a "list" -d 'Show each job: its next tick, and when and where it ran last and how that ended'
complete -c dblock -n "__fish_dblock_using_subcommand help; and __fish_seen_subcommand_from cron" -f -a "pause" -d 'Pause a job: its ticks are skipped until it is resumed'
complete -c dblock -n "__fish_dblock_using_subcommand help; and __fish_seen_subcommand_from cron" -f -a "resume" -d 'Resume a paused job: it runs at its ticks again'
complete -c dblock -n "__fish_dblock_using_subcommand help; and __fish_seen_subcommand_from cron" -f -a "trigger" -d 'Run a job once now, in addition to its ticks'
complete -c dblock -n "__fish_dblock_using_subcommand help; and __fish_seen_subcommand_from queue" -f -a "create" -d 'Create a queue'
complete -c dblock -n "__fish_dblock_using_subcommand help; and __fish_seen_subcommand_from queue" -f -a "put" -d 'Put jobs into a queue, and print their ids'
complete -c dblock -n "__fish_dblock_using_subcommand help; and __fish_seen_subcommand_from queue" -f -a "work" -d 'Run a command for each job of a queue'
complete -c dblock -n "__fish_dblock_using_subcommand help; and __fish_seen_subcommand_from queue" -f -a "status" -d 'Show how many jobs are due, and who works on them'
complete -c dblock -n "__fish_dblock_using_subcommand help; and __fish_seen_subcommand_from queue" -f -a "list" -d 'Show the jobs of a queue'
complete -c dblock -n "__fish_dblock_using_subcommand help; and __fish_seen_subcommand_from queue" -f -a "show" -d 'Show everything about a job, or its payload'
complete -c dblock -n "__fish_dblock_using_subcommand help; and __fish_seen_subcommand_from queue" -f -a "retry" -d 'Try dead and delayed jobs now'
complete -c dblock -n "__fish_dblock_using_subcommand help; and __fish_seen_subcommand_from queue" -f -a "cancel" -d 'Delete jobs, and never retry those that are running'
complete -c dblock -n "__fish_dblock_using_subcommand help; and __fish_seen_subcommand_from queue" -f -a "pause" -d 'Pause a queue: workers claim no more jobs'
complete -c dblock -n "__fish_dblock_using_subcommand help; and __fish_seen_subcommand_from queue" -f -a "resume" -d 'Resume a queue: workers claim its jobs again'
complete -c dblock -n "__fish_dblock_using_subcommand help; and __fish_seen_subcommand_from queue" -f -a "delete" -d 'Delete a queue with all of its jobs'
complete -c dblock -n "__fish_dblock_using_subcommand 'cron run'" -F
complete -c dblock -n "__fish_dblock_using_subcommand 'cron check'" -F
