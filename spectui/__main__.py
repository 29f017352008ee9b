"""``python -m spectui``."""

from spectui.cli import main

if __name__ == "__main__":
    main()
