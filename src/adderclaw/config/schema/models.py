"""What can be said of a model: by anybody for his own use, and by an administrator as the least that it costs."""

from adderclaw.config.schema.meanings import Amount, Positive
from adderclaw.core.record import record


@record
class ModelEntry:
    """What is known of a model, over the table of models. NAME is a model's name, or the beginning of it and `*`."""

    context_tokens: Positive | None = None
    """Size of its window."""
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
