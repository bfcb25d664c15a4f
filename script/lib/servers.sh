# shellcheck shell=bash
# Where the database servers, other test programs, and what cargo builds are. Sourced by the scripts next door.

# Debian leaves these folders out of an ordinary user's PATH; the servers and `ip` live there, and rustup's there.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin:$HOME/.cargo/bin
# Galera's servers find wsrep_sst_copy here.
PATH=$PATH:$(realpath "$(dirname "${BASH_SOURCE[0]}")")

# What is unpacked or initialised once and used by every test run.
cache=${XDG_CACHE_HOME:-$HOME/.cache}/dblock

die() {
    echo "${0##*/}: $*" >&2
    exit 1
}

# can_unshare OPTION...: whether such namespaces can be made here; else it says what to do.
can_unshare() {
    local said
    said=$(unshare "$@" true 2>&1) && return
    echo "${0##*/}: cannot make namespaces (${said##*$'\n'}): run it as root, in a container with --privileged; the sysctl" \
        'user.max_user_namespaces must not be 0' >&2
    return 1
}

# Prints the folder that cargo builds in: a variable or a file of settings may name another one than target.
find_builds() { cargo metadata --locked --no-deps --format-version 1 | jq -r .target_directory; }

# What a MariaDB or MySQL server says of its version. To ask takes as long as a part of its start, so the answer is kept for as long as
# the program is the same file.
version_line() {
    local kept line
    kept=$cache/version-$(stat --dereference --format=%i-%Z "$1")
    if [[ ! -s $kept ]]; then
        mkdir -p "$cache"
        "$1" --no-defaults --version >"$kept.$$" 2>/dev/null || true
        mv "$kept.$$" "$kept"
    fi
    read -r line <"$kept" || true
    echo "$line"
}

# Prints the path of a MariaDB server; fails when there is none.
find_mariadb() {
    local program
    for program in mariadbd mysqld; do
        program=$(command -v "$program") || continue
        [[ $(version_line "$program") == *MariaDB* ]] || continue
        echo "$program"
        return
    done
    return 1
}

# Prints the path of an Oracle MySQL server; fails when there is none.
find_mysql() {
    local program
    # An installed mysqld may be MariaDB under its old name, or locked by AppArmor into /var/lib/mysql.
    if program=$(command -v mysqld) &&
        [[ ! -e /etc/apparmor.d/usr.sbin.mysqld ]] &&
        [[ $(version_line "$program") == *Ver* && $(version_line "$program") != *MariaDB* ]]; then
        echo "$program"
    elif [[ -x $cache/mysql/mysqld ]]; then
        echo "$cache/mysql/mysqld"
    else
        return 1
    fi
}

# Prints the version alone, for example 10.11.19-MariaDB-0+deb12u1 or 9.7.4-2.
server_version() {
    local line
    line=$(version_line "$1")
    line=${line##* Ver }
    echo "${line%% *}"
}

# Prints the folder with MariaDB's auth_ed25519.so. A plugin fits its own server version only, hence one folder each.
find_mariadb_plugins() {
    local folder
    for folder in /usr/lib/mysql/plugin /usr/lib/*/mariadb*/plugin /usr/lib64/mariadb/plugin \
        "$cache/mariadb-plugins-$(server_version "$1")"; do
        [[ -e $folder/auth_ed25519.so ]] || continue
        echo "$folder"
        return
    done
    return 1
}

# Whether a MariaDB of this version has PARSEC passwords.
is_parsec_age() { [[ $(printf '%s\n' 11.6 "$1" | sort -V | head -n 1) == 11.6 ]]; }

# Prints the path of a MariaDB server that has PARSEC passwords: the installed one, or one that is unpacked for the purpose;
# fails when there is none.
find_mariadb_new() {
    local program plugins
    if program=$(find_mariadb) && is_parsec_age "$(server_version "$program")" &&
        plugins=$(find_mariadb_plugins "$program") && [[ -e $plugins/auth_parsec.so ]]; then
        echo "$program"
    elif [[ -x $cache/mariadb-new/mariadbd ]]; then
        echo "$cache/mariadb-new/mariadbd"
    else
        return 1
    fi
}

# Prints the path of Galera's library, with which MariaDB servers form a cluster; fails when there is none.
find_galera() {
    local library
    for library in /usr/lib/galera/libgalera_smm.so /usr/lib{,64}/galera-4/libgalera_smm.so \
        "$cache/galera/usr/lib/galera/libgalera_smm.so"; do
        [[ -e $library ]] || continue
        echo "$library"
        return
    done
    return 1
}

# Prints the path of the library that shows a program another time; fails when there is none.
find_faketime() {
    local library
    for library in /usr/lib/*/faketime/libfaketimeMT.so.1 /usr/lib{,64}/faketime/libfaketimeMT.so.1; do
        [[ -e $library ]] || continue
        echo "$library"
        return
    done
    return 1
}

# Prints the folder of PostgreSQL's programs, the newest; fails when there is none.
find_postgres() {
    local bin newest=
    # Debian's, where each release has a folder of its own; then where others keep the only one.
    for bin in $(printf '%s\n' /usr/lib/postgresql/*/bin | sort -rV) /usr/pgsql-*/bin /usr/bin; do
        if [[ -x $bin/postgres && -x $bin/initdb ]]; then newest=$bin && break; fi
    done
    [[ $newest ]] && echo "$newest"
}

# Prints the folder of the programs of a PostgreSQL 17 or newer: the installed one, or one that is unpacked for the purpose; fails
# when there is none.
find_postgres_new() {
    local bin version
    for bin in "$(find_postgres)" "$cache"/postgres-new/root/usr/lib/postgresql/*/bin; do
        [[ -x $bin/postgres ]] || continue
        version=$("$bin/postgres" --version | sed -E 's/^[^0-9]*([0-9]+).*/\1/')
        if ((version >= 17)); then echo "$bin" && return; fi
    done
    return 1
}

# Prints the path of axe-core's script, of this very release; fails when it is not there.
axe=4.14.1
find_axe() {
    local folder=$cache/axe-core/node_modules/axe-core
    grep -qF "\"version\": \"$axe\"" "$folder/package.json" 2>/dev/null && echo "$folder/axe.min.js"
}

# Prints the path of promtool, which checks what Prometheus would collect; fails when there is none.
find_promtool() {
    local program
    for program in "$cache/promtool/promtool" "$(command -v promtool)"; do
        if [[ -x $program ]]; then echo "$program" && return; fi
    done
    return 1
}

# Prints the path of PgBouncer; fails when there is none.
find_pgbouncer() {
    local program
    for program in "$cache/pgbouncer/usr/sbin/pgbouncer" "$(command -v pgbouncer)"; do
        if [[ -x $program ]]; then echo "$program" && return; fi
    done
    return 1
}
