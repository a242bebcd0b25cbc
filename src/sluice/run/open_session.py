"""One open session with its agent, as an interaction goes on with it until another one takes its place."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack

import msgspec

from sluice.run.agent import Agent
from sluice.run.instructions import Instructions
from sluice.run.sessions import spent_in
from sluice.run.settings import Settings
from sluice.run.shielding import in_thread, shielded
from sluice.run.spending import Spending
from sluice.run.store_places import store_path
from sluice.run.wiring import open_agent
from sluice.session.wish import Wish
from sluice.values import notices as n
from sluice.values.messages import Conversation, Usage
from sluice.values.ports import Approver, Transport


class OpenSession:
    """An agent that is open, in its session. `spending` counts what the session has used.

    `context_tokens` is how much of the window the conversation fills, `None` before the first reply; `context_estimated`
    says whether that is our estimate.
    """

    def __init__(self, agent: Agent, spending: Spending, stack: AsyncExitStack) -> None:
        self.agent = agent
        self.spending = spending
        self.context_tokens: int | None = None
        self.context_estimated = True
        self._stack = stack
        if (last := spending.last) is not None and last.usage.input_tokens:
            self.context_tokens = last.usage.input_tokens + last.usage.output_tokens
            self.context_estimated = last.usage.estimated

    @property
    def begun(self) -> bool:
        """Whether its session can be found in the store."""
        return bool(self.agent.session and self.agent.messages)

    def count(self, notice: n.TurnFinished | n.Summarised | n.AlsoUsed) -> None:
        """Takes up what a reply or a summary used, and how full the context is since; and what else was used."""
        if isinstance(notice, n.TurnFinished):
            usage = notice.usage or Usage(estimated=True)
            self.spending.add(notice.turn, usage, notice.cost)
            self.context_tokens = usage.input_tokens + usage.output_tokens
            self.context_estimated = usage.estimated
            return
        if isinstance(notice, n.AlsoUsed):
            self.spending.add(-notice.turn, notice.usage, notice.cost)
            return
        self.context_tokens, self.context_estimated = notice.after // 4, True
        if notice.usage is not None:
            self.spending.add(0, notice.usage, notice.cost)

    async def history(self) -> Conversation:
        """What is stored of its session, oldest first."""
        return await self.agent.parts.store.history()

    async def close(self) -> None:
        """Ends what runs, and lets the session go. Being cancelled does not cut it short."""
        await shielded(self._stack.aclose())


async def opened_session(
    settings: Settings,
    wish: Wish,
    *,
    approver: Approver,
    transport: Transport,
    instructions: Instructions,
    in_front_changed: Callable[[], None],
) -> OpenSession:
    """Opens the session that is wished for. Raises `ConfigurationError`, and leaves nothing open then."""
    settings = msgspec.structs.replace(settings, session=wish)
    async with AsyncExitStack() as stack:
        agent = await stack.enter_async_context(
            open_agent(
                settings,
                approver=approver,
                transport=transport,
                intent=True,
                instructions=instructions,
                in_front_changed=in_front_changed,
            )
        )
        before = []
        if agent.messages and store_path(settings) is not None:
            before = await in_thread(lambda: spent_in(settings, agent.session))
        return OpenSession(agent, Spending(before), stack.pop_all())
