# shellcheck shell=bash
# shellcheck disable=SC2154 # what private.sh has set
# A fleet to look at: three hosts with one crontab, two queues and some locks; much is well, and some is not. Sourced after private.sh.

# The hours of the day at which each job of the crontab runs, and what it does: a command sleeps for a second where a real one works for
# half an hour and more. Commands start in HOME.
fleet_crontab() {
    cat <<'CRONTAB'
CRON_TZ=UTC
#: backup-orders
30 1 * * *  echo 'orders: 4.2 GB'; sleep 0.9
#: backup-customers
0 2 * * *  echo 'customers: 1.1 GB'; sleep 0.4
#: check-certificates
0 6 * * *  sleep 0.05
#: import-prices
5 * * * *  echo 'GET https://prices.example.com/today.csv'; if [ $(($(cat hour) \% 7)) = 3 ]; then echo 'curl: (22) The requested URL returned error: 503' >&2; exit 22; fi; sleep 0.2
#: invoices
0 3 * * *  echo 'invoice 2026-114: the customer has no address' >&2; exit 3
#: mail-digest
0 7 * * 1-5  sleep 0.3
#: nightly-report --timeout 500ms --kill-after 100ms
0 4 * * *  echo 'reading 1200 orders'; sleep 20
#: prune-sessions
20 * * * *  sleep 0.05
#: reindex
40 */3 * * *  sleep 1.1
#: rotate-keys
15 5 * * 1  sleep 0.1
#: sync-stock
10 */2 * * *  sleep 0.5
#: warm-cache
50 * * * *  sleep 0.1
CRONTAB
}

# fleet_with_page OPTION...: the server, the fleet, its day, and the page with these options: it is $!, its URL is in $dir/url.
fleet_with_page() {
    can_unshare --user --map-root-user --uts || exit
    # MariaDB can name a holder only with this.
    private_server mariadb --performance-schema=ON
    cargo build --release --locked --package dblock-web
    start_fleet
    play_a_day >/dev/null
    dblock web --listen 127.0.0.1:0 "$@" >"$dir/url" &
    until_true 'the address of the page' test -s "$dir/url"
}

# start_fleet: in the folder $dir.
start_fleet() {
    local host
    export DBLOCK_USER=admin DBLOCK_PASSWORD=admin-secret
    dblock init >/dev/null
    cd "$dir" || exit
    echo 0 >hour
    fleet_crontab >fleet.crontab
    # web3 has a file of its own.
    sed 's/^15 5 /15 6 /' fleet.crontab >web3.crontab
    for host in web1 web2; do "${on[@]}" "$host" dblock cron run fleet.crontab &>/dev/null & done
    until_true 'the job to be known' fleet_knows rotate-keys
    "${on[@]}" web3 dblock cron run web3.crontab &>/dev/null &
    dblock queue create mails --max-attempts 2 --retry-delay 1s >/dev/null
    dblock queue create thumbnails >/dev/null
    cat >send-mail <<'JOB'
#!/bin/sh
to=$(cat)
case $to in
*@invalid) echo 'smtp: 550 no such user' >&2 && exit 1 ;;
esac
sleep 0.05
JOB
    chmod +x send-mail
    seq 400 | sed 's/$/@example.com/' | dblock queue put mails --lines >/dev/null
    dblock queue put mails jane@invalid joe@invalid jim@invalid >/dev/null
    seq 60 | dblock queue put thumbnails --lines >/dev/null
    seq 12 | dblock queue put thumbnails --lines --delay 1h >/dev/null
    for host in web1 web2; do "${on[@]}" "$host" dblock queue work mails -- ./send-mail &>/dev/null & done
    "${on[@]}" web3 dblock run --name migrate --record -- sleep infinity &>/dev/null &
    until_true 'the migration to run' fleet_holds migrate
    for host in web1 web2; do "${on[@]}" "$host" dblock run --name migrate --wait 1h -- true &>/dev/null & done
}

fleet_knows() { dblock cron list | grep -q "^$1 "; }
fleet_holds() { dblock status --json | jq -e --arg name "$1" '.locks[] | select(.name == $name and .holders != [])' >/dev/null; }

# play_a_day: the jobs run as they would in a day, an hour in two seconds. Then their times are stretched to what they stand for.
play_a_day() {
    local hour end job second=$SECONDS
    local -A at=([backup-orders]=1 [backup-customers]=2 [check-certificates]=6 [invoices]=3 [mail-digest]=7 [nightly-report]=4)
    # The last hour is the present one.
    end=$(date -u +%-H)
    for ((hour = end - 23; hour <= end; hour++)); do
        echo $(((hour + 24) % 24)) >hour
        for job in "${!at[@]}"; do
            if ((at[$job] == (hour + 24) % 24)); then dblock cron trigger "$job" 2>/dev/null; fi
        done
        for job in import-prices prune-sessions warm-cache; do dblock cron trigger "$job" 2>/dev/null; done
        if (((hour + 24) % 2 == 0)); then dblock cron trigger sync-stock 2>/dev/null; fi
        if (((hour + 24) % 3 == 0)); then dblock cron trigger reindex 2>/dev/null; fi
        until_true 'the next hour' fleet_is_past $((second + (hour - end + 24) * 2))
    done
    until_true 'all runs to end' fleet_rests
    MYSQL_PWD=admin-secret mariadb --no-defaults --host 127.0.0.1 --port "$server_port" --user admin --skip-ssl dblock <<'SQL'
SET @now = UTC_TIMESTAMP(6);
UPDATE dblock_runs SET
    tick = @now - INTERVAL 1800 * TIMESTAMPDIFF(MICROSECOND, tick, @now) MICROSECOND,
    acquired_at = @now - INTERVAL 1800 * TIMESTAMPDIFF(MICROSECOND, acquired_at, @now) MICROSECOND,
    started_at = @now - INTERVAL 1800 * TIMESTAMPDIFF(MICROSECOND, started_at, @now) MICROSECOND,
    ended_at = @now - INTERVAL 1800 * TIMESTAMPDIFF(MICROSECOND, ended_at, @now) MICROSECOND,
    requested_at = @now - INTERVAL 1800 * TIMESTAMPDIFF(MICROSECOND, requested_at, @now) MICROSECOND
    WHERE outcome IS NOT NULL;
SQL
    dblock cron pause mail-digest 2>/dev/null
}

fleet_is_past() { ((SECONDS >= $1)); }
fleet_rests() { dblock cron list --json | jq -e '[.jobs[] | .triggered, .under_way[]] | all(. == null)' >/dev/null; }
