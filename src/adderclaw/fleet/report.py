"""A matrix of runs as a self-contained page: how each run ended, why, and what it cost."""

from html import escape

from adderclaw.core.types import Json

STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem;color:#1a1a1a}"
    "table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.3rem .6rem;border-bottom:1px solid #ddd;"
    "vertical-align:top}code{font-size:.9em}.completed{color:#0a6b2d}.error,.denied,.limit{color:#a61b1b}"
    "@media(prefers-color-scheme:dark){body{background:#161616;color:#eee}td,th{border-color:#333}"
    ".completed{color:#7fd49b}.error,.denied,.limit{color:#ff9a9a}}"
)


def page(batch: Json) -> str:
    """The page. All text from runs is escaped, so none of it is markup."""
    counts = "".join(
        f"<li class={escape(how)!r}>{escape(how)}: {count}</li>" for how, count in batch["outcomes"].items()
    )
    rows = "".join(_row(row) for row in batch["rows"])
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>{escape(batch['batch'])}</title><style>{STYLE}</style><h1>{escape(batch['batch'])}</h1>"
        f"<p>{batch['runs']} runs, ${batch['cost']:.4f}</p><ul>{counts}</ul>"
        "<table><thead><tr><th scope=col>Run<th scope=col>What<th scope=col>Outcome<th scope=col>Answer or reason"
        f"<th scope=col>Units<th scope=col>Cost</thead><tbody>{rows}</tbody></table></html>\n"
    )


def _row(row: Json) -> str:
    how = row["outcome"] or row["state"]
    text = row["answer"] if how == "completed" else row["reason"] or row["answer"]
    cost = "" if row["cost"] is None else f"${row['cost']:.4f}"
    return (
        f"<tr><td><code>{escape(row['run_id'])}</code><td>{escape(row['what'][:200])}"
        f"<td class={escape(how)!r}>{escape(how)}<td>{escape((text or '')[:1000])}<td>{row['units']}<td>{cost}</tr>"
    )
