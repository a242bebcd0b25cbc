"""The model in use: its transport is closed when another one takes its place; one that cannot be asked changes nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from interaction_face import ESCAPED, Face, run
from run_world import FakeTransport, World, text

from sluice.errors import ConfigurationError
from sluice.run.interactive import open_interaction
from sluice.run.model_in_use import ModelInUse
from sluice.run.models import Provider
from sluice.run.settings import Settings
from sluice.testing.replay_server import ReplayServer
from sluice.values import notices as n


def test_another_server_is_asked_and_the_connection_to_the_first_is_closed(tmp_path: Path) -> None:
    async def work(first: str, second: str) -> None:
        settings = Settings(
            workspace=str(tmp_path),
            model="small",
            base_url=first,
            api_key="the-key-of-the-first",
            providers=(Provider(name="other", base_url=second),),
        )
        async with open_interaction(settings, escaped=ESCAPED, environ={}) as interaction:
            face = Face(interaction)
            await face.idle()
            assert (await face.said("a")).text == "one"
            interaction.set_model("other:large")
            assert (await face.said("b")).text == "two"
            assert interaction.settings_shown()["api_key"] is None, "it was the first one's"
            assert [e.model for e in face.of(n.RunStarted)] == ["small", "large"]
            await interaction.close()
            await face.reader

    with ReplayServer([b"".join(text("one"))]) as one, ReplayServer([b"".join(text("two"))]) as two:
        run(lambda: work(one.url, two.url))


def test_what_stands_against_a_model_is_said_and_the_old_one_stays(tmp_path: Path) -> None:
    async def work() -> None:
        recorded = tmp_path / "no" / "tape"
        model = ModelInUse(Settings(base_url="http://127.0.0.1:1", record=str(recorded)), {}, None)
        with pytest.raises(ConfigurationError):
            await model.open()
        recorded.parent.mkdir()
        await model.open()
        world = World()
        agent = world.agent()
        assert await model.use(agent) is None, "none was chosen"
        with pytest.raises(ConfigurationError):
            model.choose("gemini:pro")
        model.choose("other")
        assert (model.waits, model.shown.model, model.settings.model) == (True, "other", "gpt-4o")
        recorded.unlink()
        recorded.mkdir()
        before = model.transport
        problem = await model.use(agent)
        assert problem is not None
        assert problem.startswith("the model was not changed: ")
        assert (model.waits, model.transport, model.shown.model) == (False, before, "gpt-4o")
        assert agent.parts is world.parts
        await model.close()

    asyncio.run(work())


def test_the_transport_of_the_model_before_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[_Counted] = []

    def make(settings: Settings) -> _Counted:
        made.append(_Counted([]))
        return made[-1]

    async def work() -> None:
        model = ModelInUse(Settings(base_url="http://127.0.0.1:1"), {}, None)
        await model.open()
        agent = World().agent()
        model.choose("other")
        assert await model.use(agent) is None
        assert agent.parts.transport is made[1]
        assert [one.closed for one in made] == [1, 0]
        await model.close()
        assert [one.closed for one in made] == [1, 1]

    monkeypatch.setattr("sluice.run.model_in_use.make_transport", make)
    asyncio.run(work())


class _Counted(FakeTransport):
    closed = 0

    async def close(self) -> None:
        self.closed += 1
