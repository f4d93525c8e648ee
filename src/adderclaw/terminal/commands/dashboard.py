"""`adderclaw dashboard`: opens the pages of the running server in the browser, logged in."""

import asyncio
import os
import time
from typing import Annotated

import typer

from adderclaw import config as configuration
from adderclaw.agent.conversation import questions
from adderclaw.core import home_names
from adderclaw.core.errors import UsageError
from adderclaw.storage import Store, clients
from adderclaw.storage.ledger.log_files import read_or_create_key
from adderclaw.terminal.commands.common import ConfigFile

app = typer.Typer(add_completion=False, rich_markup_mode=None)

HOURS = 12
"""How long the login lasts: a working day."""


@app.command()
def dashboard(
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the browser; otherwise only print the address.")
    ] = True,
    config: ConfigFile = None,
) -> None:
    """Open the dashboard of the running server, logged in for 12 hours.

    The printed address contains the login: anybody who has it can use the dashboard.

    Example: adderclaw dashboard --no-browser
    """
    from adderclaw.server import listening

    running = listening.running()
    if running is None or not running.address:
        raise UsageError(f"no server is running for {configuration.home()}: start one with `adderclaw serve`")
    plain = running.address.startswith("http:")  # a certificate has its own names
    address = f"http://{listening.OWN_NAME}:{running.port}" if plain else running.address
    # in the fragment: browsers do not send it, and the page removes it from the address at once
    url = f"{address}/login#{_token(config)}"
    print(url)
    if browser:
        from adderclaw.agent.run.start import helpers_path
        from adderclaw.models.credentials.login_flows import open_page

        asyncio.run(open_page(url, helpers_path(configuration.load(config_file=config, looks=True))))


def _token(config: str | None) -> str:
    store = Store.open(questions.store_path(config))
    try:
        key = read_or_create_key(os.path.join(configuration.home(), home_names.RECEIPT_KEY))
        client = clients.create(
            store, key, name="dashboard", scopes=("admin",), now=time.time(), seconds=HOURS * 3_600.0
        )
    finally:
        store.close()
    return client.token
