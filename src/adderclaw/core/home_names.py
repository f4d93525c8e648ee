"""The names of the files and folders in AdderClaw's home folder."""

# Settings
CONFIG, CONFIG_LOCK = "config.toml", "config.lock"
SETTINGS, POLICY = "settings.json", "policy.toml"
TRUST, GRANTS, SAID = "trust.json", "grants.json", "said.json"
PLUGINS_FILE, MODELS = "plugins.json", "models.json"
KEYS_DECLINED = "keys-declined"
# Secrets
RECEIPT_KEY = "receipt.key"
CREDENTIALS, CREDENTIALS_KEY, CREDENTIALS_LOCK = "credentials.enc", "credentials.key", "credentials.lock"
KEYRING_NAMES = "keyring-names"
WEBHOOKS, WEBHOOKS_LOCK = "webhooks.json", "webhooks.lock"
SERVICE_ENVIRONMENT = "service.env"
# The fleet
FLEET, FLEET_KEY = "fleet.toml", "fleet.key"
FLEET_WORKER_KEY, FLEET_SUBMITTER_KEY = "fleet-worker.key", "fleet-submitter.key"
# Records
DATABASE, RECEIPTS = "memory.sqlite", "tool_receipts.log"
DATABASE_FILES, DATABASE_LOCKS = "memory.sqlite.files", ".memory.sqlite.locks"
RUNS, FLEET_RUNS, RESTORED_RUNS, BENCH = "runs", "fleet-runs", "restored-runs", "bench"
CHECKPOINTS, SET_ASIDE, OUTPUTS = "checkpoints", "set-aside", "outputs"
HISTORY, WORKSPACES = "repl_history", "workspaces"
# What can be made again, and what belongs to processes that run
CACHE, CACHES, FETCHED = "cache", "caches", "fetched"
SERVER, SERVICE, LOCKS = "server", "service", "locks"
ESTOP = "ESTOP"
# What people and plugins bring
PLUGINS, PLUGIN_DATA = "plugins", "plugin_data"
INSTRUCTIONS = ("AGENTS.md", "CLAUDE.md")
AGENTS, COMMANDS, SKILLS, SOPS = "agents", "commands", "skills", "sops"

PROTECTED = (
    *(CONFIG, TRUST, PLUGINS_FILE, GRANTS, MODELS, RECEIPT_KEY, CREDENTIALS, CREDENTIALS_KEY, ESTOP, WEBHOOKS),
)
"""Files that no tool reads or writes, under whatever other name they also have on the disk."""

FILES = frozenset(
    (
        *(CONFIG, CONFIG_LOCK, SETTINGS, TRUST, GRANTS, SAID, PLUGINS_FILE, MODELS, KEYS_DECLINED),
        *(RECEIPT_KEY, CREDENTIALS, CREDENTIALS_KEY, CREDENTIALS_LOCK, KEYRING_NAMES, WEBHOOKS, WEBHOOKS_LOCK),
        *(SERVICE_ENVIRONMENT, FLEET, FLEET_KEY, FLEET_WORKER_KEY, FLEET_SUBMITTER_KEY, HISTORY, WORKSPACES, ESTOP),
    )
)
"""Files that the program writes at the top of a home, beside the database and the log of receipts."""
FOLDERS = frozenset(
    (
        *(CACHE, CACHES, FETCHED, SERVER, SERVICE, LOCKS, DATABASE_LOCKS, PLUGINS, PLUGIN_DATA),
        *(RUNS, CHECKPOINTS, OUTPUTS, SET_ASIDE, BENCH, FLEET_RUNS, RESTORED_RUNS, DATABASE_FILES),
    )
)
"""Folders that it makes there; all that is in them is its own."""
USERS = frozenset((*INSTRUCTIONS, AGENTS, COMMANDS, SKILLS, SOPS, POLICY))
"""What it reads there and people write."""
