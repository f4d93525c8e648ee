"""Write src/adderclaw/config/model_facts/models.json from the newest version of `genai-prices`, or check how old it is.

Without arguments the package is downloaded from the index and its hash is verified; it is read as data and never
imported. --check uses no network: it fails where the table is older than --days, or holds what the program rejects.
"""

import argparse
import asyncio
import sys
from datetime import date

from adderclaw.agent import model_refresh
from adderclaw.config.model_facts import table as model_table
from adderclaw.core.errors import AdderClawError

MOST_DAYS = 30


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--check", action="store_true", help="change nothing; fail where the table is too old")
    options.add_argument("--days", type=int, default=MOST_DAYS, help=f"how old it may be; without it {MOST_DAYS}")
    options.add_argument("--index", default=model_refresh.INDEX, help="where the package is downloaded from")
    given = options.parse_args()
    table = model_table.packaged()
    if not given.check:
        try:
            fetched = asyncio.run(model_refresh.fetch(given.index, date.today()))
        except AdderClawError as error:
            print(error, file=sys.stderr)
            return error.exit_code
        model_table.write(fetched._replace(path=table.path))
        print(f"{table.path}: {len(fetched.models)} models of genai-prices {fetched.source['version']}")
        return 0
    age = (date.today() - date.fromisoformat(table.fetched)).days
    problem = model_table.problem_of(table.models)
    if not problem and age > given.days:
        problem = f"it is {age} days old; a release has one of at most {given.days}"
    if problem:
        print(f"{table.path}: {problem}. Run scripts/generate_models.py and commit the result.", file=sys.stderr)
        return 1
    print(f"{table.path}: {len(table.models)} models, {age} days old")
    return 0


if __name__ == "__main__":
    sys.exit(main())
