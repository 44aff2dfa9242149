"""What pygls's protocol does otherwise here: every request is answered, and the texts are kept by the session."""

from __future__ import annotations

import logging
from collections.abc import Generator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import attrs
from cattrs import Converter, transform_error
from lsprotocol import types as t
from lsprotocol.converters import get_converter
from pygls.exceptions import (
    JsonRpcException,
    JsonRpcInternalError,
    JsonRpcInvalidParams,
    JsonRpcInvalidRequest,
    JsonRpcParseError,
    JsonRpcServerNotInitialized,
)
from pygls.protocol import LanguageServerProtocol
from pygls.protocol.json_rpc import JsonRPCNotification, JsonRPCRequestMessage
from pygls.protocol.language_server import lsp_method

from tapecheck.lsp.frames import Broken

if TYPE_CHECKING:
    from tapecheck.lsp.connection import Connection

logger = logging.getLogger(__name__)


class Protocol(LanguageServerProtocol):
    """pygls's protocol without its copy of the texts.

    pygls splits lines as `str.splitlines` does, so its copy goes wrong (or raises, and the handler is never
    called) on the first edit below a form feed or a U+2028. The session keeps the texts.
    """

    _server: Connection
    _initialized = False

    def receive(self, message: object) -> None:
        """Handle what a client sent, whatever it is: every request is answered, once."""
        if isinstance(message, Broken):
            self._refuse(None, JsonRpcParseError(message.reason))
            return
        number = message.get("id") if isinstance(message, dict) else None
        asks = isinstance(message, dict) and "id" in message and "method" in message
        if isinstance(number, (bool, float)) or not isinstance(number, (str, int, type(None))):
            number = None
        try:
            self._handle(message, number, asks)
        except JsonRpcException as error:
            if asks or not isinstance(message, dict):
                self._refuse(number, error)
            else:
                logger.warning("ignored a message: %s", error)
                if self._initialized and not self._shutdown:
                    # A notification has no answer: the log is where whoever writes the client reads of it.
                    self._server.log(f"ignored a message: {error.message}", t.MessageType.Warning)
        except Exception as error:
            logger.warning("could not handle a message", exc_info=error)
            if asks:
                self._refuse(number, JsonRpcInternalError(f"{type(error).__name__}: {error}"))

    def _handle(self, message: object, number: str | int | None, asks: bool) -> None:
        if not isinstance(message, dict):
            raise JsonRpcInvalidRequest("a message is an object")
        if "method" not in message:
            self._answered(message, number)
            return
        method = message["method"]
        if message.get("jsonrpc") != self.VERSION or not isinstance(method, str) or (asks and number is None):
            raise JsonRpcInvalidRequest('a request has the members jsonrpc: "2.0", id and method')
        if method != t.EXIT:
            if self._shutdown:
                raise JsonRpcInvalidRequest("the server is shutting down")
            if not self._initialized and method != t.INITIALIZE:
                raise JsonRpcServerNotInitialized("initialize comes first")
            if self._initialized and method == t.INITIALIZE:
                raise JsonRpcInvalidRequest("the server is initialized already")
        self.handle_message(self._structured(message, method, number, asks))

    def _structured(self, message: dict[str, object], method: str, number: str | int | None, asks: bool) -> Any:
        """Return a message as the types of the protocol; raises JsonRpcInvalidParams where it cannot be one."""
        kind = self.get_message_type(method)
        # The protocol has either a request or a notification of a name: the handler of one is none of the other.
        if kind is not None and asks != any(field.name == "id" for field in attrs.fields(kind)):
            raise JsonRpcInvalidRequest(f"{method} is a {'notification' if asks else 'request'}")
        if kind is None:
            params = message.get("params")
            if asks and number is not None:
                return JsonRPCRequestMessage(id=number, method=method, jsonrpc=self.VERSION, params=params)
            return JsonRPCNotification(method=method, jsonrpc=self.VERSION, params=params)
        # What a client can do is taken as it comes: a server that refuses to start helps nobody.
        converter = _lenient() if method == t.INITIALIZE else self._converter
        try:
            return converter.structure(message, kind)
        except Exception as error:
            raise JsonRpcInvalidParams(f"{method}: {'; '.join(_reasons(error))}") from error

    def _answered(self, message: dict[str, object], number: str | int | None) -> None:
        """Take the client's answer to a request of the server's."""
        if number not in self._result_types:
            logger.warning("ignored an answer to nothing that was asked")
            return
        kind = self._result_types.pop(number)
        error = message.get("error")
        if error is not None:
            said = error.get("message") if isinstance(error, dict) else error
            code = error.get("code") if isinstance(error, dict) else None
            self._handle_response(number, None, t.ResponseError(code if isinstance(code, int) else 0, str(said)))
            return
        try:
            result = message.get("result")
            if kind is not None:
                answer = self._converter.structure({**message, "jsonrpc": self.VERSION}, kind)
                result = getattr(answer, "result", None)
            self._handle_response(number, result)
        except Exception as wrong:
            # Who waits for it must not wait for ever.
            self._handle_response(number, None, t.ResponseError(JsonRpcInvalidParams.CODE, str(wrong)))

    def _refuse(self, number: str | int | None, error: JsonRpcException) -> None:
        logger.info("refused a message: %s", error)
        answer = {"code": error.code, "message": error.message}
        self._send_data({"jsonrpc": self.VERSION, "id": number, "error": answer})

    @lsp_method(t.INITIALIZE)
    def lsp_initialize(self, params: t.InitializeParams) -> Generator[object, object, t.InitializeResult]:
        result: t.InitializeResult = yield from super().lsp_initialize(params)
        self._initialized = True
        return result

    @lsp_method(t.TEXT_DOCUMENT_DID_OPEN)
    def lsp_text_document__did_open(self, params: t.DidOpenTextDocumentParams) -> Generator[object, object, None]:
        yield self.fm.features[t.TEXT_DOCUMENT_DID_OPEN], (params,), None

    @lsp_method(t.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: t.DidChangeTextDocumentParams) -> Generator[object, object, None]:
        yield self.fm.features[t.TEXT_DOCUMENT_DID_CHANGE], (params,), None

    @lsp_method(t.TEXT_DOCUMENT_DID_CLOSE)
    def lsp_text_document__did_close(self, params: t.DidCloseTextDocumentParams) -> Generator[object, object, None]:
        yield self.fm.features[t.TEXT_DOCUMENT_DID_CLOSE], (params,), None

    @lsp_method(t.NOTEBOOK_DOCUMENT_DID_OPEN)
    def lsp_notebook_document__did_open(self, params: object) -> Generator[object, object, None]:
        yield self.fm.features[t.NOTEBOOK_DOCUMENT_DID_OPEN], (params,), None

    @lsp_method(t.NOTEBOOK_DOCUMENT_DID_CHANGE)
    def lsp_notebook_document__did_change(self, params: object) -> Generator[object, object, None]:
        yield self.fm.features[t.NOTEBOOK_DOCUMENT_DID_CHANGE], (params,), None

    @lsp_method(t.NOTEBOOK_DOCUMENT_DID_CLOSE)
    def lsp_notebook_document__did_close(self, params: object) -> Generator[object, object, None]:
        yield self.fm.features[t.NOTEBOOK_DOCUMENT_DID_CLOSE], (params,), None

    @lsp_method(t.SHUTDOWN)
    def lsp_shutdown(self, *args: object) -> Generator[object, object, None]:
        yield self.fm.features[t.SHUTDOWN], args, None
        # pygls walks the futures themselves, from which each cancelled one is taken away meanwhile.
        own = self.msg_id
        for number, future in list(self._request_futures.items()):
            if number != own and not future.done():
                future.cancel()
        self._shutdown = True

    def _execute_handler(self, msg_id: str | int, *args: Any, **kwargs: Any) -> None:
        super()._execute_handler(msg_id, *args, **kwargs)
        # pygls forgets what a request was worked out by, but keeps that of each notification, for ever.
        future = self._request_futures.get(msg_id)
        if future is not None:
            future.add_done_callback(lambda done: self._forget(msg_id, done))

    def _forget(self, msg_id: str | int, done: Future[object]) -> None:
        if self._request_futures.get(msg_id) is done:
            del self._request_futures[msg_id]

    def _handle_cancel_notification(self, msg_id: str | int) -> None:
        super()._handle_cancel_notification(msg_id)
        # pygls answers that a command is cancelled and lets it go on.
        for run in self._server.runs.values():
            if run.request == msg_id:
                run.stopped.set()


def _lenient() -> Converter:
    return get_converter()


def strict_converter() -> Converter:
    """Return a converter of messages that takes no number for a text and no text for a number."""
    converter = Converter()

    # Enumerations come here, too: they are subclasses.
    def text(value: object, kind: type[str]) -> str:
        if not isinstance(value, str):
            raise TypeError(f"{value!r} is not a string")
        return kind(value)

    def whole(value: object, kind: type[int]) -> int:
        if kind is bool:
            if not isinstance(value, bool):
                raise TypeError(f"{value!r} is not true or false")
            return value
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value != int(value):
            raise TypeError(f"{value!r} is not an integer")
        return kind(int(value))

    converter.register_structure_hook(str, text)
    converter.register_structure_hook(int, whole)
    # Only now: the hooks of the protocol's types take over those that are there.
    return get_converter(converter)


def _reasons(error: Exception) -> list[str]:
    """Return what is wrong with the parameters of a message, a line for each member."""
    try:
        reasons = [str(reason) for reason in transform_error(error)]
    except Exception:
        reasons = []
    return [" ".join(reason.split()) for reason in reasons] or [f"{type(error).__name__}: {error}"]
