"""All that one server holds: what it was started with, and what goes on in it."""

from adderclaw.channels import questions
from adderclaw.runtime import Options


class House:
    """One server's own state; every endpoint gets it."""

    def __init__(self, options: Options) -> None:
        self.options = options

    @property
    def store_path(self) -> str:
        return questions.store_path(self.options.config_file, self.options.workspace, self.options.overrides)
