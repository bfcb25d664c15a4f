
using namespace System.Management.Automation
using namespace System.Management.Automation.Language

Register-ArgumentCompleter -Native -CommandName 'dblock' -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)

    $commandElements = $commandAst.CommandElements
    $command = @(
        'dblock'
        for ($i = 1; $i -lt $commandElements.Count; $i++) {
            $element = $commandElements[$i]
            if ($element -isnot [StringConstantExpressionAst] -or
                $element.StringConstantType -ne [StringConstantType]::BareWord -or
                $element.Value.StartsWith('-') -or
                $element.Value -eq $wordToComplete) {
                break
        }
        $element.Value
    }) -join ';'

    $completions = @(switch ($command) {
        'dblock' {
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('run', 'run', [CompletionResultType]::ParameterValue, 'Run a command while holding a lock, and exit as it exited')
            [CompletionResult]::new('status', 'status', [CompletionResultType]::ParameterValue, 'Show who holds a lock, who waits for it, and for how long')
            [CompletionResult]::new('kill', 'kill', [CompletionResultType]::ParameterValue, 'End the holder of a lock, and its command')
            [CompletionResult]::new('check', 'check', [CompletionResultType]::ParameterValue, 'Check whether a server is fit to lock on, and how fast it is')
            [CompletionResult]::new('config', 'config', [CompletionResultType]::ParameterValue, 'Print every setting in force and where it comes from')
            [CompletionResult]::new('init', 'init', [CompletionResultType]::ParameterValue, 'Create dblock''s tables, or upgrade them')
            [CompletionResult]::new('acquire', 'acquire', [CompletionResultType]::ParameterValue, 'Acquire a lock that spans several commands of a script, and print its token')
            [CompletionResult]::new('renew', 'renew', [CompletionResultType]::ParameterValue, 'Hold a lock of dblock acquire for longer')
            [CompletionResult]::new('release', 'release', [CompletionResultType]::ParameterValue, 'Release a lock of dblock acquire')
            [CompletionResult]::new('history', 'history', [CompletionResultType]::ParameterValue, 'Show what ran where, when, and how it ended')
            [CompletionResult]::new('cron', 'cron', [CompletionResultType]::ParameterValue, 'One crontab for all hosts')
            [CompletionResult]::new('queue', 'queue', [CompletionResultType]::ParameterValue, 'A queue of jobs that a command works off, on all hosts')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'dblock;run' {
            [CompletionResult]::new('-n', '-n', [CompletionResultType]::ParameterName, 'The lock. The same name excludes across every host that talks to the same server')
            [CompletionResult]::new('--name', '--name', [CompletionResultType]::ParameterName, 'The lock. The same name excludes across every host that talks to the same server')
            [CompletionResult]::new('-m', '-m', [CompletionResultType]::ParameterName, 'N holders at once, 1 to 1000, instead of one [default: 1]')
            [CompletionResult]::new('--max-concurrency', '--max-concurrency', [CompletionResultType]::ParameterName, 'N holders at once, 1 to 1000, instead of one [default: 1]')
            [CompletionResult]::new('--slots', '--slots', [CompletionResultType]::ParameterName, 'A pool: as many holders as names, each finds its own in DBLOCK_SLOT_NAME')
            [CompletionResult]::new('-w', '-w', [CompletionResultType]::ParameterName, 'How long to wait for the lock: 0 does not wait, forever has no limit [default: 0]')
            [CompletionResult]::new('--wait', '--wait', [CompletionResultType]::ParameterName, 'How long to wait for the lock: 0 does not wait, forever has no limit [default: 0]')
            [CompletionResult]::new('-E', '-E ', [CompletionResultType]::ParameterName, 'Exit code when the lock was not acquired in time, 0 to 255; 0 makes a skip a success [default: 75]')
            [CompletionResult]::new('--conflict-exit-code', '--conflict-exit-code', [CompletionResultType]::ParameterName, 'Exit code when the lock was not acquired in time, 0 to 255; 0 makes a skip a success [default: 75]')
            [CompletionResult]::new('-t', '-t', [CompletionResultType]::ParameterName, 'End the command when it has run longer: SIGTERM, then SIGKILL; exit 124, or 137 if SIGKILL was needed; 0 is no limit')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'End the command when it has run longer: SIGTERM, then SIGKILL; exit 124, or 137 if SIGKILL was needed; 0 is no limit')
            [CompletionResult]::new('-k', '-k', [CompletionResultType]::ParameterName, 'From SIGTERM to SIGKILL when dblock ends the command; 0 is both at once; a third of the TTL at most [default: 10s, or a quarter of the TTL where that is less]')
            [CompletionResult]::new('--kill-after', '--kill-after', [CompletionResultType]::ParameterName, 'From SIGTERM to SIGKILL when dblock ends the command; 0 is both at once; a third of the TTL at most [default: 10s, or a quarter of the TTL where that is less]')
            [CompletionResult]::new('--ttl', '--ttl', [CompletionResultType]::ParameterName, 'How long the server keeps the lock of a host that has vanished at most, and how long dblock tries to reacquire a lost one: whole seconds, 4s to 1d. Longer than a fail-over takes [default: 5m]')
            [CompletionResult]::new('--on-lock-lost', '--on-lock-lost', [CompletionResultType]::ParameterName, 'When the session is lost while the command runs: reacquire the lock, and end the command if that fails; end it at once; or let it run [default: reacquire]')
            [CompletionResult]::new('--hold-at-least', '--hold-at-least', [CompletionResultType]::ParameterName, 'Hold the lock for at least this long after it was acquired, also when the command ends sooner: a host whose clock is late then finds it taken. dblock stays as long, so what follows it after && is delayed. TERM, INT, QUIT and HUP end it')
            [CompletionResult]::new('--once-at', '--once-at', [CompletionResultType]::ParameterName, 'Do not run again for a tick that a run of this name has succeeded for: the last time that CRON names, five fields as in a crontab, by the server''s clock')
            [CompletionResult]::new('--time-zone', '--time-zone', [CompletionResultType]::ParameterName, 'The time zone of --once-at, as Europe/Berlin or UTC [default: the host''s]')
            [CompletionResult]::new('--once-per', '--once-per', [CompletionResultType]::ParameterName, 'Do not run again until so long after the last success of this name began')
            [CompletionResult]::new('--token', '--token', [CompletionResultType]::ParameterName, 'Run under a lock that dblock acquire has acquired, and renew it meanwhile; - reads the token from stdin, and DBLOCK_TOKEN names it where no lock is named. The lock is not released. One command at a time is under a token')
            [CompletionResult]::new('--if-unreachable', '--if-unreachable', [CompletionResultType]::ParameterName, 'No server in time: fail with 69, or run the command without the lock, with a warning [default: fail]')
            [CompletionResult]::new('--report', '--report', [CompletionResultType]::ParameterName, 'Append one line of JSON to this file at the end of each run, skips and failures included; - is stdout')
            [CompletionResult]::new('--url', '--url', [CompletionResultType]::ParameterName, 'All in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock [env: DBLOCK_URL]')
            [CompletionResult]::new('--host', '--host', [CompletionResultType]::ParameterName, 'The server''s name or address; localhost means its local socket [env: DBLOCK_HOST]')
            [CompletionResult]::new('--port', '--port', [CompletionResultType]::ParameterName, 'The server''s TCP port [env: DBLOCK_PORT] [default: 3306]')
            [CompletionResult]::new('--user', '--user', [CompletionResultType]::ParameterName, 'The account [env: DBLOCK_USER] [default: the name of the OS user]')
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'The server''s local socket [env: DBLOCK_SOCKET]')
            [CompletionResult]::new('--protocol', '--protocol', [CompletionResultType]::ParameterName, 'How localhost is reached; by its socket if not given [env: DBLOCK_PROTOCOL]')
            [CompletionResult]::new('--password-file', '--password-file', [CompletionResultType]::ParameterName, 'A file whose first line is the password [env, the password itself: DBLOCK_PASSWORD, MYSQL_PWD]')
            [CompletionResult]::new('--database', '--database', [CompletionResultType]::ParameterName, 'The database with dblock''s tables, for what needs them; also the path of the URL [env: DBLOCK_DATABASE] [default: dblock]')
            [CompletionResult]::new('--defaults-file', '--defaults-file', [CompletionResultType]::ParameterName, 'Read only this MySQL option file')
            [CompletionResult]::new('--defaults-extra-file', '--defaults-extra-file', [CompletionResultType]::ParameterName, 'Also read this option file, before ~/.my.cnf')
            [CompletionResult]::new('--defaults-group-suffix', '--defaults-group-suffix', [CompletionResultType]::ParameterName, 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]')
            [CompletionResult]::new('--ssl-mode', '--ssl-mode', [CompletionResultType]::ParameterName, 'Whether the connection is encrypted, as in the mysql client: if the server can; always; and only to a server whose certificate is signed by a trusted CA; and only if it is also for the host''s name or address. Without it --ssl-ca means verify-ca [env: DBLOCK_SSL_MODE] [default: preferred]')
            [CompletionResult]::new('--ssl-ca', '--ssl-ca', [CompletionResultType]::ParameterName, 'A file with the certificates of the CAs to trust, in PEM, in place of the system''s [env: DBLOCK_SSL_CA]')
            [CompletionResult]::new('--ssl-cert', '--ssl-cert', [CompletionResultType]::ParameterName, 'A file with dblock''s own certificate, and those between it and its CA, in PEM [env: DBLOCK_SSL_CERT]')
            [CompletionResult]::new('--ssl-key', '--ssl-key', [CompletionResultType]::ParameterName, 'A file with the private key of that certificate, in PEM [env: DBLOCK_SSL_KEY]')
            [CompletionResult]::new('--server-public-key-path', '--server-public-key-path', [CompletionResultType]::ParameterName, 'A file with the server''s public key, in PEM, for a password that travels without TLS; without it the key that the server sends is trusted [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]')
            [CompletionResult]::new('--connect-timeout', '--connect-timeout', [CompletionResultType]::ParameterName, 'How long to try to reach a server: resolve names, try hosts, log in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]')
            [CompletionResult]::new('--durable', '--durable', [CompletionResultType]::ParameterName, 'Keep the lock as a row besides, in dblock''s tables: it outlives its session, the server''s restart and a fail-over, and excludes on clusters')
            [CompletionResult]::new('--record', '--record', [CompletionResultType]::ParameterName, 'Write the run into the history, for dblock history. What needs dblock''s tables is always written there')
            [CompletionResult]::new('--allow-unfit-server', '--allow-unfit-server', [CompletionResultType]::ParameterName, 'Lock also on a server where the lock may not exclude (Galera, a replica), with a warning instead of 78')
            [CompletionResult]::new('--scrub-env', '--scrub-env', [CompletionResultType]::ParameterName, 'Remove DBLOCK_URL and the other variables for the connection, and MYSQL_PWD, from the command''s environment')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--no-defaults', '--no-defaults', [CompletionResultType]::ParameterName, 'Read no option file')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'dblock;status' {
            [CompletionResult]::new('--url', '--url', [CompletionResultType]::ParameterName, 'All in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock [env: DBLOCK_URL]')
            [CompletionResult]::new('--host', '--host', [CompletionResultType]::ParameterName, 'The server''s name or address; localhost means its local socket [env: DBLOCK_HOST]')
            [CompletionResult]::new('--port', '--port', [CompletionResultType]::ParameterName, 'The server''s TCP port [env: DBLOCK_PORT] [default: 3306]')
            [CompletionResult]::new('--user', '--user', [CompletionResultType]::ParameterName, 'The account [env: DBLOCK_USER] [default: the name of the OS user]')
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'The server''s local socket [env: DBLOCK_SOCKET]')
            [CompletionResult]::new('--protocol', '--protocol', [CompletionResultType]::ParameterName, 'How localhost is reached; by its socket if not given [env: DBLOCK_PROTOCOL]')
            [CompletionResult]::new('--password-file', '--password-file', [CompletionResultType]::ParameterName, 'A file whose first line is the password [env, the password itself: DBLOCK_PASSWORD, MYSQL_PWD]')
            [CompletionResult]::new('--database', '--database', [CompletionResultType]::ParameterName, 'The database with dblock''s tables, for what needs them; also the path of the URL [env: DBLOCK_DATABASE] [default: dblock]')
            [CompletionResult]::new('--defaults-file', '--defaults-file', [CompletionResultType]::ParameterName, 'Read only this MySQL option file')
            [CompletionResult]::new('--defaults-extra-file', '--defaults-extra-file', [CompletionResultType]::ParameterName, 'Also read this option file, before ~/.my.cnf')
            [CompletionResult]::new('--defaults-group-suffix', '--defaults-group-suffix', [CompletionResultType]::ParameterName, 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]')
            [CompletionResult]::new('--ssl-mode', '--ssl-mode', [CompletionResultType]::ParameterName, 'Whether the connection is encrypted, as in the mysql client: if the server can; always; and only to a server whose certificate is signed by a trusted CA; and only if it is also for the host''s name or address. Without it --ssl-ca means verify-ca [env: DBLOCK_SSL_MODE] [default: preferred]')
            [CompletionResult]::new('--ssl-ca', '--ssl-ca', [CompletionResultType]::ParameterName, 'A file with the certificates of the CAs to trust, in PEM, in place of the system''s [env: DBLOCK_SSL_CA]')
            [CompletionResult]::new('--ssl-cert', '--ssl-cert', [CompletionResultType]::ParameterName, 'A file with dblock''s own certificate, and those between it and its CA, in PEM [env: DBLOCK_SSL_CERT]')
            [CompletionResult]::new('--ssl-key', '--ssl-key', [CompletionResultType]::ParameterName, 'A file with the private key of that certificate, in PEM [env: DBLOCK_SSL_KEY]')
            [CompletionResult]::new('--server-public-key-path', '--server-public-key-path', [CompletionResultType]::ParameterName, 'A file with the server''s public key, in PEM, for a password that travels without TLS; without it the key that the server sends is trusted [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]')
            [CompletionResult]::new('--connect-timeout', '--connect-timeout', [CompletionResultType]::ParameterName, 'How long to try to reach a server: resolve names, try hosts, log in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print JSON in place of the table')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--no-defaults', '--no-defaults', [CompletionResultType]::ParameterName, 'Read no option file')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'dblock;kill' {
            [CompletionResult]::new('-w', '-w', [CompletionResultType]::ParameterName, 'How long to wait until the command of the holder has ended: 0 does not wait, forever has no limit. A holder that does not answer has the connect timeout to do so [default: 30s]')
            [CompletionResult]::new('--wait', '--wait', [CompletionResultType]::ParameterName, 'How long to wait until the command of the holder has ended: 0 does not wait, forever has no limit. A holder that does not answer has the connect timeout to do so [default: 30s]')
            [CompletionResult]::new('--url', '--url', [CompletionResultType]::ParameterName, 'All in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock [env: DBLOCK_URL]')
            [CompletionResult]::new('--host', '--host', [CompletionResultType]::ParameterName, 'The server''s name or address; localhost means its local socket [env: DBLOCK_HOST]')
            [CompletionResult]::new('--port', '--port', [CompletionResultType]::ParameterName, 'The server''s TCP port [env: DBLOCK_PORT] [default: 3306]')
            [CompletionResult]::new('--user', '--user', [CompletionResultType]::ParameterName, 'The account [env: DBLOCK_USER] [default: the name of the OS user]')
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'The server''s local socket [env: DBLOCK_SOCKET]')
            [CompletionResult]::new('--protocol', '--protocol', [CompletionResultType]::ParameterName, 'How localhost is reached; by its socket if not given [env: DBLOCK_PROTOCOL]')
            [CompletionResult]::new('--password-file', '--password-file', [CompletionResultType]::ParameterName, 'A file whose first line is the password [env, the password itself: DBLOCK_PASSWORD, MYSQL_PWD]')
            [CompletionResult]::new('--database', '--database', [CompletionResultType]::ParameterName, 'The database with dblock''s tables, for what needs them; also the path of the URL [env: DBLOCK_DATABASE] [default: dblock]')
            [CompletionResult]::new('--defaults-file', '--defaults-file', [CompletionResultType]::ParameterName, 'Read only this MySQL option file')
            [CompletionResult]::new('--defaults-extra-file', '--defaults-extra-file', [CompletionResultType]::ParameterName, 'Also read this option file, before ~/.my.cnf')
            [CompletionResult]::new('--defaults-group-suffix', '--defaults-group-suffix', [CompletionResultType]::ParameterName, 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]')
            [CompletionResult]::new('--ssl-mode', '--ssl-mode', [CompletionResultType]::ParameterName, 'Whether the connection is encrypted, as in the mysql client: if the server can; always; and only to a server whose certificate is signed by a trusted CA; and only if it is also for the host''s name or address. Without it --ssl-ca means verify-ca [env: DBLOCK_SSL_MODE] [default: preferred]')
            [CompletionResult]::new('--ssl-ca', '--ssl-ca', [CompletionResultType]::ParameterName, 'A file with the certificates of the CAs to trust, in PEM, in place of the system''s [env: DBLOCK_SSL_CA]')
            [CompletionResult]::new('--ssl-cert', '--ssl-cert', [CompletionResultType]::ParameterName, 'A file with dblock''s own certificate, and those between it and its CA, in PEM [env: DBLOCK_SSL_CERT]')
            [CompletionResult]::new('--ssl-key', '--ssl-key', [CompletionResultType]::ParameterName, 'A file with the private key of that certificate, in PEM [env: DBLOCK_SSL_KEY]')
            [CompletionResult]::new('--server-public-key-path', '--server-public-key-path', [CompletionResultType]::ParameterName, 'A file with the server''s public key, in PEM, for a password that travels without TLS; without it the key that the server sends is trusted [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]')
            [CompletionResult]::new('--connect-timeout', '--connect-timeout', [CompletionResultType]::ParameterName, 'How long to try to reach a server: resolve names, try hosts, log in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]')
            [CompletionResult]::new('--force', '--force', [CompletionResultType]::ParameterName, 'Take a durable lock from its holder at once, without asking it: its host is known to be dead')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Show who would be ended, and end nobody')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--no-defaults', '--no-defaults', [CompletionResultType]::ParameterName, 'Read no option file')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'dblock;check' {
            [CompletionResult]::new('--url', '--url', [CompletionResultType]::ParameterName, 'All in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock [env: DBLOCK_URL]')
            [CompletionResult]::new('--host', '--host', [CompletionResultType]::ParameterName, 'The server''s name or address; localhost means its local socket [env: DBLOCK_HOST]')
            [CompletionResult]::new('--port', '--port', [CompletionResultType]::ParameterName, 'The server''s TCP port [env: DBLOCK_PORT] [default: 3306]')
            [CompletionResult]::new('--user', '--user', [CompletionResultType]::ParameterName, 'The account [env: DBLOCK_USER] [default: the name of the OS user]')
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'The server''s local socket [env: DBLOCK_SOCKET]')
            [CompletionResult]::new('--protocol', '--protocol', [CompletionResultType]::ParameterName, 'How localhost is reached; by its socket if not given [env: DBLOCK_PROTOCOL]')
            [CompletionResult]::new('--password-file', '--password-file', [CompletionResultType]::ParameterName, 'A file whose first line is the password [env, the password itself: DBLOCK_PASSWORD, MYSQL_PWD]')
            [CompletionResult]::new('--database', '--database', [CompletionResultType]::ParameterName, 'The database with dblock''s tables, for what needs them; also the path of the URL [env: DBLOCK_DATABASE] [default: dblock]')
            [CompletionResult]::new('--defaults-file', '--defaults-file', [CompletionResultType]::ParameterName, 'Read only this MySQL option file')
            [CompletionResult]::new('--defaults-extra-file', '--defaults-extra-file', [CompletionResultType]::ParameterName, 'Also read this option file, before ~/.my.cnf')
            [CompletionResult]::new('--defaults-group-suffix', '--defaults-group-suffix', [CompletionResultType]::ParameterName, 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]')
            [CompletionResult]::new('--ssl-mode', '--ssl-mode', [CompletionResultType]::ParameterName, 'Whether the connection is encrypted, as in the mysql client: if the server can; always; and only to a server whose certificate is signed by a trusted CA; and only if it is also for the host''s name or address. Without it --ssl-ca means verify-ca [env: DBLOCK_SSL_MODE] [default: preferred]')
            [CompletionResult]::new('--ssl-ca', '--ssl-ca', [CompletionResultType]::ParameterName, 'A file with the certificates of the CAs to trust, in PEM, in place of the system''s [env: DBLOCK_SSL_CA]')
            [CompletionResult]::new('--ssl-cert', '--ssl-cert', [CompletionResultType]::ParameterName, 'A file with dblock''s own certificate, and those between it and its CA, in PEM [env: DBLOCK_SSL_CERT]')
            [CompletionResult]::new('--ssl-key', '--ssl-key', [CompletionResultType]::ParameterName, 'A file with the private key of that certificate, in PEM [env: DBLOCK_SSL_KEY]')
            [CompletionResult]::new('--server-public-key-path', '--server-public-key-path', [CompletionResultType]::ParameterName, 'A file with the server''s public key, in PEM, for a password that travels without TLS; without it the key that the server sends is trusted [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]')
            [CompletionResult]::new('--connect-timeout', '--connect-timeout', [CompletionResultType]::ParameterName, 'How long to try to reach a server: resolve names, try hosts, log in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print JSON in place of the table')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--no-defaults', '--no-defaults', [CompletionResultType]::ParameterName, 'Read no option file')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'dblock;config' {
            [CompletionResult]::new('-n', '-n', [CompletionResultType]::ParameterName, 'The lock. The same name excludes across every host that talks to the same server')
            [CompletionResult]::new('--name', '--name', [CompletionResultType]::ParameterName, 'The lock. The same name excludes across every host that talks to the same server')
            [CompletionResult]::new('-m', '-m', [CompletionResultType]::ParameterName, 'N holders at once, 1 to 1000, instead of one [default: 1]')
            [CompletionResult]::new('--max-concurrency', '--max-concurrency', [CompletionResultType]::ParameterName, 'N holders at once, 1 to 1000, instead of one [default: 1]')
            [CompletionResult]::new('--slots', '--slots', [CompletionResultType]::ParameterName, 'A pool: as many holders as names, each finds its own in DBLOCK_SLOT_NAME')
            [CompletionResult]::new('-w', '-w', [CompletionResultType]::ParameterName, 'How long to wait for the lock: 0 does not wait, forever has no limit [default: 0]')
            [CompletionResult]::new('--wait', '--wait', [CompletionResultType]::ParameterName, 'How long to wait for the lock: 0 does not wait, forever has no limit [default: 0]')
            [CompletionResult]::new('-E', '-E ', [CompletionResultType]::ParameterName, 'Exit code when the lock was not acquired in time, 0 to 255; 0 makes a skip a success [default: 75]')
            [CompletionResult]::new('--conflict-exit-code', '--conflict-exit-code', [CompletionResultType]::ParameterName, 'Exit code when the lock was not acquired in time, 0 to 255; 0 makes a skip a success [default: 75]')
            [CompletionResult]::new('-t', '-t', [CompletionResultType]::ParameterName, 'End the command when it has run longer: SIGTERM, then SIGKILL; exit 124, or 137 if SIGKILL was needed; 0 is no limit')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'End the command when it has run longer: SIGTERM, then SIGKILL; exit 124, or 137 if SIGKILL was needed; 0 is no limit')
            [CompletionResult]::new('-k', '-k', [CompletionResultType]::ParameterName, 'From SIGTERM to SIGKILL when dblock ends the command; 0 is both at once; a third of the TTL at most [default: 10s, or a quarter of the TTL where that is less]')
            [CompletionResult]::new('--kill-after', '--kill-after', [CompletionResultType]::ParameterName, 'From SIGTERM to SIGKILL when dblock ends the command; 0 is both at once; a third of the TTL at most [default: 10s, or a quarter of the TTL where that is less]')
            [CompletionResult]::new('--ttl', '--ttl', [CompletionResultType]::ParameterName, 'How long the server keeps the lock of a host that has vanished at most, and how long dblock tries to reacquire a lost one: whole seconds, 4s to 1d. Longer than a fail-over takes [default: 5m]')
            [CompletionResult]::new('--on-lock-lost', '--on-lock-lost', [CompletionResultType]::ParameterName, 'When the session is lost while the command runs: reacquire the lock, and end the command if that fails; end it at once; or let it run [default: reacquire]')
            [CompletionResult]::new('--hold-at-least', '--hold-at-least', [CompletionResultType]::ParameterName, 'Hold the lock for at least this long after it was acquired, also when the command ends sooner: a host whose clock is late then finds it taken. dblock stays as long, so what follows it after && is delayed. TERM, INT, QUIT and HUP end it')
            [CompletionResult]::new('--once-at', '--once-at', [CompletionResultType]::ParameterName, 'Do not run again for a tick that a run of this name has succeeded for: the last time that CRON names, five fields as in a crontab, by the server''s clock')
            [CompletionResult]::new('--time-zone', '--time-zone', [CompletionResultType]::ParameterName, 'The time zone of --once-at, as Europe/Berlin or UTC [default: the host''s]')
            [CompletionResult]::new('--once-per', '--once-per', [CompletionResultType]::ParameterName, 'Do not run again until so long after the last success of this name began')
            [CompletionResult]::new('--token', '--token', [CompletionResultType]::ParameterName, 'Run under a lock that dblock acquire has acquired, and renew it meanwhile; - reads the token from stdin, and DBLOCK_TOKEN names it where no lock is named. The lock is not released. One command at a time is under a token')
            [CompletionResult]::new('--if-unreachable', '--if-unreachable', [CompletionResultType]::ParameterName, 'No server in time: fail with 69, or run the command without the lock, with a warning [default: fail]')
            [CompletionResult]::new('--report', '--report', [CompletionResultType]::ParameterName, 'Append one line of JSON to this file at the end of each run, skips and failures included; - is stdout')
            [CompletionResult]::new('--url', '--url', [CompletionResultType]::ParameterName, 'All in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock [env: DBLOCK_URL]')
            [CompletionResult]::new('--host', '--host', [CompletionResultType]::ParameterName, 'The server''s name or address; localhost means its local socket [env: DBLOCK_HOST]')
            [CompletionResult]::new('--port', '--port', [CompletionResultType]::ParameterName, 'The server''s TCP port [env: DBLOCK_PORT] [default: 3306]')
            [CompletionResult]::new('--user', '--user', [CompletionResultType]::ParameterName, 'The account [env: DBLOCK_USER] [default: the name of the OS user]')
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'The server''s local socket [env: DBLOCK_SOCKET]')
            [CompletionResult]::new('--protocol', '--protocol', [CompletionResultType]::ParameterName, 'How localhost is reached; by its socket if not given [env: DBLOCK_PROTOCOL]')
            [CompletionResult]::new('--password-file', '--password-file', [CompletionResultType]::ParameterName, 'A file whose first line is the password [env, the password itself: DBLOCK_PASSWORD, MYSQL_PWD]')
            [CompletionResult]::new('--database', '--database', [CompletionResultType]::ParameterName, 'The database with dblock''s tables, for what needs them; also the path of the URL [env: DBLOCK_DATABASE] [default: dblock]')
            [CompletionResult]::new('--defaults-file', '--defaults-file', [CompletionResultType]::ParameterName, 'Read only this MySQL option file')
            [CompletionResult]::new('--defaults-extra-file', '--defaults-extra-file', [CompletionResultType]::ParameterName, 'Also read this option file, before ~/.my.cnf')
            [CompletionResult]::new('--defaults-group-suffix', '--defaults-group-suffix', [CompletionResultType]::ParameterName, 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]')
            [CompletionResult]::new('--ssl-mode', '--ssl-mode', [CompletionResultType]::ParameterName, 'Whether the connection is encrypted, as in the mysql client: if the server can; always; and only to a server whose certificate is signed by a trusted CA; and only if it is also for the host''s name or address. Without it --ssl-ca means verify-ca [env: DBLOCK_SSL_MODE] [default: preferred]')
            [CompletionResult]::new('--ssl-ca', '--ssl-ca', [CompletionResultType]::ParameterName, 'A file with the certificates of the CAs to trust, in PEM, in place of the system''s [env: DBLOCK_SSL_CA]')
            [CompletionResult]::new('--ssl-cert', '--ssl-cert', [CompletionResultType]::ParameterName, 'A file with dblock''s own certificate, and those between it and its CA, in PEM [env: DBLOCK_SSL_CERT]')
            [CompletionResult]::new('--ssl-key', '--ssl-key', [CompletionResultType]::ParameterName, 'A file with the private key of that certificate, in PEM [env: DBLOCK_SSL_KEY]')
            [CompletionResult]::new('--server-public-key-path', '--server-public-key-path', [CompletionResultType]::ParameterName, 'A file with the server''s public key, in PEM, for a password that travels without TLS; without it the key that the server sends is trusted [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]')
            [CompletionResult]::new('--connect-timeout', '--connect-timeout', [CompletionResultType]::ParameterName, 'How long to try to reach a server: resolve names, try hosts, log in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print JSON in place of the table')
            [CompletionResult]::new('--durable', '--durable', [CompletionResultType]::ParameterName, 'Keep the lock as a row besides, in dblock''s tables: it outlives its session, the server''s restart and a fail-over, and excludes on clusters')
            [CompletionResult]::new('--record', '--record', [CompletionResultType]::ParameterName, 'Write the run into the history, for dblock history. What needs dblock''s tables is always written there')
            [CompletionResult]::new('--allow-unfit-server', '--allow-unfit-server', [CompletionResultType]::ParameterName, 'Lock also on a server where the lock may not exclude (Galera, a replica), with a warning instead of 78')
            [CompletionResult]::new('--scrub-env', '--scrub-env', [CompletionResultType]::ParameterName, 'Remove DBLOCK_URL and the other variables for the connection, and MYSQL_PWD, from the command''s environment')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--no-defaults', '--no-defaults', [CompletionResultType]::ParameterName, 'Read no option file')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'dblock;init' {
            [CompletionResult]::new('--keep', '--keep', [CompletionResultType]::ParameterName, 'How long the history is kept, and the last N runs of each name at least, 100 if not given; 30d,100 in new tables')
            [CompletionResult]::new('--url', '--url', [CompletionResultType]::ParameterName, 'All in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock [env: DBLOCK_URL]')
            [CompletionResult]::new('--host', '--host', [CompletionResultType]::ParameterName, 'The server''s name or address; localhost means its local socket [env: DBLOCK_HOST]')
            [CompletionResult]::new('--port', '--port', [CompletionResultType]::ParameterName, 'The server''s TCP port [env: DBLOCK_PORT] [default: 3306]')
            [CompletionResult]::new('--user', '--user', [CompletionResultType]::ParameterName, 'The account [env: DBLOCK_USER] [default: the name of the OS user]')
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'The server''s local socket [env: DBLOCK_SOCKET]')
            [CompletionResult]::new('--protocol', '--protocol', [CompletionResultType]::ParameterName, 'How localhost is reached; by its socket if not given [env: DBLOCK_PROTOCOL]')
            [CompletionResult]::new('--password-file', '--password-file', [CompletionResultType]::ParameterName, 'A file whose first line is the password [env, the password itself: DBLOCK_PASSWORD, MYSQL_PWD]')
            [CompletionResult]::new('--database', '--database', [CompletionResultType]::ParameterName, 'The database with dblock''s tables, for what needs them; also the path of the URL [env: DBLOCK_DATABASE] [default: dblock]')
            [CompletionResult]::new('--defaults-file', '--defaults-file', [CompletionResultType]::ParameterName, 'Read only this MySQL option file')
            [CompletionResult]::new('--defaults-extra-file', '--defaults-extra-file', [CompletionResultType]::ParameterName, 'Also read this option file, before ~/.my.cnf')
            [CompletionResult]::new('--defaults-group-suffix', '--defaults-group-suffix', [CompletionResultType]::ParameterName, 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]')
            [CompletionResult]::new('--ssl-mode', '--ssl-mode', [CompletionResultType]::ParameterName, 'Whether the connection is encrypted, as in the mysql client: if the server can; always; and only to a server whose certificate is signed by a trusted CA; and only if it is also for the host''s name or address. Without it --ssl-ca means verify-ca [env: DBLOCK_SSL_MODE] [default: preferred]')
            [CompletionResult]::new('--ssl-ca', '--ssl-ca', [CompletionResultType]::ParameterName, 'A file with the certificates of the CAs to trust, in PEM, in place of the system''s [env: DBLOCK_SSL_CA]')
            [CompletionResult]::new('--ssl-cert', '--ssl-cert', [CompletionResultType]::ParameterName, 'A file with dblock''s own certificate, and those between it and its CA, in PEM [env: DBLOCK_SSL_CERT]')
            [CompletionResult]::new('--ssl-key', '--ssl-key', [CompletionResultType]::ParameterName, 'A file with the private key of that certificate, in PEM [env: DBLOCK_SSL_KEY]')
            [CompletionResult]::new('--server-public-key-path', '--server-public-key-path', [CompletionResultType]::ParameterName, 'A file with the server''s public key, in PEM, for a password that travels without TLS; without it the key that the server sends is trusted [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]')
            [CompletionResult]::new('--connect-timeout', '--connect-timeout', [CompletionResultType]::ParameterName, 'How long to try to reach a server: resolve names, try hosts, log in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]')
            [CompletionResult]::new('--print', '--print', [CompletionResultType]::ParameterName, 'Print the SQL and the grants that an account needs, and change nothing; no server is asked')
            [CompletionResult]::new('--check', '--check', [CompletionResultType]::ParameterName, 'Change nothing: exit with 0 when the tables are current, else with 78 and a line that says what is missing')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--no-defaults', '--no-defaults', [CompletionResultType]::ParameterName, 'Read no option file')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'dblock;acquire' {
            [CompletionResult]::new('-n', '-n', [CompletionResultType]::ParameterName, 'The lock. The same name excludes across every host that talks to the same server')
            [CompletionResult]::new('--name', '--name', [CompletionResultType]::ParameterName, 'The lock. The same name excludes across every host that talks to the same server')
            [CompletionResult]::new('-m', '-m', [CompletionResultType]::ParameterName, 'N holders at once, 1 to 1000, instead of one [default: 1]')
            [CompletionResult]::new('--max-concurrency', '--max-concurrency', [CompletionResultType]::ParameterName, 'N holders at once, 1 to 1000, instead of one [default: 1]')
            [CompletionResult]::new('--slots', '--slots', [CompletionResultType]::ParameterName, 'A pool: as many holders as names, each finds its own in DBLOCK_SLOT_NAME')
            [CompletionResult]::new('-w', '-w', [CompletionResultType]::ParameterName, 'How long to wait for the lock: 0 does not wait, forever has no limit [default: 0]')
            [CompletionResult]::new('--wait', '--wait', [CompletionResultType]::ParameterName, 'How long to wait for the lock: 0 does not wait, forever has no limit [default: 0]')
            [CompletionResult]::new('--ttl', '--ttl', [CompletionResultType]::ParameterName, 'How long the lock is held unless it is renewed: whole seconds, 4s to 30d [default: 10m]')
            [CompletionResult]::new('--owner', '--owner', [CompletionResultType]::ParameterName, 'Whoever names the same ID takes the lock over at once, with a new token; the older token is void. For a script that may be started again, as by a CI server')
            [CompletionResult]::new('--url', '--url', [CompletionResultType]::ParameterName, 'All in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock [env: DBLOCK_URL]')
            [CompletionResult]::new('--host', '--host', [CompletionResultType]::ParameterName, 'The server''s name or address; localhost means its local socket [env: DBLOCK_HOST]')
            [CompletionResult]::new('--port', '--port', [CompletionResultType]::ParameterName, 'The server''s TCP port [env: DBLOCK_PORT] [default: 3306]')
            [CompletionResult]::new('--user', '--user', [CompletionResultType]::ParameterName, 'The account [env: DBLOCK_USER] [default: the name of the OS user]')
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'The server''s local socket [env: DBLOCK_SOCKET]')
            [CompletionResult]::new('--protocol', '--protocol', [CompletionResultType]::ParameterName, 'How localhost is reached; by its socket if not given [env: DBLOCK_PROTOCOL]')
            [CompletionResult]::new('--password-file', '--password-file', [CompletionResultType]::ParameterName, 'A file whose first line is the password [env, the password itself: DBLOCK_PASSWORD, MYSQL_PWD]')
            [CompletionResult]::new('--database', '--database', [CompletionResultType]::ParameterName, 'The database with dblock''s tables, for what needs them; also the path of the URL [env: DBLOCK_DATABASE] [default: dblock]')
            [CompletionResult]::new('--defaults-file', '--defaults-file', [CompletionResultType]::ParameterName, 'Read only this MySQL option file')
            [CompletionResult]::new('--defaults-extra-file', '--defaults-extra-file', [CompletionResultType]::ParameterName, 'Also read this option file, before ~/.my.cnf')
            [CompletionResult]::new('--defaults-group-suffix', '--defaults-group-suffix', [CompletionResultType]::ParameterName, 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]')
            [CompletionResult]::new('--ssl-mode', '--ssl-mode', [CompletionResultType]::ParameterName, 'Whether the connection is encrypted, as in the mysql client: if the server can; always; and only to a server whose certificate is signed by a trusted CA; and only if it is also for the host''s name or address. Without it --ssl-ca means verify-ca [env: DBLOCK_SSL_MODE] [default: preferred]')
            [CompletionResult]::new('--ssl-ca', '--ssl-ca', [CompletionResultType]::ParameterName, 'A file with the certificates of the CAs to trust, in PEM, in place of the system''s [env: DBLOCK_SSL_CA]')
            [CompletionResult]::new('--ssl-cert', '--ssl-cert', [CompletionResultType]::ParameterName, 'A file with dblock''s own certificate, and those between it and its CA, in PEM [env: DBLOCK_SSL_CERT]')
            [CompletionResult]::new('--ssl-key', '--ssl-key', [CompletionResultType]::ParameterName, 'A file with the private key of that certificate, in PEM [env: DBLOCK_SSL_KEY]')
            [CompletionResult]::new('--server-public-key-path', '--server-public-key-path', [CompletionResultType]::ParameterName, 'A file with the server''s public key, in PEM, for a password that travels without TLS; without it the key that the server sends is trusted [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]')
            [CompletionResult]::new('--connect-timeout', '--connect-timeout', [CompletionResultType]::ParameterName, 'How long to try to reach a server: resolve names, try hosts, log in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print JSON in place of the table')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--no-defaults', '--no-defaults', [CompletionResultType]::ParameterName, 'Read no option file')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'dblock;renew' {
            [CompletionResult]::new('--ttl', '--ttl', [CompletionResultType]::ParameterName, 'For how long from now on: whole seconds, 4s to 30d; as at dblock acquire if not given')
            [CompletionResult]::new('--url', '--url', [CompletionResultType]::ParameterName, 'All in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock [env: DBLOCK_URL]')
            [CompletionResult]::new('--host', '--host', [CompletionResultType]::ParameterName, 'The server''s name or address; localhost means its local socket [env: DBLOCK_HOST]')
            [CompletionResult]::new('--port', '--port', [CompletionResultType]::ParameterName, 'The server''s TCP port [env: DBLOCK_PORT] [default: 3306]')
            [CompletionResult]::new('--user', '--user', [CompletionResultType]::ParameterName, 'The account [env: DBLOCK_USER] [default: the name of the OS user]')
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'The server''s local socket [env: DBLOCK_SOCKET]')
            [CompletionResult]::new('--protocol', '--protocol', [CompletionResultType]::ParameterName, 'How localhost is reached; by its socket if not given [env: DBLOCK_PROTOCOL]')
            [CompletionResult]::new('--password-file', '--password-file', [CompletionResultType]::ParameterName, 'A file whose first line is the password [env, the password itself: DBLOCK_PASSWORD, MYSQL_PWD]')
            [CompletionResult]::new('--database', '--database', [CompletionResultType]::ParameterName, 'The database with dblock''s tables, for what needs them; also the path of the URL [env: DBLOCK_DATABASE] [default: dblock]')
            [CompletionResult]::new('--defaults-file', '--defaults-file', [CompletionResultType]::ParameterName, 'Read only this MySQL option file')
            [CompletionResult]::new('--defaults-extra-file', '--defaults-extra-file', [CompletionResultType]::ParameterName, 'Also read this option file, before ~/.my.cnf')
            [CompletionResult]::new('--defaults-group-suffix', '--defaults-group-suffix', [CompletionResultType]::ParameterName, 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]')
            [CompletionResult]::new('--ssl-mode', '--ssl-mode', [CompletionResultType]::ParameterName, 'Whether the connection is encrypted, as in the mysql client: if the server can; always; and only to a server whose certificate is signed by a trusted CA; and only if it is also for the host''s name or address. Without it --ssl-ca means verify-ca [env: DBLOCK_SSL_MODE] [default: preferred]')
            [CompletionResult]::new('--ssl-ca', '--ssl-ca', [CompletionResultType]::ParameterName, 'A file with the certificates of the CAs to trust, in PEM, in place of the system''s [env: DBLOCK_SSL_CA]')
            [CompletionResult]::new('--ssl-cert', '--ssl-cert', [CompletionResultType]::ParameterName, 'A file with dblock''s own certificate, and those between it and its CA, in PEM [env: DBLOCK_SSL_CERT]')
            [CompletionResult]::new('--ssl-key', '--ssl-key', [CompletionResultType]::ParameterName, 'A file with the private key of that certificate, in PEM [env: DBLOCK_SSL_KEY]')
            [CompletionResult]::new('--server-public-key-path', '--server-public-key-path', [CompletionResultType]::ParameterName, 'A file with the server''s public key, in PEM, for a password that travels without TLS; without it the key that the server sends is trusted [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]')
            [CompletionResult]::new('--connect-timeout', '--connect-timeout', [CompletionResultType]::ParameterName, 'How long to try to reach a server: resolve names, try hosts, log in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--no-defaults', '--no-defaults', [CompletionResultType]::ParameterName, 'Read no option file')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'dblock;release' {
            [CompletionResult]::new('--url', '--url', [CompletionResultType]::ParameterName, 'All in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock [env: DBLOCK_URL]')
            [CompletionResult]::new('--host', '--host', [CompletionResultType]::ParameterName, 'The server''s name or address; localhost means its local socket [env: DBLOCK_HOST]')
            [CompletionResult]::new('--port', '--port', [CompletionResultType]::ParameterName, 'The server''s TCP port [env: DBLOCK_PORT] [default: 3306]')
            [CompletionResult]::new('--user', '--user', [CompletionResultType]::ParameterName, 'The account [env: DBLOCK_USER] [default: the name of the OS user]')
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'The server''s local socket [env: DBLOCK_SOCKET]')
            [CompletionResult]::new('--protocol', '--protocol', [CompletionResultType]::ParameterName, 'How localhost is reached; by its socket if not given [env: DBLOCK_PROTOCOL]')
            [CompletionResult]::new('--password-file', '--password-file', [CompletionResultType]::ParameterName, 'A file whose first line is the password [env, the password itself: DBLOCK_PASSWORD, MYSQL_PWD]')
            [CompletionResult]::new('--database', '--database', [CompletionResultType]::ParameterName, 'The database with dblock''s tables, for what needs them; also the path of the URL [env: DBLOCK_DATABASE] [default: dblock]')
            [CompletionResult]::new('--defaults-file', '--defaults-file', [CompletionResultType]::ParameterName, 'Read only this MySQL option file')
            [CompletionResult]::new('--defaults-extra-file', '--defaults-extra-file', [CompletionResultType]::ParameterName, 'Also read this option file, before ~/.my.cnf')
            [CompletionResult]::new('--defaults-group-suffix', '--defaults-group-suffix', [CompletionResultType]::ParameterName, 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]')
            [CompletionResult]::new('--ssl-mode', '--ssl-mode', [CompletionResultType]::ParameterName, 'Whether the connection is encrypted, as in the mysql client: if the server can; always; and only to a server whose certificate is signed by a trusted CA; and only if it is also for the host''s name or address. Without it --ssl-ca means verify-ca [env: DBLOCK_SSL_MODE] [default: preferred]')
            [CompletionResult]::new('--ssl-ca', '--ssl-ca', [CompletionResultType]::ParameterName, 'A file with the certificates of the CAs to trust, in PEM, in place of the system''s [env: DBLOCK_SSL_CA]')
            [CompletionResult]::new('--ssl-cert', '--ssl-cert', [CompletionResultType]::ParameterName, 'A file with dblock''s own certificate, and those between it and its CA, in PEM [env: DBLOCK_SSL_CERT]')
            [CompletionResult]::new('--ssl-key', '--ssl-key', [CompletionResultType]::ParameterName, 'A file with the private key of that certificate, in PEM [env: DBLOCK_SSL_KEY]')
            [CompletionResult]::new('--server-public-key-path', '--server-public-key-path', [CompletionResultType]::ParameterName, 'A file with the server''s public key, in PEM, for a password that travels without TLS; without it the key that the server sends is trusted [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]')
            [CompletionResult]::new('--connect-timeout', '--connect-timeout', [CompletionResultType]::ParameterName, 'How long to try to reach a server: resolve names, try hosts, log in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--no-defaults', '--no-defaults', [CompletionResultType]::ParameterName, 'Read no option file')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'dblock;history' {
            [CompletionResult]::new('--since', '--since', [CompletionResultType]::ParameterName, 'Only runs that were requested since then: so long ago, as 2h; or a time, as 2026-11-22, ''2026-11-22 08:30'', both UTC, or 2026-11-22T08:30:00+01:00')
            [CompletionResult]::new('-n', '-n', [CompletionResultType]::ParameterName, 'The newest N runs; 0 is all [default: 20]')
            [CompletionResult]::new('--limit', '--limit', [CompletionResultType]::ParameterName, 'The newest N runs; 0 is all [default: 20]')
            [CompletionResult]::new('--url', '--url', [CompletionResultType]::ParameterName, 'All in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock [env: DBLOCK_URL]')
            [CompletionResult]::new('--host', '--host', [CompletionResultType]::ParameterName, 'The server''s name or address; localhost means its local socket [env: DBLOCK_HOST]')
            [CompletionResult]::new('--port', '--port', [CompletionResultType]::ParameterName, 'The server''s TCP port [env: DBLOCK_PORT] [default: 3306]')
            [CompletionResult]::new('--user', '--user', [CompletionResultType]::ParameterName, 'The account [env: DBLOCK_USER] [default: the name of the OS user]')
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'The server''s local socket [env: DBLOCK_SOCKET]')
            [CompletionResult]::new('--protocol', '--protocol', [CompletionResultType]::ParameterName, 'How localhost is reached; by its socket if not given [env: DBLOCK_PROTOCOL]')
            [CompletionResult]::new('--password-file', '--password-file', [CompletionResultType]::ParameterName, 'A file whose first line is the password [env, the password itself: DBLOCK_PASSWORD, MYSQL_PWD]')
            [CompletionResult]::new('--database', '--database', [CompletionResultType]::ParameterName, 'The database with dblock''s tables, for what needs them; also the path of the URL [env: DBLOCK_DATABASE] [default: dblock]')
            [CompletionResult]::new('--defaults-file', '--defaults-file', [CompletionResultType]::ParameterName, 'Read only this MySQL option file')
            [CompletionResult]::new('--defaults-extra-file', '--defaults-extra-file', [CompletionResultType]::ParameterName, 'Also read this option file, before ~/.my.cnf')
            [CompletionResult]::new('--defaults-group-suffix', '--defaults-group-suffix', [CompletionResultType]::ParameterName, 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]')
            [CompletionResult]::new('--ssl-mode', '--ssl-mode', [CompletionResultType]::ParameterName, 'Whether the connection is encrypted, as in the mysql client: if the server can; always; and only to a server whose certificate is signed by a trusted CA; and only if it is also for the host''s name or address. Without it --ssl-ca means verify-ca [env: DBLOCK_SSL_MODE] [default: preferred]')
            [CompletionResult]::new('--ssl-ca', '--ssl-ca', [CompletionResultType]::ParameterName, 'A file with the certificates of the CAs to trust, in PEM, in place of the system''s [env: DBLOCK_SSL_CA]')
            [CompletionResult]::new('--ssl-cert', '--ssl-cert', [CompletionResultType]::ParameterName, 'A file with dblock''s own certificate, and those between it and its CA, in PEM [env: DBLOCK_SSL_CERT]')
            [CompletionResult]::new('--ssl-key', '--ssl-key', [CompletionResultType]::ParameterName, 'A file with the private key of that certificate, in PEM [env: DBLOCK_SSL_KEY]')
            [CompletionResult]::new('--server-public-key-path', '--server-public-key-path', [CompletionResultType]::ParameterName, 'A file with the server''s public key, in PEM, for a password that travels without TLS; without it the key that the server sends is trusted [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]')
            [CompletionResult]::new('--connect-timeout', '--connect-timeout', [CompletionResultType]::ParameterName, 'How long to try to reach a server: resolve names, try hosts, log in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]')
            [CompletionResult]::new('--failed', '--failed', [CompletionResultType]::ParameterName, 'Only runs that failed: the command''s exit code was not 0, it died of a signal, its time was over, the lock was lost, or nobody knows how it ended')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print JSON in place of the table')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--no-defaults', '--no-defaults', [CompletionResultType]::ParameterName, 'Read no option file')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'dblock;cron' {
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('run', 'run', [CompletionResultType]::ParameterValue, 'Run the jobs of a crontab, each tick on one of all hosts')
            [CompletionResult]::new('check', 'check', [CompletionResultType]::ParameterValue, 'Check a crontab, and show when its jobs are due')
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'Show each job: when it is due, when and where it ran last, and how that ended')
            [CompletionResult]::new('pause', 'pause', [CompletionResultType]::ParameterValue, 'Have a job not run at its ticks until it is resumed')
            [CompletionResult]::new('resume', 'resume', [CompletionResultType]::ParameterValue, 'Have a paused job run at its ticks again')
            [CompletionResult]::new('trigger', 'trigger', [CompletionResultType]::ParameterValue, 'Run a job once now, besides its ticks')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'dblock;cron;run' {
            [CompletionResult]::new('-j', '-j', [CompletionResultType]::ParameterName, 'How many commands run at once on this host, 1 to 1000; what cannot start here within a second another host may take [default: 32]')
            [CompletionResult]::new('--jobs', '--jobs', [CompletionResultType]::ParameterName, 'How many commands run at once on this host, 1 to 1000; what cannot start here within a second another host may take [default: 32]')
            [CompletionResult]::new('--grace', '--grace', [CompletionResultType]::ParameterName, 'How long after SIGTERM the commands that run may take to end; then they are ended, and tried again on another host [default: 30s]')
            [CompletionResult]::new('--url', '--url', [CompletionResultType]::ParameterName, 'All in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock [env: DBLOCK_URL]')
            [CompletionResult]::new('--host', '--host', [CompletionResultType]::ParameterName, 'The server''s name or address; localhost means its local socket [env: DBLOCK_HOST]')
            [CompletionResult]::new('--port', '--port', [CompletionResultType]::ParameterName, 'The server''s TCP port [env: DBLOCK_PORT] [default: 3306]')
            [CompletionResult]::new('--user', '--user', [CompletionResultType]::ParameterName, 'The account [env: DBLOCK_USER] [default: the name of the OS user]')
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'The server''s local socket [env: DBLOCK_SOCKET]')
            [CompletionResult]::new('--protocol', '--protocol', [CompletionResultType]::ParameterName, 'How localhost is reached; by its socket if not given [env: DBLOCK_PROTOCOL]')
            [CompletionResult]::new('--password-file', '--password-file', [CompletionResultType]::ParameterName, 'A file whose first line is the password [env, the password itself: DBLOCK_PASSWORD, MYSQL_PWD]')
            [CompletionResult]::new('--database', '--database', [CompletionResultType]::ParameterName, 'The database with dblock''s tables, for what needs them; also the path of the URL [env: DBLOCK_DATABASE] [default: dblock]')
            [CompletionResult]::new('--defaults-file', '--defaults-file', [CompletionResultType]::ParameterName, 'Read only this MySQL option file')
            [CompletionResult]::new('--defaults-extra-file', '--defaults-extra-file', [CompletionResultType]::ParameterName, 'Also read this option file, before ~/.my.cnf')
            [CompletionResult]::new('--defaults-group-suffix', '--defaults-group-suffix', [CompletionResultType]::ParameterName, 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]')
            [CompletionResult]::new('--ssl-mode', '--ssl-mode', [CompletionResultType]::ParameterName, 'Whether the connection is encrypted, as in the mysql client: if the server can; always; and only to a server whose certificate is signed by a trusted CA; and only if it is also for the host''s name or address. Without it --ssl-ca means verify-ca [env: DBLOCK_SSL_MODE] [default: preferred]')
            [CompletionResult]::new('--ssl-ca', '--ssl-ca', [CompletionResultType]::ParameterName, 'A file with the certificates of the CAs to trust, in PEM, in place of the system''s [env: DBLOCK_SSL_CA]')
            [CompletionResult]::new('--ssl-cert', '--ssl-cert', [CompletionResultType]::ParameterName, 'A file with dblock''s own certificate, and those between it and its CA, in PEM [env: DBLOCK_SSL_CERT]')
            [CompletionResult]::new('--ssl-key', '--ssl-key', [CompletionResultType]::ParameterName, 'A file with the private key of that certificate, in PEM [env: DBLOCK_SSL_KEY]')
            [CompletionResult]::new('--server-public-key-path', '--server-public-key-path', [CompletionResultType]::ParameterName, 'A file with the server''s public key, in PEM, for a password that travels without TLS; without it the key that the server sends is trusted [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]')
            [CompletionResult]::new('--connect-timeout', '--connect-timeout', [CompletionResultType]::ParameterName, 'How long to try to reach a server: resolve names, try hosts, log in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]')
            [CompletionResult]::new('--scrub-env', '--scrub-env', [CompletionResultType]::ParameterName, 'Remove DBLOCK_URL and the other variables for the connection, and MYSQL_PWD, from the environment of the commands')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--no-defaults', '--no-defaults', [CompletionResultType]::ParameterName, 'Read no option file')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'dblock;cron;check' {
            [CompletionResult]::new('-n', '-n', [CompletionResultType]::ParameterName, 'Show the next N times of each job, 0 to 1000 [default: 3]')
            [CompletionResult]::new('--next', '--next', [CompletionResultType]::ParameterName, 'Show the next N times of each job, 0 to 1000 [default: 3]')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'dblock;cron;list' {
            [CompletionResult]::new('--url', '--url', [CompletionResultType]::ParameterName, 'All in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock [env: DBLOCK_URL]')
            [CompletionResult]::new('--host', '--host', [CompletionResultType]::ParameterName, 'The server''s name or address; localhost means its local socket [env: DBLOCK_HOST]')
            [CompletionResult]::new('--port', '--port', [CompletionResultType]::ParameterName, 'The server''s TCP port [env: DBLOCK_PORT] [default: 3306]')
            [CompletionResult]::new('--user', '--user', [CompletionResultType]::ParameterName, 'The account [env: DBLOCK_USER] [default: the name of the OS user]')
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'The server''s local socket [env: DBLOCK_SOCKET]')
            [CompletionResult]::new('--protocol', '--protocol', [CompletionResultType]::ParameterName, 'How localhost is reached; by its socket if not given [env: DBLOCK_PROTOCOL]')
            [CompletionResult]::new('--password-file', '--password-file', [CompletionResultType]::ParameterName, 'A file whose first line is the password [env, the password itself: DBLOCK_PASSWORD, MYSQL_PWD]')
            [CompletionResult]::new('--database', '--database', [CompletionResultType]::ParameterName, 'The database with dblock''s tables, for what needs them; also the path of the URL [env: DBLOCK_DATABASE] [default: dblock]')
            [CompletionResult]::new('--defaults-file', '--defaults-file', [CompletionResultType]::ParameterName, 'Read only this MySQL option file')
            [CompletionResult]::new('--defaults-extra-file', '--defaults-extra-file', [CompletionResultType]::ParameterName, 'Also read this option file, before ~/.my.cnf')
            [CompletionResult]::new('--defaults-group-suffix', '--defaults-group-suffix', [CompletionResultType]::ParameterName, 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]')
            [CompletionResult]::new('--ssl-mode', '--ssl-mode', [CompletionResultType]::ParameterName, 'Whether the connection is encrypted, as in the mysql client: if the server can; always; and only to a server whose certificate is signed by a trusted CA; and only if it is also for the host''s name or address. Without it --ssl-ca means verify-ca [env: DBLOCK_SSL_MODE] [default: preferred]')
            [CompletionResult]::new('--ssl-ca', '--ssl-ca', [CompletionResultType]::ParameterName, 'A file with the certificates of the CAs to trust, in PEM, in place of the system''s [env: DBLOCK_SSL_CA]')
            [CompletionResult]::new('--ssl-cert', '--ssl-cert', [CompletionResultType]::ParameterName, 'A file with dblock''s own certificate, and those between it and its CA, in PEM [env: DBLOCK_SSL_CERT]')
            [CompletionResult]::new('--ssl-key', '--ssl-key', [CompletionResultType]::ParameterName, 'A file with the private key of that certificate, in PEM [env: DBLOCK_SSL_KEY]')
            [CompletionResult]::new('--server-public-key-path', '--server-public-key-path', [CompletionResultType]::ParameterName, 'A file with the server''s public key, in PEM, for a password that travels without TLS; without it the key that the server sends is trusted [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]')
            [CompletionResult]::new('--connect-timeout', '--connect-timeout', [CompletionResultType]::ParameterName, 'How long to try to reach a server: resolve names, try hosts, log in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print JSON in place of the table')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--no-defaults', '--no-defaults', [CompletionResultType]::ParameterName, 'Read no option file')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'dblock;cron;pause' {
            [CompletionResult]::new('--url', '--url', [CompletionResultType]::ParameterName, 'All in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock [env: DBLOCK_URL]')
            [CompletionResult]::new('--host', '--host', [CompletionResultType]::ParameterName, 'The server''s name or address; localhost means its local socket [env: DBLOCK_HOST]')
            [CompletionResult]::new('--port', '--port', [CompletionResultType]::ParameterName, 'The server''s TCP port [env: DBLOCK_PORT] [default: 3306]')
            [CompletionResult]::new('--user', '--user', [CompletionResultType]::ParameterName, 'The account [env: DBLOCK_USER] [default: the name of the OS user]')
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'The server''s local socket [env: DBLOCK_SOCKET]')
            [CompletionResult]::new('--protocol', '--protocol', [CompletionResultType]::ParameterName, 'How localhost is reached; by its socket if not given [env: DBLOCK_PROTOCOL]')
            [CompletionResult]::new('--password-file', '--password-file', [CompletionResultType]::ParameterName, 'A file whose first line is the password [env, the password itself: DBLOCK_PASSWORD, MYSQL_PWD]')
            [CompletionResult]::new('--database', '--database', [CompletionResultType]::ParameterName, 'The database with dblock''s tables, for what needs them; also the path of the URL [env: DBLOCK_DATABASE] [default: dblock]')
            [CompletionResult]::new('--defaults-file', '--defaults-file', [CompletionResultType]::ParameterName, 'Read only this MySQL option file')
            [CompletionResult]::new('--defaults-extra-file', '--defaults-extra-file', [CompletionResultType]::ParameterName, 'Also read this option file, before ~/.my.cnf')
            [CompletionResult]::new('--defaults-group-suffix', '--defaults-group-suffix', [CompletionResultType]::ParameterName, 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]')
            [CompletionResult]::new('--ssl-mode', '--ssl-mode', [CompletionResultType]::ParameterName, 'Whether the connection is encrypted, as in the mysql client: if the server can; always; and only to a server whose certificate is signed by a trusted CA; and only if it is also for the host''s name or address. Without it --ssl-ca means verify-ca [env: DBLOCK_SSL_MODE] [default: preferred]')
            [CompletionResult]::new('--ssl-ca', '--ssl-ca', [CompletionResultType]::ParameterName, 'A file with the certificates of the CAs to trust, in PEM, in place of the system''s [env: DBLOCK_SSL_CA]')
            [CompletionResult]::new('--ssl-cert', '--ssl-cert', [CompletionResultType]::ParameterName, 'A file with dblock''s own certificate, and those between it and its CA, in PEM [env: DBLOCK_SSL_CERT]')
            [CompletionResult]::new('--ssl-key', '--ssl-key', [CompletionResultType]::ParameterName, 'A file with the private key of that certificate, in PEM [env: DBLOCK_SSL_KEY]')
            [CompletionResult]::new('--server-public-key-path', '--server-public-key-path', [CompletionResultType]::ParameterName, 'A file with the server''s public key, in PEM, for a password that travels without TLS; without it the key that the server sends is trusted [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]')
            [CompletionResult]::new('--connect-timeout', '--connect-timeout', [CompletionResultType]::ParameterName, 'How long to try to reach a server: resolve names, try hosts, log in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--no-defaults', '--no-defaults', [CompletionResultType]::ParameterName, 'Read no option file')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'dblock;cron;resume' {
            [CompletionResult]::new('--url', '--url', [CompletionResultType]::ParameterName, 'All in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock [env: DBLOCK_URL]')
            [CompletionResult]::new('--host', '--host', [CompletionResultType]::ParameterName, 'The server''s name or address; localhost means its local socket [env: DBLOCK_HOST]')
            [CompletionResult]::new('--port', '--port', [CompletionResultType]::ParameterName, 'The server''s TCP port [env: DBLOCK_PORT] [default: 3306]')
            [CompletionResult]::new('--user', '--user', [CompletionResultType]::ParameterName, 'The account [env: DBLOCK_USER] [default: the name of the OS user]')
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'The server''s local socket [env: DBLOCK_SOCKET]')
            [CompletionResult]::new('--protocol', '--protocol', [CompletionResultType]::ParameterName, 'How localhost is reached; by its socket if not given [env: DBLOCK_PROTOCOL]')
            [CompletionResult]::new('--password-file', '--password-file', [CompletionResultType]::ParameterName, 'A file whose first line is the password [env, the password itself: DBLOCK_PASSWORD, MYSQL_PWD]')
            [CompletionResult]::new('--database', '--database', [CompletionResultType]::ParameterName, 'The database with dblock''s tables, for what needs them; also the path of the URL [env: DBLOCK_DATABASE] [default: dblock]')
            [CompletionResult]::new('--defaults-file', '--defaults-file', [CompletionResultType]::ParameterName, 'Read only this MySQL option file')
            [CompletionResult]::new('--defaults-extra-file', '--defaults-extra-file', [CompletionResultType]::ParameterName, 'Also read this option file, before ~/.my.cnf')
            [CompletionResult]::new('--defaults-group-suffix', '--defaults-group-suffix', [CompletionResultType]::ParameterName, 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]')
            [CompletionResult]::new('--ssl-mode', '--ssl-mode', [CompletionResultType]::ParameterName, 'Whether the connection is encrypted, as in the mysql client: if the server can; always; and only to a server whose certificate is signed by a trusted CA; and only if it is also for the host''s name or address. Without it --ssl-ca means verify-ca [env: DBLOCK_SSL_MODE] [default: preferred]')
            [CompletionResult]::new('--ssl-ca', '--ssl-ca', [CompletionResultType]::ParameterName, 'A file with the certificates of the CAs to trust, in PEM, in place of the system''s [env: DBLOCK_SSL_CA]')
            [CompletionResult]::new('--ssl-cert', '--ssl-cert', [CompletionResultType]::ParameterName, 'A file with dblock''s own certificate, and those between it and its CA, in PEM [env: DBLOCK_SSL_CERT]')
            [CompletionResult]::new('--ssl-key', '--ssl-key', [CompletionResultType]::ParameterName, 'A file with the private key of that certificate, in PEM [env: DBLOCK_SSL_KEY]')
            [CompletionResult]::new('--server-public-key-path', '--server-public-key-path', [CompletionResultType]::ParameterName, 'A file with the server''s public key, in PEM, for a password that travels without TLS; without it the key that the server sends is trusted [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]')
            [CompletionResult]::new('--connect-timeout', '--connect-timeout', [CompletionResultType]::ParameterName, 'How long to try to reach a server: resolve names, try hosts, log in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--no-defaults', '--no-defaults', [CompletionResultType]::ParameterName, 'Read no option file')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'dblock;cron;trigger' {
            [CompletionResult]::new('--url', '--url', [CompletionResultType]::ParameterName, 'All in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock [env: DBLOCK_URL]')
            [CompletionResult]::new('--host', '--host', [CompletionResultType]::ParameterName, 'The server''s name or address; localhost means its local socket [env: DBLOCK_HOST]')
            [CompletionResult]::new('--port', '--port', [CompletionResultType]::ParameterName, 'The server''s TCP port [env: DBLOCK_PORT] [default: 3306]')
            [CompletionResult]::new('--user', '--user', [CompletionResultType]::ParameterName, 'The account [env: DBLOCK_USER] [default: the name of the OS user]')
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'The server''s local socket [env: DBLOCK_SOCKET]')
            [CompletionResult]::new('--protocol', '--protocol', [CompletionResultType]::ParameterName, 'How localhost is reached; by its socket if not given [env: DBLOCK_PROTOCOL]')
            [CompletionResult]::new('--password-file', '--password-file', [CompletionResultType]::ParameterName, 'A file whose first line is the password [env, the password itself: DBLOCK_PASSWORD, MYSQL_PWD]')
            [CompletionResult]::new('--database', '--database', [CompletionResultType]::ParameterName, 'The database with dblock''s tables, for what needs them; also the path of the URL [env: DBLOCK_DATABASE] [default: dblock]')
            [CompletionResult]::new('--defaults-file', '--defaults-file', [CompletionResultType]::ParameterName, 'Read only this MySQL option file')
            [CompletionResult]::new('--defaults-extra-file', '--defaults-extra-file', [CompletionResultType]::ParameterName, 'Also read this option file, before ~/.my.cnf')
            [CompletionResult]::new('--defaults-group-suffix', '--defaults-group-suffix', [CompletionResultType]::ParameterName, 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]')
            [CompletionResult]::new('--ssl-mode', '--ssl-mode', [CompletionResultType]::ParameterName, 'Whether the connection is encrypted, as in the mysql client: if the server can; always; and only to a server whose certificate is signed by a trusted CA; and only if it is also for the host''s name or address. Without it --ssl-ca means verify-ca [env: DBLOCK_SSL_MODE] [default: preferred]')
            [CompletionResult]::new('--ssl-ca', '--ssl-ca', [CompletionResultType]::ParameterName, 'A file with the certificates of the CAs to trust, in PEM, in place of the system''s [env: DBLOCK_SSL_CA]')
            [CompletionResult]::new('--ssl-cert', '--ssl-cert', [CompletionResultType]::ParameterName, 'A file with dblock''s own certificate, and those between it and its CA, in PEM [env: DBLOCK_SSL_CERT]')
            [CompletionResult]::new('--ssl-key', '--ssl-key', [CompletionResultType]::ParameterName, 'A file with the private key of that certificate, in PEM [env: DBLOCK_SSL_KEY]')
            [CompletionResult]::new('--server-public-key-path', '--server-public-key-path', [CompletionResultType]::ParameterName, 'A file with the server''s public key, in PEM, for a password that travels without TLS; without it the key that the server sends is trusted [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]')
            [CompletionResult]::new('--connect-timeout', '--connect-timeout', [CompletionResultType]::ParameterName, 'How long to try to reach a server: resolve names, try hosts, log in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--no-defaults', '--no-defaults', [CompletionResultType]::ParameterName, 'Read no option file')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'dblock;cron;help' {
            [CompletionResult]::new('run', 'run', [CompletionResultType]::ParameterValue, 'Run the jobs of a crontab, each tick on one of all hosts')
            [CompletionResult]::new('check', 'check', [CompletionResultType]::ParameterValue, 'Check a crontab, and show when its jobs are due')
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'Show each job: when it is due, when and where it ran last, and how that ended')
            [CompletionResult]::new('pause', 'pause', [CompletionResultType]::ParameterValue, 'Have a job not run at its ticks until it is resumed')
            [CompletionResult]::new('resume', 'resume', [CompletionResultType]::ParameterValue, 'Have a paused job run at its ticks again')
            [CompletionResult]::new('trigger', 'trigger', [CompletionResultType]::ParameterValue, 'Run a job once now, besides its ticks')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'dblock;cron;help;run' {
            break
        }
        'dblock;cron;help;check' {
            break
        }
        'dblock;cron;help;list' {
            break
        }
        'dblock;cron;help;pause' {
            break
        }
        'dblock;cron;help;resume' {
            break
        }
        'dblock;cron;help;trigger' {
            break
        }
        'dblock;cron;help;help' {
            break
        }
        'dblock;queue' {
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('create', 'create', [CompletionResultType]::ParameterValue, 'Create a queue')
            [CompletionResult]::new('put', 'put', [CompletionResultType]::ParameterValue, 'Put jobs into a queue, and print their ids')
            [CompletionResult]::new('work', 'work', [CompletionResultType]::ParameterValue, 'Run a command for each job of a queue')
            [CompletionResult]::new('status', 'status', [CompletionResultType]::ParameterValue, 'Show how many jobs are due, and who works on them')
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'Show the jobs of a queue')
            [CompletionResult]::new('show', 'show', [CompletionResultType]::ParameterValue, 'Show all about a job, or its payload')
            [CompletionResult]::new('retry', 'retry', [CompletionResultType]::ParameterValue, 'Try dead and delayed jobs now')
            [CompletionResult]::new('cancel', 'cancel', [CompletionResultType]::ParameterValue, 'Delete jobs that wait, and let those that run not run again')
            [CompletionResult]::new('pause', 'pause', [CompletionResultType]::ParameterValue, 'Have workers claim no more jobs of a queue for now')
            [CompletionResult]::new('resume', 'resume', [CompletionResultType]::ParameterValue, 'Have workers claim jobs of a queue again')
            [CompletionResult]::new('delete', 'delete', [CompletionResultType]::ParameterValue, 'Delete a queue with all of its jobs')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'dblock;queue;create' {
            [CompletionResult]::new('--claim', '--claim', [CompletionResultType]::ParameterName, 'What a worker claims at once: single jobs; or all those that were put together, which is faster for many small jobs, and one slow job holds up its block [default: rows]')
            [CompletionResult]::new('--shards', '--shards', [CompletionResultType]::ParameterName, 'In how many parts the jobs are kept, 1 to 1024: more are faster with many workers, and then jobs are only about in order [default: 1]')
            [CompletionResult]::new('--max-attempts', '--max-attempts', [CompletionResultType]::ParameterName, 'How often a job is tried before it is dead, 1 to 1000000 [default: 20]')
            [CompletionResult]::new('--retry-delay', '--retry-delay', [CompletionResultType]::ParameterName, 'From the first failure of a job to its next attempt; it doubles with each, up to an hour [default: 10s]')
            [CompletionResult]::new('--ttl', '--ttl', [CompletionResultType]::ParameterName, 'After how long others have the jobs of a worker that has vanished: whole seconds, 4s to 1d. Longer than a fail-over takes [default: 60s]')
            [CompletionResult]::new('--keep', '--keep', [CompletionResultType]::ParameterName, 'How long jobs are kept that are done: whole seconds; 0 deletes them at once [default: 0]')
            [CompletionResult]::new('--url', '--url', [CompletionResultType]::ParameterName, 'All in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock [env: DBLOCK_URL]')
            [CompletionResult]::new('--host', '--host', [CompletionResultType]::ParameterName, 'The server''s name or address; localhost means its local socket [env: DBLOCK_HOST]')
            [CompletionResult]::new('--port', '--port', [CompletionResultType]::ParameterName, 'The server''s TCP port [env: DBLOCK_PORT] [default: 3306]')
            [CompletionResult]::new('--user', '--user', [CompletionResultType]::ParameterName, 'The account [env: DBLOCK_USER] [default: the name of the OS user]')
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'The server''s local socket [env: DBLOCK_SOCKET]')
            [CompletionResult]::new('--protocol', '--protocol', [CompletionResultType]::ParameterName, 'How localhost is reached; by its socket if not given [env: DBLOCK_PROTOCOL]')
            [CompletionResult]::new('--password-file', '--password-file', [CompletionResultType]::ParameterName, 'A file whose first line is the password [env, the password itself: DBLOCK_PASSWORD, MYSQL_PWD]')
            [CompletionResult]::new('--database', '--database', [CompletionResultType]::ParameterName, 'The database with dblock''s tables, for what needs them; also the path of the URL [env: DBLOCK_DATABASE] [default: dblock]')
            [CompletionResult]::new('--defaults-file', '--defaults-file', [CompletionResultType]::ParameterName, 'Read only this MySQL option file')
            [CompletionResult]::new('--defaults-extra-file', '--defaults-extra-file', [CompletionResultType]::ParameterName, 'Also read this option file, before ~/.my.cnf')
            [CompletionResult]::new('--defaults-group-suffix', '--defaults-group-suffix', [CompletionResultType]::ParameterName, 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]')
            [CompletionResult]::new('--ssl-mode', '--ssl-mode', [CompletionResultType]::ParameterName, 'Whether the connection is encrypted, as in the mysql client: if the server can; always; and only to a server whose certificate is signed by a trusted CA; and only if it is also for the host''s name or address. Without it --ssl-ca means verify-ca [env: DBLOCK_SSL_MODE] [default: preferred]')
            [CompletionResult]::new('--ssl-ca', '--ssl-ca', [CompletionResultType]::ParameterName, 'A file with the certificates of the CAs to trust, in PEM, in place of the system''s [env: DBLOCK_SSL_CA]')
            [CompletionResult]::new('--ssl-cert', '--ssl-cert', [CompletionResultType]::ParameterName, 'A file with dblock''s own certificate, and those between it and its CA, in PEM [env: DBLOCK_SSL_CERT]')
            [CompletionResult]::new('--ssl-key', '--ssl-key', [CompletionResultType]::ParameterName, 'A file with the private key of that certificate, in PEM [env: DBLOCK_SSL_KEY]')
            [CompletionResult]::new('--server-public-key-path', '--server-public-key-path', [CompletionResultType]::ParameterName, 'A file with the server''s public key, in PEM, for a password that travels without TLS; without it the key that the server sends is trusted [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]')
            [CompletionResult]::new('--connect-timeout', '--connect-timeout', [CompletionResultType]::ParameterName, 'How long to try to reach a server: resolve names, try hosts, log in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--no-defaults', '--no-defaults', [CompletionResultType]::ParameterName, 'Read no option file')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'dblock;queue;put' {
            [CompletionResult]::new('--delay', '--delay', [CompletionResultType]::ParameterName, 'Due so long from now, by the clock of the server')
            [CompletionResult]::new('--at', '--at', [CompletionResultType]::ParameterName, 'Due at that time, by the clock of the server: 2026-11-22, ''2026-11-22 08:30'', both UTC, or 2026-11-22T08:30:00+01:00')
            [CompletionResult]::new('--priority', '--priority', [CompletionResultType]::ParameterName, 'Jobs with a lower number come first, -2147483648 to 2147483647 [default: 0]')
            [CompletionResult]::new('--key', '--key', [CompletionResultType]::ParameterName, 'At most one job of that key that is not done: while there is one, nothing is put, and its id is printed. 1 to 200 bytes')
            [CompletionResult]::new('--every', '--every', [CompletionResultType]::ParameterName, 'Due again so long after it was due, for ever, until it is canceled')
            [CompletionResult]::new('--url', '--url', [CompletionResultType]::ParameterName, 'All in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock [env: DBLOCK_URL]')
            [CompletionResult]::new('--host', '--host', [CompletionResultType]::ParameterName, 'The server''s name or address; localhost means its local socket [env: DBLOCK_HOST]')
            [CompletionResult]::new('--port', '--port', [CompletionResultType]::ParameterName, 'The server''s TCP port [env: DBLOCK_PORT] [default: 3306]')
            [CompletionResult]::new('--user', '--user', [CompletionResultType]::ParameterName, 'The account [env: DBLOCK_USER] [default: the name of the OS user]')
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'The server''s local socket [env: DBLOCK_SOCKET]')
            [CompletionResult]::new('--protocol', '--protocol', [CompletionResultType]::ParameterName, 'How localhost is reached; by its socket if not given [env: DBLOCK_PROTOCOL]')
            [CompletionResult]::new('--password-file', '--password-file', [CompletionResultType]::ParameterName, 'A file whose first line is the password [env, the password itself: DBLOCK_PASSWORD, MYSQL_PWD]')
            [CompletionResult]::new('--database', '--database', [CompletionResultType]::ParameterName, 'The database with dblock''s tables, for what needs them; also the path of the URL [env: DBLOCK_DATABASE] [default: dblock]')
            [CompletionResult]::new('--defaults-file', '--defaults-file', [CompletionResultType]::ParameterName, 'Read only this MySQL option file')
            [CompletionResult]::new('--defaults-extra-file', '--defaults-extra-file', [CompletionResultType]::ParameterName, 'Also read this option file, before ~/.my.cnf')
            [CompletionResult]::new('--defaults-group-suffix', '--defaults-group-suffix', [CompletionResultType]::ParameterName, 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]')
            [CompletionResult]::new('--ssl-mode', '--ssl-mode', [CompletionResultType]::ParameterName, 'Whether the connection is encrypted, as in the mysql client: if the server can; always; and only to a server whose certificate is signed by a trusted CA; and only if it is also for the host''s name or address. Without it --ssl-ca means verify-ca [env: DBLOCK_SSL_MODE] [default: preferred]')
            [CompletionResult]::new('--ssl-ca', '--ssl-ca', [CompletionResultType]::ParameterName, 'A file with the certificates of the CAs to trust, in PEM, in place of the system''s [env: DBLOCK_SSL_CA]')
            [CompletionResult]::new('--ssl-cert', '--ssl-cert', [CompletionResultType]::ParameterName, 'A file with dblock''s own certificate, and those between it and its CA, in PEM [env: DBLOCK_SSL_CERT]')
            [CompletionResult]::new('--ssl-key', '--ssl-key', [CompletionResultType]::ParameterName, 'A file with the private key of that certificate, in PEM [env: DBLOCK_SSL_KEY]')
            [CompletionResult]::new('--server-public-key-path', '--server-public-key-path', [CompletionResultType]::ParameterName, 'A file with the server''s public key, in PEM, for a password that travels without TLS; without it the key that the server sends is trusted [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]')
            [CompletionResult]::new('--connect-timeout', '--connect-timeout', [CompletionResultType]::ParameterName, 'How long to try to reach a server: resolve names, try hosts, log in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]')
            [CompletionResult]::new('--lines', '--lines', [CompletionResultType]::ParameterName, 'Each line of stdin is a job')
            [CompletionResult]::new('--null', '--null', [CompletionResultType]::ParameterName, 'Each record of stdin that ends in NUL is a job')
            [CompletionResult]::new('--file', '--file', [CompletionResultType]::ParameterName, 'Each PAYLOAD is the name of a file whose content is the payload; - is stdin')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--no-defaults', '--no-defaults', [CompletionResultType]::ParameterName, 'Read no option file')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'dblock;queue;work' {
            [CompletionResult]::new('-j', '-j', [CompletionResultType]::ParameterName, 'How many commands run at once, 1 to 1000 [default: 1]')
            [CompletionResult]::new('--jobs', '--jobs', [CompletionResultType]::ParameterName, 'How many commands run at once, 1 to 1000 [default: 1]')
            [CompletionResult]::new('--batch', '--batch', [CompletionResultType]::ParameterName, 'Up to N jobs, 1 to 10000, to one command, on its stdin; all of them are done, or none')
            [CompletionResult]::new('-t', '-t', [CompletionResultType]::ParameterName, 'End a command when it has run longer: SIGTERM, then SIGKILL; the job has failed; 0 is no limit')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'End a command when it has run longer: SIGTERM, then SIGKILL; the job has failed; 0 is no limit')
            [CompletionResult]::new('-k', '-k', [CompletionResultType]::ParameterName, 'From SIGTERM to SIGKILL when dblock ends a command; 0 is both at once [default: 10s]')
            [CompletionResult]::new('--kill-after', '--kill-after', [CompletionResultType]::ParameterName, 'From SIGTERM to SIGKILL when dblock ends a command; 0 is both at once [default: 10s]')
            [CompletionResult]::new('--grace', '--grace', [CompletionResultType]::ParameterName, 'How long after the first SIGTERM the commands that run may take to end; then they are ended, and their jobs given back [default: 30s]')
            [CompletionResult]::new('--bury-on', '--bury-on', [CompletionResultType]::ParameterName, 'An exit code of the command, 1 to 255 but not 75, at which its job is dead at once; also several, with commas')
            [CompletionResult]::new('--url', '--url', [CompletionResultType]::ParameterName, 'All in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock [env: DBLOCK_URL]')
            [CompletionResult]::new('--host', '--host', [CompletionResultType]::ParameterName, 'The server''s name or address; localhost means its local socket [env: DBLOCK_HOST]')
            [CompletionResult]::new('--port', '--port', [CompletionResultType]::ParameterName, 'The server''s TCP port [env: DBLOCK_PORT] [default: 3306]')
            [CompletionResult]::new('--user', '--user', [CompletionResultType]::ParameterName, 'The account [env: DBLOCK_USER] [default: the name of the OS user]')
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'The server''s local socket [env: DBLOCK_SOCKET]')
            [CompletionResult]::new('--protocol', '--protocol', [CompletionResultType]::ParameterName, 'How localhost is reached; by its socket if not given [env: DBLOCK_PROTOCOL]')
            [CompletionResult]::new('--password-file', '--password-file', [CompletionResultType]::ParameterName, 'A file whose first line is the password [env, the password itself: DBLOCK_PASSWORD, MYSQL_PWD]')
            [CompletionResult]::new('--database', '--database', [CompletionResultType]::ParameterName, 'The database with dblock''s tables, for what needs them; also the path of the URL [env: DBLOCK_DATABASE] [default: dblock]')
            [CompletionResult]::new('--defaults-file', '--defaults-file', [CompletionResultType]::ParameterName, 'Read only this MySQL option file')
            [CompletionResult]::new('--defaults-extra-file', '--defaults-extra-file', [CompletionResultType]::ParameterName, 'Also read this option file, before ~/.my.cnf')
            [CompletionResult]::new('--defaults-group-suffix', '--defaults-group-suffix', [CompletionResultType]::ParameterName, 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]')
            [CompletionResult]::new('--ssl-mode', '--ssl-mode', [CompletionResultType]::ParameterName, 'Whether the connection is encrypted, as in the mysql client: if the server can; always; and only to a server whose certificate is signed by a trusted CA; and only if it is also for the host''s name or address. Without it --ssl-ca means verify-ca [env: DBLOCK_SSL_MODE] [default: preferred]')
            [CompletionResult]::new('--ssl-ca', '--ssl-ca', [CompletionResultType]::ParameterName, 'A file with the certificates of the CAs to trust, in PEM, in place of the system''s [env: DBLOCK_SSL_CA]')
            [CompletionResult]::new('--ssl-cert', '--ssl-cert', [CompletionResultType]::ParameterName, 'A file with dblock''s own certificate, and those between it and its CA, in PEM [env: DBLOCK_SSL_CERT]')
            [CompletionResult]::new('--ssl-key', '--ssl-key', [CompletionResultType]::ParameterName, 'A file with the private key of that certificate, in PEM [env: DBLOCK_SSL_KEY]')
            [CompletionResult]::new('--server-public-key-path', '--server-public-key-path', [CompletionResultType]::ParameterName, 'A file with the server''s public key, in PEM, for a password that travels without TLS; without it the key that the server sends is trusted [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]')
            [CompletionResult]::new('--connect-timeout', '--connect-timeout', [CompletionResultType]::ParameterName, 'How long to try to reach a server: resolve names, try hosts, log in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]')
            [CompletionResult]::new('--lines', '--lines', [CompletionResultType]::ParameterName, 'With --batch: each payload is a line; this is the default')
            [CompletionResult]::new('--null', '--null', [CompletionResultType]::ParameterName, 'With --batch: each payload ends in NUL')
            [CompletionResult]::new('--drain', '--drain', [CompletionResultType]::ParameterName, 'Exit with 0 when nothing is due and its commands have ended; delayed jobs are left')
            [CompletionResult]::new('--once', '--once', [CompletionResultType]::ParameterName, 'Run one command, and exit as it does; with 75 if nothing is due')
            [CompletionResult]::new('--scrub-env', '--scrub-env', [CompletionResultType]::ParameterName, 'Remove DBLOCK_URL and the other variables for the connection, and MYSQL_PWD, from the environment of the commands')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--no-defaults', '--no-defaults', [CompletionResultType]::ParameterName, 'Read no option file')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'dblock;queue;status' {
            [CompletionResult]::new('--url', '--url', [CompletionResultType]::ParameterName, 'All in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock [env: DBLOCK_URL]')
            [CompletionResult]::new('--host', '--host', [CompletionResultType]::ParameterName, 'The server''s name or address; localhost means its local socket [env: DBLOCK_HOST]')
            [CompletionResult]::new('--port', '--port', [CompletionResultType]::ParameterName, 'The server''s TCP port [env: DBLOCK_PORT] [default: 3306]')
            [CompletionResult]::new('--user', '--user', [CompletionResultType]::ParameterName, 'The account [env: DBLOCK_USER] [default: the name of the OS user]')
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'The server''s local socket [env: DBLOCK_SOCKET]')
            [CompletionResult]::new('--protocol', '--protocol', [CompletionResultType]::ParameterName, 'How localhost is reached; by its socket if not given [env: DBLOCK_PROTOCOL]')
            [CompletionResult]::new('--password-file', '--password-file', [CompletionResultType]::ParameterName, 'A file whose first line is the password [env, the password itself: DBLOCK_PASSWORD, MYSQL_PWD]')
            [CompletionResult]::new('--database', '--database', [CompletionResultType]::ParameterName, 'The database with dblock''s tables, for what needs them; also the path of the URL [env: DBLOCK_DATABASE] [default: dblock]')
            [CompletionResult]::new('--defaults-file', '--defaults-file', [CompletionResultType]::ParameterName, 'Read only this MySQL option file')
            [CompletionResult]::new('--defaults-extra-file', '--defaults-extra-file', [CompletionResultType]::ParameterName, 'Also read this option file, before ~/.my.cnf')
            [CompletionResult]::new('--defaults-group-suffix', '--defaults-group-suffix', [CompletionResultType]::ParameterName, 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]')
            [CompletionResult]::new('--ssl-mode', '--ssl-mode', [CompletionResultType]::ParameterName, 'Whether the connection is encrypted, as in the mysql client: if the server can; always; and only to a server whose certificate is signed by a trusted CA; and only if it is also for the host''s name or address. Without it --ssl-ca means verify-ca [env: DBLOCK_SSL_MODE] [default: preferred]')
            [CompletionResult]::new('--ssl-ca', '--ssl-ca', [CompletionResultType]::ParameterName, 'A file with the certificates of the CAs to trust, in PEM, in place of the system''s [env: DBLOCK_SSL_CA]')
            [CompletionResult]::new('--ssl-cert', '--ssl-cert', [CompletionResultType]::ParameterName, 'A file with dblock''s own certificate, and those between it and its CA, in PEM [env: DBLOCK_SSL_CERT]')
            [CompletionResult]::new('--ssl-key', '--ssl-key', [CompletionResultType]::ParameterName, 'A file with the private key of that certificate, in PEM [env: DBLOCK_SSL_KEY]')
            [CompletionResult]::new('--server-public-key-path', '--server-public-key-path', [CompletionResultType]::ParameterName, 'A file with the server''s public key, in PEM, for a password that travels without TLS; without it the key that the server sends is trusted [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]')
            [CompletionResult]::new('--connect-timeout', '--connect-timeout', [CompletionResultType]::ParameterName, 'How long to try to reach a server: resolve names, try hosts, log in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print JSON in place of the table')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--no-defaults', '--no-defaults', [CompletionResultType]::ParameterName, 'Read no option file')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'dblock;queue;list' {
            [CompletionResult]::new('--state', '--state', [CompletionResultType]::ParameterName, 'Only jobs in this state; all but those that are done if not given')
            [CompletionResult]::new('-n', '-n', [CompletionResultType]::ParameterName, 'At most N jobs; 0 is all [default: 20]')
            [CompletionResult]::new('--limit', '--limit', [CompletionResultType]::ParameterName, 'At most N jobs; 0 is all [default: 20]')
            [CompletionResult]::new('--url', '--url', [CompletionResultType]::ParameterName, 'All in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock [env: DBLOCK_URL]')
            [CompletionResult]::new('--host', '--host', [CompletionResultType]::ParameterName, 'The server''s name or address; localhost means its local socket [env: DBLOCK_HOST]')
            [CompletionResult]::new('--port', '--port', [CompletionResultType]::ParameterName, 'The server''s TCP port [env: DBLOCK_PORT] [default: 3306]')
            [CompletionResult]::new('--user', '--user', [CompletionResultType]::ParameterName, 'The account [env: DBLOCK_USER] [default: the name of the OS user]')
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'The server''s local socket [env: DBLOCK_SOCKET]')
            [CompletionResult]::new('--protocol', '--protocol', [CompletionResultType]::ParameterName, 'How localhost is reached; by its socket if not given [env: DBLOCK_PROTOCOL]')
            [CompletionResult]::new('--password-file', '--password-file', [CompletionResultType]::ParameterName, 'A file whose first line is the password [env, the password itself: DBLOCK_PASSWORD, MYSQL_PWD]')
            [CompletionResult]::new('--database', '--database', [CompletionResultType]::ParameterName, 'The database with dblock''s tables, for what needs them; also the path of the URL [env: DBLOCK_DATABASE] [default: dblock]')
            [CompletionResult]::new('--defaults-file', '--defaults-file', [CompletionResultType]::ParameterName, 'Read only this MySQL option file')
            [CompletionResult]::new('--defaults-extra-file', '--defaults-extra-file', [CompletionResultType]::ParameterName, 'Also read this option file, before ~/.my.cnf')
            [CompletionResult]::new('--defaults-group-suffix', '--defaults-group-suffix', [CompletionResultType]::ParameterName, 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]')
            [CompletionResult]::new('--ssl-mode', '--ssl-mode', [CompletionResultType]::ParameterName, 'Whether the connection is encrypted, as in the mysql client: if the server can; always; and only to a server whose certificate is signed by a trusted CA; and only if it is also for the host''s name or address. Without it --ssl-ca means verify-ca [env: DBLOCK_SSL_MODE] [default: preferred]')
            [CompletionResult]::new('--ssl-ca', '--ssl-ca', [CompletionResultType]::ParameterName, 'A file with the certificates of the CAs to trust, in PEM, in place of the system''s [env: DBLOCK_SSL_CA]')
            [CompletionResult]::new('--ssl-cert', '--ssl-cert', [CompletionResultType]::ParameterName, 'A file with dblock''s own certificate, and those between it and its CA, in PEM [env: DBLOCK_SSL_CERT]')
            [CompletionResult]::new('--ssl-key', '--ssl-key', [CompletionResultType]::ParameterName, 'A file with the private key of that certificate, in PEM [env: DBLOCK_SSL_KEY]')
            [CompletionResult]::new('--server-public-key-path', '--server-public-key-path', [CompletionResultType]::ParameterName, 'A file with the server''s public key, in PEM, for a password that travels without TLS; without it the key that the server sends is trusted [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]')
            [CompletionResult]::new('--connect-timeout', '--connect-timeout', [CompletionResultType]::ParameterName, 'How long to try to reach a server: resolve names, try hosts, log in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print JSON in place of the table')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--no-defaults', '--no-defaults', [CompletionResultType]::ParameterName, 'Read no option file')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'dblock;queue;show' {
            [CompletionResult]::new('--url', '--url', [CompletionResultType]::ParameterName, 'All in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock [env: DBLOCK_URL]')
            [CompletionResult]::new('--host', '--host', [CompletionResultType]::ParameterName, 'The server''s name or address; localhost means its local socket [env: DBLOCK_HOST]')
            [CompletionResult]::new('--port', '--port', [CompletionResultType]::ParameterName, 'The server''s TCP port [env: DBLOCK_PORT] [default: 3306]')
            [CompletionResult]::new('--user', '--user', [CompletionResultType]::ParameterName, 'The account [env: DBLOCK_USER] [default: the name of the OS user]')
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'The server''s local socket [env: DBLOCK_SOCKET]')
            [CompletionResult]::new('--protocol', '--protocol', [CompletionResultType]::ParameterName, 'How localhost is reached; by its socket if not given [env: DBLOCK_PROTOCOL]')
            [CompletionResult]::new('--password-file', '--password-file', [CompletionResultType]::ParameterName, 'A file whose first line is the password [env, the password itself: DBLOCK_PASSWORD, MYSQL_PWD]')
            [CompletionResult]::new('--database', '--database', [CompletionResultType]::ParameterName, 'The database with dblock''s tables, for what needs them; also the path of the URL [env: DBLOCK_DATABASE] [default: dblock]')
            [CompletionResult]::new('--defaults-file', '--defaults-file', [CompletionResultType]::ParameterName, 'Read only this MySQL option file')
            [CompletionResult]::new('--defaults-extra-file', '--defaults-extra-file', [CompletionResultType]::ParameterName, 'Also read this option file, before ~/.my.cnf')
            [CompletionResult]::new('--defaults-group-suffix', '--defaults-group-suffix', [CompletionResultType]::ParameterName, 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]')
            [CompletionResult]::new('--ssl-mode', '--ssl-mode', [CompletionResultType]::ParameterName, 'Whether the connection is encrypted, as in the mysql client: if the server can; always; and only to a server whose certificate is signed by a trusted CA; and only if it is also for the host''s name or address. Without it --ssl-ca means verify-ca [env: DBLOCK_SSL_MODE] [default: preferred]')
            [CompletionResult]::new('--ssl-ca', '--ssl-ca', [CompletionResultType]::ParameterName, 'A file with the certificates of the CAs to trust, in PEM, in place of the system''s [env: DBLOCK_SSL_CA]')
            [CompletionResult]::new('--ssl-cert', '--ssl-cert', [CompletionResultType]::ParameterName, 'A file with dblock''s own certificate, and those between it and its CA, in PEM [env: DBLOCK_SSL_CERT]')
            [CompletionResult]::new('--ssl-key', '--ssl-key', [CompletionResultType]::ParameterName, 'A file with the private key of that certificate, in PEM [env: DBLOCK_SSL_KEY]')
            [CompletionResult]::new('--server-public-key-path', '--server-public-key-path', [CompletionResultType]::ParameterName, 'A file with the server''s public key, in PEM, for a password that travels without TLS; without it the key that the server sends is trusted [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]')
            [CompletionResult]::new('--connect-timeout', '--connect-timeout', [CompletionResultType]::ParameterName, 'How long to try to reach a server: resolve names, try hosts, log in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]')
            [CompletionResult]::new('--payload', '--payload', [CompletionResultType]::ParameterName, 'Write the payload to stdout as it is, and nothing else')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print JSON in place of the table')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--no-defaults', '--no-defaults', [CompletionResultType]::ParameterName, 'Read no option file')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'dblock;queue;retry' {
            [CompletionResult]::new('--url', '--url', [CompletionResultType]::ParameterName, 'All in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock [env: DBLOCK_URL]')
            [CompletionResult]::new('--host', '--host', [CompletionResultType]::ParameterName, 'The server''s name or address; localhost means its local socket [env: DBLOCK_HOST]')
            [CompletionResult]::new('--port', '--port', [CompletionResultType]::ParameterName, 'The server''s TCP port [env: DBLOCK_PORT] [default: 3306]')
            [CompletionResult]::new('--user', '--user', [CompletionResultType]::ParameterName, 'The account [env: DBLOCK_USER] [default: the name of the OS user]')
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'The server''s local socket [env: DBLOCK_SOCKET]')
            [CompletionResult]::new('--protocol', '--protocol', [CompletionResultType]::ParameterName, 'How localhost is reached; by its socket if not given [env: DBLOCK_PROTOCOL]')
            [CompletionResult]::new('--password-file', '--password-file', [CompletionResultType]::ParameterName, 'A file whose first line is the password [env, the password itself: DBLOCK_PASSWORD, MYSQL_PWD]')
            [CompletionResult]::new('--database', '--database', [CompletionResultType]::ParameterName, 'The database with dblock''s tables, for what needs them; also the path of the URL [env: DBLOCK_DATABASE] [default: dblock]')
            [CompletionResult]::new('--defaults-file', '--defaults-file', [CompletionResultType]::ParameterName, 'Read only this MySQL option file')
            [CompletionResult]::new('--defaults-extra-file', '--defaults-extra-file', [CompletionResultType]::ParameterName, 'Also read this option file, before ~/.my.cnf')
            [CompletionResult]::new('--defaults-group-suffix', '--defaults-group-suffix', [CompletionResultType]::ParameterName, 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]')
            [CompletionResult]::new('--ssl-mode', '--ssl-mode', [CompletionResultType]::ParameterName, 'Whether the connection is encrypted, as in the mysql client: if the server can; always; and only to a server whose certificate is signed by a trusted CA; and only if it is also for the host''s name or address. Without it --ssl-ca means verify-ca [env: DBLOCK_SSL_MODE] [default: preferred]')
            [CompletionResult]::new('--ssl-ca', '--ssl-ca', [CompletionResultType]::ParameterName, 'A file with the certificates of the CAs to trust, in PEM, in place of the system''s [env: DBLOCK_SSL_CA]')
            [CompletionResult]::new('--ssl-cert', '--ssl-cert', [CompletionResultType]::ParameterName, 'A file with dblock''s own certificate, and those between it and its CA, in PEM [env: DBLOCK_SSL_CERT]')
            [CompletionResult]::new('--ssl-key', '--ssl-key', [CompletionResultType]::ParameterName, 'A file with the private key of that certificate, in PEM [env: DBLOCK_SSL_KEY]')
            [CompletionResult]::new('--server-public-key-path', '--server-public-key-path', [CompletionResultType]::ParameterName, 'A file with the server''s public key, in PEM, for a password that travels without TLS; without it the key that the server sends is trusted [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]')
            [CompletionResult]::new('--connect-timeout', '--connect-timeout', [CompletionResultType]::ParameterName, 'How long to try to reach a server: resolve names, try hosts, log in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]')
            [CompletionResult]::new('--dead', '--dead', [CompletionResultType]::ParameterName, 'All jobs of the queue that are dead')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--no-defaults', '--no-defaults', [CompletionResultType]::ParameterName, 'Read no option file')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'dblock;queue;cancel' {
            [CompletionResult]::new('--url', '--url', [CompletionResultType]::ParameterName, 'All in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock [env: DBLOCK_URL]')
            [CompletionResult]::new('--host', '--host', [CompletionResultType]::ParameterName, 'The server''s name or address; localhost means its local socket [env: DBLOCK_HOST]')
            [CompletionResult]::new('--port', '--port', [CompletionResultType]::ParameterName, 'The server''s TCP port [env: DBLOCK_PORT] [default: 3306]')
            [CompletionResult]::new('--user', '--user', [CompletionResultType]::ParameterName, 'The account [env: DBLOCK_USER] [default: the name of the OS user]')
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'The server''s local socket [env: DBLOCK_SOCKET]')
            [CompletionResult]::new('--protocol', '--protocol', [CompletionResultType]::ParameterName, 'How localhost is reached; by its socket if not given [env: DBLOCK_PROTOCOL]')
            [CompletionResult]::new('--password-file', '--password-file', [CompletionResultType]::ParameterName, 'A file whose first line is the password [env, the password itself: DBLOCK_PASSWORD, MYSQL_PWD]')
            [CompletionResult]::new('--database', '--database', [CompletionResultType]::ParameterName, 'The database with dblock''s tables, for what needs them; also the path of the URL [env: DBLOCK_DATABASE] [default: dblock]')
            [CompletionResult]::new('--defaults-file', '--defaults-file', [CompletionResultType]::ParameterName, 'Read only this MySQL option file')
            [CompletionResult]::new('--defaults-extra-file', '--defaults-extra-file', [CompletionResultType]::ParameterName, 'Also read this option file, before ~/.my.cnf')
            [CompletionResult]::new('--defaults-group-suffix', '--defaults-group-suffix', [CompletionResultType]::ParameterName, 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]')
            [CompletionResult]::new('--ssl-mode', '--ssl-mode', [CompletionResultType]::ParameterName, 'Whether the connection is encrypted, as in the mysql client: if the server can; always; and only to a server whose certificate is signed by a trusted CA; and only if it is also for the host''s name or address. Without it --ssl-ca means verify-ca [env: DBLOCK_SSL_MODE] [default: preferred]')
            [CompletionResult]::new('--ssl-ca', '--ssl-ca', [CompletionResultType]::ParameterName, 'A file with the certificates of the CAs to trust, in PEM, in place of the system''s [env: DBLOCK_SSL_CA]')
            [CompletionResult]::new('--ssl-cert', '--ssl-cert', [CompletionResultType]::ParameterName, 'A file with dblock''s own certificate, and those between it and its CA, in PEM [env: DBLOCK_SSL_CERT]')
            [CompletionResult]::new('--ssl-key', '--ssl-key', [CompletionResultType]::ParameterName, 'A file with the private key of that certificate, in PEM [env: DBLOCK_SSL_KEY]')
            [CompletionResult]::new('--server-public-key-path', '--server-public-key-path', [CompletionResultType]::ParameterName, 'A file with the server''s public key, in PEM, for a password that travels without TLS; without it the key that the server sends is trusted [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]')
            [CompletionResult]::new('--connect-timeout', '--connect-timeout', [CompletionResultType]::ParameterName, 'How long to try to reach a server: resolve names, try hosts, log in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--no-defaults', '--no-defaults', [CompletionResultType]::ParameterName, 'Read no option file')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'dblock;queue;pause' {
            [CompletionResult]::new('--url', '--url', [CompletionResultType]::ParameterName, 'All in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock [env: DBLOCK_URL]')
            [CompletionResult]::new('--host', '--host', [CompletionResultType]::ParameterName, 'The server''s name or address; localhost means its local socket [env: DBLOCK_HOST]')
            [CompletionResult]::new('--port', '--port', [CompletionResultType]::ParameterName, 'The server''s TCP port [env: DBLOCK_PORT] [default: 3306]')
            [CompletionResult]::new('--user', '--user', [CompletionResultType]::ParameterName, 'The account [env: DBLOCK_USER] [default: the name of the OS user]')
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'The server''s local socket [env: DBLOCK_SOCKET]')
            [CompletionResult]::new('--protocol', '--protocol', [CompletionResultType]::ParameterName, 'How localhost is reached; by its socket if not given [env: DBLOCK_PROTOCOL]')
            [CompletionResult]::new('--password-file', '--password-file', [CompletionResultType]::ParameterName, 'A file whose first line is the password [env, the password itself: DBLOCK_PASSWORD, MYSQL_PWD]')
            [CompletionResult]::new('--database', '--database', [CompletionResultType]::ParameterName, 'The database with dblock''s tables, for what needs them; also the path of the URL [env: DBLOCK_DATABASE] [default: dblock]')
            [CompletionResult]::new('--defaults-file', '--defaults-file', [CompletionResultType]::ParameterName, 'Read only this MySQL option file')
            [CompletionResult]::new('--defaults-extra-file', '--defaults-extra-file', [CompletionResultType]::ParameterName, 'Also read this option file, before ~/.my.cnf')
            [CompletionResult]::new('--defaults-group-suffix', '--defaults-group-suffix', [CompletionResultType]::ParameterName, 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]')
            [CompletionResult]::new('--ssl-mode', '--ssl-mode', [CompletionResultType]::ParameterName, 'Whether the connection is encrypted, as in the mysql client: if the server can; always; and only to a server whose certificate is signed by a trusted CA; and only if it is also for the host''s name or address. Without it --ssl-ca means verify-ca [env: DBLOCK_SSL_MODE] [default: preferred]')
            [CompletionResult]::new('--ssl-ca', '--ssl-ca', [CompletionResultType]::ParameterName, 'A file with the certificates of the CAs to trust, in PEM, in place of the system''s [env: DBLOCK_SSL_CA]')
            [CompletionResult]::new('--ssl-cert', '--ssl-cert', [CompletionResultType]::ParameterName, 'A file with dblock''s own certificate, and those between it and its CA, in PEM [env: DBLOCK_SSL_CERT]')
            [CompletionResult]::new('--ssl-key', '--ssl-key', [CompletionResultType]::ParameterName, 'A file with the private key of that certificate, in PEM [env: DBLOCK_SSL_KEY]')
            [CompletionResult]::new('--server-public-key-path', '--server-public-key-path', [CompletionResultType]::ParameterName, 'A file with the server''s public key, in PEM, for a password that travels without TLS; without it the key that the server sends is trusted [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]')
            [CompletionResult]::new('--connect-timeout', '--connect-timeout', [CompletionResultType]::ParameterName, 'How long to try to reach a server: resolve names, try hosts, log in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--no-defaults', '--no-defaults', [CompletionResultType]::ParameterName, 'Read no option file')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'dblock;queue;resume' {
            [CompletionResult]::new('--url', '--url', [CompletionResultType]::ParameterName, 'All in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock [env: DBLOCK_URL]')
            [CompletionResult]::new('--host', '--host', [CompletionResultType]::ParameterName, 'The server''s name or address; localhost means its local socket [env: DBLOCK_HOST]')
            [CompletionResult]::new('--port', '--port', [CompletionResultType]::ParameterName, 'The server''s TCP port [env: DBLOCK_PORT] [default: 3306]')
            [CompletionResult]::new('--user', '--user', [CompletionResultType]::ParameterName, 'The account [env: DBLOCK_USER] [default: the name of the OS user]')
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'The server''s local socket [env: DBLOCK_SOCKET]')
            [CompletionResult]::new('--protocol', '--protocol', [CompletionResultType]::ParameterName, 'How localhost is reached; by its socket if not given [env: DBLOCK_PROTOCOL]')
            [CompletionResult]::new('--password-file', '--password-file', [CompletionResultType]::ParameterName, 'A file whose first line is the password [env, the password itself: DBLOCK_PASSWORD, MYSQL_PWD]')
            [CompletionResult]::new('--database', '--database', [CompletionResultType]::ParameterName, 'The database with dblock''s tables, for what needs them; also the path of the URL [env: DBLOCK_DATABASE] [default: dblock]')
            [CompletionResult]::new('--defaults-file', '--defaults-file', [CompletionResultType]::ParameterName, 'Read only this MySQL option file')
            [CompletionResult]::new('--defaults-extra-file', '--defaults-extra-file', [CompletionResultType]::ParameterName, 'Also read this option file, before ~/.my.cnf')
            [CompletionResult]::new('--defaults-group-suffix', '--defaults-group-suffix', [CompletionResultType]::ParameterName, 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]')
            [CompletionResult]::new('--ssl-mode', '--ssl-mode', [CompletionResultType]::ParameterName, 'Whether the connection is encrypted, as in the mysql client: if the server can; always; and only to a server whose certificate is signed by a trusted CA; and only if it is also for the host''s name or address. Without it --ssl-ca means verify-ca [env: DBLOCK_SSL_MODE] [default: preferred]')
            [CompletionResult]::new('--ssl-ca', '--ssl-ca', [CompletionResultType]::ParameterName, 'A file with the certificates of the CAs to trust, in PEM, in place of the system''s [env: DBLOCK_SSL_CA]')
            [CompletionResult]::new('--ssl-cert', '--ssl-cert', [CompletionResultType]::ParameterName, 'A file with dblock''s own certificate, and those between it and its CA, in PEM [env: DBLOCK_SSL_CERT]')
            [CompletionResult]::new('--ssl-key', '--ssl-key', [CompletionResultType]::ParameterName, 'A file with the private key of that certificate, in PEM [env: DBLOCK_SSL_KEY]')
            [CompletionResult]::new('--server-public-key-path', '--server-public-key-path', [CompletionResultType]::ParameterName, 'A file with the server''s public key, in PEM, for a password that travels without TLS; without it the key that the server sends is trusted [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]')
            [CompletionResult]::new('--connect-timeout', '--connect-timeout', [CompletionResultType]::ParameterName, 'How long to try to reach a server: resolve names, try hosts, log in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--no-defaults', '--no-defaults', [CompletionResultType]::ParameterName, 'Read no option file')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'dblock;queue;delete' {
            [CompletionResult]::new('--url', '--url', [CompletionResultType]::ParameterName, 'All in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock [env: DBLOCK_URL]')
            [CompletionResult]::new('--host', '--host', [CompletionResultType]::ParameterName, 'The server''s name or address; localhost means its local socket [env: DBLOCK_HOST]')
            [CompletionResult]::new('--port', '--port', [CompletionResultType]::ParameterName, 'The server''s TCP port [env: DBLOCK_PORT] [default: 3306]')
            [CompletionResult]::new('--user', '--user', [CompletionResultType]::ParameterName, 'The account [env: DBLOCK_USER] [default: the name of the OS user]')
            [CompletionResult]::new('--socket', '--socket', [CompletionResultType]::ParameterName, 'The server''s local socket [env: DBLOCK_SOCKET]')
            [CompletionResult]::new('--protocol', '--protocol', [CompletionResultType]::ParameterName, 'How localhost is reached; by its socket if not given [env: DBLOCK_PROTOCOL]')
            [CompletionResult]::new('--password-file', '--password-file', [CompletionResultType]::ParameterName, 'A file whose first line is the password [env, the password itself: DBLOCK_PASSWORD, MYSQL_PWD]')
            [CompletionResult]::new('--database', '--database', [CompletionResultType]::ParameterName, 'The database with dblock''s tables, for what needs them; also the path of the URL [env: DBLOCK_DATABASE] [default: dblock]')
            [CompletionResult]::new('--defaults-file', '--defaults-file', [CompletionResultType]::ParameterName, 'Read only this MySQL option file')
            [CompletionResult]::new('--defaults-extra-file', '--defaults-extra-file', [CompletionResultType]::ParameterName, 'Also read this option file, before ~/.my.cnf')
            [CompletionResult]::new('--defaults-group-suffix', '--defaults-group-suffix', [CompletionResultType]::ParameterName, 'Also read the groups [client…] and [dblock…] whose names end in this [env: MYSQL_GROUP_SUFFIX]')
            [CompletionResult]::new('--ssl-mode', '--ssl-mode', [CompletionResultType]::ParameterName, 'Whether the connection is encrypted, as in the mysql client: if the server can; always; and only to a server whose certificate is signed by a trusted CA; and only if it is also for the host''s name or address. Without it --ssl-ca means verify-ca [env: DBLOCK_SSL_MODE] [default: preferred]')
            [CompletionResult]::new('--ssl-ca', '--ssl-ca', [CompletionResultType]::ParameterName, 'A file with the certificates of the CAs to trust, in PEM, in place of the system''s [env: DBLOCK_SSL_CA]')
            [CompletionResult]::new('--ssl-cert', '--ssl-cert', [CompletionResultType]::ParameterName, 'A file with dblock''s own certificate, and those between it and its CA, in PEM [env: DBLOCK_SSL_CERT]')
            [CompletionResult]::new('--ssl-key', '--ssl-key', [CompletionResultType]::ParameterName, 'A file with the private key of that certificate, in PEM [env: DBLOCK_SSL_KEY]')
            [CompletionResult]::new('--server-public-key-path', '--server-public-key-path', [CompletionResultType]::ParameterName, 'A file with the server''s public key, in PEM, for a password that travels without TLS; without it the key that the server sends is trusted [env: DBLOCK_SERVER_PUBLIC_KEY_PATH]')
            [CompletionResult]::new('--connect-timeout', '--connect-timeout', [CompletionResultType]::ParameterName, 'How long to try to reach a server: resolve names, try hosts, log in [env: DBLOCK_CONNECT_TIMEOUT] [default: 10s]')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Log errors only')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Log what is done and how long it took; twice: every statement, never a password')
            [CompletionResult]::new('--no-defaults', '--no-defaults', [CompletionResultType]::ParameterName, 'Read no option file')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'dblock;queue;help' {
            [CompletionResult]::new('create', 'create', [CompletionResultType]::ParameterValue, 'Create a queue')
            [CompletionResult]::new('put', 'put', [CompletionResultType]::ParameterValue, 'Put jobs into a queue, and print their ids')
            [CompletionResult]::new('work', 'work', [CompletionResultType]::ParameterValue, 'Run a command for each job of a queue')
            [CompletionResult]::new('status', 'status', [CompletionResultType]::ParameterValue, 'Show how many jobs are due, and who works on them')
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'Show the jobs of a queue')
            [CompletionResult]::new('show', 'show', [CompletionResultType]::ParameterValue, 'Show all about a job, or its payload')
            [CompletionResult]::new('retry', 'retry', [CompletionResultType]::ParameterValue, 'Try dead and delayed jobs now')
            [CompletionResult]::new('cancel', 'cancel', [CompletionResultType]::ParameterValue, 'Delete jobs that wait, and let those that run not run again')
            [CompletionResult]::new('pause', 'pause', [CompletionResultType]::ParameterValue, 'Have workers claim no more jobs of a queue for now')
            [CompletionResult]::new('resume', 'resume', [CompletionResultType]::ParameterValue, 'Have workers claim jobs of a queue again')
            [CompletionResult]::new('delete', 'delete', [CompletionResultType]::ParameterValue, 'Delete a queue with all of its jobs')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'dblock;queue;help;create' {
            break
        }
        'dblock;queue;help;put' {
            break
        }
        'dblock;queue;help;work' {
            break
        }
        'dblock;queue;help;status' {
            break
        }
        'dblock;queue;help;list' {
            break
        }
        'dblock;queue;help;show' {
            break
        }
        'dblock;queue;help;retry' {
            break
        }
        'dblock;queue;help;cancel' {
            break
        }
        'dblock;queue;help;pause' {
            break
        }
        'dblock;queue;help;resume' {
            break
        }
        'dblock;queue;help;delete' {
            break
        }
        'dblock;queue;help;help' {
            break
        }
        'dblock;help' {
            [CompletionResult]::new('run', 'run', [CompletionResultType]::ParameterValue, 'Run a command while holding a lock, and exit as it exited')
            [CompletionResult]::new('status', 'status', [CompletionResultType]::ParameterValue, 'Show who holds a lock, who waits for it, and for how long')
            [CompletionResult]::new('kill', 'kill', [CompletionResultType]::ParameterValue, 'End the holder of a lock, and its command')
            [CompletionResult]::new('check', 'check', [CompletionResultType]::ParameterValue, 'Check whether a server is fit to lock on, and how fast it is')
            [CompletionResult]::new('config', 'config', [CompletionResultType]::ParameterValue, 'Print every setting in force and where it comes from')
            [CompletionResult]::new('init', 'init', [CompletionResultType]::ParameterValue, 'Create dblock''s tables, or upgrade them')
            [CompletionResult]::new('acquire', 'acquire', [CompletionResultType]::ParameterValue, 'Acquire a lock that spans several commands of a script, and print its token')
            [CompletionResult]::new('renew', 'renew', [CompletionResultType]::ParameterValue, 'Hold a lock of dblock acquire for longer')
            [CompletionResult]::new('release', 'release', [CompletionResultType]::ParameterValue, 'Release a lock of dblock acquire')
            [CompletionResult]::new('history', 'history', [CompletionResultType]::ParameterValue, 'Show what ran where, when, and how it ended')
            [CompletionResult]::new('cron', 'cron', [CompletionResultType]::ParameterValue, 'One crontab for all hosts')
            [CompletionResult]::new('queue', 'queue', [CompletionResultType]::ParameterValue, 'A queue of jobs that a command works off, on all hosts')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'dblock;help;run' {
            break
        }
        'dblock;help;status' {
            break
        }
        'dblock;help;kill' {
            break
        }
        'dblock;help;check' {
            break
        }
        'dblock;help;config' {
            break
        }
        'dblock;help;init' {
            break
        }
        'dblock;help;acquire' {
            break
        }
        'dblock;help;renew' {
            break
        }
        'dblock;help;release' {
            break
        }
        'dblock;help;history' {
            break
        }
        'dblock;help;cron' {
            [CompletionResult]::new('run', 'run', [CompletionResultType]::ParameterValue, 'Run the jobs of a crontab, each tick on one of all hosts')
            [CompletionResult]::new('check', 'check', [CompletionResultType]::ParameterValue, 'Check a crontab, and show when its jobs are due')
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'Show each job: when it is due, when and where it ran last, and how that ended')
            [CompletionResult]::new('pause', 'pause', [CompletionResultType]::ParameterValue, 'Have a job not run at its ticks until it is resumed')
            [CompletionResult]::new('resume', 'resume', [CompletionResultType]::ParameterValue, 'Have a paused job run at its ticks again')
            [CompletionResult]::new('trigger', 'trigger', [CompletionResultType]::ParameterValue, 'Run a job once now, besides its ticks')
            break
        }
        'dblock;help;cron;run' {
            break
        }
        'dblock;help;cron;check' {
            break
        }
        'dblock;help;cron;list' {
            break
        }
        'dblock;help;cron;pause' {
            break
        }
        'dblock;help;cron;resume' {
            break
        }
        'dblock;help;cron;trigger' {
            break
        }
        'dblock;help;queue' {
            [CompletionResult]::new('create', 'create', [CompletionResultType]::ParameterValue, 'Create a queue')
            [CompletionResult]::new('put', 'put', [CompletionResultType]::ParameterValue, 'Put jobs into a queue, and print their ids')
            [CompletionResult]::new('work', 'work', [CompletionResultType]::ParameterValue, 'Run a command for each job of a queue')
            [CompletionResult]::new('status', 'status', [CompletionResultType]::ParameterValue, 'Show how many jobs are due, and who works on them')
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'Show the jobs of a queue')
            [CompletionResult]::new('show', 'show', [CompletionResultType]::ParameterValue, 'Show all about a job, or its payload')
            [CompletionResult]::new('retry', 'retry', [CompletionResultType]::ParameterValue, 'Try dead and delayed jobs now')
            [CompletionResult]::new('cancel', 'cancel', [CompletionResultType]::ParameterValue, 'Delete jobs that wait, and let those that run not run again')
            [CompletionResult]::new('pause', 'pause', [CompletionResultType]::ParameterValue, 'Have workers claim no more jobs of a queue for now')
            [CompletionResult]::new('resume', 'resume', [CompletionResultType]::ParameterValue, 'Have workers claim jobs of a queue again')
            [CompletionResult]::new('delete', 'delete', [CompletionResultType]::ParameterValue, 'Delete a queue with all of its jobs')
            break
        }
        'dblock;help;queue;create' {
            break
        }
        'dblock;help;queue;put' {
            break
        }
        'dblock;help;queue;work' {
            break
        }
        'dblock;help;queue;status' {
            break
        }
        'dblock;help;queue;list' {
            break
        }
        'dblock;help;queue;show' {
            break
        }
        'dblock;help;queue;retry' {
            break
        }
        'dblock;help;queue;cancel' {
            break
        }
        'dblock;help;queue;pause' {
            break
        }
        'dblock;help;queue;resume' {
            break
        }
        'dblock;help;queue;delete' {
            break
        }
        'dblock;help;help' {
            break
        }
    })

    $completions.Where{ $_.CompletionText -like "$wordToComplete*" } |
        Sort-Object -Property ListItemText
}
