#!/usr/bin/env bash
# Every row of docs/ACCEPTANCE_MATRIX.md: exits 1 and names the first that fails, prints how many are green and open.
#   scripts/sdlc-acceptance.sh                              run all of it
#   scripts/sdlc-acceptance.sh C-55 D-93                    these rows alone
#   scripts/sdlc-acceptance.sh --junit FILE --passed CMD    take from a run of this commit what was run there
#   scripts/sdlc-acceptance.sh --junit FILE --passed CMD --rest    and run what is no part of each commit's run
#   scripts/sdlc-acceptance.sh --delivered                  exits 3 while a row is open
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup
exec .venv/bin/python scripts/acceptance.py run "$@"
