"""What the manual needs beyond Sphinx: pages of linked source files, and references made from the code.

Links to files of the repository that are no pages lead to copies of them under ``source/``, with highlighting. The
directives ``settings``, ``presets`` and ``command`` print the settings of a run, the presets and a command's help.
"""

import importlib
import os
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import directives
from pygments.lexers.shell import BashLexer
from sphinx.addnodes import download_reference, pending_xref
from sphinx.highlighting import PygmentsBridge
from sphinx.transforms import SphinxTransform
from sphinx.util.docutils import SphinxDirective

from pg_mpi.config.command_line import flag
from pg_mpi.config.presets import PRESETS
from pg_mpi.config.settings import FIELDS

MOST = 400_000  # bytes of a linked file that are shown


class SourceLinks(SphinxTransform):
    """Point links to files and folders of the repository to their copies."""

    default_priority = 1  # before Sphinx collects downloads

    def apply(self, **kwargs):
        """Replace each link to a file or folder that is no page."""
        for node in list(self.document.findall(lambda n: isinstance(n, (download_reference, pending_xref)))):
            target = node.get("reftarget", "").split("#")[0]
            path = Path(self.env.srcdir, self.env.docname).parent.joinpath(target).resolve()
            if path.is_relative_to(self.env.srcdir) and (isinstance(node, download_reference) or path.is_dir()):
                name = path.relative_to(self.env.srcdir).as_posix()
                self.env.repository_files.setdefault(self.env.docname, set()).add(name)
                up = "../" * self.env.docname.count("/")
                link = nodes.reference("", "", *node.children, internal=True, refuri=f"{up}source/{name}.html")
                node.replace_self(link)


def source_pages(app):
    """Yield a page for each linked file, highlighted, and for each linked folder, as a list of its files."""
    bridge = PygmentsBridge("html", app.builder.config.pygments_style)
    for name in sorted(set().union(*app.env.repository_files.values())):
        path = Path(app.srcdir, name)
        if path.is_dir():
            text = "\n".join(sorted(file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file()))
        else:
            text = path.read_text(encoding="utf-8")[:MOST]
        kind = {".py": "python", ".sh": "bash", ".c": "c", ".json": "json", ".yml": "yaml"}.get(path.suffix, "text")
        body = f"<h1>{name}</h1>\n" + bridge.highlight_block(text, kind, force=True)
        yield f"source/{name}", {"title": name, "body": body}, "page.html"


def _cell(value):
    return "" if value is None else f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)


def _scope(applies):
    """What a setting applies to, in brackets."""
    if isinstance(applies, tuple):
        name, value = applies
        applies = f"with {flag(name)}" + ("" if value is True else f" {value}")
    return f" ({applies})" if applies else ""


class Settings(SphinxDirective):
    """The settings of a run as a table."""

    def run(self):
        """Return its nodes."""
        rows = []
        for name, field in FIELDS.items():
            about = field.metadata
            meaning = about["help"] + _scope(about["applies"])
            rows.append([f"`{flag(name)}`", _cell(field.default), meaning, "" if about["identity"] else "yes"])
        return self.parse_text_to_nodes(_table(["flag", "default", "meaning", "may change on resume"], rows))


class Presets(SphinxDirective):
    """What each preset sets, as a table."""

    def run(self):
        """Return its nodes."""
        names = sorted(set().union(*PRESETS.values()), key=list(FIELDS).index)
        rows = [
            [f"`{flag(name)}`", *(_cell(preset.get(name, FIELDS[name].default)) for preset in PRESETS.values())]
            for name in names
        ]
        return self.parse_text_to_nodes(_table(["flag", *(f"`{name}`" for name in PRESETS)], rows))


class Command(SphinxDirective):
    """The help of a command: ``pg_mpi.evaluate``, or the module of its parser."""

    required_arguments = 1
    option_spec = {"module": directives.unchanged}

    def run(self):
        """Return its nodes."""
        os.environ["COLUMNS"] = "100"
        module = importlib.import_module(self.options.get("module", self.arguments[0]))
        return [nodes.literal_block("", module.parser().format_help(), language="text")]


def setup(app):
    """Register everything with Sphinx."""
    app.add_lexer("slurm", BashLexer)  # blocks of commands that need SLURM
    app.add_transform(SourceLinks)
    for name, directive in (("settings", Settings), ("presets", Presets), ("command", Command)):
        app.add_directive(name, directive)
    app.connect("builder-inited", lambda app: setattr(app.env, "repository_files", {}))
    app.connect("html-collect-pages", source_pages)
    app.connect("build-finished", _index)
    return {"parallel_read_safe": False}


def _index(app, error):
    """Lead from the first page of the folder to that of the manual."""
    if not error:
        page = f'<meta http-equiv="refresh" content="0; url={app.config.root_doc}.html">\n'
        Path(app.outdir, "index.html").write_text(page, encoding="utf-8")
