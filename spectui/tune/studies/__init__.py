"""Studies of tuning in their storages; the only importer of optuna."""
