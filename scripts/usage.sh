# Every shell script in this folder sources this file first. The usage of a script is the comment at its top.
#
# -h and --help print the usage. An option that the usage does not name is refused, so a script does nothing before
# its options are checked, and every option is documented. Arguments after `--` are not checked.
# shellcheck shell=sh

# scripts/needs installs programs in folders that a shell may not search, even while a script runs: Rust by rustup, and
# Node.js. A Rust that is found already may be the user's choice.
command -v rustup >/dev/null || PATH=${CARGO_HOME:-${HOME:-}/.cargo}/bin:$PATH
PATH=$(cd "$(dirname "$0")/.." && pwd)/target/nodejs/bin:$PATH
export PATH

usage=$(sed -n '1d; /^#/!q; s/^# \{0,1\}//p' "$0")

# Prints what is wrong with the arguments and the usage, and exits.
refuse() {
    printf 'scripts/%s: %s\n\n%s\n' "${0##*/}" "$1" "$usage" >&2
    exit 2
}

for argument; do
    case $argument in
    -h | --help)
        printf '%s\n' "$usage"
        exit
        ;;
    --) break ;;
    -*)
        printf '%s\n' "$usage" | tr -s ' []|' '\n' | grep --quiet --line-regexp --fixed-strings -e "${argument%%=*}" ||
            refuse "no such option: $argument"
        ;;
    esac
done
unset argument
