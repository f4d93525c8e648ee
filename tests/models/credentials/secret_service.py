"""A Secret Service (the D-Bus interface of GNOME Keyring and KeePassXC) on a message bus of its own, kept in memory."""

import subprocess
import threading
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Self

PATH = "/org/freedesktop/secrets"
COLLECTION = f"{PATH}/collection/test"
NAME = "org.freedesktop.secrets"
ATTRIBUTES = "org.freedesktop.Secret.Item.Attributes"


class SecretService:
    """`with SecretService(folder) as service:` and point DBUS_SESSION_BUS_ADDRESS at `service.address`."""

    def __init__(self, folder: Path) -> None:
        self.locked = False
        self.items: dict[str, tuple[dict[str, str], bytes]] = {}
        """Path → its attributes and its secret."""
        self._made = 0
        self._jeepney: Any = import_module("jeepney")
        self._blocking: Any = import_module("jeepney.io.blocking")
        socket = folder / "bus"
        self.address = f"unix:path={socket}"
        command = ["dbus-daemon", "--session", "--nofork", f"--address={self.address}", "--print-address"]
        self._bus = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert self._bus.stdout is not None
        self._bus.stdout.readline()
        self._connection: Any = self._blocking.open_dbus_connection(self.address)
        bus: Any = import_module("jeepney.bus_messages").message_bus
        self._connection.send_and_get_reply(bus.RequestName(NAME))

    def __enter__(self) -> Self:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._bus.kill()
        self._bus.wait()

    def _serve(self) -> None:
        try:
            while True:
                self._answer(self._connection.receive())
        except (OSError, EOFError):
            return  # the bus is gone

    def _answer(self, message: Any) -> None:
        fields = message.header.fields
        names = self._jeepney.HeaderFields
        if message.header.message_type != self._jeepney.MessageType.method_call:
            return
        path, method = fields[names.path], fields[names.member]
        try:
            signature, body = self._called(path, method, message.body)
            reply = self._jeepney.new_method_return(message, signature, body)
        except NotImplementedError as error:
            reply = self._jeepney.new_error(message, str(error))
        except (KeyError, IndexError):
            reply = self._jeepney.new_error(message, "org.freedesktop.DBus.Error.UnknownObject")
        self._connection.send(reply)

    def _called(self, path: str, method: str, body: Any) -> tuple[str, Any]:
        match method:
            case "Get":
                return "v", ((("b", self.locked) if body[1] == "Locked" else ("s", "label")),)
            case "OpenSession" if body[0] == "plain":
                return "vo", (("s", ""), f"{PATH}/session/s1")
            case "ReadAlias":
                return "o", (COLLECTION,)
            case "SearchItems":
                wanted: dict[str, str] = body[0]
                return "ao", ([at for at, (has, _) in self.items.items() if wanted.items() <= has.items()],)
            case "CreateItem":
                return "oo", (self._created(body[0][ATTRIBUTES][1], bytes(body[1][2])), "/")
            case "GetSecret":
                return "(oayays)", ((f"{PATH}/session/s1", b"", self.items[path][1], "text/plain"),)
            case "Delete":
                del self.items[path]
                return "o", ("/",)
            case "Unlock":
                return "aoo", ([], "/")  # the person dismissed the prompt
            case "OpenSession":
                raise NotImplementedError("org.freedesktop.DBus.Error.NotSupported")
            case _:
                raise NotImplementedError("org.freedesktop.DBus.Error.UnknownMethod")

    def _created(self, attributes: dict[str, str], secret: bytes) -> str:
        same = [path for path, (has, _) in self.items.items() if has == attributes]
        if not same:
            self._made += 1
        path = same[0] if same else f"{COLLECTION}/{self._made}"
        self.items[path] = (attributes, secret)
        return path
