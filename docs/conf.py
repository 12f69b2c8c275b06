"""How Sphinx builds the documentation; scripts/docs prepares its sources.

Sphinx and its theme Furo need no other host: no web font, no script of a CDN, and a search that also works on pages
that are opened as files.
"""

from __future__ import annotations

project = "busbar"
copyright = "busbar contributors"  # noqa: A001 - the name that Sphinx reads
extensions = ["myst_parser"]
nitpicky = True

# Anchors as on the web pages of Git servers, so that a link serves in the checkout and on the site.
myst_heading_anchors = 4

html_theme = "furo"
html_title = "busbar"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
# Summaries of found pages are fetched, which browsers refuse for pages that are opened as files.
html_show_search_summary = False
