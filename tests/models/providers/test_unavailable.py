"""Providers whose environment is incomplete: they say what to set, and ask nobody."""

import asyncio

import pytest

from adderclaw.core.errors import ProviderError
from adderclaw.core.types import ProviderCapabilities
from adderclaw.models.credentials.sources import LM_STUDIO_NAME, OPENAI_NAME, OPENAI_URL
from adderclaw.models.providers.unavailable import LM_STUDIO_MODEL
from tests.models.providers.making import House, chat_entry, request
from tests.scripted import ScriptedModel


def test_without_an_address_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(OPENAI_URL, raising=False)
    made = House({OPENAI_NAME: chat_entry("")}).make(OPENAI_NAME)
    assert (made.name, made.capabilities()) == (OPENAI_NAME, ProviderCapabilities())

    async def asked() -> None:
        assert await made.count(request()) is None
        for asking in (made.ready(), made.chat(request(model="another"), lambda _: None)):
            with pytest.raises(ProviderError, match=rf"export {OPENAI_URL}=") as caught:
                await asking
            assert caught.value.kind == "missing_key"
        await made.close()

    asyncio.run(asked())


def test_without_a_model_only_who_names_one_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(LM_STUDIO_MODEL, raising=False)
    with ScriptedModel([{"text": "here"}]) as model:
        made = House({LM_STUDIO_NAME: chat_entry(model.base_url, model=None)}).make(LM_STUDIO_NAME)

        async def asked() -> str:
            with pytest.raises(ProviderError, match=LM_STUDIO_MODEL):
                await made.chat(request(model="fallback-model"), lambda _: None)
            assert not model.requests
            await made.ready()
            assert await made.count(request()) is None
            answer = await made.chat(request(model="qwen"), lambda _: None)
            await made.close()
            return answer.final_text

        assert asyncio.run(asked()) == "here"
        assert made.capabilities().tools
