"""Figures of results. Needs the extra ``plot``; matplotlib is imported only when a figure is drawn."""
