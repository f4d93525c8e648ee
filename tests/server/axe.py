"""What axe-core finds on a page that is serious; `scripts/mcp-peers` brings it."""

from playwright.sync_api import Page

from tests.tools.mcp import node

RULES = {
    "all": "{}",
    "colours": "{runOnly: ['color-contrast']}",
    "sizes": "{runOnly: ['scrollable-region-focusable', 'target-size', 'meta-viewport']}",
}
"""The structure of a page is the same in light and dark and on a phone: it is looked at once."""


def findings(page: Page, rules: str = "all") -> list[str]:
    """What is serious or critical, with where it is."""
    if not page.evaluate("typeof window.axe === 'object'"):
        source = node.needed(node.MODULES / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
        page.evaluate(f"{source}; undefined")
    found = page.evaluate(f"axe.run(document, {RULES[rules]})")
    return [
        f"{one['id']} ({one['impact']}): {one['help']}: {each['html'][:200]}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
        for each in one["nodes"]
    ]
