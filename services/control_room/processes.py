"""How every process is, and since when: up, ill, down, or on its way back."""

import threading
import time
from typing import Any

from services.control_room.ops_ports import OpsPorts, State

RETURNING_S = 60.0
"""A process that answers but is not ready, so soon after it was down, is restarting."""


class Processes:
    def __init__(self, ports: OpsPorts) -> None:
        self._ports, self._lock = ports, threading.Lock()
        self._states: dict[str, State] = {}
        self._since: dict[str, float] = {}
        self._went_down: dict[str, float] = {}
        self._restarts: dict[str, int] = {}

    def look(self) -> None:
        for name, state in self._ports.states().items():
            self._note(name, state)

    def kill(self, name: str) -> None:
        """Noted at once: it may be back before anybody looks again."""
        self._ports.kill(name)
        self._note(name, State("down", "killed"))

    def _note(self, name: str, state: State) -> None:
        with self._lock:
            before = self._states.get(name)
            self._states[name] = state
            if before is not None and before.state == state.state:
                return
            self._since[name] = time.time()
            if before is not None and state.state == "down":
                self._went_down[name] = time.time()
            if state.state == "up" and name in self._went_down:
                self._restarts[name] = self._restarts.get(name, 0) + 1
                self._went_down.pop(name)

    def shown(self) -> dict[str, dict[str, Any]]:
        with self._lock:
            return {
                name: {
                    "state": self._word(name, state),
                    "why": state.why,
                    "since": round(self._since[name], 1),
                    "restarts": self._restarts.get(name, 0),
                }
                for name, state in self._states.items()
            }

    def _word(self, name: str, state: State) -> str:
        returning = time.time() - self._went_down.get(name, 0) < RETURNING_S
        return "restarting" if state.state == "ill" and returning else state.state
