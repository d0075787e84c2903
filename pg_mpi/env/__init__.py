"""Environments: Atari emulators and Gymnasium's. The only importer of ale_py and gymnasium."""
