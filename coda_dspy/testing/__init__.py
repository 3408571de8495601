"""Engines for tests, of the project and of its users: no weights, no network, real caching, retries and usage."""

from coda_dspy.testing.protocol import Reply, ServerCall
from coda_dspy.testing.scripted import ScriptedCall, ScriptedEngine
from coda_dspy.testing.server import FakeOpenAIServer

__all__ = ["FakeOpenAIServer", "Reply", "ScriptedCall", "ScriptedEngine", "ServerCall"]
