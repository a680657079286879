"""The way to an endpoint: directly, through the proxy that the environment names, or over a Unix socket.

Variables are those of curl and requests: ``HTTP_PROXY``, ``HTTPS_PROXY``, ``ALL_PROXY``, ``NO_PROXY``, in either case;
``SSL_CERT_FILE``, ``SSL_CERT_DIR``, ``REQUESTS_CA_BUNDLE``, ``CURL_CA_BUNDLE``. A loopback address never goes through a
proxy.
"""

from __future__ import annotations

import ipaddress
import os
import ssl
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies_environment

from sqlenrich.core.endpoint import FOLDER_SCHEME
from sqlenrich.core.errors import ConfigError

PORTS = {"http": 80, "https": 443}
UNIX_SCHEME = "http+unix"
CA_FILES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


@dataclass(frozen=True)
class Proxy:
    """A proxy, and the value of ``Proxy-Authorization``; ``shown`` is without the password."""

    host: str
    port: int
    shown: str
    authorization: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Route:
    """How one origin is reached. ``path`` is that of a Unix socket."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    proxy: Proxy | None = None
    path: str | None = None

    @property
    def authority(self) -> str:
        """The origin as the ``Host`` header has it."""
        if self.path is not None:
            return "localhost"
        host = f"[{self.host}]" if ":" in self.host else self.host.encode("idna").decode()
        return host if self.port == PORTS["http" if self.tls is None else "https"] else f"{host}:{self.port}"

    @property
    def prefix(self) -> str:
        """What stands before the target of a request: a proxy without a tunnel is asked for whole URLs."""
        return f"http://{self.authority}" if self.proxy is not None and self.tls is None else ""


def find_route(url: str, client_cert: str | None = None, client_key: str | None = None) -> Route:
    """Return the route to the origin of a URL, by the environment. Raises ConfigError for what can't be used.

    The client shows the certificate of ``client_cert``, a PEM file, whose key may stand in another one.
    """
    parts = urlsplit(url)
    if parts.scheme == UNIX_SCHEME:
        return Route("localhost", PORTS["http"], path=unquote(parts.netloc))
    if parts.scheme == FOLDER_SCHEME:
        raise ConfigError(f"{url}: a folder takes batches alone; name a URL with http:// or https://")
    host, port = parts.hostname or "", parts.port or PORTS[parts.scheme]
    tls = _tls_context(client_cert, client_key) if parts.scheme == "https" else None
    return Route(host, port, tls, _find_proxy(parts, host, port))


def _find_proxy(url: SplitResult, host: str, port: int) -> Proxy | None:
    proxies = getproxies_environment()
    written = proxies.get(url.scheme) or proxies.get("all")
    if not written or _is_loopback(host) or _is_bypassed(host, port, proxies):
        return None
    named = f"{url.scheme.upper()}_PROXY" if proxies.get(url.scheme) else "ALL_PROXY"
    parts = urlsplit(written if "://" in written else f"http://{written}")
    try:
        usable, proxy_port = parts.scheme == "http" and bool(parts.hostname), parts.port or PORTS["http"]
    except ValueError:
        usable, proxy_port = False, 0
    if not usable:
        raise ConfigError(f"{named} is not the URL of an HTTP proxy: write it as http://host:port, or set NO_PROXY")
    authorization = None
    if parts.username is not None:
        user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = f"Basic {b64encode(user.encode()).decode()}"
    proxy_host = parts.hostname or ""
    return Proxy(proxy_host, proxy_port, f"{proxy_host}:{proxy_port} ({named})", authorization)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _is_bypassed(host: str, port: int, proxies: Mapping[str, str]) -> bool:
    """Entries are names, which stand for their subdomains too, addresses, networks (``10.0.0.0/8``), or ``*``."""
    for entry in (one.strip().lower() for one in proxies.get("no", "").split(",")):
        name = entry.removesuffix(f":{port}").lstrip(".")
        if name and (name == "*" or host == name or host.endswith(f".{name}")):
            return True
        try:
            if ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False):
                return True
        except ValueError:
            continue
    return False


def _tls_context(client_cert: str | None, client_key: str | None) -> ssl.SSLContext:
    """Trust what the environment names, else what the system trusts."""
    named = next((name for name in CA_FILES if os.environ.get(name)), None)
    folder = os.environ.get("SSL_CERT_DIR")
    if named is not None:
        try:
            context = ssl.create_default_context(cafile=os.environ[named], capath=folder or None)
        except OSError as error:
            problem = error.strerror or "no certificate in it"
            raise ConfigError(f"{named}={os.environ[named]}: {problem}; name a file of certificates") from None
    elif folder:
        context = ssl.create_default_context(capath=folder)
    else:
        import truststore

        context = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if client_cert is not None:
        try:
            context.load_cert_chain(client_cert, client_key)
        except OSError as error:
            files = client_cert + (f", {client_key}" if client_key else "")
            problem = error.strerror or "no certificate and key that fit"
            raise ConfigError(f"client_cert: {files}: {problem}") from None
    return context
