"""Generates the reference of the Python package from docstrings and signatures, without importing the package."""

import ast
import html
import pathlib
import re

PARAMETER = re.compile(r"^:param (\w+): ")
CODE = re.compile(r"``([^`]+)``|`([^`]+)`")
ROLE = re.compile(r":(?:class|func|meth|mod):`([^`]+)`")


class Package:
    """The modules of a package and their top-level definitions."""

    def __init__(self, folder):
        self.modules = {}
        for path in sorted(pathlib.Path(folder).glob("*.py")):
            self.modules[path.stem] = ast.parse(path.read_text())
        self.root = self.modules["__init__"]

    def public(self):
        """The names in __all__, in order."""
        for node in self.root.body:
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
                return [element.value for element in node.value.elts]
        raise ValueError("tessera/__init__.py has no __all__")

    def found(self, name):
        """The class or function of that name in any module; None for a module or a constant."""
        for module in self.modules.values():
            for node in module.body:
                if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name:
                    return node
        return None


def prose(text):
    """Escapes a text; parts in backquotes become code."""
    text = CODE.sub(lambda found: f"<code>{found[1] or found[2]}</code>", html.escape(ROLE.sub(r"`\1`", text)))
    return text


def docstring(node):
    """Converts a docstring to HTML: paragraphs, indented code, parameters as a list."""
    text = ast.get_docstring(node)
    if not text:
        return ""
    parts, parameters = [], []
    for block in re.split(r"\n\s*\n", text):
        if block.startswith("    "):
            parts.append(f'<pre tabindex="0"><code>{html.escape(re.sub("(?m)^    ", "", block))}</code></pre>\n')
            continue
        plain = []
        for line in block.splitlines():
            if found := PARAMETER.match(line):
                parameters.append([found[1], line[found.end():]])
            elif parameters and line.startswith("    "):
                parameters[-1][1] += " " + line.strip()
            else:
                plain.append(line)
        if plain:
            parts.append(f"<p>{prose(' '.join(plain))}</p>\n")
    if parameters:
        rows = "".join(f"<dt><code>{name}</code></dt><dd>{prose(says)}</dd>\n" for name, says in parameters)
        parts.append(f'<dl class="entries">\n{rows}</dl>\n')
    return "".join(parts)


def signature(node, name):
    arguments = ast.unparse(node.args)
    arguments = re.sub(r"^self(, /)?(, )?|^cls(, )?", "", arguments)
    returns = f" -> {ast.unparse(node.returns)}" if node.returns is not None and name != "__init__" else ""
    is_async = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
    return f"{is_async}{name}({arguments}){returns}"


def decorated(node, name):
    return any(ast.unparse(each) == name for each in node.decorator_list)


def function_html(node, shown, anchor, level):
    text = shown if decorated(node, "property") else signature(node, shown)
    if decorated(node, "property") and node.returns is not None:
        text += f": {ast.unparse(node.returns)}"
    return (f'<h{level} id="{anchor}" class="code">{html.escape(anchor.split(".", 1)[1] if "." in anchor else anchor)}</h{level}>\n'
            f'<pre tabindex="0"><code>{html.escape(text)}</code></pre>\n{docstring(node)}')


def class_html(node, name, level=2):
    bases = [ast.unparse(base) for base in node.bases]
    parts = [f'<h{level} id="{name}">class {name}</h{level}>\n']
    if bases:
        parts.append(f'<p class="signature">of {html.escape(", ".join(bases))}</p>\n')
    parts.append(docstring(node))
    attributes = [member for member in node.body if isinstance(member, ast.AnnAssign) and not member.target.id.startswith("_")]
    if attributes:
        rows = "".join(f"<dt><code>{each.target.id}</code> <span class=\"type\">{html.escape(ast.unparse(each.annotation))}</span></dt>"
                       "<dd></dd>\n" for each in attributes)
        parts.append(f'<dl class="entries">\n{rows}</dl>\n')
    members = [member for member in node.body if isinstance(member, (ast.FunctionDef, ast.AsyncFunctionDef))
               and not decorated(member, "overload") and not any("setter" in ast.unparse(d) for d in member.decorator_list)]
    for member in members:
        if member.name == "__init__" and len(member.args.args) + len(member.args.kwonlyargs) > 1 and not member.name.startswith("__init___"):
            parts.append(function_html(member, name, f"{name}.__init__", level + 1))
        elif member.name == "__call__" or not member.name.startswith("_"):
            parts.append(function_html(member, member.name, f"{name}.{member.name}", level + 1))
    return "".join(parts)


def names(package):
    """The anchors of the page: its classes and functions."""
    return [name for name in package.public() if package.found(name) is not None]


def render(package, introduction):
    """The body of the page."""
    parts = [introduction, docstring(package.root)]
    classes = [name for name in names(package) if isinstance(package.found(name), ast.ClassDef)]
    functions = [name for name in names(package) if name not in classes]
    parts.append('<h2 id="functions">Functions</h2>\n')
    for name in functions:
        parts.append(function_html(package.found(name), f"tessera.{name}", name, 3))
    for name in classes:
        parts.append(class_html(package.found(name), name))
    for module, title in (("aio", "tessera.aio: the same for asyncio"), ("errors", "tessera.errors: exceptions"),
                          ("torch_export", "tessera.torch_export: PyTorch modules")):
        parts.append(f'<h2 id="module-{module}">{title}</h2>\n{docstring(package.modules[module])}')
        for node in package.modules[module].body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                parts.append(class_html(node, node.name, 3).replace(f'id="{node.name}', f'id="{module}.{node.name}'))
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not node.name.startswith("_"):
                parts.append(function_html(node, f"tessera.{module}.{node.name}", f"{module}.{node.name}", 3))
    return "".join(parts)
