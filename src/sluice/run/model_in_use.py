"""The model that an interaction asks, its settings and its transport; another one takes its place between two runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sluice.errors import ConfigurationError
from sluice.run.agent import Agent
from sluice.run.api_key import with_key
from sluice.run.model_choice import offered, settings_for
from sluice.run.settings import Settings
from sluice.run.wiring import make_transport, model_side
from sluice.values.ports import Transport


class ModelInUse:
    """`settings` are those in use, `transport` sends for them once `open` has returned.

    A transport that is `given` answers for every model, and is not closed. So does that of a fixture or a cassette, which
    would begin anew. `environ` is where keys of other models are looked for.
    """

    def __init__(self, settings: Settings, environ: Mapping[str, str], given: Transport | None) -> None:
        self.settings = settings
        self._environ = environ
        self._given = given
        self._transport = given
        self._chosen: Settings | None = None  # and not in use yet

    @property
    def transport(self) -> Transport:
        """What sends. Only between `open` and `close`."""
        assert self._transport is not None
        return self._transport

    @property
    def shown(self) -> Settings:
        """The settings that the next prompt is sent with."""
        return self._chosen or self.settings

    @property
    def waits(self) -> bool:
        """Whether a model was chosen that is not in use yet."""
        return self._chosen is not None

    async def open(self) -> None:
        """Gets the key and the transport. Raises `ConfigurationError`."""
        self.settings = await with_key(self.settings)
        if self._transport is None:
            self._transport = make_transport(self.settings)

    def choose(self, model: str) -> None:
        """The model string for `use` to take up. Raises `ConfigurationError` for one that could not be asked."""
        chosen = settings_for(self.settings, model, self._environ)
        model_side(chosen)
        self._chosen = chosen

    def offered(self) -> tuple[str, ...]:
        """Model strings worth offering."""
        return offered(self.shown, self._environ)

    async def use(self, agent: Agent) -> str | None:
        """Lets the agent ask the model that was chosen last. What stands against it is returned, and the old one stays.

        Being cancelled while its key is fetched changes nothing.
        """
        chosen, old = self._chosen, self._transport
        if chosen is None:
            return None
        try:
            ready = await with_key(chosen)
            keep = self._given is not None or ready.mode == "mock" or ready.replay is not None
            new = self.transport if keep else make_transport(ready)
            agent.use(replace(agent.parts, transport=new, **model_side(ready)))
        except ConfigurationError as error:
            self._forget(chosen)
            return f"the model was not changed: {error}"
        self._forget(chosen)
        self.settings, self._transport = ready, new
        if old is not None and old is not new:
            await old.close()
        return None

    def _forget(self, chosen: Settings) -> None:
        if self._chosen is chosen:  # else another one was chosen meanwhile
            self._chosen = None

    async def close(self) -> None:
        """Closes the transport, unless it was given."""
        if self._transport is not None and self._transport is not self._given:
            await self._transport.close()
