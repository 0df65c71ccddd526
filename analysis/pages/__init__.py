"""HTML pages that work offline: of a run, of several, of captures."""
