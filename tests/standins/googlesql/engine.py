"""Google's SQL analyzer and evaluator as one WebAssembly instance, spoken to in protobuf.

The `zetasql` wheel carries the module; its own client compiles 28 MB at every start and copies
memory byte by byte, so this one keeps the compiled module in the test cache and copies in bulk.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import importlib.metadata
import platform
import re
import threading
from collections import OrderedDict
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.standins.cache import cached_file, scratch_dir
from tests.standins.googlesql.errors import GoogleSQLError

_POINTER = 4
_CATALOGS = 128
"""Catalogs that stay registered, each with half a megabyte."""
_PREPARED = 256
"""Statements that stay prepared: to analyze one takes ten times as long as to run it over few rows."""


@functools.cache
def pb() -> SimpleNamespace:
    """The generated protobuf modules, imported on first use."""
    # Resolved trees of ordinary queries are deeper than protobuf's default limit of 100 messages.
    importlib.import_module("google._upb._message").SetAllowOversizeProtos(True)
    root = "zetasql.wasi._pb2.zetasql."
    modules = {
        "service": "local_service.local_service_pb2",
        "options": "proto.options_pb2",
        "function": "proto.function_pb2",
        "catalog": "proto.simple_catalog_pb2",
        "public": "public.options_pb2",
        "type": "public.type_pb2",
        "value": "public.value_pb2",
        "table": "public.simple_table_pb2",
        "function_enums": "public.function_pb2",
        "node_kind": "resolved_ast.resolved_node_kind_pb2",
    }
    made = {name: importlib.import_module(root + path) for name, path in modules.items()}
    return SimpleNamespace(**made, empty=importlib.import_module("google.protobuf.empty_pb2"))


class EngineError(Exception):
    """A refusal in the engine's own words, not yet mapped to the text the caller gave."""

    def __init__(self, raw: str) -> None:
        text = re.sub(r"^Code: \d+, Message: ", "", raw)
        place = re.search(r" \[at (\d+):(\d+)\]\s*$", text)
        self.message = text[: place.start()] if place else text
        self.line = int(place[1]) if place else None
        self.column = int(place[2]) if place else None
        super().__init__(text)


class Engine:
    """One instance of the module; calls from several threads run one after the other."""

    def __init__(self) -> None:
        import wasmtime
        from zetasql.wasi import get_wasm_path

        config = wasmtime.Config()
        if hasattr(type(config), "shared_memory"):
            config.shared_memory = True
        config.max_wasm_stack = 2 << 20  # nested SQL needs more than the default of half a megabyte
        self._wasmtime: Any = wasmtime
        self._engine = wasmtime.Engine(config)
        self._module = self._load(Path(get_wasm_path()))
        self._lock = threading.RLock()
        self._log = scratch_dir("googlesql-") / "stderr.log"
        self._start()

    def _load(self, wasm: Path) -> Any:
        def build(target: Path) -> None:
            target.write_bytes(self._wasmtime.Module.from_file(self._engine, str(wasm)).serialize())

        versions = "-".join(importlib.metadata.version(name) for name in ("zetasql", "wasmtime"))
        name = f"zetasql-{versions}-{platform.machine()}-{wasm.stat().st_size}.cwasm"
        path = cached_file(name, build)
        try:
            return self._wasmtime.Module.deserialize_file(self._engine, str(path))
        except self._wasmtime.WasmtimeError:  # made on another kind of processor
            path.unlink(missing_ok=True)
            return self._wasmtime.Module.deserialize_file(self._engine, str(cached_file(name, build)))

    def _start(self) -> None:
        self._store = self._wasmtime.Store(self._engine)
        wasi = self._wasmtime.WasiConfig()
        wasi.stderr_file = str(self._log)  # truncated here, so it holds this instance's words alone
        wasi.preopen_dir(str(files("tzdata") / "zoneinfo"), "/usr/share/zoneinfo")
        self._store.set_wasi(wasi)
        linker = self._wasmtime.Linker(self._engine)
        linker.define_wasi()
        self._exports: Any = linker.instantiate(self._store, self._module).exports(self._store)
        self._exports["_initialize"](self._store)
        self._memory = self._exports["memory"]
        self._catalogs: OrderedDict[bytes, int] = OrderedDict()
        self._prepared: OrderedDict[tuple[str, bytes, bytes], Any] = OrderedDict()

    def call(self, method: str, request: Any, response: Any) -> Any:
        """Send one request; EngineError carries a refusal.

        A failed C++ assertion stops the instance, so it is replaced and the assertion's text told.
        """
        with self._lock:
            try:
                return response.FromString(self._exchange(method, request.SerializeToString()))
            except (self._wasmtime.Trap, self._wasmtime.WasmtimeError, self._wasmtime.ExitTrap) as error:
                words = self._log.read_text(errors="replace").strip() or str(error)
                lines = words.splitlines()
                reason = next((line for line in lines if "trap:" in line or "Check failed" in line), lines[0])
                self._start()
                raise EngineError(f"the analyzer crashed: {reason.strip()}") from None

    def call_with(self, registration: Any, method: str, request: Any, response: Any) -> Any:
        """Send one request that uses a catalog, which is registered unless an equal one is.

        To build a catalog's functions takes several times as long as to analyze a short statement.
        """
        with self._lock:
            request.registered_catalog_id = self._registered(registration)
            return self.call(method, request, response)

    def run(self, kind: str, registration: Any, prepare: Any, params: Mapping[str, Any]) -> tuple[Any, Any]:
        """Run a ``Query`` or a ``Modify``, prepared unless an equal one is; what preparing it gave, and its content."""
        service = pb().service
        key = (kind, registration.SerializeToString(deterministic=True), prepare.SerializeToString(deterministic=True))
        id_ = f"prepared_{kind.lower()}_id"
        with self._lock:
            if key not in self._prepared:
                response = getattr(service, f"Prepare{kind}Response")
                self._prepared[key] = self.call_with(registration, f"Prepare{kind}", prepare, response).prepared
            self._prepared.move_to_end(key)
            prepared = self._prepared[key]
            if len(self._prepared) > _PREPARED:
                (oldest, *_), state = self._prepared.popitem(last=False)
                drop = getattr(service, f"Unprepare{oldest}Request")()
                setattr(drop, f"prepared_{oldest.lower()}_id", getattr(state, f"prepared_{oldest.lower()}_id"))
                self.call(f"Unprepare{oldest}", drop, pb().empty.Empty)
            request = getattr(service, f"Evaluate{kind}Request")(**{id_: getattr(prepared, id_)})
            for name, value in params.items():
                request.params.add(name=name, value=value)
            reply = self.call(f"Evaluate{kind}", request, getattr(service, f"Evaluate{kind}Response"))
            return prepared, reply.content

    def _registered(self, registration: Any) -> int:
        key = registration.SerializeToString(deterministic=True)
        if key in self._catalogs:
            self._catalogs.move_to_end(key)
            return self._catalogs[key]
        id_: int = self.call("RegisterCatalog", registration, pb().service.RegisterResponse).registered_id
        self._catalogs[key] = id_
        if len(self._catalogs) > _CATALOGS:
            _, oldest = self._catalogs.popitem(last=False)
            self.call("UnregisterCatalog", pb().service.UnregisterRequest(registered_id=oldest), pb().empty.Empty)
        return id_

    def _exchange(self, method: str, data: bytes) -> bytes:
        store, exports = self._store, self._exports
        request = exports["wasm_malloc"](store, max(len(data), 1))
        size = exports["wasm_malloc"](store, _POINTER)
        ctypes.memmove(self._address() + request, data, len(data))
        reply = exports[f"ZetaSqlLocalService_{method}"](store, request, len(data), size)
        if reply == 0:
            length = exports["wasm_get_last_error_size"](store)
            error = self._read(exports["wasm_get_last_error"](store), length).decode()
        else:
            length = int.from_bytes(self._read(size, _POINTER), "little")
            output = self._read(reply, length)
            exports["wasm_free"](store, reply)
        exports["wasm_free"](store, request)
        exports["wasm_free"](store, size)
        if reply == 0:
            raise EngineError(error)
        return output

    def _address(self) -> int:
        try:
            pointer = self._memory.data_ptr()
        except TypeError:  # an unshared memory asks for its store
            pointer = self._memory.data_ptr(self._store)
        return ctypes.cast(pointer, ctypes.c_void_p).value or 0

    def _read(self, offset: int, length: int) -> bytes:
        return ctypes.string_at(self._address() + offset, length)


def refuse(error: EngineError) -> GoogleSQLError:
    """The engine's refusal as the oracle's exception, its place unchanged."""
    return GoogleSQLError(error.message, error.line, error.column)


# What BigQuery has not got, or what would hide a mistake in generated SQL.
_NOT_BIGQUERY = (
    "SPANNER",
    "JSON_TYPE_COMPARISON",
    "LATERAL_COLUMN_REFERENCES",
    "LATERAL_JOIN",
    "TIMESTAMP_NANOS",
    "TIMESTAMP_PICOS",
    "TIMESTAMP_PRECISION",
    "INSERT_ON_CONFLICT",
    "DML_RETURNING",
    "FOR_UPDATE",
    "MAP_TYPE",
    "ROW_TYPE",
    "UUID_TYPE",
    "WITH_GROUP_ROWS",
    "LIMIT_ALL",
    "ALIASES_FOR_STRING_AND_DATE_FUNCTIONS",
)

_STATEMENTS = (
    "QUERY",
    "CREATE_TABLE",
    "CREATE_TABLE_AS_SELECT",
    "CREATE_VIEW",
    "CREATE_FUNCTION",
    "CREATE_SCHEMA",
    "CREATE_MODEL",
    "CREATE_TABLE_FUNCTION",
    "CREATE_PROCEDURE",
    "CREATE_SNAPSHOT_TABLE",
    "DROP",
    "DROP_FUNCTION",
    "INSERT",
    "UPDATE",
    "DELETE",
    "MERGE",
    "TRUNCATE",
    "ALTER_TABLE",
    "ASSERT",
    "CALL",
    "EXPORT_DATA",
    "EXECUTE_IMMEDIATE",
)


def language_options(engine: Engine) -> Any:
    """BigQuery's language as near as the wheel can say it.

    The wheel does not know BigQuery's set of features: this is every feature but a few, so some
    text that BigQuery refuses is accepted here.
    """
    request = pb().service.LanguageOptionsRequest(maximum_features=True)
    options = engine.call("GetLanguageOptions", request, pb().options.LanguageOptionsProto)
    options.product_mode = pb().public.PRODUCT_EXTERNAL
    features = pb().public.LanguageFeature
    dropped = {features.Value(n) for n in features.keys() if any(part in n for part in _NOT_BIGQUERY)}  # noqa: SIM118
    kept = sorted(set(options.enabled_language_features) - dropped)
    del options.enabled_language_features[:]
    options.enabled_language_features.extend(kept)
    options.reserved_keywords.append("QUALIFY")
    del options.supported_statement_kinds[:]
    kinds = pb().node_kind.ResolvedNodeKind
    options.supported_statement_kinds.extend(kinds.Value(f"RESOLVED_{name}_STMT") for name in _STATEMENTS)
    return options


def analyzer_options(engine: Engine, language: Any) -> Any:
    """Options that keep what was written: every column, no inlining, one-line errors, UTC.

    The names inside OPTIONS(...) are not checked.
    """
    options = engine.call(
        "GetAnalyzerOptions", pb().service.AnalyzerOptionsRequest(), pb().options.AnalyzerOptionsProto
    )
    # The defaults name enum types of a descriptor pool that is not sent along.
    options.ClearField("allowed_hints_and_options")
    options.language_options.CopyFrom(language)
    options.error_message_mode = pb().public.ERROR_MESSAGE_ONE_LINE
    options.default_timezone = "UTC"
    options.prune_unused_columns = False
    options.parse_location_record_type = pb().public.PARSE_LOCATION_RECORD_FULL_NODE_SCOPE
    for name in ("MULTIWAY_UNNEST", "ARRAY_FILTER_TRANSFORM", "ARRAY_INCLUDES", "INSERT_DML_VALUES"):
        rewrite = pb().public.ResolvedASTRewrite.Value(f"REWRITE_{name}")
        if rewrite not in options.enabled_rewrites:
            options.enabled_rewrites.append(rewrite)
    return options
