"""The client's identity, and the authority by which it identifies the service."""

from __future__ import annotations

import dataclasses
import os
import re
from typing import Any

import grpc

from tessera import errors

_ENVIRONMENT = {"token": "TESSERA_TOKEN", "token_file": "TESSERA_TOKEN_FILE", "tls_ca": "TESSERA_TLS_CA",
                "tls_cert": "TESSERA_TLS_CERT", "tls_key": "TESSERA_TLS_KEY", "project": "TESSERA_PROJECT"}
_LOCAL = re.compile(r"unix(-abstract)?:.*|localhost:[0-9]+|(ipv6:)?\[::1\]:[0-9]+|(ipv4:)?127[0-9.]*:[0-9]+")


def is_local(address: str) -> bool:
    """Whether messages to the address stay on this machine."""
    return all(_LOCAL.fullmatch(each) is not None for each in address.split(","))


def _content(path: str | os.PathLike[str], what: str) -> bytes:
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise errors.InvalidInput(f"cannot read the {what}: {error}", attribute=what) from error
    if not content.strip():
        raise errors.InvalidInput(f"the {what} {os.fspath(path)} is empty", attribute=what)
    return content


@dataclasses.dataclass(frozen=True)
class Identity:
    """Credentials of a client. Without any, the client is anonymous and uses plain text, which a service on this machine
    accepts."""
    token: str = dataclasses.field(default="", repr=False)  #: sent with every call
    token_file: str | os.PathLike[str] = ""  #: a file with the token; read before every call, so that the token can be renewed
    tls_ca: str | os.PathLike[str] = ""  #: TLS: the authority of the server's certificate (PEM)
    tls_cert: str | os.PathLike[str] = ""  #: the client's certificate (PEM) ...
    tls_key: str | os.PathLike[str] = ""  #: ... and its private key
    project: str = ""  #: the project an operator acts for; empty: the credential's own

    @staticmethod
    def of_environment() -> Identity:
        """Reads TESSERA_TOKEN, TESSERA_TOKEN_FILE, TESSERA_TLS_CA, TESSERA_TLS_CERT, TESSERA_TLS_KEY, TESSERA_PROJECT."""
        return Identity(**{field: os.environ.get(name, "") for field, name in _ENVIRONMENT.items()})

    def credentials(self, address: str) -> Any:
        """gRPC's channel credentials; None for plain text, in which no token crosses a network."""
        if not self.tls_ca and not self.tls_cert:
            if (self.token or self.token_file) and not is_local(address):
                raise errors.InvalidInput(f"the token would go to {address} in plain text, for everybody on the way to read",
                                          attribute="tls_ca", fix="name the server's certificate authority (TESSERA_TLS_CA)")
            return None
        if bool(self.tls_cert) != bool(self.tls_key):
            raise errors.InvalidInput("a certificate needs its private key, and the key its certificate",
                                      attribute="tls_key" if self.tls_cert else "tls_cert")
        return grpc.ssl_channel_credentials(
            _content(self.tls_ca, "certificate authority") if self.tls_ca else None,
            _content(self.tls_key, "private key") if self.tls_key else None,
            _content(self.tls_cert, "certificate") if self.tls_cert else None)

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """The metadata of every call; InvalidInput for values that gRPC cannot send: it accepts only printable ASCII."""
        token = self.token or (_content(self.token_file, "token file").decode("latin-1") if self.token_file else "")
        token = token.strip()
        if not (token.isascii() and token.isprintable()):  # not quoted in the message, since it may be part of a token
            raise errors.InvalidInput("this is no token", attribute="token_file" if self.token_file else "token",
                                      accepted="the line that `tessera admin token create` prints")
        if not (self.project.isascii() and self.project.isprintable()):
            raise errors.InvalidInput("there is no such project", attribute="project", found=self.project)
        shown = (("authorization", f"Bearer {token}"),) if token else ()
        return (*shown, ("tessera-project", self.project)) if self.project else shown
