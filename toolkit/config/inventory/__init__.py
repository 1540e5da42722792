"""The inventory: which hosts there are, how they are reached, and the patterns that pick some of them."""

from toolkit.config.inventory.finding import find
from toolkit.config.inventory.loading import Inventory, load

__all__ = ["Inventory", "find", "load"]
