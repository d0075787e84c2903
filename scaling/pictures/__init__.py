"""Results → pictures. Needs the extra ``plot``; matplotlib is imported only when one is drawn."""
