"""What users see and what they have on disk, held as files: see ``conftest.py``."""
