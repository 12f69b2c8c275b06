"""Configures Sphinx, which builds the documentation from the sources that scripts/docs prepares.

The site needs no other host: it loads no web fonts and no scripts of a CDN, and its search also works for pages that
are opened as files.
"""

from __future__ import annotations

project = "busbar"
copyright = "busbar contributors"  # noqa: A001 - the name that Sphinx reads
extensions = ["myst_parser"]
nitpicky = True

# Git servers create the same anchors, so that links work in the checkout and on the site.
myst_heading_anchors = 4

html_theme = "furo"
html_title = "busbar"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
# The search would fetch a summary of each result, which browsers refuse for pages that are opened as files.
html_show_search_summary = False
