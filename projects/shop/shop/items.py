from dataclasses import dataclass
from decimal import Decimal


@dataclass
class Product:
    """What a product page says; the price is in euros."""

    sku: str
    name: str
    category: str
    price: Decimal
    stock: int
    rating: float
    url: str


@dataclass
class Price:
    """One row of the price list; the price is in euros."""

    sku: str
    name: str
    price: Decimal
