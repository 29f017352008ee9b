"""What owns something that must be given back."""

from abc import ABC, abstractmethod
from typing import Self


class Closing(ABC):
    """Base of what ``with`` closes."""

    @abstractmethod
    def close(self) -> None:
        """Give back what is owned."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()
