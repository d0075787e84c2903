"""Settings of Sphinx, which builds the manual from the Markdown pages of the repository: ``make docs``."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

from pg_mpi import __version__  # noqa: E402

project, author = "pg_mpi", "the pg_mpi developers"
version = release = __version__
project_copyright = f"{author}, MIT licence"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "manual"]
# The source folder is the repository, so that the pages' relative links are those of its files.
include_patterns = ["docs/**.md", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]
include_patterns += ["scaling/peers/README.md", "scaling/results/README.md", "recipes/README.md"]
root_doc = "docs/index"
nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]  # annotations name numpy's classes, and there is no network to look them up

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
highlight_language = "text"
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_class_signature = "separated"

html_theme = "furo"
html_static_path, html_css_files = ["static"], ["manual.css"]
html_title = f"pg_mpi {version}"
html_show_sphinx = html_copy_source = html_show_sourcelink = False
html_theme_options = {"navigation_with_keys": True}
