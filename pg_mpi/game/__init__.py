"""The world: emulators, and what of their screens the policy sees. The only importer of ale_py and gymnasium."""
