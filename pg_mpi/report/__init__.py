"""Run folders → one page that shows them, in a file that needs nothing else. Reads only what a run left behind."""
