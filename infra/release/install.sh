#!/bin/sh
# Installs the program `comeback` @VERSION@ for the current user:
#
#     curl -fsSL @REPOSITORY@/releases/download/v@VERSION@/install.sh | sh
#     … | sh -s -- --to DIR [--from URL]
#
#     --to DIR      where the program goes (~/.local/bin)
#     --from URL    another place with the files of this release, such as a mirror or file:///folder
#
# Downloads the archive for this machine, checks that it has the digest that is written here, and copies one file.
# shellcheck disable=SC2317 # the cases of the platforms are filled in, so the rest of main is reached
set -eu

fail() {
    echo "install.sh: $1" >&2
    exit 1
}

main() {
    to=${HOME:-}/.local/bin
    from=@REPOSITORY@/releases/download/v@VERSION@
    while [ $# -gt 0 ]; do
        [ $# -gt 1 ] || fail "expected a value after $1"
        case $1 in
        --to) to=$2 ;;
        --from) from=${2%/} ;;
        *) fail "expected --to DIR or --from URL, got $1" ;;
        esac
        shift 2
    done

    archive='' digest=''
    case $(uname -s)-$(uname -m) in
    # @PLATFORMS@
    *) fail "there is no program for $(uname -s) on $(uname -m), only for @SUPPORTED@. Build it: @REPOSITORY@" ;;
    esac

    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    trap 'exit 130' HUP INT TERM
    download "$from/$archive.tar.gz" "$folder/archive" || fail "$from/$archive.tar.gz could not be downloaded"
    got=$(sha256 "$folder/archive")
    [ "$got" = "$digest" ] || fail "$archive.tar.gz has the digest $got, expected $digest: nothing was installed"

    tar -x -z -f "$folder/archive" -C "$folder"
    mkdir -p "$to"
    # Renamed, so that a running program keeps its file.
    cp "$folder/$archive/comeback" "$to/.comeback.new"
    chmod 755 "$to/.comeback.new"
    mv -f "$to/.comeback.new" "$to/comeback"
    echo "$("$to/comeback" --version) is in $to"
    case :$PATH: in
    *":$to:"*) ;;
    *) echo "Add it to your PATH: export PATH=\"$to:\$PATH\"" ;;
    esac
}

download() {
    if command -v curl >/dev/null; then
        curl --proto '=https,http,file' -fsSL --retry 3 -o "$2" "$1"
    elif command -v wget >/dev/null; then
        wget -q -O "$2" "$1"
    else
        fail "expected curl or wget, found neither"
    fi
}

sha256() {
    if command -v sha256sum >/dev/null; then
        sha256sum "$1"
    elif command -v shasum >/dev/null; then
        shasum -a 256 "$1"
    else
        fail "expected sha256sum or shasum, found neither"
    fi | cut -d ' ' -f 1
}

# Last, so that half a script does nothing.
main "$@"
