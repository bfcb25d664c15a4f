# shellcheck shell=bash
# A fresh dblock and a private server, which is gone when the script ends. Sourced by the scripts that show dblock at work.

# shellcheck source=script/lib/servers.sh
. script/lib/servers.sh

# private_server mariadb|postgres OPTION...: builds dblock, starts the server with these options, exports DBLOCK_URL and DBLOCK_PASSWORD;
# $dir is a scratch folder, and the home from now on.
private_server() {
    local line builds kind=$1
    dir='' server_pid='' server_in=''
    trap clean_up EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    script/bootstrap "$([[ $kind == postgres ]] && echo postgres || echo server)" >&2
    cargo build --release --locked
    builds=$(find_builds)

    # No signal comes between the folder and its name.
    dir=$(trap '' HUP INT TERM && mktemp -d "${TMPDIR:-/tmp}/dblock-XXXXXX")
    # Ctrl-C would reach it, too, and it is to be the last to end.
    coproc SERVER { exec setsid script/server "$kind" -- "${@:2}"; }
    # The shell forgets these as soon as the server has ended.
    # shellcheck disable=SC2153 # set by coproc
    server_pid=$SERVER_PID server_out=${SERVER[0]} server_in=${SERVER[1]}

    while read -r -u "$server_out" line && [[ $line != ready ]]; do
        if [[ $line == port=* ]]; then server_port=${line#port=}; fi
    done
    [[ ${line:-} == ready ]] || die 'the server did not start'
    # This user's settings are for other servers, and so are this machine's. What cargo has at home stays there.
    write_dblock "$builds/release/dblock"
    PATH=$dir/bin:$PATH
    unset "${!DBLOCK_@}" "${!PG@}" "${!MYSQL_@}" MARIADB_HOME
    export CARGO_HOME=${CARGO_HOME:-$HOME/.cargo} RUSTUP_HOME=${RUSTUP_HOME:-$HOME/.rustup} HOME=$dir
    case $kind in
        mariadb) export DBLOCK_URL=mysql://dblock@127.0.0.1:$server_port/ ;;
        postgres) export DBLOCK_URL=postgres://dblock@127.0.0.1:$server_port/app ;;
    esac
    export DBLOCK_PASSWORD=dblock-secret
}

# write_dblock PROGRAM: a dblock that reads no option file, such as /etc/my.cnf, for which there is no variable. `cron check` never reads
# one.
write_dblock() {
    mkdir "$dir/bin"
    cat >"$dir/bin/dblock" <<DBLOCK
#!/usr/bin/env bash
case "\${1:-} \${2:-}" in
    'cron check') exec '$1' "\$@" ;;
    'cron '* | 'queue '*) words=2 ;;
    *) words=1 ;;
esac
exec '$1' "\${@:1:words}" --no-defaults "\${@:words+1}"
DBLOCK
    chmod +x "$dir/bin/dblock"
}

clean_up() {
    trap '' HUP INT TERM
    local jobs signal=TERM end=$((SECONDS + 10))
    # While the server is there: without it they end later. The first signal has a daemon wait for its commands, the next ones end those.
    while jobs=$(jobs -pr | grep -vx "$server_pid"); do
        if ((SECONDS > end)); then signal=KILL; fi
        # shellcheck disable=SC2086 # one word for each
        kill -"$signal" $jobs 2>/dev/null || true
        sleep 0.2
    done
    if [[ $server_in ]]; then exec {server_in}>&-; fi # the end of its stdin ends it
    wait || true
    rm -rf "$dir"
}

# until_true WHAT COMMAND...: waits for a condition, not for a time.
until_true() {
    local deadline=$((SECONDS + 20))
    until "${@:2}"; do
        ((SECONDS < deadline)) || die "waited in vain for: $1"
        sleep 0.02
    done
}

# Whether the server has so many connections. Every dblock that holds or waits has one.
sessions() {
    local port
    port=$(printf ':%04X' "$server_port")
    [[ $(awk -v port="$port" '$4 == "01" && index($3, port)' /proc/net/tcp | wc -l) == "$1" ]]
}

# "${on[@]}" HOST COMMAND...: runs it on a host of that name. No function: a signal to it in the background must reach the command.
# shellcheck disable=SC2016,SC2034 # the arguments of that sh; used by the scripts
on=(unshare --user --map-root-user --uts sh -c 'hostname "$1" && shift && exec "$@"' sh)

# expect CODE PROMISED: the exit code is the one that dblock promises.
expect() { [[ $1 == "$2" ]] || die "exit code $1 where $2 was promised"; }
