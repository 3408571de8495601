"""The thread that talks to MLflow: creating its database takes many seconds and must not hold up the work."""

import hashlib
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from coda_dspy.engines.secrets import redact
from coda_dspy.errors import UserError

from .delivery import Delivery, Refused
from .spool import Spool, deliver, pending

logger = logging.getLogger(__name__)


class Worker:
    """Carries operations out in order; once the store fails, it keeps them in a spool.

    Args:
        uri: MLflow tracking URI.
        spools: Folder of the spools; what an earlier process left there for the same store goes first.
    """

    def __init__(self, uri: str, spools: Path) -> None:
        self._uri, self._spools = uri, spools
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="coda-tracking")
        self._delivery: Delivery | None = None
        self._spool: Spool | None = None
        self._lost = False
        self._begun: list[dict[str, Any]] = []  # a spool stands alone: it begins every run that it speaks of
        self.store = hashlib.blake2b(uri.encode(), digest_size=8).hexdigest()  # a URI may hold a password
        self._submit(self._open)

    def submit(self, operation: dict[str, Any]) -> None:
        self._submit(lambda: self._carry_out(operation))

    def close(self) -> None:
        """Wait until everything is stored; a store that failed gets one more chance."""
        self._submit(self._once_more)
        self._pool.shutdown(wait=True)

    def _submit(self, step: Callable[[], None]) -> None:
        self._pool.submit(self._guarded, step)

    def _guarded(self, step: Callable[[], None]) -> None:
        if self._lost:
            return
        try:
            step()
        except Exception as error:  # noqa: BLE001 - no tracking may end a run, not even where the disk is full
            self._lost = True
            logger.warning("tracking ends here, the run goes on without it: %s", _brief(error))

    def _open(self) -> None:
        try:
            self._delivery = Delivery(self._uri)
            self._deliver_earlier(self._delivery)
        except Exception as error:  # noqa: BLE001 - MLflow's stores raise their drivers' errors
            self._fail(error)

    def _deliver_earlier(self, delivery: Delivery) -> None:
        try:
            for folder in pending(self._spools, self.store):
                deliver(folder, delivery)
        except UserError as error:
            logger.warning("%s", error)

    def _carry_out(self, operation: dict[str, Any]) -> None:
        if operation["do"] == "start":
            self._begun.append(operation)
        if self._delivery is not None:
            try:
                self._delivery.carry_out(operation)
                return
            except Refused as refusal:
                logger.warning("%s", refusal)
                return
            except Exception as error:  # noqa: BLE001 - MLflow's stores raise their drivers' errors
                self._fail(error)
        self._keep(operation)

    def _fail(self, error: Exception) -> None:
        self._delivery = None
        logger.warning(
            "MLflow at %s failed; the run goes on, and what it tracks is kept in %s until "
            "`python -m coda_dspy track --sync`: %s",
            redact(self._uri),
            self._spools,
            _brief(error),
        )

    def _keep(self, operation: dict[str, Any]) -> None:
        if self._spool is None:
            self._spool = Spool(self._spools, redact(self._uri), self.store)
            for begun in self._begun:
                self._spool.append(begun)
            if operation in self._begun:
                return
        self._spool.append(operation)

    def _once_more(self) -> None:
        if self._spool is None:
            return
        self._spool.close()
        try:
            deliver(self._spool.folder, Delivery(self._uri))
        except Exception:  # that it failed has been said, and where it is kept
            logger.debug("MLflow at %s still fails", redact(self._uri), exc_info=True)


def _brief(error: Exception) -> str:
    return redact(str(error)).strip().partition("\n")[0][:300]
