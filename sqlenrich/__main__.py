"""``python -m sqlenrich``: the installed command."""

from sqlenrich_command import main

if __name__ == "__main__":
    main()
