#!/bin/sh
# Installs the single file of AdderClaw, which needs no Python: sh install.sh [--from URL] [--to FOLDER]
#
# The checksums are verified by the release's key, the file by the checksums, before anything of it is started.
# --from URL    the folder of the release (its files lie beside this script there)
# --to FOLDER   where the program goes; by default ~/.local/bin
# --key FILE    the public key of the release, in PEM; by default the one below
# --bare        no completions, no manual page
set -eu

FROM='' # the release workflow writes both
KEY=''

fail() { echo "install.sh: $1" >&2; exit 1; }
has() { command -v "$1" >/dev/null 2>&1; }

to="${HOME:-}/.local/bin"
bare=''
while [ $# -gt 0 ]; do
  case $1 in
    --from | --to | --key) [ $# -ge 2 ] || fail "$1 needs a value" ;;
  esac
  case $1 in
    --from) FROM=$2; shift 2 ;;
    --to) to=$2; shift 2 ;;
    --key) [ -r "$2" ] || fail "--key $2 cannot be read"; KEY=$(cat "$2"); shift 2 ;;
    --bare) bare=1; shift ;;
    -h | --help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) fail "$1 is not an option: see --help" ;;
  esac
done
[ -n "$FROM" ] || fail "this copy belongs to no release: name the release's folder with --from URL"
[ -n "$KEY" ] || fail "this copy has no key: name the release's public key with --key FILE"
case $FROM in
  *@*) fail "--from $FROM: an address with a name before its host is not used" ;;
  https://*) ;;
  http://127.0.0.1[:/]* | http://localhost[:/]*) ;;
  *) fail "--from $FROM: only https is used" ;;
esac
[ -n "${HOME:-}" ] || fail "HOME is not set: set it"
[ ! -d "$to/adderclaw" ] || fail "$to/adderclaw is a folder: name another place with --to"

case "$(uname -s) $(uname -m)" in
  "Linux x86_64") file=adderclaw-linux ;;
  "Linux aarch64" | "Linux arm64") file=adderclaw-linux-arm64 ;;
  "Darwin arm64") file=adderclaw-macos-arm64 ;;
  MINGW* | MSYS* | CYGWIN*) fail "on Windows, AdderClaw runs under WSL: start this script there" ;;
  *) fail "there is no single file for $(uname -s) $(uname -m): \`uv tool install adderclaw\` works wherever Python 3.12 does" ;;
esac
if ldd --version 2>&1 | grep -qi musl; then
  fail "the single file needs glibc, and this is musl: \`uv tool install adderclaw\` works wherever Python 3.12 does"
fi

has openssl || fail "openssl is needed to verify the signature: install it"
if has sha256sum; then digest() { sha256sum "$1" | cut -d' ' -f1; }
elif has shasum; then digest() { shasum -a 256 "$1" | cut -d' ' -f1; }
else fail "sha256sum or shasum is needed to verify the file: install one"; fi
if has curl; then fetch() { curl --fail --silent --show-error --location --proto '=https,http' --proto-redir '=https' --output "$2" "$1"; }
elif has wget; then fetch() { wget --quiet --output-document="$2" "$1"; }
else fail "curl or wget is needed: install one"; fi

work=$(mktemp -d) new=''
trap 'rm -rf "$work" ${new:+"$new"}' EXIT
trap 'exit 130' INT TERM HUP
for name in SHA256SUMS SHA256SUMS.sig "$file"; do
  fetch "${FROM%/}/$name" "$work/$name" || fail "${FROM%/}/$name could not be fetched"
done
printf '%s\n' "$KEY" >"$work/key.pem"
openssl dgst -sha256 -verify "$work/key.pem" -signature "$work/SHA256SUMS.sig" "$work/SHA256SUMS" >/dev/null 2>&1 ||
  fail "SHA256SUMS is not signed by the release's key: nothing was installed"
wanted=$(awk -v name="$file" '$2 == name || $2 == "*" name { print $1 }' "$work/SHA256SUMS")
[ -n "$wanted" ] || fail "SHA256SUMS does not name $file: nothing was installed"
[ "$(digest "$work/$file")" = "$wanted" ] || fail "$file is not what SHA256SUMS says: nothing was installed"

# by its shell: where temporary files are, programs may not be allowed
version=$(sh "$work/$file" --version) || fail "$file does not start here: nothing was installed"
mkdir -p "$to" || fail "$to cannot be made: name another folder with --to"
# beside its place first, so that what is there is whole at every moment
{ new=$(mktemp "$to/.adderclaw.XXXXXX") && cp "$work/$file" "$new" && chmod 755 "$new" && mv -f "$new" "$to/adderclaw"; } ||
  fail "$to cannot be written: name another folder with --to"
echo "$version is in $to/adderclaw"

share=${XDG_DATA_HOME:-$HOME/.local/share}
put() { # PLACE OPTIONS…: what the program prints goes there
  place=$1; shift
  mkdir -p "${place%/*}" && "$to/adderclaw" "$@" >"$place" || echo "install.sh: $place could not be written" >&2
}
if [ -z "$bare" ]; then
  put "$share/man/man1/adderclaw.1" --man
  put "$share/bash-completion/completions/adderclaw" --show-completion bash
  put "$share/zsh/site-functions/_adderclaw" --show-completion zsh
  put "${XDG_CONFIG_HOME:-$HOME/.config}/fish/completions/adderclaw.fish" --show-completion fish
  # the one of them that looks in no folder of a user's
  if has zsh; then
    echo "zsh completes with this line in ~/.zshrc, before compinit:"
    echo "  fpath=(\"$share/zsh/site-functions\" \$fpath)"
  fi
fi
case ":$PATH:" in
  *":$to:"*) echo "begin with: adderclaw init" ;;
  *) echo "$to is not on your PATH: add it, then begin with: adderclaw init" ;;
esac
