#!/usr/bin/env bash
# Every row of docs/ACCEPTANCE_MATRIX.md: prints how many are green and open. Exits 1 and names the first row that
# fails, and 3 while a row is open.
#   scripts/sdlc-acceptance.sh                              run all of it
#   scripts/sdlc-acceptance.sh C-55 D-93                    these rows alone
#   scripts/sdlc-acceptance.sh --junit FILE --passed CMD    take from a run of this commit what was run there
#   scripts/sdlc-acceptance.sh --junit FILE --passed CMD --rest    and run what is no part of each commit's run
#   scripts/sdlc-acceptance.sh --delivered                  exits 3 also where a row was not run
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup
exec .venv/bin/python scripts/acceptance.py run "$@"
