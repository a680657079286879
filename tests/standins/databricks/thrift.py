"""The Thrift service of a warehouse (TCLIService), as databricks-sql-connector calls it."""

from __future__ import annotations

import random
import threading
import uuid
from collections.abc import Mapping
from typing import Any

from databricks.sql.thrift_api.TCLIService import TCLIService, ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TTransport import TMemoryBuffer

from tests.standins.control import ASKED, Once
from tests.standins.databricks.statements import Statement, Statements

POLL_S = 0.1
"""How long a state is waited for: Databricks too answers later than at once while a statement runs."""
CONFLICT = "[DELTA_CONCURRENT_APPEND] ConcurrentAppendException: Files were added by a concurrent update."
_STATES = {
    "RUNNING": ttypes.TOperationState.RUNNING_STATE,
    "FINISHED": ttypes.TOperationState.FINISHED_STATE,
    "FAILED": ttypes.TOperationState.ERROR_STATE,
    "CANCELLED": ttypes.TOperationState.CANCELED_STATE,
}
_TYPES = {
    "boolean": (ttypes.TTypeId.BOOLEAN_TYPE, "boolVal", ttypes.TBoolColumn, False),
    "tinyint": (ttypes.TTypeId.INT_TYPE, "i32Val", ttypes.TI32Column, 0),
    "smallint": (ttypes.TTypeId.INT_TYPE, "i32Val", ttypes.TI32Column, 0),
    "int": (ttypes.TTypeId.INT_TYPE, "i32Val", ttypes.TI32Column, 0),
    "bigint": (ttypes.TTypeId.BIGINT_TYPE, "i64Val", ttypes.TI64Column, 0),
    "float": (ttypes.TTypeId.DOUBLE_TYPE, "doubleVal", ttypes.TDoubleColumn, 0.0),
    "double": (ttypes.TTypeId.DOUBLE_TYPE, "doubleVal", ttypes.TDoubleColumn, 0.0),
    "binary": (ttypes.TTypeId.BINARY_TYPE, "binaryVal", ttypes.TBinaryColumn, b""),
    "date": (ttypes.TTypeId.DATE_TYPE, "stringVal", ttypes.TStringColumn, ""),
    "timestamp": (ttypes.TTypeId.TIMESTAMP_TYPE, "stringVal", ttypes.TStringColumn, ""),
    "string": (ttypes.TTypeId.STRING_TYPE, "stringVal", ttypes.TStringColumn, ""),
}
_OK = ttypes.TStatus(statusCode=ttypes.TStatusCode.SUCCESS_STATUS)


def _refused(message: str) -> Any:
    return ttypes.TStatus(statusCode=ttypes.TStatusCode.ERROR_STATUS, errorMessage=message)


class Service(TCLIService.Iface):  # type: ignore[misc]
    """One warehouse: sessions by their handles, statements beyond them."""

    def __init__(self, statements: Statements, fail: Mapping[str, float], chance: random.Random) -> None:
        self.statements, self.fail, self._chance, self.once = statements, fail, chance, Once()
        statements.fail_after = lambda: CONFLICT if self.happens(ASKED) or self.once.take(ASKED) else ""
        self._sessions: set[bytes] = set()
        self._lock = threading.Lock()
        self._processor = TCLIService.Processor(self)

    def call(self, body: bytes) -> bytes:
        """Answer a request of the binary protocol."""
        answer = TMemoryBuffer()
        self._processor.process(TBinaryProtocol(TMemoryBuffer(body)), TBinaryProtocol(answer))
        return bytes(answer.getvalue())

    def happens(self, kind: str) -> bool:
        """Whether a failure of this kind happens now."""
        with self._lock:
            return self._chance.random() < self.fail.get(kind, 0.0)

    def OpenSession(self, req: Any) -> Any:  # noqa: ARG002, N802
        """Open a session."""
        guid = uuid.uuid4().bytes
        self._sessions.add(guid)
        return ttypes.TOpenSessionResp(
            status=_OK,
            serverProtocolVersion=ttypes.TProtocolVersion.SPARK_CLI_SERVICE_PROTOCOL_V7,
            sessionHandle=ttypes.TSessionHandle(sessionId=ttypes.THandleIdentifier(guid=guid, secret=guid)),
            canUseMultipleCatalogs=True,
        )

    def CloseSession(self, req: Any) -> Any:  # noqa: N802
        """Close a session, which ends what runs in it."""
        guid = req.sessionHandle.sessionId.guid
        self._sessions.discard(guid)
        self.statements.close_session(guid.hex())
        return ttypes.TCloseSessionResp(status=_OK)

    def ExecuteStatement(self, req: Any) -> Any:  # noqa: N802
        """Start a statement."""
        guid = req.sessionHandle.sessionId.guid
        if self.happens("session"):
            self._sessions.discard(guid)
        if guid not in self._sessions:
            message = f"INVALID_STATE: Invalid SessionHandle: {uuid.UUID(bytes=guid)}"
            return ttypes.TExecuteStatementResp(status=_refused(message))
        tags = (req.confOverlay or {}).get("query_tags", "")
        fail = CONFLICT if tags and self.happens("statement") else ""
        started = self.statements.start(req.statement, tags, guid.hex(), fail)
        started.ended.wait(POLL_S if req.getDirectResults else 0)
        identifier = ttypes.THandleIdentifier(guid=started.id.bytes, secret=started.secret)
        kind = ttypes.TOperationType.EXECUTE_STATEMENT
        handle = ttypes.TOperationHandle(operationId=identifier, operationType=kind, hasResultSet=True)
        return ttypes.TExecuteStatementResp(status=_OK, operationHandle=handle)

    def GetOperationStatus(self, req: Any) -> Any:  # noqa: N802
        """How far a statement is."""
        found = self._found(req.operationHandle)
        if found is None:
            return ttypes.TGetOperationStatusResp(status=_unknown(req.operationHandle))
        found.ended.wait(POLL_S)
        return ttypes.TGetOperationStatusResp(
            status=_OK,
            operationState=_STATES[found.state if found.ended.is_set() else "RUNNING"],
            errorMessage=found.error or None,
            displayMessage=found.error or None,
            numModifiedRows=found.written,
            hasResultSet=True,
        )

    def CancelOperation(self, req: Any) -> Any:  # noqa: N802
        """Cancel a statement."""
        found = self._found(req.operationHandle)
        if found is None:
            return ttypes.TCancelOperationResp(status=_unknown(req.operationHandle))
        self.statements.cancel(found)
        return ttypes.TCancelOperationResp(status=_OK)

    def CloseOperation(self, req: Any) -> Any:  # noqa: ARG002, N802
        """Forget nothing."""
        return ttypes.TCloseOperationResp(status=_OK)

    def GetResultSetMetadata(self, req: Any) -> Any:  # noqa: N802
        """The columns of a result."""
        found = self._found(req.operationHandle)
        return _metadata(found) if found else ttypes.TGetResultSetMetadataResp(status=_unknown(req.operationHandle))

    def FetchResults(self, req: Any) -> Any:  # noqa: N802
        """The next rows of a result."""
        found = self._found(req.operationHandle)
        if found is None:
            return ttypes.TFetchResultsResp(status=_unknown(req.operationHandle))
        start = found.fetched
        rows = found.rows[start : start + (req.maxRows or len(found.rows))]
        found.fetched += len(rows)
        columns = [_column(kind, [row[place] for row in rows]) for place, (_, kind) in enumerate(found.types)]
        return ttypes.TFetchResultsResp(
            status=_OK,
            hasMoreRows=found.fetched < len(found.rows),
            results=ttypes.TRowSet(startRowOffset=start, rows=[], columns=columns),
            resultSetMetadata=_metadata(found),
        )

    def _found(self, handle: Any) -> Statement | None:
        return self.statements.find(uuid.UUID(bytes=handle.operationId.guid), handle.operationId.secret)


def _unknown(handle: Any) -> Any:
    return _refused(f"Invalid OperationHandle: {uuid.UUID(bytes=handle.operationId.guid)}")


def _metadata(found: Statement) -> Any:
    described = []
    for place, (name, kind) in enumerate(found.types):
        entry = ttypes.TPrimitiveTypeEntry(type=_TYPES.get(kind, _TYPES["string"])[0])
        types = ttypes.TTypeDesc(types=[ttypes.TTypeEntry(primitiveEntry=entry)])
        described.append(ttypes.TColumnDesc(columnName=name, typeDesc=types, position=place + 1))
    return ttypes.TGetResultSetMetadataResp(
        status=_OK,
        schema=ttypes.TTableSchema(columns=described),
        resultFormat=ttypes.TSparkRowSetType.COLUMN_BASED_SET,
        lz4Compressed=False,
        isStagingOperation=False,
    )


def _column(kind: str, values: list[Any]) -> Any:
    _, name, make, empty = _TYPES.get(kind, _TYPES["string"])
    nulls = bytearray(len(values) // 8 + 1)
    for place, value in enumerate(values):
        if value is None:
            nulls[place // 8] |= 1 << place % 8
    held = [empty if value is None else bytes(value) if name == "binaryVal" else value for value in values]
    return ttypes.TColumn(**{name: make(values=held, nulls=bytes(nulls))})
