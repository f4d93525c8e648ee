"""What happened in a conversation, as items built from rows and events; terminals, pages and reports render them."""
