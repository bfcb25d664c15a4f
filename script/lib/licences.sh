# shellcheck shell=bash
# The licences of what is linked into dblock, as texts that go with its binaries. Sourced by script/package.

# Files that are licences, whatever folder of a crate they are in.
licence_files() {
    find "$1" -type f \( -iname 'licen[cs]e*' -o -iname 'copying*' -o -iname 'copyright*' -o -iname 'notice*' \
        -o -iname 'unlicen[cs]e*' \) -printf '%P\n' | sort
}

# linked_crates PACKAGE TARGET: prints `NAME VERSION<tab>LICENCE<tab>FOLDER` of each crate that is linked in; those of this repository are
# dblock itself, and what only runs while dblock is built is no part of it.
linked_crates() {
    local package=$1 target=$2 linked known
    linked=$(cargo tree --locked --package "$package" --edges normal,no-proc-macro --target "$target" --prefix none --format '{p}' |
        sed -E '/ \(\//d; s/ \(.*//; s/ v/ /' | sort -u) || die "cargo does not say which crates are linked into $package"
    known=$(cargo metadata --locked --format-version 1 --filter-platform "$target" |
        jq -r '.packages[] | ["\(.name) \(.version)", .license // "see below", (.manifest_path | rtrimstr("/Cargo.toml"))] | @tsv' |
        sort) || die 'cargo does not say which licences the crates have'
    join -t $'\t' <(echo "$linked") <(echo "$known")
}

# crates_licences PACKAGE TARGET: prints the licences of the crates and of Rust's standard library for this target. A text that several
# crates have is printed once: they differ in their white space only.
crates_licences() {
    local package=$1 target=$2 crates crate licence folder file files key standard
    local -a keys=()
    local -A text=() users=()
    crates=$(linked_crates "$package" "$target")
    printf '%s\n' "$package contains these crates, each under the licence beside it; where there is a choice, all are given below." ''
    while IFS=$'\t' read -r crate licence folder; do
        printf '    %-30s %s\n' "$crate" "$licence"
        files=$(licence_files "$folder")
        if [[ ! $files ]]; then
            # Its repository has one.
            folder=script/lib/licences/${crate% *}
            files=$(licence_files "$folder" 2>/dev/null) || die "the crate $crate has no licence file: what is to go with the package?"
        fi
        while read -r file; do
            key=$(tr -s '[:space:]' ' ' <"$folder/$file" | sha256sum)
            if [[ ! ${text[$key]:-} ]]; then
                keys+=("$key")
                text[$key]=$folder/$file
            fi
            users[$key]+="$crate: $file"$'\n'
        done <<<"$files"
    done <<<"$crates"

    standard=$(rustc --print sysroot)/share/doc/rust/COPYRIGHT-library.html
    [[ -e $standard ]] || standard=/usr/share/doc/libstd-rust-dev/copyright # Debian's own Rust
    [[ -e $standard ]] || die "the copyright notices of Rust's standard library are not where Rust and Debian keep them"
    printf '%s\n' '' "And Rust's standard library, whose notices are the last." ''
    for key in "${keys[@]}"; do
        printf '%.0s=' {1..78}
        printf '\n%s\n' "${users[$key]}"
        tr -d '\r' <"${text[$key]}"
        echo
    done
    printf '%.0s=' {1..78}
    printf "\nRust's standard library\n\n"
    sed -E 's/<[^>]*>//g; s/&#34;/"/g; s/&#39;/'\''/g; s/&#60;/</g; s/&#62;/>/g; s/[[:space:]]+$//' "$standard" | cat -s
}

# Prints what a binary that has the C library in it needs besides.
c_library_licence() {
    local file
    printf '%.0s=' {1..78}
    echo
    if [[ $1 == musl ]]; then
        printf '%s\n' 'The C library in it is musl, Copyright (c) 2005-2025 Rich Felker, et al., under the licence MIT, whose text is' \
            'the one with which this file begins.'
        return
    fi
    printf '%s\n' 'The C library in it is the GNU C Library, under the GNU Lesser General Public License. Whoever has another' \
        'version of that library can build dblock with it: the whole source is there, and script/package does it.' ''
    for file in /usr/share/doc/libc6-dev/copyright /usr/share/common-licenses/LGPL-2.1; do
        [[ -e $file ]] || die "the licence of the GNU C Library is not in $file"
        cat "$file"
    done
}
