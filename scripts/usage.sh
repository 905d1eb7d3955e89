# Every script of this folder sources this first. Its usage is the comment at its top.
#
# -h and --help print the usage; an option that the usage does not name is refused. So a script does nothing before
# its options are known to be good, and an option that is not documented does not exist. What comes after `--` is
# not looked at.
# shellcheck shell=sh

usage=$(sed -n '1d; /^#/!q; s/^# \{0,1\}//p' "$0")

# Says what is wrong with the arguments, and ends the script.
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
