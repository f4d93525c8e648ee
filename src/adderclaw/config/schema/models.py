"""Facts about a model: set by users for themselves, and by an administrator as minimum prices."""

from adderclaw.config.schema.meanings import Amount, Positive
from adderclaw.core.record import record


@record
class ModelEntry:
    """Facts about a model that override the table of models. NAME is a model's name, or its beginning followed by
    `*`."""

    context_tokens: Positive | None = None
    """Size of its context window."""
    max_output_tokens: Positive | None = None
    """Longest answer that it can give."""
    input_per_mtok: Amount | None = None
    """US dollars for a million tokens in."""
    output_per_mtok: Amount | None = None
    """US dollars for a million tokens out."""
    cache_read_per_mtok: Amount | None = None
    """US dollars for a million tokens read from the provider's cache; as input when absent."""
    cache_write_per_mtok: Amount | None = None
    """US dollars for a million tokens written to it; as input when absent."""
    vision: bool | None = None
    """It takes images."""
    pdf: bool | None = None
    """It takes PDF documents."""
    thinking: bool | None = None
    """It can think before it answers."""
