#!/usr/bin/env bash
# Checks a Markdown report: a title, a summary, next steps, no section left open. Exit code 0 when complete.
set -u

if [ $# -ne 1 ]; then
  echo "usage: check_report.sh REPORT.md" >&2
  exit 2
fi
if [ ! -f "$1" ]; then
  echo "check_report.sh: there is no file $1" >&2
  exit 2
fi

gaps=0
need() {
  if ! grep -Eq "$1" -- "$3"; then
    echo "missing: $2"
    gaps=$((gaps + 1))
  fi
}

need '^# [^[:space:]]' 'a title (# …)' "$1"
need '^## Summary[[:space:]]*$' 'the section Summary' "$1"
need '^## Next steps[[:space:]]*$' 'the section Next steps' "$1"
open=$(grep -c 'TO BE FILLED' -- "$1")
if [ "$open" -gt 0 ]; then
  echo "to be filled: $open"
  gaps=$((gaps + 1))
fi
if [ "$gaps" -eq 0 ]; then
  echo "complete"
  exit 0
fi
exit 1
