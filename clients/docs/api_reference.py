"""Generates the reference of the gRPC API, and of its JSON over HTTP, from the comments of the .proto files.

The inputs are the output of `protoc --include_source_info --descriptor_set_out` and the table of routes in
server/gateway/routes.cpp.
"""

import dataclasses
import html
import re

from google.protobuf import descriptor_pb2 as pb

PACKAGE = "tessera.v1"
KIND = {value: name[len("TYPE_"):].lower() for name, value in pb.FieldDescriptorProto.Type.items()}
# Field numbers of FileDescriptorProto and its parts, as they occur in the path of a source location.
MESSAGE, ENUM, SERVICE = 4, 5, 6
FIELD, NESTED, NESTED_ENUM, VALUE, METHOD = 2, 3, 4, 2, 2
ROUTE = re.compile(r'\{"(GET|POST)", "([^"]+)", "([\w.]+)"')
TOKEN = re.compile(r"`([^`]+)`")


@dataclasses.dataclass
class Method:
    name: str
    service: str
    request: str
    response: str
    client_streams: bool
    server_streams: bool
    comment: str
    routes: list


class Api:
    """All definitions of the files, by their names within the package."""

    def __init__(self, descriptors, routes_text):
        self.files = pb.FileDescriptorSet.FromString(descriptors).file
        self.routes = {}
        for verb, path, method in ROUTE.findall(routes_text):
            self.routes.setdefault(method, []).append((verb, path))
        self.services = []  # (name, comment, [Method]), in the order of the files
        self.types = []     # (name, comment, "message" or "enum", entries, file)
        for file in self.files:
            comments = {tuple(place.path): self._comment(place) for place in file.source_code_info.location}
            for index, service in enumerate(file.service):
                self._service(service, (SERVICE, index), comments)
            for index, message in enumerate(file.message_type):
                self._message(message, message.name, (MESSAGE, index), comments, file.name)
            for index, enum in enumerate(file.enum_type):
                self._enum(enum, enum.name, (ENUM, index), comments, file.name)
        self.names = {name for name, *_ in self.types}

    @staticmethod
    def _comment(place):
        text = (place.leading_comments or "") + "\n" + (place.trailing_comments or "")
        return " ".join(text.split())

    def _service(self, service, path, comments):
        methods = []
        for index, method in enumerate(service.method):
            full = f"{PACKAGE}.{service.name}.{method.name}"
            methods.append(Method(method.name, service.name, short(method.input_type), short(method.output_type),
                                  method.client_streaming, method.server_streaming,
                                  comments.get((*path, METHOD, index), ""), self.routes.get(full, [])))
        self.services.append((service.name, comments.get(path, ""), methods))

    def _message(self, message, name, path, comments, file):
        maps = {f".{PACKAGE}.{name}.{nested.name}": nested for nested in message.nested_type if nested.options.map_entry}
        entries = []
        for index, field in enumerate(message.field):
            choice = message.oneof_decl[field.oneof_index].name if field.HasField("oneof_index") and not field.proto3_optional else ""
            entries.append((field.name, field.number, self._kind(field, maps), choice, comments.get((*path, FIELD, index), "")))
        self.types.append((name, comments.get(path, ""), "message", entries, file))
        for index, nested in enumerate(message.nested_type):
            if not nested.options.map_entry:
                self._message(nested, f"{name}.{nested.name}", (*path, NESTED, index), comments, file)
        for index, enum in enumerate(message.enum_type):
            self._enum(enum, f"{name}.{enum.name}", (*path, NESTED_ENUM, index), comments, file)

    def _enum(self, enum, name, path, comments, file):
        entries = [(value.name, value.number, "", "", comments.get((*path, VALUE, index), ""))
                   for index, value in enumerate(enum.value)]
        self.types.append((name, comments.get(path, ""), "enum", entries, file))

    def _kind(self, field, maps):
        if field.type_name in maps:
            key, value = maps[field.type_name].field
            return f"map of {KIND[key.type]} to {short(value.type_name) if value.type_name else KIND[value.type]}"
        kind = short(field.type_name) if field.type_name else KIND[field.type]
        if field.label == field.LABEL_REPEATED:
            return f"repeated {kind}"
        return f"optional {kind}" if field.proto3_optional else kind

    def linked(self, text):
        """Escapes a text and turns names of types into links."""
        def link(found):
            return f'<a href="#{found[0]}">{found[0]}</a>' if found[0] in self.names else found[0]
        return re.sub(r"\b[A-Z]\w*(?:\.[A-Z]\w*)*\b", link, html.escape(text))

    def prose(self, text):
        return TOKEN.sub(r"<code>\1</code>", html.escape(text))


def short(type_name):
    return type_name.removeprefix(f".{PACKAGE}.")


def streams(method):
    def side(name, many):
        return f"stream of {name}" if many else name
    return f"{side(method.request, method.client_streams)} → {side(method.response, method.server_streams)}"


def render(api, introduction):
    """The body of the page."""
    parts = [introduction]
    for name, comment, methods in api.services:
        parts.append(f'<h2 id="{name}">{name}</h2>\n<p>{api.prose(comment)}</p>\n')
        for method in methods:
            parts.append(f'<h3 id="{name}.{method.name}">{method.name}</h3>\n'
                         f'<p class="signature">{api.linked(streams(method))}</p>\n')
            if method.comment:
                parts.append(f"<p>{api.prose(method.comment)}</p>\n")
            for verb, path in method.routes:
                parts.append(f"<p>JSON: <code>{verb} {html.escape(path)}</code></p>\n")
    for file in api.files:
        own = [each for each in api.types if each[4] == file.name]
        if not own:
            continue
        stem = file.name.rsplit("/", 1)[1].removesuffix(".proto")
        parts.append(f'<h2 id="file-{stem}">Messages of <code>proto/{file.name}</code></h2>\n')
        for name, comment, kind, entries, _ in own:
            parts.append(f'<h3 id="{name}">{kind} {name}</h3>\n')
            if comment:
                parts.append(f"<p>{api.prose(comment)}</p>\n")
            if not entries:
                parts.append("<p>No fields.</p>\n")
                continue
            rows = []
            for field, number, type_text, choice, says in entries:
                what = f' <span class="type">{api.linked(type_text)}</span>' if type_text else ""
                one = f"one of <code>{choice}</code>; " if choice else ""
                rows.append(f"<dt><code>{field}</code>{what} <span class=\"number\">= {number}</span></dt>"
                            f"<dd>{one}{api.prose(says)}</dd>\n")
            parts.append(f'<dl class="entries">\n{"".join(rows)}</dl>\n')
    return "".join(parts)
