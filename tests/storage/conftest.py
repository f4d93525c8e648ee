"""A book for each test: store, log and key in a folder of their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from adderclaw.storage import Store
from tests.storage.book import Book


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Book]:
    made = Book(tmp_path)
    yield made
    made.close()


@pytest.fixture
def store(book: Book) -> Store:
    return book.store
