"""Downloads the newest price list of models from a package index, verified by hash and read as data."""

import hashlib
import json
from datetime import date
from typing import NamedTuple, cast
from urllib.parse import urljoin

from adderclaw.config.model_facts import catalogue, table
from adderclaw.config.model_facts.price_list import PACKAGE, Unreadable, models_of_wheel
from adderclaw.config.model_facts.table import PRICES, Table
from adderclaw.core.errors import AdderClawError, PathRefused
from adderclaw.core.types import HostFact, Json
from adderclaw.models.http import client, urls

INDEX = "https://pypi.org"
MOST_JSON = 8_000_000
MOST_WHEEL = 8_000_000
SECONDS = 60.0


class Fall(NamedTuple):
    """A price that would fall by more than half."""

    model: str
    price: str
    before: float
    after: float


async def fetch(index: str, today: date) -> Table:
    """The table of the newest version on the index. Raises AdderClawError and changes nothing on failure."""
    address = urls.parse(f"{index.rstrip('/')}/pypi/{PACKAGE}/json")
    version, day, url, sha256 = _wheel_of(await _download(address, address, MOST_JSON), address.url)
    wheel = await _download(urls.parse(url), address, MOST_WHEEL)
    digest = hashlib.sha256(wheel).hexdigest()
    if digest != sha256:
        raise AdderClawError(f"{url}: its SHA-256 is {digest}, and {index} lists {sha256}; it was not read")
    try:
        models = models_of_wheel(wheel, today)
    except Unreadable as error:
        raise AdderClawError(f"{PACKAGE} {version}: {error}; update AdderClaw if this persists") from None
    source = {"package": PACKAGE, "version": version, "released": day, "sha256": sha256}
    return Table("", source, today.isoformat(), models)


def _wheel_of(page: bytes, index: str) -> tuple[str, str, str, str]:
    """Version, day, address and hash of the newest wheel that was not withdrawn."""
    try:
        listed: Json = json.loads(page)
        version = str(listed["info"]["version"])
        for file in cast(list[Json], listed["urls"]):
            if file["packagetype"] == "bdist_wheel" and not file.get("yanked"):
                day = date.fromisoformat(str(file["upload_time"])[:10]).isoformat()
                return version[:40], day, urljoin(index, str(file["url"])), str(file["digests"]["sha256"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise AdderClawError(f"{index}: the answer for {PACKAGE} cannot be read ({error})") from None
    raise AdderClawError(f"{index}: {PACKAGE} {version} has no wheel")


async def _download(address: HostFact, index: HostFact, limit: int) -> bytes:
    """The body at an address. Only the index itself may be on this machine or in a private network."""
    own = address.host == index.host and address.port == index.port
    hosts = urls.Hosts.named_by_operator(address) if own else urls.Hosts()
    try:
        headers = {"accept": "*/*", "user-agent": "adderclaw"}
        answer = await client.request(address, headers=headers, hosts=hosts, seconds=SECONDS, limit=limit)
    except (client.Failed, PathRefused) as error:
        raise AdderClawError(f"{address.url}: {error}") from None
    if answer.status != 200:
        raise AdderClawError(f"{address.url}: HTTP {answer.status} {answer.reason}")
    if answer.cut:
        raise AdderClawError(f"{address.url}: larger than {limit} bytes; it was not read")
    return answer.body


def merged(current: Table, fetched: Table) -> Table:
    """The fetched table, with models and prices of the current table that it no longer lists."""
    models = {**current.models, **fetched.models}
    for name, row in fetched.models.items():
        if "input_per_mtok" not in row and name in current.models:
            models[name] = current.models[name] | row
    return fetched._replace(models=models)


def falls(current: Table, fetched: Table) -> list[Fall]:
    """Each price that is less than half of today's price, now or on an announced day."""
    lower_prices: list[Fall] = []
    for name, row in sorted(fetched.models.items()):
        before = catalogue.row_of(name.removesuffix("*"), current.models)
        if before is None:
            continue
        old = table.facts_of_today(before)
        for new in map(table.facts_of_today, [row, *row.get("from", {}).values()]):
            long = new.get("long_tokens", table.WINDOWS[1]) <= old.get("long_tokens", table.WINDOWS[1])
            for price in [price for price in old if price.endswith("_per_mtok")]:
                short = new.get(price.removeprefix("long_"))
                after = new.get(price, short) if long else short
                if after is not None and after < old[price] / 2:
                    lower_prices.append(Fall(name, price, old[price], after))
    return list(dict.fromkeys(lower_prices))


def without(fetched: Table, current: Table, fallen: list[Fall]) -> Table:
    """The fetched table, with the current prices of the models whose prices would fall."""
    models = dict(fetched.models)
    for name in {fall.model for fall in fallen}:
        before = catalogue.row_of(name.removesuffix("*"), current.models) or {}
        prices = {key: before[key] for key in (*PRICES, "above", "from") if key in before}
        window = {key: models[name][key] for key in ("context_tokens",) if key in models[name]}
        models[name] = window | prices
    return fetched._replace(models=models)
