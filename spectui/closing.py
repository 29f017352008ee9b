"""Base class for owners of resources that must be released."""

from abc import ABC, abstractmethod
from typing import Self


class Closing(ABC):
    """Base class of objects that ``with`` closes."""

    @abstractmethod
    def close(self) -> None:
        """Give back what is owned."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()
