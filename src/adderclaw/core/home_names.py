"""The names of the files and folders in AdderClaw's home folder."""

# Settings
CONFIG, CONFIG_LOCK = "config.toml", "config.lock"
SETTINGS, POLICY = "settings.json", "policy.toml"
TRUST, GRANTS, SHOWN_ONCE = "trust.json", "grants.json", "said.json"
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
# Caches, and files of running processes
CACHE, CACHES, FETCHED = "cache", "caches", "fetched"
SERVER, SERVICE, LOCKS = "server", "service", "locks"
ESTOP = "ESTOP"
# Added by people and plugins
PLUGINS, PLUGIN_DATA = "plugins", "plugin_data"
INSTRUCTIONS = ("AGENTS.md", "CLAUDE.md")
AGENTS, COMMANDS, SKILLS, SOPS = "agents", "commands", "skills", "sops"

PROTECTED = (
    *(CONFIG, TRUST, PLUGINS_FILE, GRANTS, MODELS, RECEIPT_KEY, CREDENTIALS, CREDENTIALS_KEY, ESTOP, WEBHOOKS),
)
"""Files that no tool may read or write, including through hard links."""

FILES = frozenset(
    (
        *(CONFIG, CONFIG_LOCK, SETTINGS, TRUST, GRANTS, SHOWN_ONCE, PLUGINS_FILE, MODELS, KEYS_DECLINED),
        *(RECEIPT_KEY, CREDENTIALS, CREDENTIALS_KEY, CREDENTIALS_LOCK, KEYRING_NAMES, WEBHOOKS, WEBHOOKS_LOCK),
        *(SERVICE_ENVIRONMENT, FLEET, FLEET_KEY, FLEET_WORKER_KEY, FLEET_SUBMITTER_KEY, HISTORY, WORKSPACES, ESTOP),
    )
)
"""Files that the program writes at the top of the home folder, in addition to the database and the receipt log."""
FOLDERS = frozenset(
    (
        *(CACHE, CACHES, FETCHED, SERVER, SERVICE, LOCKS, DATABASE_LOCKS, PLUGINS, PLUGIN_DATA),
        *(RUNS, CHECKPOINTS, OUTPUTS, SET_ASIDE, BENCH, FLEET_RUNS, RESTORED_RUNS, DATABASE_FILES),
    )
)
"""Folders that the program creates in the home folder and fully owns."""
USERS = frozenset((*INSTRUCTIONS, AGENTS, COMMANDS, SKILLS, SOPS, POLICY))
"""Files and folders in the home folder that people write and the program reads."""
