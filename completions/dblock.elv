
use builtin;
use str;

set edit:completion:arg-completer[dblock] = {|@words|
    fn spaces {|n|
        builtin:repeat $n ' ' | str:join ''
    }
    fn cand {|text desc|
        edit:complex-candidate $text &display=$text' '(spaces (- 14 (wcswidth $text)))$desc
    }
    var command = 'dblock'
    for word $words[1..-1] {
        if (str:has-prefix $word '-') {
            break
        }
        set command = $command';'$word
    }
    var completions = [
        &'dblock'= {
            cand -h 'Print help'
            cand --help 'Print help'
            cand -V 'Print version'
            cand --version 'Print version'
            cand run 'Run a command while holding a lock, and exit as it exited'
            cand status 'Show who holds a lock, who waits for it, and for how long'
            cand kill 'End the holder of a lock, and its command'
            cand check 'Check whether a server is fit to lock on, and how fast it is'
            cand config 'Print every setting in force and where it comes from'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'dblock;run'= {
            cand -n 'The lock. The same name excludes across every host that talks to the same server'
            cand --name 'The lock. The same name excludes across every host that talks to the same server'
            cand -m 'N holders at once, 1 to 1000, instead of one [default: 1]'
            cand --max-concurrency 'N holders at once, 1 to 1000, instead of one [default: 1]'
            cand --slots 'A pool: as many holders as names, each finds its own in DBLOCK_SLOT_NAME'
            cand -w 'How long to wait for the lock: 0 does not wait, forever has no limit [default: 0]'
            cand --wait 'How long to wait for the lock: 0 does not wait, forever has no limit [default: 0]'
            cand -E 'Exit code when the lock was not acquired in time, 0 to 255; 0 makes a skip a success [default: 75]'
            cand --conflict-exit-code 'Exit code when the lock was not acquired in time, 0 to 255; 0 makes a skip a success [default: 75]'
            cand -t 'End the command when it has run longer: SIGTERM, then SIGKILL; exit 124, or 137 if SIGKILL was needed; 0 is no limit'
            cand --timeout 'End the command when it has run longer: SIGTERM, then SIGKILL; exit 124, or 137 if SIGKILL was needed; 0 is no limit'
            cand -k 'From SIGTERM to SIGKILL when dblock ends the command; 0 is both at once; a third of the TTL at most [default: 10s, or a quarter of the TTL where that is less]'
            cand --kill-after 'From SIGTERM to SIGKILL when dblock ends the command; 0 is both at once; a third of the TTL at most [default: 10s, or a quarter of the TTL where that is less]'
            cand --ttl 'How long the server keeps the lock of a host that has vanished at most, and how long dblock tries to reacquire a lost one: whole seconds, 4s to 1d. Longer than a fail-over takes [default: 5m]'
            cand --on-lock-lost 'When the session is lost while the command runs: reacquire the lock, and end the command if that fails; end it at once; or let it run [default: reacquire]'
            cand --hold-at-least 'Hold the lock for at least this long after it was acquired, also when the command ends sooner: a host whose clock is late then finds it taken. dblock stays as long, so what follows it after && is delayed. TERM, INT, QUIT and HUP end it'
            cand --if-unreachable 'No server in time: fail with 69, or run the command without the lock, with a warning [default: fail]'
            cand --report 'Append one line of JSON to this file at the end of each run, skips and failures included; - is stdout'
            cand --url 'All in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock [env: DBLOCK_URL]'
            cand --host 'The server''s name or address; localhost means its local socket [env: DBLOCK_HOST]'
            cand --port 'The server''s TCP port [env: DBLOCK_PORT] [default: 3306]'
            cand --user 'The account [env: DBLOCK_USER] [default: the name of the OS user]'
            cand --socket 'The server''s local socket [env: DBLOCK_SOCKET]'
            cand --protocol 'How localhost is reached; by its socket if not given [env: DBLOCK_PROTOCOL]'
            cand --password-file 'A file whose first line is the password [env, the password itself: DBLOCK_PASSWORD, MYSQL_PWD]'
            cand --defaults-file 'Read only this MySQL option file'
            cand --defaults-extra-file 'Also read this option file, before ~/.my.cnf'
            cand --defaults-group-suffix 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]'
            cand --ssl-mode 'Whether the connection is encrypted, as in the mysql client: if the server can; always; and only to a server whose certificate is signed by a trusted CA; and only if it is also for the host''s name or address. Without it --ssl-ca means verify-ca [env: DBLOCK_SSL_MODE] [default: preferred]'
            cand --ssl-ca 'A file with the certificates of the CAs to trust, in PEM, in place of the system''s [env: DBLOCK_SSL_CA]'
            cand --ssl-cert 'A file with dblock''s own certificate, and those between it and its CA, in PEM [env: DBLOCK_SSL_CERT]'
            cand --ssl-key 'A file with the private key of that certificate, in PEM [env: DBLOCK_SSL_KEY]'
            cand --server-public-key-path 'A file with the server''s public key, in PEM, for a password that travels without TLS; without it the key that the server sends is trusted [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]'
            cand --connect-timeout 'How long to try to reach a server: resolve names, try hosts, log in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]'
            cand --allow-unfit-server 'Lock also on a server where the lock may not exclude (Galera, a replica), with a warning instead of 78'
            cand --scrub-env 'Remove DBLOCK_URL and the other variables for the connection, and MYSQL_PWD, from the command''s environment'
            cand -q 'Log errors only'
            cand --quiet 'Log errors only'
            cand -v 'Log what is done and how long it took; twice: every statement, never a password'
            cand --verbose 'Log what is done and how long it took; twice: every statement, never a password'
            cand --no-defaults 'Read no option file'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'dblock;status'= {
            cand --url 'All in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock [env: DBLOCK_URL]'
            cand --host 'The server''s name or address; localhost means its local socket [env: DBLOCK_HOST]'
            cand --port 'The server''s TCP port [env: DBLOCK_PORT] [default: 3306]'
            cand --user 'The account [env: DBLOCK_USER] [default: the name of the OS user]'
            cand --socket 'The server''s local socket [env: DBLOCK_SOCKET]'
            cand --protocol 'How localhost is reached; by its socket if not given [env: DBLOCK_PROTOCOL]'
            cand --password-file 'A file whose first line is the password [env, the password itself: DBLOCK_PASSWORD, MYSQL_PWD]'
            cand --defaults-file 'Read only this MySQL option file'
            cand --defaults-extra-file 'Also read this option file, before ~/.my.cnf'
            cand --defaults-group-suffix 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]'
            cand --ssl-mode 'Whether the connection is encrypted, as in the mysql client: if the server can; always; and only to a server whose certificate is signed by a trusted CA; and only if it is also for the host''s name or address. Without it --ssl-ca means verify-ca [env: DBLOCK_SSL_MODE] [default: preferred]'
            cand --ssl-ca 'A file with the certificates of the CAs to trust, in PEM, in place of the system''s [env: DBLOCK_SSL_CA]'
            cand --ssl-cert 'A file with dblock''s own certificate, and those between it and its CA, in PEM [env: DBLOCK_SSL_CERT]'
            cand --ssl-key 'A file with the private key of that certificate, in PEM [env: DBLOCK_SSL_KEY]'
            cand --server-public-key-path 'A file with the server''s public key, in PEM, for a password that travels without TLS; without it the key that the server sends is trusted [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]'
            cand --connect-timeout 'How long to try to reach a server: resolve names, try hosts, log in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]'
            cand --json 'Print JSON in place of the table'
            cand -q 'Log errors only'
            cand --quiet 'Log errors only'
            cand -v 'Log what is done and how long it took; twice: every statement, never a password'
            cand --verbose 'Log what is done and how long it took; twice: every statement, never a password'
            cand --no-defaults 'Read no option file'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'dblock;kill'= {
            cand -w 'How long to wait until the command of the holder has ended: 0 does not wait, forever has no limit [default: 30s]'
            cand --wait 'How long to wait until the command of the holder has ended: 0 does not wait, forever has no limit [default: 30s]'
            cand --url 'All in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock [env: DBLOCK_URL]'
            cand --host 'The server''s name or address; localhost means its local socket [env: DBLOCK_HOST]'
            cand --port 'The server''s TCP port [env: DBLOCK_PORT] [default: 3306]'
            cand --user 'The account [env: DBLOCK_USER] [default: the name of the OS user]'
            cand --socket 'The server''s local socket [env: DBLOCK_SOCKET]'
            cand --protocol 'How localhost is reached; by its socket if not given [env: DBLOCK_PROTOCOL]'
            cand --password-file 'A file whose first line is the password [env, the password itself: DBLOCK_PASSWORD, MYSQL_PWD]'
            cand --defaults-file 'Read only this MySQL option file'
            cand --defaults-extra-file 'Also read this option file, before ~/.my.cnf'
            cand --defaults-group-suffix 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]'
            cand --ssl-mode 'Whether the connection is encrypted, as in the mysql client: if the server can; always; and only to a server whose certificate is signed by a trusted CA; and only if it is also for the host''s name or address. Without it --ssl-ca means verify-ca [env: DBLOCK_SSL_MODE] [default: preferred]'
            cand --ssl-ca 'A file with the certificates of the CAs to trust, in PEM, in place of the system''s [env: DBLOCK_SSL_CA]'
            cand --ssl-cert 'A file with dblock''s own certificate, and those between it and its CA, in PEM [env: DBLOCK_SSL_CERT]'
            cand --ssl-key 'A file with the private key of that certificate, in PEM [env: DBLOCK_SSL_KEY]'
            cand --server-public-key-path 'A file with the server''s public key, in PEM, for a password that travels without TLS; without it the key that the server sends is trusted [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]'
            cand --connect-timeout 'How long to try to reach a server: resolve names, try hosts, log in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]'
            cand --dry-run 'Show who would be ended, and end nobody'
            cand -q 'Log errors only'
            cand --quiet 'Log errors only'
            cand -v 'Log what is done and how long it took; twice: every statement, never a password'
            cand --verbose 'Log what is done and how long it took; twice: every statement, never a password'
            cand --no-defaults 'Read no option file'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'dblock;check'= {
            cand --url 'All in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock [env: DBLOCK_URL]'
            cand --host 'The server''s name or address; localhost means its local socket [env: DBLOCK_HOST]'
            cand --port 'The server''s TCP port [env: DBLOCK_PORT] [default: 3306]'
            cand --user 'The account [env: DBLOCK_USER] [default: the name of the OS user]'
            cand --socket 'The server''s local socket [env: DBLOCK_SOCKET]'
            cand --protocol 'How localhost is reached; by its socket if not given [env: DBLOCK_PROTOCOL]'
            cand --password-file 'A file whose first line is the password [env, the password itself: DBLOCK_PASSWORD, MYSQL_PWD]'
            cand --defaults-file 'Read only this MySQL option file'
            cand --defaults-extra-file 'Also read this option file, before ~/.my.cnf'
            cand --defaults-group-suffix 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]'
            cand --ssl-mode 'Whether the connection is encrypted, as in the mysql client: if the server can; always; and only to a server whose certificate is signed by a trusted CA; and only if it is also for the host''s name or address. Without it --ssl-ca means verify-ca [env: DBLOCK_SSL_MODE] [default: preferred]'
            cand --ssl-ca 'A file with the certificates of the CAs to trust, in PEM, in place of the system''s [env: DBLOCK_SSL_CA]'
            cand --ssl-cert 'A file with dblock''s own certificate, and those between it and its CA, in PEM [env: DBLOCK_SSL_CERT]'
            cand --ssl-key 'A file with the private key of that certificate, in PEM [env: DBLOCK_SSL_KEY]'
            cand --server-public-key-path 'A file with the server''s public key, in PEM, for a password that travels without TLS; without it the key that the server sends is trusted [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]'
            cand --connect-timeout 'How long to try to reach a server: resolve names, try hosts, log in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]'
            cand --json 'Print JSON in place of the table'
            cand -q 'Log errors only'
            cand --quiet 'Log errors only'
            cand -v 'Log what is done and how long it took; twice: every statement, never a password'
            cand --verbose 'Log what is done and how long it took; twice: every statement, never a password'
            cand --no-defaults 'Read no option file'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'dblock;config'= {
            cand -n 'The lock. The same name excludes across every host that talks to the same server'
            cand --name 'The lock. The same name excludes across every host that talks to the same server'
            cand -m 'N holders at once, 1 to 1000, instead of one [default: 1]'
            cand --max-concurrency 'N holders at once, 1 to 1000, instead of one [default: 1]'
            cand --slots 'A pool: as many holders as names, each finds its own in DBLOCK_SLOT_NAME'
            cand -w 'How long to wait for the lock: 0 does not wait, forever has no limit [default: 0]'
            cand --wait 'How long to wait for the lock: 0 does not wait, forever has no limit [default: 0]'
            cand -E 'Exit code when the lock was not acquired in time, 0 to 255; 0 makes a skip a success [default: 75]'
            cand --conflict-exit-code 'Exit code when the lock was not acquired in time, 0 to 255; 0 makes a skip a success [default: 75]'
            cand -t 'End the command when it has run longer: SIGTERM, then SIGKILL; exit 124, or 137 if SIGKILL was needed; 0 is no limit'
            cand --timeout 'End the command when it has run longer: SIGTERM, then SIGKILL; exit 124, or 137 if SIGKILL was needed; 0 is no limit'
            cand -k 'From SIGTERM to SIGKILL when dblock ends the command; 0 is both at once; a third of the TTL at most [default: 10s, or a quarter of the TTL where that is less]'
            cand --kill-after 'From SIGTERM to SIGKILL when dblock ends the command; 0 is both at once; a third of the TTL at most [default: 10s, or a quarter of the TTL where that is less]'
            cand --ttl 'How long the server keeps the lock of a host that has vanished at most, and how long dblock tries to reacquire a lost one: whole seconds, 4s to 1d. Longer than a fail-over takes [default: 5m]'
            cand --on-lock-lost 'When the session is lost while the command runs: reacquire the lock, and end the command if that fails; end it at once; or let it run [default: reacquire]'
            cand --hold-at-least 'Hold the lock for at least this long after it was acquired, also when the command ends sooner: a host whose clock is late then finds it taken. dblock stays as long, so what follows it after && is delayed. TERM, INT, QUIT and HUP end it'
            cand --if-unreachable 'No server in time: fail with 69, or run the command without the lock, with a warning [default: fail]'
            cand --report 'Append one line of JSON to this file at the end of each run, skips and failures included; - is stdout'
            cand --url 'All in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock [env: DBLOCK_URL]'
            cand --host 'The server''s name or address; localhost means its local socket [env: DBLOCK_HOST]'
            cand --port 'The server''s TCP port [env: DBLOCK_PORT] [default: 3306]'
            cand --user 'The account [env: DBLOCK_USER] [default: the name of the OS user]'
            cand --socket 'The server''s local socket [env: DBLOCK_SOCKET]'
            cand --protocol 'How localhost is reached; by its socket if not given [env: DBLOCK_PROTOCOL]'
            cand --password-file 'A file whose first line is the password [env, the password itself: DBLOCK_PASSWORD, MYSQL_PWD]'
            cand --defaults-file 'Read only this MySQL option file'
            cand --defaults-extra-file 'Also read this option file, before ~/.my.cnf'
            cand --defaults-group-suffix 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]'
            cand --ssl-mode 'Whether the connection is encrypted, as in the mysql client: if the server can; always; and only to a server whose certificate is signed by a trusted CA; and only if it is also for the host''s name or address. Without it --ssl-ca means verify-ca [env: DBLOCK_SSL_MODE] [default: preferred]'
            cand --ssl-ca 'A file with the certificates of the CAs to trust, in PEM, in place of the system''s [env: DBLOCK_SSL_CA]'
            cand --ssl-cert 'A file with dblock''s own certificate, and those between it and its CA, in PEM [env: DBLOCK_SSL_CERT]'
            cand --ssl-key 'A file with the private key of that certificate, in PEM [env: DBLOCK_SSL_KEY]'
            cand --server-public-key-path 'A file with the server''s public key, in PEM, for a password that travels without TLS; without it the key that the server sends is trusted [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]'
            cand --connect-timeout 'How long to try to reach a server: resolve names, try hosts, log in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]'
            cand --json 'Print JSON in place of the table'
            cand --allow-unfit-server 'Lock also on a server where the lock may not exclude (Galera, a replica), with a warning instead of 78'
            cand --scrub-env 'Remove DBLOCK_URL and the other variables for the connection, and MYSQL_PWD, from the command''s environment'
            cand -q 'Log errors only'
            cand --quiet 'Log errors only'
            cand -v 'Log what is done and how long it took; twice: every statement, never a password'
            cand --verbose 'Log what is done and how long it took; twice: every statement, never a password'
            cand --no-defaults 'Read no option file'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'dblock;help'= {
            cand run 'Run a command while holding a lock, and exit as it exited'
            cand status 'Show who holds a lock, who waits for it, and for how long'
            cand kill 'End the holder of a lock, and its command'
            cand check 'Check whether a server is fit to lock on, and how fast it is'
            cand config 'Print every setting in force and where it comes from'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'dblock;help;run'= {
        }
        &'dblock;help;status'= {
        }
        &'dblock;help;kill'= {
        }
        &'dblock;help;check'= {
        }
        &'dblock;help;config'= {
        }
        &'dblock;help;help'= {
        }
    ]
    $completions[$command]
}
